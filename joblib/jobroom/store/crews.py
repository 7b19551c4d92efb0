"""Who serves a job, and whether they are alive."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import BigInteger, and_, bindparam, case, exists, func, select

from jobroom.store import bounds
from jobroom.store.schema import task, worker, worker_job_link
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from jobroom.store.transaction import Transaction

SERVING = worker_job_link.alias("serving")
BEATING = worker.alias("beating")
ALIVE: tuple[ColumnElement[bool], ...] = (
    BEATING.c.state == literal("active"),
    BEATING.c.last_heartbeat > bindparam("alive_after", type_=BigInteger),
)
"""A worker counts as alive while it was heard of after ``alive_after``."""
LINKS = SERVING.join(BEATING, BEATING.c.id == SERVING.c.worker_id)


class Crew(NamedTuple):
    """The workers that are linked to a job, how many are alive, and how many of these hold tasks.

    ``last_heartbeat`` is the youngest of all.
    """

    workers: int
    alive: int
    busy: int
    last_heartbeat: int | None


_held = task.alias("held")


def _crew(*, bound: bool = False) -> Select[Any]:
    is_alive = and_(*ALIVE)
    is_busy = exists(
        select(literal(1))
        .where(
            _held.c.worker_id == BEATING.c.id,
            _held.c.status.in_([literal("claimed"), literal("running")]),
            *((bounds.is_room_of_token(_held.c.room_id),) if bound else ()),
        )
        .correlate(BEATING)
    )
    counts: list[Any] = [
        func.count(),
        func.count(case((is_alive, literal(1)))),
        func.count(case((and_(is_alive, is_busy), literal(1)))),
        func.max(BEATING.c.last_heartbeat),
    ]
    here = SERVING.c.job_seq == bindparam("job_seq")
    return select(*counts).select_from(LINKS).where(here)


_CREW = Statement(_crew)
_CREW_IN_ROOMS = Statement(partial(_crew, bound=True))


def crew_of(tx: Transaction, job_seq: int, *, alive_after: int, rooms: str | None = None) -> Crew:
    """Who serves a job; with ``rooms``, a JSON array, busy is who holds a task in one of them."""
    statement = _CREW if rooms is None else _CREW_IN_ROOMS
    return Crew._make(tx.rows(statement, job_seq=job_seq, alive_after=alive_after, rooms=rooms)[0])
