"""Idempotency keys that come with a request which its tasks' ids have made known already."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Text, and_, bindparam, case, update

from jobroom.domain.records import KEY_LIFE
from jobroom.store import chunks
from jobroom.store.schema import task
from jobroom.store.statement import Statement, literal
from jobroom.store.views import NEXT_VERSION, NULL, VIEW, view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobroom.domain.records import Task, TaskView
    from jobroom.store.transaction import Transaction

_now = bindparam("now", type_=BigInteger)
_told = bindparam("told", type_=Text)
_dies_at = task.c.created_at + literal(KEY_LIFE)
_FREE = Statement(
    update(task)
    .where(
        task.c.created_by_id == bindparam("identity"),
        task.c.idempotency_key == _told,
        _dies_at <= _now,
    )
    .values(idempotency_key=NULL, version=NEXT_VERSION)
)
_KEEP = Statement(
    update(task)
    .where(task.c.seq == bindparam("key"), task.c.idempotency_key.is_(None), _dies_at > _now)
    .values(
        idempotency_key=_told,
        # A key outlives the retention, of what has ended before it came too.
        due_at=case(
            (and_(task.c.completed_at.is_not(None), task.c.due_at < _dies_at), _dies_at),
            else_=task.c.due_at,
        ),
        version=NEXT_VERSION,
    )
    .returning(*VIEW)
)


def keep(tx: Transaction, of: Task, *, key: str) -> TaskView | None:
    """Let a task that came without a key be known by this one; None if it has got one meanwhile.

    Another task that has it has to have lived its time: then it has it no more.
    """
    tx.later(_FREE, identity=of.created_by_id, told=key)
    rows = tx.returning(_KEEP, key=of.seq, told=key)
    return view(rows[0]) if rows else None


@cache
def _keep_all(count: int) -> Statement:
    marks = [bindparam(f"id_{n}", type_=Text) for n in range(count)]
    is_first = task.c.idempotency_key == bindparam("first", type_=Text)
    return Statement(
        update(task)
        .where(
            task.c.created_by_id == bindparam("identity"),
            task.c.idempotency_key.in_(marks),
        )
        .values(
            idempotency_key=case((is_first, _told), else_=_told.concat(task.c.idempotency_key)),
            version=NEXT_VERSION,
        )
    )


def keep_all(tx: Transaction, *, identity: str, marks: Sequence[str], key: str) -> None:
    """As ``keep``, for the tasks of one request: the first is known by the key alone.

    ``marks`` are what they were known by without one; the others have it before theirs.
    """
    tx.later(_FREE, identity=identity, told=key)
    for count, named in chunks.of_ids(marks):
        tx.later(_keep_all(count), identity=identity, told=key, first=marks[0], **named)
