"""Task rows in the order of a task's life: submit, claim, report, read.

Every change of a status is one guarded UPDATE: no row means that somebody else was first, or that
the caller may not, and ``service.reporting`` then reads the row to say which.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, and_, bindparam, cast, exists, func, or_, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.domain.records import Task, TaskView
from jobroom.store.schema import job, task, worker, worker_job_link
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from jobroom.store.transaction import Row, Transaction

NULL = func.nullif(literal(1), literal(1))
SECOND = literal(1_000_000)

JOB_NAME = (
    select(job.c.room_id + literal(":") + job.c.category + literal(":") + job.c.name)
    .where(job.c.seq == task.c.job_seq)
    .correlate(task)
    .scalar_subquery()
)
VIEW = (*task.c, JOB_NAME)
HELD = task.c.status.in_([literal("claimed"), literal("running")])
UNFINISHED = task.c.status.in_(
    [literal("blocked"), literal("pending"), literal("claimed"), literal("running")]
)
NEXT_VERSION = task.c.version + literal(1)


def view(row: Row) -> TaskView:
    """A row of ``VIEW`` as a record."""
    return TaskView(Task._make(row[:-1]), row[-1])


def _changed(tx: Transaction, statement: Statement, **params: object) -> TaskView | None:
    rows = tx.returning(statement, **params)
    if not rows:
        return None
    found = view(rows[0])
    tx.changed.append(found.task)
    return found


# --- submit ---------------------------------------------------------------------------------

# What a new task always is, in the text; the columns that are NULL then are left out.
_AT_FIRST = {
    "status": literal("pending"),
    "attempt": literal(0),
    "starts": literal(0),
    "idle_claims": literal(0),
    "version": literal(1),
}
_GIVEN = (
    "id",
    "job_seq",
    "room_id",
    "created_by_id",
    "ready",
    "priority",
    "turn",
    "payload",
    "created_at",
    "run_at",
    "expires_at",
    "max_attempts",
    "timeout_seconds",
    "due_at",
    "idempotency_key",
    "fingerprint",
)
_INSERT = Statement(
    upsert(task)
    .from_select(
        [*_GIVEN, *_AT_FIRST, "schema_version"],
        select(
            *(bindparam(name, type_=task.c[name].type).label(name) for name in _GIVEN),
            *(constant.label(name) for name, constant in _AT_FIRST.items()),
            job.c.schema_version,
        ).where(job.c.seq == bindparam("job_seq"), job.c.version == bindparam("job_version")),
    )
    .on_conflict_do_nothing()
)

_given = itemgetter(*(Task._fields.index(name) for name in _GIVEN))


def add(tx: Transaction, new: Task, *, job_version: int) -> int | None:
    """Insert a new pending task if the job is still at that version; its ``seq``.

    None where the job has changed since it was read, or where the id or the idempotency key is
    taken.
    """
    return tx.insert(_INSERT, (*_given(new), new.job_seq, job_version))


_BY_KEY = Statement(
    select(*VIEW).where(
        task.c.created_by_id == bindparam("identity"), task.c.idempotency_key == bindparam("key")
    )
)


def get_by_key(tx: Transaction, *, identity: str, key: str) -> TaskView | None:
    """The task that this identity submitted with that idempotency key."""
    row = tx.row(_BY_KEY, identity=identity, key=key)
    return None if row is None else view(row)


_FORGET_KEY = Statement(
    update(task)
    .where(task.c.seq == bindparam("key"))
    .values(idempotency_key=NULL, version=NEXT_VERSION)
)


def forget_key(tx: Transaction, seq: int) -> None:
    """The idempotency key of this task has lived its time."""
    tx.change(_FORGET_KEY, key=seq)


# --- claim ----------------------------------------------------------------------------------

_ahead = task.alias("ahead")
_head = task.alias("head")
_CLAIMABLE = (
    _ahead.c.job_seq == worker_job_link.c.job_seq,
    _ahead.c.status == literal("pending"),
    _ahead.c.ready == literal(1),
)
_HEAD_OF_JOB = (
    select(_ahead.c.seq)
    .where(*_CLAIMABLE)
    .order_by(_ahead.c.priority.desc(), _ahead.c.turn, _ahead.c.seq)
    .limit(literal(1))
    .correlate(worker_job_link)
    .scalar_subquery()
)
_HEADS = worker_job_link.join(_head, _head.c.seq == _HEAD_OF_JOB)
_BEST = (
    select(_head.c.seq)
    .select_from(_HEADS)
    .where(worker_job_link.c.worker_id == bindparam("worker_id"))
    .order_by(_head.c.priority.desc(), _head.c.seq)
    .limit(literal(1))
    .scalar_subquery()
)
_CLAIM_TIMEOUT = (
    select(job.c.claim_timeout_seconds)
    .where(job.c.seq == task.c.job_seq)
    .correlate(task)
    .scalar_subquery()
)


def _after(seconds: ColumnElement[Any]) -> ColumnElement[Any]:
    return bindparam("now", type_=BigInteger) + cast(seconds * SECOND, BigInteger)


def _claim(*, start: bool) -> Statement:
    moved: dict[str, Any]
    if start:
        moved = {
            "status": literal("running"),
            "started_at": bindparam("now"),
            "starts": task.c.starts + literal(1),
            "idle_claims": literal(0),
            "due_at": _after(task.c.timeout_seconds),
        }
    else:
        moved = {
            "status": literal("claimed"),
            "idle_claims": task.c.idle_claims + literal(1),
            "due_at": _after(func.coalesce(_CLAIM_TIMEOUT, task.c.timeout_seconds)),
        }
    return Statement(
        update(task)
        .where(
            task.c.seq == _BEST,
            task.c.status == literal("pending"),
            or_(task.c.expires_at.is_(None), task.c.expires_at > bindparam("now")),
        )
        .values(
            worker_id=bindparam("worker_id"),
            claimed_at=bindparam("now"),
            attempt=task.c.attempt + literal(1),
            claim_request_id=bindparam("request_id"),
            version=NEXT_VERSION,
            **moved,
        )
        .returning(*VIEW)
    )


_CLAIM = _claim(start=False)
_CLAIM_AND_START = _claim(start=True)


def claim_next(
    tx: Transaction, *, worker_id: str, start: bool, request_id: str | None
) -> TaskView | None:
    """Move the best claimable task of the worker's jobs to the worker; None if there is none.

    None as well where the best one has expired: ``expired_heads`` then tells.
    """
    statement = _CLAIM_AND_START if start else _CLAIM
    return _changed(tx, statement, worker_id=worker_id, request_id=request_id, now=tx.now)


_due = task.alias("due")
_DUE_OF_WORKER = (
    select(_due.c.seq)
    .select_from(worker_job_link.join(_due, _due.c.job_seq == worker_job_link.c.job_seq))
    .where(
        worker_job_link.c.worker_id == bindparam("worker_id"),
        _due.c.status == literal("pending"),
        _due.c.ready == literal(0),
        _due.c.run_at <= bindparam("now"),
    )
    .limit(bindparam("limit"))
)
_PROMOTE = Statement(
    update(task)
    .where(task.c.seq.in_(_DUE_OF_WORKER), task.c.status == literal("pending"))
    .values(ready=literal(1), version=NEXT_VERSION)
)


def promote_due(tx: Transaction, *, worker_id: str, limit: int = 100) -> int:
    """Make claimable what has become due in the worker's jobs, a bounded number."""
    return tx.change(_PROMOTE, worker_id=worker_id, now=tx.now, limit=limit)


