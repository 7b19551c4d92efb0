"""What the sweep looks for: tasks of a lost worker, overdue ones, and old ones to remove."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, and_, bindparam, false, func, not_, or_, select, union_all

from jobroom.domain.lifecycle import TERMINAL, TaskStatus
from jobroom.domain.records import TaskView
from jobroom.store.schema import job, task
from jobroom.store.statement import Statement, literal
from jobroom.store.views import HELD, VIEW, view

if TYPE_CHECKING:
    from jobroom.store.transaction import Transaction


_IS_OF_WORKERS = task.c.room_id != literal("@local")
"""Who holds a task of ``@local`` is a process, which no worker's row speaks for."""


def _held_by(whose: ColumnElement[bool]) -> Statement:
    return Statement(
        select(*VIEW)
        .where(whose, HELD, _IS_OF_WORKERS)
        .order_by(task.c.seq)
        .limit(bindparam("limit"))
    )


_HELD_BY = _held_by(task.c.worker_id == bindparam("worker_id"))
_HELD_BY_NOBODY = _held_by(task.c.worker_id.is_(None))


def list_held_by(tx: Transaction, worker_id: str | None, *, limit: int) -> list[TaskView]:
    """What a worker holds, the oldest first; None: what is held and says by nobody.

    In ``@local`` no worker holds anything, whatever a process there may be called.
    """
    statement = _HELD_BY_NOBODY if worker_id is None else _HELD_BY
    return [view(row) for row in tx.rows(statement, worker_id=worker_id, limit=limit)]


_OVERDUE = Statement(
    select(*VIEW)
    .where(
        task.c.status == bindparam("status"),
        task.c.due_at <= bindparam("now"),
        task.c.due_at.is_not(None),
        # An expiry counts everywhere; a timeout in ``@local`` is for the process there to see.
        or_(_IS_OF_WORKERS, not_(HELD)),
    )
    .order_by(task.c.due_at)
    .limit(bindparam("limit"))
)


def list_due(tx: Transaction, *, status: str, limit: int) -> list[TaskView]:
    """Tasks in a state whose ``due_at`` has passed, the longest overdue first.

    Not those of ``@local`` that are held.
    """
    return [view(row) for row in tx.rows(_OVERDUE, status=status, limit=limit)]


# The jobs that tasks name, one step of an index for each: a DISTINCT would read every task.
_next = task.alias("next")
_named = select(func.min(task.c.job_seq).label("job_seq")).cte("named", recursive=True)
_named = _named.union_all(
    select(
        select(func.min(_next.c.job_seq))
        .where(_next.c.job_seq > _named.c.job_seq)
        .correlate(_named)
        .scalar_subquery()
    ).where(_named.c.job_seq.is_not(None))
)
_known = sorted(TaskStatus)
_lost = task.alias("lost")
_BETWEEN_STATUSES = [
    _lost.c.status < literal(_known[0]),
    *(
        and_(_lost.c.status > literal(low), _lost.c.status < literal(high))
        for low, high in pairwise(_known)
    ),
    _lost.c.status > literal(_known[-1]),
]
# A lookup for each gap between two states that there are: a join would read every task.
_IN_NO_STATE = select(
    func.coalesce(
        *(
            select(_lost.c.seq)
            .where(_lost.c.job_seq == job.c.seq, condition)
            .order_by(_lost.c.status)
            .limit(literal(1))
            .correlate(job)
            .scalar_subquery()
            for condition in _BETWEEN_STATUSES
        )
    )
).select_from(job)
_OF_NO_JOB = (
    select(_lost.c.seq)
    .select_from(
        _named.outerjoin(job, job.c.seq == _named.c.job_seq).join(
            _lost, _lost.c.job_seq == _named.c.job_seq
        )
    )
    .where(job.c.seq.is_(None), _lost.c.status.not_in([literal(s) for s in sorted(TERMINAL)]))
)
_NOWHERE = Statement(
    select(*VIEW)
    .where(task.c.seq.in_(union_all(_IN_NO_STATE, _OF_NO_JOB)), _IS_OF_WORKERS)
    .limit(bindparam("limit")),
    # Its constraints cannot be switched off for one session, as those of SQLite can.
    postgresql=select(*VIEW).where(false()).limit(bindparam("limit")),
)


def list_nowhere(tx: Transaction, *, limit: int) -> list[TaskView]:
    """Tasks that nothing can reach: of a job that there is not, or (one a job) in such a state."""
    return [view(row) for row in tx.rows(_NOWHERE, limit=limit)]


_over = task.alias("over")
_REMOVE = Statement(
    task.delete().where(
        task.c.seq.in_(
            select(_over.c.seq)
            .where(
                _over.c.status == bindparam("status"),
                _over.c.due_at <= bindparam("now"),
                _over.c.due_at.is_not(None),  # or the index is of no use
                _over.c.room_id != literal("@local"),
            )
            .limit(bindparam("limit"))
        )
    )
)


def remove_past_retention(tx: Transaction, *, status: str, limit: int) -> int:
    """Delete finished tasks past their retention, which lasts while an idempotency key lives.

    What the embedded queue keeps in ``@local`` is its owner's to remove.
    """
    return tx.change(_REMOVE, status=status, limit=limit)
