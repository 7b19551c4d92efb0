"""Turns of rooms in fair jobs: start-time fair queueing with one number computed at submit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, func, select
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.store.schema import fair_turn, task
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from jobroom.store.transaction import Transaction

_HEAD = (
    select(task.c.turn)
    .where(
        task.c.job_seq == bindparam("job_seq"),
        task.c.priority == bindparam("priority"),
        task.c.status == literal("pending"),
        task.c.ready == literal(1),
    )
    .order_by(task.c.turn, task.c.seq)
    .limit(literal(1))
    .scalar_subquery()
)
_GREATEST = (
    select(func.max(fair_turn.c.next))
    .where(
        fair_turn.c.job_seq == bindparam("job_seq"), fair_turn.c.priority == bindparam("priority")
    )
    .scalar_subquery()
)
_NOW_SERVED = Statement(select(func.coalesce(_HEAD, _GREATEST, literal(0))))

_new = upsert(fair_turn).values(
    job_seq=bindparam("job_seq"),
    priority=bindparam("priority"),
    room_id=bindparam("room_id"),
    next=bindparam("after_served"),
)
_TAKE = Statement(
    _new.on_conflict_do_update(
        index_elements=["job_seq", "priority", "room_id"],
        set_={"next": func.max(fair_turn.c.next + literal(1), _new.excluded.next)},
    ).returning(fair_turn.c.next)
)


def take(tx: Transaction, *, job_seq: int, priority: int, room_id: str) -> int:
    """The next turn of a room in a job: never before what is being served, never twice the same.

    With nothing pending a room starts from the job's greatest turn, else an old room would starve
    after a drain (rules, *Claim*).
    """
    served = tx.rows(_NOW_SERVED, job_seq=job_seq, priority=priority)[0][0]
    rows = tx.returning(
        _TAKE, job_seq=job_seq, priority=priority, room_id=room_id, after_served=served + 1
    )
    return int(rows[0][0]) - 1
