"""Claiming: the best claimable task of a worker's jobs, in one guarded UPDATE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, bindparam, exists, func, not_, or_, select, update

from jobroom.domain.records import TaskView
from jobroom.store import line, ranking, skipping, workers
from jobroom.store.functions import byte_length
from jobroom.store.schema import job, task, worker, worker_job_link
from jobroom.store.statement import Statement, literal
from jobroom.store.views import (
    HELD,
    HOLDER_HEARD,
    IS_NO_REPEAT,
    IS_THERE,
    NEXT_VERSION,
    NULL,
    SOUND_VIEW,
    TIME,
    VIEW,
    after,
    changed,
    changed_of_holder,
    view,
)

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select, Update

    from jobroom.store.transaction import Transaction


_ahead = task.alias("ahead")
_head = task.alias("head")


_HEAD_OF_JOB = (
    line.in_order(_ahead, worker_job_link.c.job_seq, _ahead.c.seq)
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


_due = task.alias("due")
_IS_DUE = line.due(_due, worker_job_link.c.job_seq)
PLAIN = (
    IS_THERE,
    not_(
        exists(
            select(literal(1)).where(
                worker_job_link.c.worker_id == bindparam("worker_id"),
                *_IS_DUE,
            )
        )
    ),
    IS_NO_REPEAT,
)
"""The worker is there and the caller's own, nothing has just become due, this is no repeat."""


def _claim(*, plain: bool, start: bool, fits: bool = False) -> Statement:
    told = (*SOUND_VIEW, *((HOLDER_HEARD, TIME) if plain else ()))
    # What goes along with it notes that the worker was heard of: nobody needs to know when.
    untold = (*SOUND_VIEW, *((NULL, TIME) if plain else ()))

    def moved(best: ColumnElement[Any], guards: tuple[ColumnElement[bool], ...]) -> Update:
        claim = _moved(start=start, fits=fits)
        return claim.where(task.c.seq == best, *(guards if plain else ()))

    return Statement(
        lambda: moved(_BEST, PLAIN).returning(*told),
        libsql=lambda: moved(
            ranking.BEST_UNLESS_DUE if plain else ranking.BEST, ranking.PLAIN
        ).returning(*untold),
        # Its guards come before the lock.
        postgresql=lambda: moved(skipping.free(*(skipping.PLAIN if plain else ())), ()).returning(
            *told
        ),
    )


def _moved(*, start: bool, fits: bool) -> Update:
    changes: dict[str, Any]
    if start:
        changes = {
            "status": literal("running"),
            "started_at": bindparam("now"),
            "starts": task.c.starts + literal(1),
            "idle_claims": literal(0),
            "due_at": after(task.c.timeout_seconds),
        }
    else:
        changes = {
            "status": literal("claimed"),
            "idle_claims": task.c.idle_claims + literal(1),
            "due_at": after(func.coalesce(_CLAIM_TIMEOUT, task.c.timeout_seconds)),
        }
    claim = (
        update(task)
        .where(
            task.c.status == literal("pending"),
            or_(task.c.expires_at.is_(None), task.c.expires_at > bindparam("now")),
            # A row that says it has ended would break a CHECK here, with all claims behind it.
            task.c.completed_at.is_(None),
        )
        .values(
            worker_id=bindparam("worker_id"),
            claimed_at=bindparam("now"),
            attempt=task.c.attempt + literal(1),
            claim_request_id=bindparam("request_id"),
            version=NEXT_VERSION,
            **changes,
        )
    )
    if fits:
        claim = claim.where(byte_length(task.c.payload) <= bindparam("most_payload"))
    return claim


_CLAIM = _claim(plain=False, start=False)
_CLAIM_AND_START = _claim(plain=False, start=True)
_CLAIM_PLAINLY = _claim(plain=True, start=False)
_CLAIM_AND_START_PLAINLY = _claim(plain=True, start=True)


_CLAIM_OF_WHAT_FITS = {
    (plain, start): _claim(plain=plain, start=start, fits=True)
    for plain in (False, True)
    for start in (False, True)
}
"""The same with one guard more, by ``(plain, start)``, for doors whose answers have a limit."""


_LOCK_REQUEST = Statement(
    select(
        func.pg_advisory_xact_lock(
            func.hashtextextended(
                bindparam("worker_id", type_=Text)
                + literal(" ")
                + bindparam("request_id", type_=Text),
                literal(0),
            )
        )
    )
)


def lock_request(tx: Transaction, *, worker_id: str, request_id: str) -> None:
    """Wait for the same claim where it is under way: then it is seen, and not claimed twice."""
    tx.lock(_LOCK_REQUEST, worker_id=worker_id, request_id=request_id)


def claim_next(
    tx: Transaction,
    *,
    worker_id: str,
    start: bool,
    request_id: str | None,
    most_payload: int | None = None,
) -> TaskView | None:
    """Move the best claimable task of the worker's jobs to the worker; None if there is none.

    None as well where the best one cannot be claimed: ``dead_heads`` then tells, and
    ``find_too_large`` where its payload has more than ``most_payload`` bytes. Without a job
    name the task is damaged (``SOUND_VIEW``).
    """
    if most_payload is not None:
        statement = _CLAIM_OF_WHAT_FITS[False, start]
        return changed(
            tx, statement, worker_id=worker_id, request_id=request_id, most_payload=most_payload
        )
    statement = _CLAIM_AND_START if start else _CLAIM
    return changed(tx, statement, worker_id=worker_id, request_id=request_id)


