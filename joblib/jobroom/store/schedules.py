"""Schedules: what is submitted again and again, and when next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, select, union_all, update

from jobroom.domain import damage
from jobroom.domain.records import Schedule
from jobroom.store.schema import job, schedule
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from jobroom.store.transaction import Row, Transaction

_GIVEN = [column for column in schedule.c if column.name != "seq"]
_SAID = (
    "job_seq",
    "task",
    "cron",
    "every_seconds",
    "timezone",
    "catch_up",
    "paused",
    "start_at",
    "end_at",
    "next_at",
    "last_error",
)
"""What a later request may change."""

READ_AT_ONCE = 1000


class Found(NamedTuple):
    """A stored schedule, and the full name of its job; None where that is gone."""

    schedule: Schedule
    job_name: str | None


_FULL_NAME = (
    job.c.room_id.concat(literal(":"))
    .concat(job.c.category)
    .concat(literal(":"))
    .concat(job.c.name)
)
_FOUND = select(*schedule.c, _FULL_NAME).select_from(
    schedule.outerjoin(job, job.c.seq == schedule.c.job_seq)
)


def _found(row: Row) -> Found:
    return Found(Schedule._make(row[:-1]), row[-1])


_BY_NAME = Statement(
    _FOUND.where(schedule.c.room_id == bindparam("room_id"), schedule.c.name == bindparam("name"))
)


def get(tx: Transaction, *, room_id: str, name: str) -> Found | None:
    """Find a schedule by its name."""
    row = tx.row(_BY_NAME, room_id=room_id, name=name)
    return None if row is None else _found(row)


_PAGE = Statement(
    _FOUND.where(schedule.c.room_id == bindparam("room_id"), schedule.c.name > bindparam("after"))
    .order_by(schedule.c.name)
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)
_COUNT = Statement(
    select(func.count()).select_from(schedule).where(schedule.c.room_id == bindparam("room_id"))
)


def list_page(tx: Transaction, *, room_id: str, after: str, limit: int, offset: int) -> list[Found]:
    """A part of a room's schedules, by name; ``after``: those behind that one."""
    rows = tx.rows(_PAGE, room_id=room_id, after=after, limit=limit, offset=offset)
    return [_found(row) for row in rows]


def count(tx: Transaction, room_id: str) -> int:
    """How many schedules a room has."""
    return int(tx.rows(_COUNT, room_id=room_id)[0][0])


_ADD = Statement(
    insert(schedule)
    .values({column.name: bindparam(column.name) for column in _GIVEN})
    .returning(*schedule.c)
)


def add(tx: Transaction, new: Schedule) -> Schedule:
    """Insert a schedule; its ``seq`` is given by the store."""
    values = new._asdict()
    del values["seq"]
    return Schedule._make(tx.returning(_ADD, **values)[0])


_REPLACE = Statement(
    update(schedule)
    .where(schedule.c.seq == bindparam("key"), schedule.c.version == bindparam("expect"))
    .values(
        {
            **{name: bindparam(name) for name in _SAID},
            "version": schedule.c.version + literal(1),
        }
    )
    .returning(*schedule.c)
)


def replace(tx: Transaction, changed: Schedule) -> Schedule | None:
    """Write what may change if the row is still at ``changed.version``."""
    said: dict[str, Any] = {name: getattr(changed, name) for name in _SAID}
    rows = tx.returning(_REPLACE, key=changed.seq, expect=changed.version, **said)
    return Schedule._make(rows[0]) if rows else None


_REMOVE = Statement(delete(schedule).where(schedule.c.seq == bindparam("key")))


def remove(tx: Transaction, seq: int) -> bool:
    """Take a schedule away; False if it was gone."""
    return tx.change(_REMOVE, key=seq) > 0


# What is no time, as another hand may write it, is greater than any: nobody would come to it.
_DUE = union_all(
    *(
        select(*schedule.c).where(is_due, schedule.c.paused == literal(0))
        for is_due in (
            schedule.c.next_at <= bindparam("now"),
            schedule.c.next_at > literal(damage.LATEST),
        )
    )
)
DUE = Statement(_DUE.order_by(_DUE.selected_columns.next_at).limit(bindparam("limit")))


def list_due(tx: Transaction, *, limit: int) -> list[Schedule]:
    """Schedules whose time has come, the longest due first; then those whose time is none."""
    return [Schedule._make(row) for row in tx.rows(DUE, limit=limit)]


_ADVANCE = Statement(
    update(schedule)
    .where(
        schedule.c.seq == bindparam("key"),
        schedule.c.version == bindparam("expect"),
        schedule.c.next_at == bindparam("seen"),
    )
    .values(
        {
            **{
                name: bindparam(name)
                for name in ("task", "next_at", "last_at", "last_task_id", "last_error")
            },
            "version": schedule.c.version + literal(1),
        }
    )
)


def advance(tx: Transaction, seen: Schedule, after: Schedule) -> bool:
    """Write what firing brings, if nobody else has fired or changed it since it was read."""
    written = tx.change(
        _ADVANCE,
        key=seen.seq,
        expect=seen.version,
        seen=seen.next_at,
        task=after.task,
        next_at=after.next_at,
        last_at=after.last_at,
        last_task_id=after.last_task_id,
        last_error=after.last_error,
    )
    return written > 0


ALL = Statement(
    select(*schedule.c)
    .where(schedule.c.seq > bindparam("after"))
    .order_by(schedule.c.seq)
    .limit(bindparam("limit"))
)


def list_all(tx: Transaction, *, limit: int) -> Iterator[Schedule]:
    """Schedules one after the other as they were made, at most so many; they are read by parts."""
    after, left = -1, limit
    while rows := tx.rows(ALL, after=after, limit=min(left, READ_AT_ONCE)):
        yield from map(Schedule._make, rows)
        after, left = rows[-1][0], left - len(rows)


AHEAD = Statement(
    select(*schedule.c)
    .where(schedule.c.next_at > bindparam("now"), schedule.c.seq > bindparam("after"))
    .order_by(schedule.c.seq)
    .limit(bindparam("limit"))
)


def list_ahead(tx: Transaction, *, after: int, limit: int) -> list[Schedule]:
    """Schedules whose next time is still to come, by ``seq`` behind ``after``."""
    rows = tx.rows(AHEAD, after=after, limit=limit)
    return [Schedule._make(row) for row in rows]
