"""Worker rows, their heartbeats, and what they must be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Text, bindparam, delete, func, or_, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.domain.records import NOTICE_LIFE, Worker
from jobroom.store.schema import notice, task, worker
from jobroom.store.statement import Statement, literal
from jobroom.store.views import HELD

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import ColumnElement, Update

    from jobroom.store.transaction import Transaction

_GET = Statement(select(worker).where(worker.c.id == bindparam("id")))


def get(tx: Transaction, worker_id: str) -> Worker | None:
    """Find a worker, in whatever state."""
    row = tx.row(_GET, id=worker_id)
    return None if row is None else Worker._make(row)


_ADD = Statement(
    upsert(worker)
    .values({c.name: bindparam(c.name) for c in worker.c})
    .on_conflict_do_nothing()
    .returning(*worker.c)
)


def add(tx: Transaction, new: Worker) -> bool:
    """Insert a worker; False if its id is taken."""
    return bool(tx.returning(_ADD, **new._asdict()))


def _beat(join: Callable[..., ColumnElement[str]]) -> Update:
    told = (
        select(join(notice.c.task_id, literal(" ")))
        .where(
            notice.c.worker_id == bindparam("key"),
            notice.c.created_at > bindparam("now") - literal(NOTICE_LIFE),
        )
        .scalar_subquery()
    )
    return (
        update(worker)
        .where(
            worker.c.id == bindparam("key"),
            worker.c.state == literal("active"),
            worker.c.identity == bindparam("identity"),
        )
        .values(last_heartbeat=bindparam("now"))
        .returning(*worker.c, told)
    )


_BEAT = Statement(_beat(func.group_concat), postgresql=_beat(func.string_agg))


def beat(tx: Transaction, *, worker_id: str, identity: str) -> tuple[Worker, list[str]] | None:
    """Note a heartbeat of an active worker of this identity; None if there is no such one.

    With the worker come the ids of the tasks that it should stop, by its notices.
    """
    rows = tx.alone(_BEAT, key=worker_id, identity=identity)
    if not rows:
        return None
    *row, told = rows[0]
    return Worker._make(row), sorted(told.split()) if told else []


_ACTIVE = Statement(
    select(worker).where(
        worker.c.id == bindparam("key"),
        worker.c.state == literal("active"),
        worker.c.identity == bindparam("identity"),
    )
)


def speaking(tx: Transaction, *, worker_id: str, identity: str) -> Worker | None:
    """An active worker of this identity that was heard of just now, by a claim or a report."""
    row = tx.row(_ACTIVE, key=worker_id, identity=identity)
    if row is None:
        return None
    found = Worker._make(row)
    heard = note_heard(tx, worker_id=worker_id, last=found.last_heartbeat)
    return found._replace(last_heartbeat=tx.now) if heard else found


def note_heard(tx: Transaction, *, worker_id: str, last: int) -> bool:
    """An active worker was heard of just now, and before that at ``last``; whether that is noted.

    That is a heartbeat too, but just after the last one the row is left alone: a write costs
    twice a read, and nobody takes so young a worker for lost.
    """
    if tx.now - fresh_for(tx) <= last <= tx.now:
        return False
    tx.later(_TOUCH, key=worker_id)
    return True


def fresh_for(tx: Transaction) -> int:
    """So long after it was heard of, a worker that is heard of again is left alone."""
    return int(min(1.0, tx.settings.worker_timeout_seconds / 20) * 1_000_000)


_TOUCH = Statement(
    update(worker)
    .where(worker.c.id == bindparam("key"), worker.c.state == literal("active"))
    .values(last_heartbeat=bindparam("now"))
)


def _touch_if_stale(whose: ColumnElement[str]) -> Statement:
    return Statement(
        update(worker)
        .where(
            worker.c.id == whose,
            worker.c.identity == bindparam("identity"),
            worker.c.state == literal("active"),
            worker.c.last_heartbeat < bindparam("now", type_=BigInteger) - bindparam("fresh"),
        )
        .values(last_heartbeat=bindparam("now"))
    )


TOUCH_SPEAKER = _touch_if_stale(bindparam("worker_id", type_=worker.c.id.type))
"""What ``note_heard`` writes, decided by the store: sent along with a claim, it spares a trip."""
_ATTEMPT_SENT = bindparam("attempt_sent", type_=task.c.attempt.type)
_WORKER_SENT = bindparam("worker_sent", type_=Text)
TOUCH_HOLDER = _touch_if_stale(
    select(task.c.worker_id)
    .where(
        task.c.id == bindparam("key"),
        # Who names another one, or an attempt that is over, does not speak for the holder.
        or_(_ATTEMPT_SENT.is_(None), task.c.attempt == _ATTEMPT_SENT),
        or_(_WORKER_SENT.is_(None), task.c.worker_id == _WORKER_SENT),
    )
    .scalar_subquery()
)
"""The same for whoever holds the task that a report is about."""
_CLAMP = Statement(
    update(worker)
    .where(worker.c.state == literal("active"), worker.c.last_heartbeat > bindparam("now"))
    .values(last_heartbeat=bindparam("now"))
)


def clamp_heartbeats(tx: Transaction) -> None:
    """The clock was set back: no heartbeat lies in the future, nobody lives for ever."""
    tx.change(_CLAMP)


_SET_STATE = Statement(
    update(worker)
    .where(worker.c.id == bindparam("key"), worker.c.state == bindparam("expect"))
    .values(state=bindparam("state"))
)


def set_state(tx: Transaction, *, worker_id: str, expect: str, state: str) -> bool:
    """Move a worker from one state to another; False if it was not in the first."""
    return tx.change(_SET_STATE, key=worker_id, expect=expect, state=state) > 0


_WAKE = Statement(
    update(worker)
    .where(worker.c.id == bindparam("key"))
    .values(state=literal("active"), last_heartbeat=bindparam("now"))
)


def wake(tx: Transaction, worker_id: str) -> None:
    """Make an identity worker active again, even after its owner deleted it."""
    tx.later(_WAKE, key=worker_id)


_REMOVE = Statement(delete(worker).where(worker.c.id == bindparam("key")))


def remove(tx: Transaction, worker_id: str) -> bool:
    """Delete an instance worker's row, and with it its links."""
    return tx.change(_REMOVE, key=worker_id) > 0


