"""Pages of workers, each with the jobs it serves and the tasks it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, bindparam, exists, func, or_, select

from jobroom.domain.records import Worker
from jobroom.store import bounds
from jobroom.store.schema import job, task, worker, worker_job_link
from jobroom.store.statement import Statement, literal
from jobroom.store.views import HELD

if TYPE_CHECKING:
    from jobroom.store.transaction import Row, Transaction

_JOB_COUNT = (
    select(func.count())
    .select_from(worker_job_link)
    .where(worker_job_link.c.worker_id == worker.c.id)
    .scalar_subquery()
)
_RUNNING = (
    select(func.count())
    .select_from(task)
    .where(
        task.c.worker_id == worker.c.id,
        HELD,
    )
    .scalar_subquery()
)
_JOBS_SEEN = (
    select(func.count())
    .select_from(worker_job_link.join(job, job.c.seq == worker_job_link.c.job_seq))
    .where(
        worker_job_link.c.worker_id == worker.c.id,
        or_(job.c.room_id == literal("@global"), bounds.is_room_of_token(job.c.room_id)),
    )
    .scalar_subquery()
)
_RUNNING_SEEN = (
    select(func.count())
    .select_from(task)
    .where(task.c.worker_id == worker.c.id, HELD, bounds.is_room_of_token(task.c.room_id))
    .scalar_subquery()
)
_ACTIVE = worker.c.state == literal("active")


def _page(*which: ColumnElement[bool], bound: bool = False) -> Statement:
    counts = (_JOBS_SEEN, _RUNNING_SEEN) if bound else (_JOB_COUNT, _RUNNING)
    return Statement(
        select(worker, *counts)
        .where(_ACTIVE, *which, worker.c.id > bindparam("after"))
        .order_by(worker.c.id)
        .limit(bindparam("limit"))
        .offset(bindparam("offset"))
    )


def _count(*which: ColumnElement[bool]) -> Statement:
    return Statement(select(func.count()).select_from(worker).where(_ACTIVE, *which))


_OF_IDENTITY = worker.c.identity == bindparam("identity")
_ALL, _COUNT_ALL = _page(), _count()
_OWN, _COUNT_OWN = _page(_OF_IDENTITY), _count(_OF_IDENTITY)
_OWN_IN_ROOMS = _page(_OF_IDENTITY, bound=True)


def list_of(
    tx: Transaction,
    *,
    identity: str | None,
    after: str,
    limit: int,
    offset: int,
    rooms: str | None = None,
) -> tuple[list[tuple[Worker, int, int]], int]:
    """An identity's active workers, or all; each with its jobs and held tasks, and their total.

    With ``rooms``, a JSON array, what lies beyond them is not counted, here and in a room's list.
    """
    page, count = (_ALL, _COUNT_ALL) if identity is None else (_OWN, _COUNT_OWN)
    page = _OWN_IN_ROOMS if rooms is not None else page
    rows = tx.rows(page, identity=identity, after=after, limit=limit, offset=offset, rooms=rooms)
    return _counted(rows), int(tx.rows(count, identity=identity)[0][0])


_SERVES = exists(
    select(literal(1))
    .select_from(worker_job_link.join(job, job.c.seq == worker_job_link.c.job_seq))
    .where(
        worker_job_link.c.worker_id == worker.c.id,
        or_(job.c.room_id == bindparam("room_id"), job.c.room_id == literal("@global")),
    )
)
_SERVING, _COUNT_SERVING = _page(_SERVES), _count(_SERVES)
_SERVING_IN_ROOMS = _page(_SERVES, bound=True)


def list_serving(
    tx: Transaction,
    *,
    room_id: str,
    after: str,
    limit: int,
    offset: int,
    rooms: str | None = None,
) -> tuple[list[tuple[Worker, int, int]], int]:
    """The active workers linked to a job that the room sees, and how many there are."""
    page = _SERVING if rooms is None else _SERVING_IN_ROOMS
    rows = tx.rows(page, room_id=room_id, after=after, limit=limit, offset=offset, rooms=rooms)
    return _counted(rows), int(tx.rows(_COUNT_SERVING, room_id=room_id)[0][0])


def _counted(rows: list[Row]) -> list[tuple[Worker, int, int]]:
    return [(Worker._make(row[:-2]), row[-2], row[-1]) for row in rows]
