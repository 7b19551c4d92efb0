"""Turns of rooms in fair jobs: start-time fair queueing with one number computed at submit."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Integer,
    Text,
    bindparam,
    case,
    exists,
    func,
    not_,
    or_,
    select,
)
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.store import line
from jobroom.store.schema import fair_turn, job, task
from jobroom.store.statement import Statement, literal

_HEAD = (
    select(task.c.turn)
    .where(
        *line.ready(task, bindparam("job_seq", type_=BigInteger)),
        task.c.priority == bindparam("priority"),
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
_HAS_COME_BEFORE = or_(
    exists(
        select(literal(1)).where(
            task.c.created_by_id == bindparam("created_by_id"),
            task.c.idempotency_key == bindparam("idempotency_key"),
        )
    ),
    exists(select(literal(1)).where(task.c.id == bindparam("id"))),
)
_new = upsert(fair_turn).from_select(
    ["job_seq", "priority", "room_id", "next"],
    select(
        bindparam("job_seq", type_=BigInteger).label("job_seq"),
        bindparam("priority", type_=Integer).label("priority"),
        bindparam("room_id", type_=Text).label("room_id"),
        (func.coalesce(_HEAD, _GREATEST, literal(0)) + literal(1)).label("next"),
    ).where(
        job.c.seq == bindparam("job_seq"),
        job.c.version == bindparam("job_version"),
        not_(_HAS_COME_BEFORE),
    ),
)
_next = fair_turn.c.next + literal(1)
TAKE = Statement(
    _new.on_conflict_do_update(
        index_elements=["job_seq", "priority", "room_id"],
        set_={"next": case((_next > _new.excluded.next, _next), else_=_new.excluded.next)},
    )
)
"""Give a room its next turn in a job: never before what is being served, never twice the same.

With nothing pending a room starts from the job's greatest turn, else an old room would starve
after a drain (rules, *Claim*). Neither a repeat nor a job that has changed costs it a turn.
"""
TAKEN = (
    select(fair_turn.c.next - literal(1))
    .where(
        fair_turn.c.job_seq == bindparam("job_seq"),
        fair_turn.c.priority == bindparam("priority"),
        fair_turn.c.room_id == bindparam("room_id"),
    )
    .scalar_subquery()
)
"""The turn that the room has got by that; NULL where it got none."""