_STALE = Statement(
    select(worker)
    .where(worker.c.state == literal("active"), worker.c.last_heartbeat < bindparam("before"))
    .order_by(worker.c.last_heartbeat)
    .limit(bindparam("limit"))
)


def list_stale(tx: Transaction, *, before: int, limit: int) -> list[Worker]:
    """Active workers whose last heartbeat lies before a time, the oldest first."""
    return [Worker._make(row) for row in tx.rows(_STALE, before=before, limit=limit)]


_LOSE = Statement(
    update(worker)
    .where(
        worker.c.id == bindparam("key"),
        worker.c.state == literal("active"),
        worker.c.last_heartbeat < bindparam("before"),
    )
    .values(state=literal("asleep"))
)


def put_to_sleep(tx: Transaction, *, worker_id: str, before: int) -> bool:
    """Mark a worker lost if it is still stale; False if it beat in between."""
    return tx.change(_LOSE, key=worker_id, before=before) > 0


_HELD_BY_NOBODY = Statement(
    select(task.c.worker_id)
    .distinct()
    .select_from(task.outerjoin(worker, worker.c.id == task.c.worker_id))
    .where(
        HELD,
        or_(worker.c.id.is_(None), worker.c.state != literal("active")),
        task.c.room_id != literal("@local"),
    )
    .limit(bindparam("limit"))
)


def list_vanished(tx: Transaction, *, limit: int) -> list[str]:
    """Ids of workers that hold tasks but are not active, or do not exist."""
    return [row[0] for row in tx.rows(_HELD_BY_NOBODY, limit=limit)]
