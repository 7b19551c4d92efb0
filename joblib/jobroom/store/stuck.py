"""Blocked tasks that wait for nothing: whose end was not settled, or that somebody has removed.

Our own statements leave none: these are rows written by hand, or of a file that was damaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import BigInteger, Text, bindparam, func, or_, select, update

from jobroom.domain.records import Change
from jobroom.store import edges
from jobroom.store.ending import ENDED
from jobroom.store.schema import edge, task
from jobroom.store.statement import Statement, literal
from jobroom.store.views import NEXT_VERSION

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, ScalarSelect

    from jobroom.store.transaction import Transaction


class Stuck(NamedTuple):
    """A blocked task that nothing will free, and by which of its dependencies that shows.

    One ended otherwise than it was to (``broken``, in the state ``cause``), one is ``gone``, one
    has ended and its edge says that it has not (``ended``); none of these: it is free.
    """

    seq: int
    id: str
    has_dependents: int
    broken: str | None
    cause: str | None
    gone: str | None
    ended: str | None


_IS_BLOCKED = task.c.status == literal("blocked")
_after = bindparam("after", type_=BigInteger)
_window = (
    select(task.c.seq)
    .where(_IS_BLOCKED, task.c.seq > _after)
    .order_by(task.c.seq)
    .limit(bindparam("most"))
    .subquery("looked_at")
)
_WINDOW = Statement(select(func.count(), func.max(_window.c.seq)))


def find_window(tx: Transaction, *, after: int, most: int) -> tuple[int, int | None]:
    """How many blocked tasks there are behind a ``seq``, at most so many, and the last of them."""
    count, last = tx.rows(_WINDOW, after=after, most=most)[0]
    return int(count), last


_edge = edge.alias("needed")
_dependency = task.alias("dependency")
_of_task = _edge.c.dependent_seq == task.c.seq
_waits = _edge.c.state == literal("waiting")


def _first(*conditions: ColumnElement[bool]) -> ScalarSelect[str]:
    """The id of a dependency of a task of which that holds.

    Not as EXISTS: for many tasks PostgreSQL reads all edges instead.
    """
    return (
        select(_edge.c.dependency_id)
        .select_from(_edge.outerjoin(_dependency, _dependency.c.id == _edge.c.dependency_id))
        .where(_of_task, *conditions)
        .order_by(_edge.c.dependency_id)
        .limit(literal(1))
        .correlate(task)
        .scalar_subquery()
    )


_broken = _first(_edge.c.state == literal("broken"))
_gone = _first(_waits, _dependency.c.id.is_(None))
_ended = _first(_waits, _dependency.c.completed_at.is_not(None))
_cause = task.alias("cause")
_waiting = _first(_waits)
_STUCK = Statement(
    select(
        task.c.seq,
        task.c.id,
        task.c.has_dependents,
        _broken,
        select(_cause.c.status).where(_cause.c.id == _broken).correlate(task).scalar_subquery(),
        _gone,
        _ended,
    )
    .where(
        _IS_BLOCKED,
        task.c.seq > _after,
        task.c.seq <= bindparam("last", type_=BigInteger),
        # There a job may wait for one that comes later.
        task.c.room_id != literal("@local"),
        or_(_waiting.is_(None), _broken.is_not(None), _gone.is_not(None), _ended.is_not(None)),
    )
    .order_by(task.c.seq)
    .limit(bindparam("limit"))
)


def list_stuck(tx: Transaction, *, after: int, last: int, limit: int) -> list[Stuck]:
    """Those of a window of the blocked tasks that are stuck."""
    rows = tx.rows(_STUCK, after=after, last=last, limit=limit)
    return [Stuck._make(row) for row in rows]


_BREAK = Statement(
    update(edge)
    .where(edge.c.dependent_seq == bindparam("key"), edge.c.dependency_id == bindparam("of"))
    .values(state=literal("broken"))
)
_FAIL = Statement(
    update(task)
    .where(task.c.seq == bindparam("key"), _IS_BLOCKED)
    .values(
        status=literal("failed"),
        failed_by=bindparam("of", type_=Text),
        error=bindparam("told_error"),
        version=NEXT_VERSION,
        **ENDED,
    )
    .returning(task.c.id, task.c.version)
)


def fail(tx: Transaction, who: Stuck, *, failed_by: str, error: str) -> None:
    """It waits in vain for that dependency: it fails, and what waits for it is settled."""
    tx.later(_BREAK, key=who.seq, of=failed_by)
    retention = tx.settings.task_retention_seconds
    told = {"of": failed_by, "told_error": error, "retention": retention}
    failed = [Change._make(row) for row in tx.returning(_FAIL, key=who.seq, **told)]
    tx.changed += failed
    tx.fallen += len(failed)
    if who.has_dependents:
        edges.settle(tx, who.id)


_FREE = Statement(
    update(task)
    .where(task.c.seq == bindparam("key"), _IS_BLOCKED, edges.IS_FREE)
    .values(status=literal("pending"), ready=edges.IS_DUE_BY_NOW, version=NEXT_VERSION)
    .returning(task.c.id, task.c.version, task.c.job_seq, task.c.ready)
)


def free(tx: Transaction, who: Stuck) -> None:
    """It waits for nothing: it is pending."""
    for *told, job_seq, ready in tx.returning(_FREE, key=who.seq):
        tx.changed.append(Change._make(told))
        if ready:
            tx.claimable[job_seq] = None