_TOO_LARGE = Statement(
    select(task.c.id, byte_length(task.c.payload)).where(
        task.c.seq == _BEST, byte_length(task.c.payload) > bindparam("most_payload")
    )
)


def find_too_large(tx: Transaction, *, worker_id: str, most_payload: int) -> tuple[str, int] | None:
    """The worker's best task, if its payload has more bytes than that: its id and their number."""
    row = tx.row(_TOO_LARGE, worker_id=worker_id, most_payload=most_payload)
    return None if row is None else (row[0], row[1])


def claim_plainly(
    tx: Transaction,
    *,
    worker_id: str,
    identity: str,
    start: bool,
    request_id: str | None,
    repeat_of: str | None,
    most_payload: int | None = None,
) -> tuple[TaskView, int | None] | None:
    """What ``claim_next`` does, with all that goes before it as guards of the one statement.

    ``repeat_of``: the request id, where an earlier claim may have been served by it. With the task
    comes when its worker was heard of last, unless that is noted already. None wherever anything
    is not as it mostly is: then go step by step.
    """
    if most_payload is None:
        statement = _CLAIM_AND_START_PLAINLY if start else _CLAIM_PLAINLY
    else:
        statement = _CLAIM_OF_WHAT_FITS[True, start]
    return changed_of_holder(
        tx,
        statement,
        locks=(_LOCK_REQUEST,) if request_id not in (None, tx.token) else (),
        sparing=(workers.TOUCH_SPEAKER,),
        worker_id=worker_id,
        identity=identity,
        request_id=request_id,
        repeat_of=repeat_of,
        fresh=workers.fresh_for(tx),
        most_payload=most_payload,
    )


_DUE_OF_WORKER = (
    select(_due.c.seq)
    .select_from(worker_job_link.join(_due, _IS_DUE[0]))
    .where(worker_job_link.c.worker_id == bindparam("worker_id"), *_IS_DUE[1:])
    .limit(bindparam("limit"))
)


def _promote(which: Select[Any]) -> Update:
    return (
        update(task)
        .where(task.c.seq.in_(which), task.c.status == literal("pending"))
        .values(ready=literal(1), version=NEXT_VERSION)
    )


_PROMOTE = Statement(_promote(_DUE_OF_WORKER), postgresql=_promote(skipping.DUE_OF_WORKER))


def promote_due(tx: Transaction, *, worker_id: str, limit: int = 100) -> int:
    """Make claimable what has become due in the worker's jobs, a bounded number."""
    return tx.change(_PROMOTE, worker_id=worker_id, limit=limit)


_DEAD_HEADS = Statement(
    select(*VIEW).where(
        task.c.seq.in_(
            select(_head.c.seq)
            .select_from(_HEADS)
            .where(
                worker_job_link.c.worker_id == bindparam("worker_id"),
                or_(_head.c.expires_at <= bindparam("now"), _head.c.completed_at.is_not(None)),
            )
        )
    )
)


def dead_heads(tx: Transaction, worker_id: str) -> list[TaskView]:
    """First tasks of the worker's jobs that nobody started in time, or that say they ended."""
    return [view(row) for row in tx.rows(_DEAD_HEADS, worker_id=worker_id)]


_CLAIMED_BY_REQUEST = Statement(
    select(*SOUND_VIEW)
    .where(
        task.c.worker_id == bindparam("worker_id"),
        HELD,
        task.c.claim_request_id == bindparam("request_id"),
    )
    .order_by(task.c.priority.desc(), task.c.seq)
)


def claimed_by_request(tx: Transaction, *, worker_id: str, request_id: str) -> list[TaskView]:
    """What the worker holds from an earlier claim with the same request id (``SOUND_VIEW``)."""
    rows = tx.rows(_CLAIMED_BY_REQUEST, worker_id=worker_id, request_id=request_id)
    return [view(row) for row in rows]


_HAS_SOMETHING = (
    worker_job_link.c.worker_id == bindparam("worker_id"),
    or_(
        # Not EXISTS: it drops the order, and with it the index that holds nothing delayed; and
        # PostgreSQL may make a join of it, which reads all that is delayed.
        _HEAD_OF_JOB.is_not(None),
        select(_due.c.seq)
        .where(*_IS_DUE)
        .limit(literal(1))
        .correlate(worker_job_link)
        .scalar_subquery()
        .is_not(None),
    ),
)
_WAITED_FOR = Statement(select(worker_job_link.c.job_seq).where(*_HAS_SOMETHING).limit(literal(1)))


def has_claimable(tx: Transaction, worker_id: str) -> bool:
    """Whether a claim by this worker would find something (or something that has expired)."""
    return tx.row(_WAITED_FOR, worker_id=worker_id) is not None


_IDLE = Statement(
    select(worker.c.last_heartbeat, TIME).where(
        worker.c.id == bindparam("worker_id"),
        worker.c.state == literal("active"),
        worker.c.identity == bindparam("identity"),
        not_(exists(select(literal(1)).where(*_HAS_SOMETHING))),
        IS_NO_REPEAT,
    )
)


def idle_since(
    tx: Transaction, *, worker_id: str, identity: str, repeat_of: str | None
) -> int | None:
    """When a worker for whom there is nothing at all was heard of last; None: look closer.

    It is there and the caller's own, none of its jobs has anything, and this is no repeat.
    """
    row = tx.glance(_IDLE, worker_id=worker_id, identity=identity, repeat_of=repeat_of)
    if row is None:
        return None
    tx.learn(row[1])
    return int(row[0])
