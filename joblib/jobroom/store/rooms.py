"""What there is in rooms: which have jobs or tasks, and how much of each, counted with a limit.

Rooms are found by skipping from one key of an index to the next, so no reading takes longer
because the tables have grown.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Text,
    bindparam,
    cast,
    distinct,
    exists,
    func,
    not_,
    or_,
    select,
    union_all,
)

from jobroom.domain.names import GLOBAL_ROOM
from jobroom.store.crews import ALIVE, BEATING, SERVING
from jobroom.store.schema import job, task, worker_job_link
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import CTE, Column, ColumnElement, Select
    from sqlalchemy.sql.expression import ScalarSelect

    from jobroom.store.transaction import Transaction

ROOMS_AT_ONCE = 128
"""How many rooms one statement names."""


class RoomCounts(NamedTuple):
    """What there is in a room; no count goes over the limit that was asked for."""

    room_id: str
    jobs: int
    alive_workers: int
    by_status: dict[str, int]


# --- which rooms there are ---------------------------------------------------------------------

_task_of_next = task.alias("task_of_next")
_job_of_next = job.alias("job_of_next")


def _next_room(after: ColumnElement[str], *walks: CTE) -> ScalarSelect[str]:
    """The first room behind another one that has a task or a job, be it hidden."""
    heads = [
        select(one.c.room_id)
        .where(one.c.room_id > after)
        .order_by(one.c.room_id)
        .limit(literal(1))
        .correlate(*walks)
        .scalar_subquery()
        for one in (_task_of_next, _job_of_next)
    ]
    both = union_all(*(select(head.label("room_id")) for head in heads)).subquery("both")
    return select(func.min(both.c.room_id)).scalar_subquery()


def _walk() -> CTE:
    at = select(
        _next_room(bindparam("after", type_=Text)).label("room_id"),
        cast(literal(1), BigInteger).label("step"),
    ).cte("walk", recursive=True)
    return at.union_all(
        select(_next_room(at.c.room_id, at), at.c.step + literal(1)).where(
            at.c.room_id.is_not(None), at.c.step < bindparam("steps", type_=BigInteger)
        )
    )


def _rooms() -> Select[Any]:
    at = _walk()
    return select(at.c.room_id).where(at.c.room_id.is_not(None)).order_by(at.c.room_id)


def _how_many_rooms() -> Select[Any]:
    return select(func.count()).select_from(_rooms().subquery("rooms"))


_ROOMS = Statement(_rooms)
_COUNT_ROOMS = Statement(_how_many_rooms)


def rooms_after(tx: Transaction, after: str, *, most: int) -> list[str]:
    """The next rooms that have tasks or jobs, by name."""
    return [row[0] for row in tx.rows(_ROOMS, after=after, steps=most)]


def count_rooms(tx: Transaction, *, most: int) -> int:
    """How many rooms have tasks or jobs, at most so many."""
    return int(tx.rows(_COUNT_ROOMS, after="", steps=most)[0][0])


@cache
def _present(count: int) -> Statement:
    def has(column: Column[str], named: ColumnElement[str]) -> ColumnElement[bool]:
        return exists(select(literal(1)).where(column == named))

    names = [bindparam(f"room_{n}", type_=Text) for n in range(count)]
    return Statement(
        union_all(
            *(
                select(name.label("room_id")).where(
                    or_(has(task.c.room_id, name), has(job.c.room_id, name))
                )
                for name in names
            )
        )
    )


def present(tx: Transaction, rooms: Iterable[str]) -> set[str]:
    """Those of the rooms that have tasks or jobs."""
    return {row[0] for count, named in _by_name(rooms) for row in tx.rows(_present(count), **named)}


def _by_name(rooms: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rooms as parameters, each time with their count: padded to a power of two."""
    left = list(rooms)
    while left:
        some, left = left[:ROOMS_AT_ONCE], left[ROOMS_AT_ONCE:]
        count = 1 << (len(some) - 1).bit_length()
        some += some[-1:] * (count - len(some))
        yield count, {f"room_{n}": room for n, room in enumerate(some)}


# --- how much there is in them -----------------------------------------------------------------

OF_ROOM = task.alias("of_room")
_listed = job.alias("listed")
_served = job.alias("served")


def limited(found: Select[Any], *outer: CTE) -> ScalarSelect[int]:
    """How many rows there are, up to the parameter ``counted``."""
    first = found.limit(bindparam("counted")).correlate(*outer).subquery("first_ones")
    return select(func.count()).select_from(first).scalar_subquery()


def _of_status(at: CTE, status: str) -> ScalarSelect[int]:
    # A span and an order that only the one index has: for an equal status a planner may go
    # through the tasks by number, in the hope that some of this room come soon.
    found = select(OF_ROOM.c.seq).where(
        OF_ROOM.c.room_id == at.c.room_id,
        OF_ROOM.c.status.between(literal(status), literal(status)),
    )
    return limited(found.order_by(OF_ROOM.c.status, OF_ROOM.c.seq), at)


def _jobs_of(at: CTE) -> ScalarSelect[int]:
    return limited(
        select(_listed.c.seq).where(
            _listed.c.room_id == at.c.room_id, _listed.c.hidden == literal(0)
        ),
        at,
    )


_CREWS = _served.join(SERVING, SERVING.c.job_seq == _served.c.seq).join(
    BEATING, BEATING.c.id == SERVING.c.worker_id
)
_of_all, _link_of_all = job.alias("of_all"), worker_job_link.alias("link_of_all")
_SERVES_ALL = exists(
    select(literal(1))
    .select_from(_link_of_all.join(_of_all, _of_all.c.seq == _link_of_all.c.job_seq))
    .where(_link_of_all.c.worker_id == BEATING.c.id, _of_all.c.room_id == literal(GLOBAL_ROOM))
    .correlate(BEATING)
)


def _alive_of_all() -> ScalarSelect[int]:
    """How many live workers serve ``@global``; they serve every room."""
    return (
        select(func.count(distinct(BEATING.c.id)))
        .select_from(_CREWS)
        .where(_served.c.room_id == literal(GLOBAL_ROOM), *ALIVE)
        .scalar_subquery()
    )


def _alive_of(at: CTE) -> ScalarSelect[int]:
    """How many live workers serve a room's own jobs, and not ``@global`` as well."""
    return (
        select(func.count(distinct(BEATING.c.id)))
        .select_from(_CREWS)
        .where(_served.c.room_id == at.c.room_id, *ALIVE, not_(_SERVES_ALL))
        .correlate(at)
        .scalar_subquery()
    )


@cache
def _counts(count: int, statuses: tuple[str, ...]) -> Statement:
    names = [bindparam(f"room_{n}", type_=Text) for n in range(count)]
    at = union_all(*(select(cast(name, Text).label("room_id")) for name in names)).cte("at")
    return Statement(
        select(
            at.c.room_id,
            _jobs_of(at),
            _alive_of(at) + _alive_of_all(),
            *(_of_status(at, status) for status in statuses),
        )
    )


def count_in(
    tx: Transaction,
    rooms: Sequence[str],
    *,
    statuses: tuple[str, ...],
    alive_after: int,
    most: int,
) -> dict[str, RoomCounts]:
    """What there is in these rooms, each count up to ``most``."""
    found = {}
    for count, named in _by_name(rooms):
        statement = _counts(count, statuses)
        for room_id, jobs, alive, *counts in tx.rows(
            statement, **named, alive_after=alive_after, counted=most
        ):
            by_status = dict(zip(statuses, counts, strict=True))
            found[room_id] = RoomCounts(room_id, jobs, alive, by_status)
    return found
