"""What waits in the queue, per job and room: read in bounded time, however much there is.

Who waits where is found by skipping from one key of an index to the next, and counted up to a
limit; so no reading takes longer because the tables have grown.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import BigInteger, Text, bindparam, case, cast, func, select, union_all

from jobroom.store import line
from jobroom.store.functions import json_row
from jobroom.store.schema import job, task
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import CTE, ColumnElement, Select
    from sqlalchemy.sql.expression import ScalarSelect

    from jobroom.store.transaction import Transaction

MOST_GROUPS = 1000
"""So many pairs of job and room are told one by one."""
MOST_COUNTED = 10_000
"""So many tasks of one pair are counted; what has more is told as so many."""
FEWEST_COUNTED = 100
MOST_LOOKED_AT = 50_000
"""So many tasks are looked at for all pairs together: a tenth of a second on a file."""
MOST_IN_ALL = 100_000
"""So many tasks of a kind are counted."""


class Group(NamedTuple):
    """What waits in one room for one job, by its full name; ``since``: the oldest one's time."""

    room_id: str
    job_name: str
    ready: int
    delayed: int
    since: int | None


class Totals(NamedTuple):
    """How many tasks there are of those that have not ended, each up to ``MOST_IN_ALL``."""

    ready: int
    delayed: int
    blocked: int
    held: int


class Key(NamedTuple):
    """A pair of job and room."""

    job_seq: int
    room_id: str
    job_name: str


_ready = task.alias("ready")
_delayed = task.alias("delayed")
_of_room = task.alias("of_room")


def _first_job(after: ColumnElement[int], *walks: CTE) -> ScalarSelect[int]:
    """The first job behind another one for which something waits, its time come or not."""
    heads = [
        select(one.c.job_seq)
        .where(one.c.status == literal("pending"), one.c.ready == literal(ready))
        .where(one.c.job_seq > after)
        .order_by(one.c.job_seq)
        .limit(literal(1))
        .correlate(*walks)
        .scalar_subquery()
        for one, ready in ((_ready, 1), (_delayed, 0))
    ]
    both = union_all(*(select(head.label("job_seq")) for head in heads)).subquery("both")
    return select(func.min(both.c.job_seq)).scalar_subquery()


# Of a row that there is not: a NULL of the column's own collation, as PostgreSQL demands.
_NO_ROOM = select(task.c.room_id).where(task.c.seq == literal(0)).scalar_subquery()


def _walk() -> CTE:
    """Each job for which something waits (``room_id`` NULL), and behind it each of its rooms."""
    at = select(
        _first_job(literal(0)).label("job_seq"),
        _NO_ROOM.label("room_id"),
        cast(literal(1), BigInteger).label("step"),
    ).cte("walk", recursive=True)
    next_room = (
        select(_of_room.c.room_id)
        .where(
            _of_room.c.job_seq == at.c.job_seq,
            _of_room.c.status == literal("pending"),
            _of_room.c.room_id > func.coalesce(at.c.room_id, literal("")),
        )
        .order_by(_of_room.c.room_id)
        .limit(literal(1))
        .correlate(at)
        .scalar_subquery()
    )
    return at.union_all(
        select(
            case((next_room.is_(None), _first_job(at.c.job_seq, at)), else_=at.c.job_seq),
            next_room,
            at.c.step + literal(1),
        ).where(at.c.job_seq.is_not(None), at.c.step < bindparam("steps", type_=BigInteger))
    )


def _job_name(of: ColumnElement[int]) -> ScalarSelect[str]:
    return (
        select(job.c.room_id + literal(":") + job.c.category + literal(":") + job.c.name)
        .where(job.c.seq == of)
        .scalar_subquery()
    )


def _keys() -> Select[Any]:
    at = _walk()
    return select(at.c.job_seq, at.c.room_id, _job_name(at.c.job_seq)).where(*_is_pair(at))


def _is_pair(at: CTE) -> tuple[ColumnElement[bool], ...]:
    return at.c.job_seq.is_not(None), at.c.room_id.is_not(None)


_KEYS = Statement(_keys)


def measured(at: CTE) -> ScalarSelect[str]:
    """Of the first tasks of a pair: how many, how many of them are ready, the oldest that is."""
    # Nothing behind the payload is read, which may be large.
    first = (
        select(_of_room.c.seq, _of_room.c.ready)
        .where(
            _of_room.c.job_seq == at.c.job_seq,
            _of_room.c.status == literal("pending"),
            _of_room.c.room_id == at.c.room_id,
        )
        .order_by(_of_room.c.seq)
        .limit(bindparam("most"))
        .correlate(at)
        .subquery("first_ones")
    )
    oldest = func.min(case((first.c.ready == literal(1), first.c.seq)))
    counts = (func.count(), func.coalesce(func.sum(first.c.ready), literal(0)), oldest)
    return select(json_row(*counts)).select_from(first).scalar_subquery()


