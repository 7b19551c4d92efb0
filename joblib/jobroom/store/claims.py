"""Claiming: the best claimable task of a worker's jobs, in one guarded UPDATE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, bindparam, exists, func, not_, or_, select, update

from jobroom.domain.records import TaskView
from jobroom.store import bounds, line, ranking, skipping, workers
from jobroom.store.functions import byte_length
from jobroom.store.schema import job, task, worker_job_link
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
    after,
    changed,
    changed_of_holder,
    view,
)

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Update

    from jobroom.store.transaction import Transaction


_ahead = task.alias("ahead")
HEAD = task.alias("head")
HEAD_OF_JOB = (
    line.in_order(_ahead, worker_job_link.c.job_seq, _ahead.c.seq)
    .limit(literal(1))
    .correlate(worker_job_link)
    .scalar_subquery()
)
"""The number of the task of a linked job that is claimed next."""
HEADS = worker_job_link.join(HEAD, HEAD.c.seq == HEAD_OF_JOB)


def best(*, bound: bool) -> ColumnElement[int]:
    """The number of the best task of the worker's jobs; ``bound``: of the token's rooms."""
    return (
        select(HEAD.c.seq)
        .select_from(HEADS)
        .where(*bounds.links_of_worker(worker_job_link, bound=bound))
        .order_by(HEAD.c.priority.desc(), HEAD.c.seq)
        .limit(literal(1))
        .scalar_subquery()
    )


_CLAIM_TIMEOUT = (
    select(job.c.claim_timeout_seconds)
    .where(job.c.seq == task.c.job_seq)
    .correlate(task)
    .scalar_subquery()
)


DUE = task.alias("due")
IS_DUE = line.due(DUE, worker_job_link.c.job_seq)


def _plain(*, bound: bool) -> tuple[ColumnElement[bool], ...]:
    """The worker is there and the caller's own, nothing has just become due, this is no repeat."""
    links = bounds.links_of_worker(worker_job_link, bound=bound)
    return IS_THERE, not_(exists(select(literal(1)).where(*links, *IS_DUE))), IS_NO_REPEAT


def _claim(*, plain: bool, start: bool, fits: bool = False, bound: bool = False) -> Statement:
    told = (*SOUND_VIEW, *((HOLDER_HEARD, TIME) if plain else ()))
    # What goes along with it notes that the worker was heard of: nobody needs to know when.
    untold = (*SOUND_VIEW, *((NULL, TIME) if plain else ()))

    def moved(which: ColumnElement[Any], guards: tuple[ColumnElement[bool], ...]) -> Update:
        claim = _moved(start=start, fits=fits)
        return claim.where(task.c.seq == which, *(guards if plain else ()))

    return Statement(
        lambda: moved(best(bound=bound), _plain(bound=bound)).returning(*told),
        libsql=lambda: moved(ranking.best(bound=bound, unless_due=plain), ranking.PLAIN).returning(
            *untold
        ),
        # Its guards come before the lock.
        postgresql=lambda: moved(skipping.free(bound=bound, plain=plain), ()).returning(*told),
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
_CLAIM_IN_ROOMS = {
    (plain, start, fits): _claim(plain=plain, start=start, fits=fits, bound=True)
    for plain in (False, True)
    for start in (False, True)
    for fits in (False, True)
}
"""All of them, by ``(plain, start, fits)``, for a token that is bound to rooms.

It is as if the worker were linked to the jobs of these rooms alone.
"""


def _find_claim(
    *, plain: bool, start: bool, most_payload: int | None, rooms: str | None
) -> Statement:
    if rooms is not None:
        return _CLAIM_IN_ROOMS[plain, start, most_payload is not None]
    if most_payload is not None:
        return _CLAIM_OF_WHAT_FITS[plain, start]
    if plain:
        return _CLAIM_AND_START_PLAINLY if start else _CLAIM_PLAINLY
    return _CLAIM_AND_START if start else _CLAIM


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
    rooms: str | None = None,
) -> TaskView | None:
    """Move the best claimable task of the worker's jobs to the worker; None if there is none.

    None as well where the best one cannot be claimed: ``dead_heads`` then tells, and
    ``find_too_large`` where its payload has more than ``most_payload`` bytes. Without a job
    name the task is damaged (``SOUND_VIEW``). With ``rooms``, a JSON array, it is one of the jobs
    of these rooms alone, here and wherever they are given.
    """
    return changed(
        tx,
        _find_claim(plain=False, start=start, most_payload=most_payload, rooms=rooms),
        worker_id=worker_id,
        request_id=request_id,
        most_payload=most_payload,
        rooms=rooms,
    )


def claim_plainly(
    tx: Transaction,
    *,
    worker_id: str,
    identity: str,
    start: bool,
    request_id: str | None,
    repeat_of: str | None,
    most_payload: int | None = None,
    rooms: str | None = None,
) -> tuple[TaskView, int | None] | None:
    """What ``claim_next`` does, with all that goes before it as guards of the one statement.

    ``repeat_of``: the request id, where an earlier claim may have been served by it. With the task
    comes when its worker was heard of last, unless that is noted already. None wherever anything
    is not as it mostly is: then go step by step.
    """
    return changed_of_holder(
        tx,
        _find_claim(plain=True, start=start, most_payload=most_payload, rooms=rooms),
        locks=(_LOCK_REQUEST,) if request_id not in (None, tx.token) else (),
        sparing=(workers.TOUCH_SPEAKER,),
        worker_id=worker_id,
        identity=identity,
        request_id=request_id,
        repeat_of=repeat_of,
        fresh=workers.fresh_for(tx),
        most_payload=most_payload,
        rooms=rooms,
    )


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
