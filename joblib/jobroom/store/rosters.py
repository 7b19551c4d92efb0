"""Pages of workers, each with the jobs it serves and the tasks it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, bindparam, exists, func, or_, select

from jobroom.domain.records import Worker
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
_ACTIVE = worker.c.state == literal("active")


def _page(*which: ColumnElement[bool]) -> Statement:
    return Statement(
        select(worker, _JOB_COUNT, _RUNNING)
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


def list_of(
    tx: Transaction, *, identity: str | None, after: str, limit: int, offset: int
) -> tuple[list[tuple[Worker, int, int]], int]:
    """An identity's active workers, or all; each with its jobs and held tasks, and their total."""
    page, count = (_ALL, _COUNT_ALL) if identity is None else (_OWN, _COUNT_OWN)
    rows = tx.rows(page, identity=identity, after=after, limit=limit, offset=offset)
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


def list_serving(
    tx: Transaction, *, room_id: str, after: str, limit: int, offset: int
) -> tuple[list[tuple[Worker, int, int]], int]:
    """The active workers linked to a job that the room sees, and how many there are."""
    rows = tx.rows(_SERVING, room_id=room_id, after=after, limit=limit, offset=offset)
    return _counted(rows), int(tx.rows(_COUNT_SERVING, room_id=room_id)[0][0])


def _counted(rows: list[Row]) -> list[tuple[Worker, int, int]]:
    return [(Worker._make(row[:-2]), row[-2], row[-1]) for row in rows]
