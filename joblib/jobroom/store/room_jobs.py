"""What each job has to do in one room, counted with a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Text, and_, bindparam, case, cast, func, or_, select

from jobroom.domain.lifecycle import TaskStatus
from jobroom.domain.names import GLOBAL_ROOM
from jobroom.store import gauges
from jobroom.store.crews import ALIVE, LINKS, SERVING
from jobroom.store.lists import COUNT_LIMIT
from jobroom.store.rooms import OF_ROOM, limited
from jobroom.store.schema import job
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from sqlalchemy import CTE, ColumnElement, Select
    from sqlalchemy.sql.expression import ScalarSelect

    from jobroom.store.transaction import Transaction

MOST_JOBS = 500
"""So many jobs of a room are told one by one."""
MOST_LOOKED_AT = 700_000
"""So many tasks are looked at for all jobs of a room together: some 50 ms on a file."""


class JobCounts(NamedTuple):
    """What one job has to do in a room; ``since``: the time of the oldest that can be claimed."""

    full_name: str
    is_listed: bool
    alive_workers: int
    by_status: dict[str, int]
    since: int | None


_ROOM = bindparam("room_id", type_=Text)
_STATUSES = tuple(status.value for status in TaskStatus)


def _jobs(limit: ColumnElement[int]) -> Select[Any]:
    """The jobs whose tasks can be in a room: its own, first, and those of ``@global``."""
    is_others = case((job.c.room_id == literal(GLOBAL_ROOM), literal(1)), else_=literal(0))
    return (
        select(
            job.c.seq.label("job_seq"),
            cast(_ROOM, Text).label("room_id"),
            (job.c.room_id + literal(":") + job.c.category + literal(":") + job.c.name).label(
                "full_name"
            ),
            case(
                (and_(job.c.hidden == literal(0), job.c.room_id == _ROOM), literal(1)),
                else_=literal(0),
            ).label("is_listed"),
        )
        .where(or_(job.c.room_id == _ROOM, job.c.room_id == literal(GLOBAL_ROOM)))
        .order_by(job.c.hidden, is_others, job.c.seq)
        .limit(limit)
    )


def _how_many_jobs() -> Select[Any]:
    return select(func.count()).select_from(_jobs(literal(MOST_JOBS + 1)).subquery("jobs"))


def _of_job(at: CTE, status: str) -> ScalarSelect[int]:
    found = select(OF_ROOM.c.seq).where(
        OF_ROOM.c.job_seq == at.c.job_seq,
        OF_ROOM.c.status == literal(status),
        # As above.
        OF_ROOM.c.room_id.between(at.c.room_id, at.c.room_id),
    )
    return limited(found.order_by(OF_ROOM.c.room_id, OF_ROOM.c.seq), at)


def _alive_of_job(at: CTE) -> ScalarSelect[int]:
    return (
        select(func.count())
        .select_from(LINKS)
        .where(SERVING.c.job_seq == at.c.job_seq, *ALIVE)
        .correlate(at)
        .scalar_subquery()
    )


def _job_counts() -> Select[Any]:
    at = _jobs(literal(MOST_JOBS)).cte("jobs")
    return select(
        at.c.job_seq,
        at.c.full_name,
        at.c.is_listed,
        _alive_of_job(at),
        cast(gauges.measured(at), Text),
        cast(gauges.overdue(at), Text),
        *(_of_job(at, status) for status in _STATUSES),
    )


_HOW_MANY_JOBS = Statement(_how_many_jobs)
_JOB_COUNTS = Statement(_job_counts)


def count_by_job(
    tx: Transaction, room_id: str, *, alive_after: int
) -> tuple[list[JobCounts], int, bool]:
    """What each job has to do in a room, to which limit that is counted, and if jobs are left out.

    A job that is not the room's own, or not listed, is told only where it has tasks there.
    """
    jobs = int(tx.rows(_HOW_MANY_JOBS, room_id=room_id)[0][0])
    most = min(COUNT_LIMIT, MOST_LOOKED_AT // (len(TaskStatus) * max(1, jobs)))
    rows = tx.rows(
        _JOB_COUNTS,
        room_id=room_id,
        alive_after=alive_after,
        counted=most + 1,
        most=gauges.share_of(jobs),
    )
    found = [(gauges.Key(row[0], room_id, row[1]), row[4], row[5]) for row in rows]
    told = [
        JobCounts(
            group.job_name,
            bool(row[2]),
            row[3],
            dict(zip(_STATUSES, row[6:], strict=True)),
            group.since,
        )
        for row, group in zip(rows, gauges.to_groups(tx, found), strict=True)
    ]
    shown = [each for each in told if each.is_listed or any(each.by_status.values())]
    return sorted(shown, key=lambda each: each.full_name), most, jobs > MOST_JOBS
