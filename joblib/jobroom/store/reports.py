"""Changes of a held or ended task, in the order of its life.

Each is one guarded UPDATE: no row means that somebody else was first, or that the caller may not,
and ``service.reporting`` then reads the row to say which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_, bindparam, case, exists, func, or_, select, update

from jobroom.domain.records import KEY_LIFE, Task, TaskView
from jobroom.store import workers
from jobroom.store.schema import job, task, worker
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
)

if TYPE_CHECKING:
    from jobroom.store.transaction import Transaction


_BY_HOLDER = (
    task.c.id == bindparam("key"),
    or_(bindparam("attempt_sent").is_(None), task.c.attempt == bindparam("attempt_sent")),
    or_(bindparam("worker_sent").is_(None), task.c.worker_id == bindparam("worker_sent")),
    or_(
        bindparam("is_admin") == literal(1),
        exists(
            select(literal(1)).where(
                worker.c.id == task.c.worker_id, worker.c.identity == bindparam("identity")
            )
        ),
    ),
)
_TOLD = {
    "progress": func.coalesce(bindparam("told_progress"), task.c.progress),
    "message": func.coalesce(bindparam("told_message"), task.c.message),
    "version": NEXT_VERSION,
}
_RETAINED_UNTIL = after(
    func.coalesce(
        select(job.c.result_ttl_seconds)
        .where(job.c.seq == task.c.job_seq)
        .correlate(task)
        .scalar_subquery(),
        bindparam("retention"),
    )
)
_KEY_DIES_AT = task.c.created_at + literal(KEY_LIFE)
# A key outlives the retention. The row is due when both are over: a sweep that had to read, and
# leave, every row whose key still lives would take longer with each of them.
_RETENTION = case(
    (
        and_(task.c.idempotency_key.is_not(None), _KEY_DIES_AT > _RETAINED_UNTIL),
        _KEY_DIES_AT,
    ),
    else_=_RETAINED_UNTIL,
)
_ENDED = {"completed_at": bindparam("now"), "due_at": _RETENTION}
_LET_GO = {
    "status": literal("pending"),
    "worker_id": NULL,
    "claimed_at": NULL,
    "started_at": NULL,
    "claim_request_id": NULL,
    "due_at": task.c.expires_at,
}


def _by_holder(condition: ColumnElement[bool], **values: Any) -> Statement:
    done = update(task).where(*_BY_HOLDER, condition).values(**{**_TOLD, **values})
    return Statement(
        done.returning(*VIEW, HOLDER_HEARD, TIME),
        # What goes along with it notes that the worker was heard of: nobody needs to know when.
        libsql=done.returning(*VIEW, NULL, TIME),
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
COMPLETE = _by_holder(
    _is_running, status=literal("completed"), result=bindparam("told_result"), error=NULL, **_ENDED
)
FAIL_FOR_GOOD = _by_holder(
    or_(
        and_(_is_claimed, task.c.starts + literal(1) >= task.c.max_attempts),
        and_(_is_running, task.c.starts >= task.c.max_attempts),
        and_(HELD, bindparam("final") == literal(1)),
    ),
    status=literal("failed"),
    error=bindparam("told_error"),
    **_ENDED,
)
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
            task.c.created_by_id == bindparam("identity"),
            exists(
                select(literal(1)).where(
                    worker.c.id == task.c.worker_id, worker.c.identity == bindparam("identity")
                )
            ),
        ),
    )
    .values(
        status=literal("cancelled"),
        error=func.coalesce(bindparam("told_error"), task.c.error),
        **{**_TOLD, **_ENDED},
    )
    .returning(*VIEW, HOLDER_HEARD, TIME)
)


def report(
    tx: Transaction, statement: Statement, **params: Any
) -> tuple[TaskView, int | None] | None:
    """Run one of the reports above, or a cancellation; None if its guard did not hold.

    With the task comes when its worker was heard of last.
    """
    if statement is CANCEL:
        # What its worker must be told is kept together with it.
        return changed_of_holder(tx, statement, alone=False, **params)
    return changed_of_holder(
        tx,
        statement,
        sparing=(workers.TOUCH_HOLDER,),
        fresh=workers.fresh_for(tx),
        **params,
    )


_AT_ATTEMPT = (
    task.c.seq == bindparam("key"),
    task.c.status == bindparam("expect"),
    task.c.attempt == bindparam("expect_attempt"),
)
_END = Statement(
    update(task)
    .where(*_AT_ATTEMPT)
    .values(status=literal("failed"), error=bindparam("told_error"), version=NEXT_VERSION, **_ENDED)
    .returning(*VIEW)
)


def fail(tx: Transaction, was: Task, *, error: str | None) -> TaskView | None:
    """End a task as failed if it is still as it was read."""
    return changed(
        tx,
        _END,
        key=was.seq,
        expect=was.status,
        expect_attempt=was.attempt,
        told_error=error,
        retention=tx.settings.task_retention_seconds,
    )


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


_RETRY = Statement(
    update(task)
    .where(
        task.c.seq == bindparam("key"),
        task.c.status.in_([literal("failed"), literal("cancelled")]),
        task.c.version == bindparam("expect"),
    )
    .values(
        {
            **_LET_GO,
            "completed_at": NULL,
            "error": NULL,
            "progress": NULL,
            "message": NULL,
            "starts": literal(0),
            "idle_claims": literal(0),
            "ready": bindparam("is_ready"),
            "expires_at": bindparam("until"),
            "due_at": bindparam("until"),
            "version": NEXT_VERSION,
        }
    )
    .returning(*VIEW)
)


def retry(tx: Transaction, was: Task, *, ready: bool, expires_at: int | None) -> TaskView | None:
    """Make a failed or cancelled task pending again, if it is still as it was read."""
    return changed(
        tx, _RETRY, key=was.seq, expect=was.version, is_ready=int(ready), until=expires_at
    )