_EXPIRED_HEADS = Statement(
    select(*VIEW).where(
        task.c.seq.in_(
            select(_head.c.seq)
            .select_from(_HEADS)
            .where(
                worker_job_link.c.worker_id == bindparam("worker_id"),
                _head.c.expires_at <= bindparam("now"),
            )
        )
    )
)


def expired_heads(tx: Transaction, worker_id: str) -> list[TaskView]:
    """The first claimable tasks of the worker's jobs that nobody started in time."""
    return [view(row) for row in tx.rows(_EXPIRED_HEADS, worker_id=worker_id, now=tx.now)]


_CLAIMED_BY_REQUEST = Statement(
    select(*VIEW)
    .where(
        task.c.worker_id == bindparam("worker_id"),
        HELD,
        task.c.claim_request_id == bindparam("request_id"),
    )
    .order_by(task.c.priority.desc(), task.c.seq)
)


def claimed_by_request(tx: Transaction, *, worker_id: str, request_id: str) -> list[TaskView]:
    """What the worker holds from an earlier claim with the same request id."""
    rows = tx.rows(_CLAIMED_BY_REQUEST, worker_id=worker_id, request_id=request_id)
    return [view(row) for row in rows]


_WAITED_FOR = Statement(
    select(worker_job_link.c.job_seq)
    .where(
        worker_job_link.c.worker_id == bindparam("worker_id"),
        or_(
            # Not EXISTS: it drops the order, and with it the index that holds nothing delayed.
            _HEAD_OF_JOB.is_not(None),
            exists(
                select(literal(1))
                .where(
                    _due.c.job_seq == worker_job_link.c.job_seq,
                    _due.c.status == literal("pending"),
                    _due.c.ready == literal(0),
                    _due.c.run_at <= bindparam("now"),
                )
                .correlate(worker_job_link)
            ),
        ),
    )
    .limit(literal(1))
)


