"""What a claim would find among the tasks of a worker's jobs, and what stands in its way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, exists, not_, or_, select, update

from jobroom.store import bounds, claims, skipping
from jobroom.store.functions import byte_length
from jobroom.store.schema import task, worker, worker_job_link
from jobroom.store.statement import Statement, literal
from jobroom.store.views import IS_NO_REPEAT, NEXT_VERSION, TIME, VIEW, view

if TYPE_CHECKING:
    from sqlalchemy import Select, Update

    from jobroom.domain.records import TaskView
    from jobroom.store.transaction import Transaction


_HAS_SOMETHING = or_(
    # Not EXISTS: it drops the order, and with it the index that holds nothing delayed; and
    # PostgreSQL may make a join of it, which reads all that is delayed.
    claims.HEAD_OF_JOB.is_not(None),
    select(claims.DUE.c.seq)
    .where(*claims.IS_DUE)
    .limit(literal(1))
    .correlate(worker_job_link)
    .scalar_subquery()
    .is_not(None),
)


def _waited_for(*, bound: bool) -> Statement:
    links = bounds.links_of_worker(worker_job_link, bound=bound)
    return Statement(
        select(worker_job_link.c.job_seq).where(*links, _HAS_SOMETHING).limit(literal(1))
    )


_WAITED_FOR = _waited_for(bound=False)
_WAITED_FOR_IN_ROOMS = _waited_for(bound=True)


def has_claimable(tx: Transaction, worker_id: str, *, rooms: str | None = None) -> bool:
    """Whether a claim by this worker would find something (or something that has expired)."""
    statement = _WAITED_FOR if rooms is None else _WAITED_FOR_IN_ROOMS
    return tx.row(statement, worker_id=worker_id, rooms=rooms) is not None


def _idle(*, bound: bool) -> Statement:
    links = bounds.links_of_worker(worker_job_link, bound=bound)
    return Statement(
        select(worker.c.last_heartbeat, TIME).where(
            worker.c.id == bindparam("worker_id"),
            worker.c.state == literal("active"),
            worker.c.identity == bindparam("identity"),
            not_(exists(select(literal(1)).where(*links, _HAS_SOMETHING))),
            IS_NO_REPEAT,
        )
    )


_IDLE = _idle(bound=False)
_IDLE_IN_ROOMS = _idle(bound=True)


def idle_since(
    tx: Transaction,
    *,
    worker_id: str,
    identity: str,
    repeat_of: str | None,
    rooms: str | None = None,
) -> int | None:
    """When a worker for whom there is nothing at all was heard of last; None: look closer.

    It is there and the caller's own, none of its jobs has anything, and this is no repeat.
    """
    row = tx.glance(
        _IDLE if rooms is None else _IDLE_IN_ROOMS,
        worker_id=worker_id,
        identity=identity,
        repeat_of=repeat_of,
        rooms=rooms,
    )
    if row is None:
        return None
    tx.learn(row[1])
    return int(row[0])


def _promote(*, bound: bool) -> Statement:
    due_of_worker = (
        select(claims.DUE.c.seq)
        .select_from(worker_job_link.join(claims.DUE, claims.IS_DUE[0]))
        .where(*bounds.links_of_worker(worker_job_link, bound=bound), *claims.IS_DUE[1:])
        .limit(bindparam("limit"))
    )
    return Statement(
        _made_ready(due_of_worker), postgresql=_made_ready(skipping.due_of_worker(bound=bound))
    )


def _made_ready(which: Select[Any]) -> Update:
    return (
        update(task)
        .where(task.c.seq.in_(which), task.c.status == literal("pending"))
        .values(ready=literal(1), version=NEXT_VERSION)
    )


_PROMOTE = _promote(bound=False)
_PROMOTE_IN_ROOMS = _promote(bound=True)


def promote_due(
    tx: Transaction, *, worker_id: str, limit: int = 100, rooms: str | None = None
) -> int:
    """Make claimable what has become due in the worker's jobs, a bounded number."""
    statement = _PROMOTE if rooms is None else _PROMOTE_IN_ROOMS
    return tx.change(statement, worker_id=worker_id, limit=limit, rooms=rooms)


def _dead_heads(*, bound: bool) -> Statement:
    return Statement(
        select(*VIEW).where(
            task.c.seq.in_(
                select(claims.HEAD.c.seq)
                .select_from(claims.HEADS)
                .where(
                    *bounds.links_of_worker(worker_job_link, bound=bound),
                    or_(
                        claims.HEAD.c.expires_at <= bindparam("now"),
                        claims.HEAD.c.completed_at.is_not(None),
                    ),
                )
            )
        )
    )


_DEAD_HEADS = _dead_heads(bound=False)
_DEAD_HEADS_IN_ROOMS = _dead_heads(bound=True)


def dead_heads(tx: Transaction, worker_id: str, *, rooms: str | None = None) -> list[TaskView]:
    """First tasks of the worker's jobs that nobody started in time, or that say they ended."""
    statement = _DEAD_HEADS if rooms is None else _DEAD_HEADS_IN_ROOMS
    return [view(row) for row in tx.rows(statement, worker_id=worker_id, rooms=rooms)]


def _too_large(*, bound: bool) -> Statement:
    return Statement(
        select(task.c.id, byte_length(task.c.payload)).where(
            task.c.seq == claims.best(bound=bound),
            byte_length(task.c.payload) > bindparam("most_payload"),
        )
    )


_TOO_LARGE = _too_large(bound=False)
_TOO_LARGE_IN_ROOMS = _too_large(bound=True)


def find_too_large(
    tx: Transaction, *, worker_id: str, most_payload: int, rooms: str | None = None
) -> tuple[str, int] | None:
    """The worker's best task, if its payload has more bytes than that: its id and their number."""
    statement = _TOO_LARGE if rooms is None else _TOO_LARGE_IN_ROOMS
    row = tx.row(statement, worker_id=worker_id, most_payload=most_payload, rooms=rooms)
    return None if row is None else (row[0], row[1])
