"""Tasks of the embedded queue, in the order of their life: room ``@local``, whichever job.

Nobody else writes them but an admin who cancels or retries one over REST. Their workers are
processes, known by host and number, and not rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Text,
    and_,
    bindparam,
    case,
    exists,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.domain.local import ROOM
from jobroom.domain.records import Change
from jobroom.store.schema import edge, task
from jobroom.store.statement import Statement, literal
from jobroom.store.views import NEXT_VERSION, NULL

if TYPE_CHECKING:
    from jobroom.store.transaction import Transaction

CREATOR = ""
"""Who has made these tasks, as far as REST is concerned: nobody whom a token could name."""

_NOW = bindparam("now", type_=BigInteger)
IS_LOCAL = task.c.room_id == literal(ROOM)
NAMED = (task.c.id == bindparam("id", type_=Text), IS_LOCAL)
_IS_OPEN = task.c.completed_at.is_(None)


def _given(name: str) -> ColumnElement[Any]:
    return bindparam(name, type_=task.c[name].type)


_GIVEN = (
    "id",
    "job_seq",
    "status",
    "payload",
    "max_attempts",
    "timeout_seconds",
    "key",
    "has_dependencies",
    "failed_by",
    "error",
)
_IS_AWAITED = exists(
    select(literal(1)).where(
        edge.c.dependency_id == bindparam("id", type_=edge.c.dependency_id.type)
    )
)
_ADD = Statement(
    upsert(task)
    .values(
        {
            **{name: _given(name) for name in _GIVEN},
            "room_id": literal(ROOM),
            "created_by_id": literal(CREATOR),
            "ready": literal(1),
            "priority": literal(0),
            "turn": literal(0),
            "schema_version": literal(1),
            "created_at": _NOW,
            "completed_at": case((_given("status") == literal("failed"), _NOW)),
            "attempt": literal(0),
            "starts": literal(0),
            "idle_claims": literal(0),
            # Others may wait for it already: a dependency may be named before it comes.
            "has_dependents": case((_IS_AWAITED, literal(1)), else_=literal(0)),
            "version": literal(1),
        }
    )
    .on_conflict_do_nothing()
)


def add(tx: Transaction, given: dict[str, Any]) -> int | None:
    """Insert a task as it begins (``given``: the columns of ``_GIVEN``); its ``seq``.

    None if there is one of that id.
    """
    added = tx.insert(_ADD, _ADD, given)
    return None if added is None else added[0]


_head = task.alias("head")
_FIRST = (
    select(_head.c.seq)
    .where(
        _head.c.room_id == literal(ROOM),
        _head.c.status == literal("pending"),
        _head.c.ready == literal(1),
    )
    .order_by(_head.c.seq)
    .limit(literal(1))
    .scalar_subquery()
)
_STARTED: dict[str, Any] = {
    "status": literal("running"),
    "claimed_at": _NOW,
    "started_at": _NOW,
    "worker_id": bindparam("worker_id"),
    "attempt": task.c.attempt + literal(1),
    # However often it is queued again, that is its owner's business: ``starts`` ends nothing here.
    "starts": case(
        (task.c.starts < task.c.max_attempts, task.c.starts + literal(1)), else_=task.c.starts
    ),
    "version": NEXT_VERSION,
}
_TAKE = Statement(
    update(task)
    # A row that says it has ended would break a CHECK here, with all that wait behind it.
    .where(task.c.seq == _FIRST, task.c.status == literal("pending"), _IS_OPEN)
    .values(**_STARTED, message=NULL)
    .returning(task.c.id, task.c.key, task.c.payload, task.c.version)
)


class Taken(NamedTuple):
    """What was taken: the id, and what its maker gave; of a damaged row that may be anything."""

    id: str
    key: Any
    config: Any


def take(tx: Transaction, *, worker_id: str) -> Taken | None:
    """Move the first task that is ready to a worker; None if there is none."""
    rows = tx.returning(_TAKE, worker_id=worker_id)
    if not rows:
        return None
    task_id, key, config, version = rows[0]
    tx.changed.append(Change(task_id, version))
    return Taken(task_id, key, config)


_DROP_HEAD = Statement(
    update(task)
    .where(task.c.seq == _FIRST)
    .values(
        status=literal("failed"),
        completed_at=_NOW,
        error=bindparam("told_error"),
        version=NEXT_VERSION,
    )
    .returning(task.c.id, task.c.version)
)


def fail_head(tx: Transaction, *, error: str) -> str | None:
    """Fail the first task that is ready, which cannot be taken; its id, or None if none is."""
    return _told(tx, _DROP_HEAD, told_error=error)


_is_to_fail = exists(
    select(literal(1)).where(
        # Of what an UPDATE returns SQLite knows too little to look it up in an index.
        edge.c.dependency_id == bindparam("id", type_=edge.c.dependency_id.type),
        edge.c.condition == literal("afternotok"),
    )
)
_IS_TO_FAIL = case(
    (and_(task.c.has_dependents == literal(1), _is_to_fail), literal(1)), else_=literal(0)
)
_END = Statement(
    update(task)
    .where(*NAMED, _IS_OPEN)
    .values(
        status=bindparam("status"),
        completed_at=_NOW,
        due_at=NULL,
        error=bindparam("told_error"),
        message=bindparam("told_message"),
        version=NEXT_VERSION,
    )
    .returning(task.c.id, task.c.version, task.c.has_dependents, _IS_TO_FAIL)
)


class Ended(NamedTuple):
    """Whether the end of a task concerns others, and whether any is to run if it has failed."""

    has_dependents: int
    is_to_fail: int


def end(
    tx: Transaction, task_id: str, *, status: str, error: str | None, message: str | None = None
) -> Ended | None:
    """End a task; None if there is none that could end."""
    rows = tx.returning(_END, id=task_id, status=status, told_error=error, told_message=message)
    if not rows:
        return None
    _, version, *ended = rows[0]
    tx.changed.append(Change(task_id, version))
    return Ended._make(ended)


_RUN = Statement(
    update(task)
    .where(*NAMED, or_(task.c.status == literal("pending"), task.c.status == literal("blocked")))
    .values(**_STARTED, message=bindparam("told_message"))
    .returning(task.c.id, task.c.version)
)
_NOTE = Statement(
    update(task)
    .where(*NAMED, _IS_OPEN, task.c.message.is_distinct_from(bindparam("told_message")))
    .values(message=bindparam("told_message"), version=NEXT_VERSION)
    .returning(task.c.id, task.c.version)
)


def run(tx: Transaction, task_id: str, *, worker_id: str, message: str | None) -> None:
    """Let a task that is queued be run by a worker that takes it by its name."""
    _told(tx, _RUN, id=task_id, worker_id=worker_id, told_message=message)


def note(tx: Transaction, task_id: str, *, message: str | None) -> None:
    """Keep what is said of a task that has not ended; what is known already is no write."""
    _told(tx, _NOTE, id=task_id, told_message=message)


_QUEUE = Statement(
    update(task)
    .where(task.c.seq == bindparam("seq"), task.c.status == bindparam("expect"))
    .values(
        {
            "status": bindparam("status"),
            "ready": literal(1),
            "run_at": NULL,
            "expires_at": NULL,
            "due_at": NULL,
            "worker_id": NULL,
            "claimed_at": NULL,
            "started_at": NULL,
            "completed_at": case((bindparam("status") == literal("failed"), _NOW)),
            "progress": NULL,
            "result": NULL,
            "error": bindparam("told_error"),
            "message": bindparam("told_message"),
            "failed_by": bindparam("failed_by"),
            "version": NEXT_VERSION,
        }
    )
    .returning(task.c.id, task.c.version)
)


def queue_again(
    tx: Transaction,
    seq: int,
    *,
    expect: str,
    status: str,
    message: str | None = None,
    failed_by: str | None = None,
    error: str | None = None,
) -> None:
    """Put a task that runs or has ended back into the queue, in its old place."""
    _told(
        tx,
        _QUEUE,
        seq=seq,
        expect=expect,
        status=status,
        told_message=message,
        failed_by=failed_by,
        told_error=error,
    )


_most = bindparam("most", type_=task.c.max_attempts.type)
_REPLACE = Statement(
    update(task)
    .where(*NAMED)
    .values(
        payload=bindparam("payload"),
        job_seq=bindparam("job_seq"),
        timeout_seconds=bindparam("timeout_seconds"),
        max_attempts=case((_most < task.c.starts, task.c.starts), else_=_most),
        version=NEXT_VERSION,
    )
    .returning(task.c.id, task.c.version)
)


def replace(
    tx: Transaction,
    task_id: str,
    *,
    config: str,
    job_seq: int,
    max_attempts: int,
    timeout_seconds: float | None,
) -> bool:
    """Store another config in a task's place; False if there is no such task."""
    done = _told(
        tx,
        _REPLACE,
        id=task_id,
        payload=config,
        job_seq=job_seq,
        most=max_attempts,
        timeout_seconds=timeout_seconds,
    )
    return done is not None


_SET_WORKER = Statement(
    update(task)
    .where(*NAMED, _IS_OPEN, task.c.worker_id.is_distinct_from(bindparam("worker_id")))
    .values(worker_id=bindparam("worker_id"), version=NEXT_VERSION)
    .returning(task.c.id, task.c.version)
)


def set_worker(tx: Transaction, task_id: str, *, worker_id: str) -> None:
    """Remember who runs a task that has not ended; what is known already is no write."""
    _told(tx, _SET_WORKER, id=task_id, worker_id=worker_id)


def _told(tx: Transaction, statement: Statement, **params: Any) -> str | None:
    """Run a change of one task and tell who waits for it; its id, None if nothing was changed."""
    rows = tx.returning(statement, **params)
    if not rows:
        return None
    tx.changed.append(Change._make(rows[0]))
    return str(rows[0][0])
