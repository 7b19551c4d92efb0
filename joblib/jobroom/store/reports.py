"""Changes of a held or ended task, in the order of its life.

Each is one guarded UPDATE: no row means that somebody else was first, or that the caller may not,
and ``service.reporting`` then reads the row to say which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_, bindparam, exists, func, or_, select, update

from jobroom.domain.records import Task, TaskView
from jobroom.store import edges, workers
from jobroom.store.ending import ENDED
from jobroom.store.schema import task, worker
from jobroom.store.statement import Statement, literal
from jobroom.store.views import (
    HELD,
    HOLDER_HEARD,
    NEXT_VERSION,
    NULL,
    TIME,
    UNFINISHED,
    VIEW,
    after,
    changed,
    changed_of_holder,
    noted,
)

if TYPE_CHECKING:
    from sqlalchemy.sql.expression import ClauseElement

    from jobroom.store.transaction import Transaction


_IS_OF_CLIENTS = task.c.room_id != literal("@local")
"""Who made or holds a task of ``@local`` is a process, which a token may be spelled like."""
BY_HOLDER = (
    task.c.id == bindparam("key"),
    or_(bindparam("attempt_sent").is_(None), task.c.attempt == bindparam("attempt_sent")),
    or_(bindparam("worker_sent").is_(None), task.c.worker_id == bindparam("worker_sent")),
    or_(
        bindparam("is_admin") == literal(1),
        and_(
            _IS_OF_CLIENTS,
            exists(
                select(literal(1)).where(
                    worker.c.id == task.c.worker_id, worker.c.identity == bindparam("identity")
                )
            ),
        ),
    ),
)
_TOLD = {
    "progress": func.coalesce(bindparam("told_progress"), task.c.progress),
    "message": func.coalesce(bindparam("told_message"), task.c.message),
    "version": NEXT_VERSION,
}
_LET_GO: dict[str, Any] = {
    "status": literal("pending"),
    "worker_id": NULL,
    "claimed_at": NULL,
    "started_at": NULL,
    "claim_request_id": NULL,
    "due_at": task.c.expires_at,
}


def _by_holder(condition: ColumnElement[bool], *, ends: bool = False, **values: Any) -> Statement:
    # What goes alone cannot settle anything: ``_end_with_dependents`` does both together.
    alone = (task.c.has_dependents == literal(0),) if ends else ()

    def done(heard: ColumnElement[Any], *guards: ColumnElement[bool]) -> ClauseElement:
        change = update(task).where(*BY_HOLDER, condition, *guards).values(**{**_TOLD, **values})
        return change.returning(*VIEW, heard, TIME)

    return Statement(
        lambda: done(HOLDER_HEARD),
        # What goes along with it notes that the worker was heard of: nobody needs to know when.
        libsql=lambda: done(NULL, *alone),
        postgresql=lambda: done(HOLDER_HEARD, *alone),
    )


_is_claimed = task.c.status == literal("claimed")
_is_running = task.c.status == literal("running")

START = _by_holder(
    _is_claimed,
    status=literal("running"),
    started_at=bindparam("now"),
    starts=task.c.starts + literal(1),
    idle_claims=literal(0),
    due_at=after(task.c.timeout_seconds),
)
NOTE_PROGRESS = _by_holder(HELD)
_COMPLETED: dict[str, Any] = {
    "status": literal("completed"),
    "result": bindparam("told_result"),
    "error": NULL,
    **ENDED,
}
_FAILED: dict[str, Any] = {"status": literal("failed"), "error": bindparam("told_error"), **ENDED}
_has_no_more_attempts = or_(
    and_(_is_claimed, task.c.starts + literal(1) >= task.c.max_attempts),
    and_(_is_running, task.c.starts >= task.c.max_attempts),
    and_(HELD, bindparam("final") == literal(1)),
)
COMPLETE = _by_holder(_is_running, ends=True, **_COMPLETED)
FAIL_FOR_GOOD = _by_holder(_has_no_more_attempts, ends=True, **_FAILED)
SETTLED_BY = {
    COMPLETE: _by_holder(_is_running, **_COMPLETED),
    FAIL_FOR_GOOD: _by_holder(_has_no_more_attempts, **_FAILED),
}
"""What ends a task whatever waits for it; what settles that goes together with it."""
HAND_BACK = _by_holder(
    _is_claimed, **_LET_GO, ready=literal(1), idle_claims=task.c.idle_claims - literal(1)
)


CANCEL = Statement(
    update(task)
    .where(
        task.c.id == bindparam("key"),
        UNFINISHED,
        or_(bindparam("attempt_sent").is_(None), task.c.attempt == bindparam("attempt_sent")),
        or_(
            bindparam("is_admin") == literal(1),
            and_(_IS_OF_CLIENTS, task.c.created_by_id == bindparam("identity")),
            and_(
                _IS_OF_CLIENTS,
                exists(
                    select(literal(1)).where(
                        worker.c.id == task.c.worker_id, worker.c.identity == bindparam("identity")
                    )
                ),
            ),
        ),
    )
    .values(
        status=literal("cancelled"),
        error=func.coalesce(bindparam("told_error"), task.c.error),
        **{**_TOLD, **ENDED},
    )
    .returning(*VIEW, HOLDER_HEARD, TIME)
)


def report(
    tx: Transaction, statement: Statement, **params: Any
) -> tuple[TaskView, int | None] | None:
    """Run one of the reports above, or a cancellation; None if its guard did not hold.

    With the task comes when its worker was heard of last. What waits for a task that has ended
    is settled in the same transaction.
    """
    if statement is CANCEL:
        edges.lock(tx)
        # What its worker must be told is kept together with it.
        done = changed_of_holder(tx, statement, alone=False, **params)
    elif statement not in SETTLED_BY:
        done = _by_who_is_heard(tx, statement, params)
    elif tx.commits_alone:
        done = _by_who_is_heard(tx, statement, params)
        if done is None:
            return _end_with_dependents(tx, SETTLED_BY[statement], params)
    else:
        edges.lock(tx)
        done = _by_who_is_heard(tx, SETTLED_BY[statement], params)
    if done is not None and done[0].task.completed_at is not None:
        _settle(tx, done[0].task)
    return done


def _by_who_is_heard(
    tx: Transaction, statement: Statement, params: dict[str, Any]
) -> tuple[TaskView, int | None] | None:
    """Run a report; that its worker speaks is noted together with it where that costs nothing."""
    return changed_of_holder(
        tx, statement, sparing=(workers.TOUCH_HOLDER,), fresh=workers.fresh_for(tx), **params
    )


def _end_with_dependents(
    tx: Transaction, statement: Statement, params: dict[str, Any]
) -> tuple[TaskView, int | None] | None:
    """End a task and settle what waits for it, in one round trip."""
    [ended, *settled] = tx.together(statement, *edges.SETTLING, locks=(edges.LOCK,), **params)
    if not ended:
        return None
    done = noted(tx, ended[0])
    edges.note_settled(tx, settled)
    return done


def _settle(tx: Transaction, ended: Task) -> None:
    if ended.has_dependents:
        edges.settle(tx, ended.id)


_AT_ATTEMPT = (
    task.c.seq == bindparam("key"),
    task.c.status == bindparam("expect"),
    task.c.attempt == bindparam("expect_attempt"),
)
_END = Statement(
    update(task)
    .where(*_AT_ATTEMPT)
    .values(status=literal("failed"), error=bindparam("told_error"), version=NEXT_VERSION, **ENDED)
    .returning(*VIEW)
)


def fail(tx: Transaction, was: Task, *, error: str | None) -> TaskView | None:
    """End a task as failed if it is still as it was read, and settle what waits for it."""
    if was.has_dependents:
        edges.lock(tx)  # before the row, as everybody does
    done = changed(
        tx,
        _END,
        key=was.seq,
        expect=was.status,
        expect_attempt=was.attempt,
        told_error=error,
        retention=tx.settings.task_retention_seconds,
    )
    if done is not None:
        _settle(tx, done.task)
    return done


_REQUEUE = Statement(
    update(task)
    .where(*_AT_ATTEMPT)
    .values(
        **_LET_GO,
        error=bindparam("told_error"),
        ready=bindparam("is_ready"),
        run_at=func.coalesce(bindparam("again_at"), task.c.run_at),
        starts=bindparam("started"),
        idle_claims=func.coalesce(bindparam("idle"), task.c.idle_claims),
        **_TOLD,
    )
    .returning(*VIEW)
)


def requeue(
    tx: Transaction,
    was: Task,
    *,
    error: str | None,
    starts: int,
    idle_claims: int | None = None,
    again_at: int | None = None,
    progress: float | None = None,
    message: str | None = None,
) -> TaskView | None:
    """Put a held task back among the pending ones, in its old place, if it is still as read.

    ``again_at``: not to be claimed before that time (microseconds). ``idle_claims``, ``progress``
    and ``message`` None leave what is stored.
    """
    return changed(
        tx,
        _REQUEUE,
        key=was.seq,
        expect=was.status,
        expect_attempt=was.attempt,
        told_error=error,
        is_ready=int(again_at is None),
        again_at=again_at,
        started=starts,
        idle=idle_claims,
        told_progress=progress,
        told_message=message,
    )