def has_claimable(tx: Transaction, worker_id: str) -> bool:
    """Whether a claim by this worker would find something (or something that has expired)."""
    return tx.row(_WAITED_FOR, worker_id=worker_id, now=tx.now) is not None


# --- report ---------------------------------------------------------------------------------

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
_RETENTION = _after(
    func.coalesce(
        select(job.c.result_ttl_seconds)
        .where(job.c.seq == task.c.job_seq)
        .correlate(task)
        .scalar_subquery(),
        bindparam("retention"),
    )
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
    return Statement(
        update(task).where(*_BY_HOLDER, condition).values(**{**_TOLD, **values}).returning(*VIEW)
    )


_is_claimed = task.c.status == literal("claimed")
_is_running = task.c.status == literal("running")

START = _by_holder(
    _is_claimed,
    status=literal("running"),
    started_at=bindparam("now"),
    starts=task.c.starts + literal(1),
    idle_claims=literal(0),
    due_at=_after(task.c.timeout_seconds),
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
    .returning(*VIEW)
)


def report(tx: Transaction, statement: Statement, **params: object) -> TaskView | None:
    """Run one of the reports above, or a cancellation; None if its guard did not hold."""
    return _changed(tx, statement, now=tx.now, **params)


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
    return _changed(
        tx,
        _END,
        key=was.seq,
        expect=was.status,
        expect_attempt=was.attempt,
        told_error=error,
        now=tx.now,
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
    again_at: int | None = None,
    progress: float | None = None,
    message: str | None = None,
) -> TaskView | None:
    """Put a held task back among the pending ones, in its old place, if it is still as read.

    ``again_at``: not to be claimed before that time (microseconds). ``progress`` and ``message``
    None leave what is stored.
    """
    return _changed(
        tx,
        _REQUEUE,
        key=was.seq,
        expect=was.status,
        expect_attempt=was.attempt,
        told_error=error,
        is_ready=int(again_at is None),
        again_at=again_at,
        started=starts,
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
    return _changed(
        tx, _RETRY, key=was.seq, expect=was.version, is_ready=int(ready), until=expires_at
    )


# --- the sweep ------------------------------------------------------------------------------

_HELD_BY = Statement(
    select(*VIEW)
    .where(task.c.worker_id == bindparam("worker_id"), HELD)
    .order_by(task.c.seq)
    .limit(bindparam("limit"))
)


def list_held_by(tx: Transaction, worker_id: str, *, limit: int) -> list[TaskView]:
    """What a worker holds, the oldest first."""
    return [view(row) for row in tx.rows(_HELD_BY, worker_id=worker_id, limit=limit)]


_OVERDUE = Statement(
    select(*VIEW)
    .where(
        task.c.status == bindparam("status"),
        task.c.due_at <= bindparam("now"),
        task.c.due_at.is_not(None),
    )
    .order_by(task.c.due_at)
    .limit(bindparam("limit"))
)


def list_due(tx: Transaction, *, status: str, limit: int) -> list[TaskView]:
    """Tasks in a state whose ``due_at`` has passed, the longest overdue first."""
    return [view(row) for row in tx.rows(_OVERDUE, status=status, now=tx.now, limit=limit)]


_over = task.alias("over")
_REMOVE = Statement(
    task.delete().where(
        task.c.seq.in_(
            select(_over.c.seq)
            .where(
                _over.c.status == bindparam("status"),
                _over.c.due_at <= bindparam("now"),
                _over.c.due_at.is_not(None),
                or_(
                    _over.c.idempotency_key.is_(None),
                    _over.c.created_at < bindparam("keys_before"),
                ),
            )
            .limit(bindparam("limit"))
        )
    )
)


def remove_past_retention(tx: Transaction, *, status: str, keys_before: int, limit: int) -> int:
    """Delete finished tasks past their retention, but none whose idempotency key still lives."""
    return tx.change(_REMOVE, status=status, now=tx.now, keys_before=keys_before, limit=limit)


# --- read -----------------------------------------------------------------------------------

_LAST_BEAT = (
    select(worker.c.last_heartbeat)
    .where(worker.c.id == task.c.worker_id, HELD)
    .correlate(task)
    .scalar_subquery()
)
_HOLDER = (
    select(worker.c.identity)
    .where(worker.c.id == task.c.worker_id)
    .correlate(task)
    .scalar_subquery()
)
_GET = Statement(select(*VIEW, _LAST_BEAT, _HOLDER).where(task.c.id == bindparam("id")))


def get(tx: Transaction, task_id: str) -> tuple[TaskView, int | None, str | None] | None:
    """A task, the last heartbeat of who holds it, and the identity of its last worker."""
    row = tx.row(_GET, id=task_id)
    return None if row is None else (view(row[:-2]), row[-2], row[-1])


_FIRST = (
    select(_ahead.c.priority, _ahead.c.turn, _ahead.c.seq)
    .where(
        _ahead.c.job_seq == bindparam("job_seq"),
        _ahead.c.status == literal("pending"),
        _ahead.c.ready == literal(1),
    )
    .order_by(_ahead.c.priority.desc(), _ahead.c.turn, _ahead.c.seq)
    .limit(bindparam("cap"))
    .subquery("first")
)
_POSITION = Statement(
    select(func.count())
    .select_from(_FIRST)
    .where(
        or_(
            _FIRST.c.priority > bindparam("priority"),
            and_(
                _FIRST.c.priority == bindparam("priority"),
                or_(
                    _FIRST.c.turn < bindparam("turn"),
                    and_(_FIRST.c.turn == bindparam("turn"), _FIRST.c.seq < bindparam("seq")),
                ),
            ),
        )
    )
)


def queue_position(tx: Transaction, of: Task, *, cap: int = 1000) -> int | None:
    """1-based place of a claimable task among those of its job, at most ``cap``; else None."""
    if of.status != "pending" or not of.ready:
        return None
    ahead = tx.rows(
        _POSITION,
        job_seq=of.job_seq,
        priority=of.priority,
        turn=of.turn,
        seq=of.seq,
        cap=cap,
    )[0][0]
    return min(int(ahead) + 1, cap)