def overdue(at: CTE) -> ScalarSelect[str]:
    """The task of a job whose time came first of those that no claim has looked at since."""
    return (
        select(json_row(_delayed.c.room_id, _delayed.c.run_at))
        .where(*line.due(_delayed, at.c.job_seq))
        .order_by(_delayed.c.run_at)
        .limit(literal(1))
        .correlate(at)
        .scalar_subquery()
    )


def _measures() -> Select[Any]:
    at = _walk()
    told = (cast(measured(at), Text), cast(overdue(at), Text))
    return select(at.c.job_seq, at.c.room_id, *told).where(*_is_pair(at))


_MEASURES = Statement(_measures)


def read_groups(tx: Transaction, *, most: int = MOST_GROUPS) -> tuple[list[Group], bool]:
    """What waits where, at most so many pairs; and whether there are more."""
    # A step for each job as well: where there are few rooms to a job, half of them.
    steps = 2 * (most + 1)
    keys = [Key(seq, room, name or "") for seq, room, name in tx.rows(_KEYS, steps=steps)]
    if not keys:
        return [], False
    limit = share_of(len(keys))
    measures = {tuple(row[:2]): row[2:] for row in tx.rows(_MEASURES, steps=steps, most=limit)}
    found = [(key, *measures[key[:2]]) for key in keys[:most] if key[:2] in measures]
    return to_groups(tx, found), len(keys) > most


def share_of(pairs: int) -> int:
    """How many tasks are looked at for each of so many pairs."""
    return max(FEWEST_COUNTED, min(MOST_COUNTED, MOST_LOOKED_AT // max(1, pairs)))


def to_groups(tx: Transaction, found: Sequence[tuple[Key, str, str | None]]) -> list[Group]:
    """What is told of each pair by ``measured`` and ``overdue``."""
    counted = [(key, json.loads(measure), late) for key, measure, late in found]
    since = _since(tx, [oldest for _, (_, _, oldest), _ in counted if oldest is not None])
    return [
        Group(
            key.room_id,
            key.job_name,
            ready,
            count - ready,
            _earlier(since.get(oldest), _time_of(late, key.room_id)),
        )
        for key, (count, ready, oldest), late in counted
    ]


def _time_of(late: str | None, room_id: str) -> int | None:
    """When the time of the job's overdue task came, if it is of this room."""
    if late is None:
        return None
    room, run_at = json.loads(late)
    return int(run_at) if room == room_id else None


def _earlier(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


_SINCE_AT_ONCE = 256


@cache
def _since_of(count: int) -> Statement:
    named = [bindparam(f"seq_{n}", type_=task.c.seq.type) for n in range(count)]
    return Statement(
        select(task.c.seq, task.c.created_at, task.c.run_at).where(task.c.seq.in_(named))
    )


def _since(tx: Transaction, seqs: list[int]) -> dict[int, int]:
    """When these tasks were submitted, or their time came."""
    found: dict[int, int] = {}
    while seqs:
        some, seqs = seqs[:_SINCE_AT_ONCE], seqs[_SINCE_AT_ONCE:]
        count = 1 << (len(some) - 1).bit_length()
        some += some[-1:] * (count - len(some))
        named = {f"seq_{n}": seq for n, seq in enumerate(some)}
        for seq, created_at, run_at in tx.rows(_since_of(count), **named):
            found[seq] = max(created_at, run_at or 0)
    return found


def _counted(key: ColumnElement[Any], first: str | int, *where: ColumnElement[bool]) -> Any:
    """How many there are, up to the limit, read in the order of the one index that has just them.

    Without an order a planner may take another, and read all that has ended.
    """
    some = select(key).where(key > literal(first), *where).order_by(key)
    limited = some.limit(literal(MOST_IN_ALL)).subquery("some")
    return select(func.count()).select_from(limited).scalar_subquery()


def _totals() -> Select[Any]:
    is_pending = literal("pending")
    held, blocked = task.alias("held"), task.alias("blocked")
    is_held = held.c.status.in_([literal("claimed"), literal("running")])
    waiting = [
        _counted(one.c.job_seq, 0, one.c.status == is_pending, one.c.ready == literal(ready))
        for one, ready in ((_ready, 1), (_delayed, 0))
    ]
    return select(
        *waiting,
        _counted(blocked.c.seq, 0, blocked.c.status == literal("blocked")),
        _counted(held.c.worker_id, "", is_held),
    )


_TOTALS = Statement(_totals)


def read_totals(tx: Transaction) -> Totals:
    """How much there is of what has not ended."""
    row = tx.row(_TOTALS)
    return Totals(0, 0, 0, 0) if row is None else Totals._make(row)
