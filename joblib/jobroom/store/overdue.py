"""What the sweep looks for: tasks of a lost worker, overdue ones, and old ones to remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, or_, select

from jobroom.domain.records import TaskView
from jobroom.store.schema import task
from jobroom.store.statement import Statement
from jobroom.store.views import HELD, VIEW, view

if TYPE_CHECKING:
    from jobroom.store.transaction import Transaction


_HELD_BY = Statement(
    select(*VIEW)
    .where(task.c.worker_id == bindparam("worker_id"), HELD)
    .order_by(task.c.seq)
    .limit(bindparam("limit"))
)


def list_held_by(tx: Transaction, worker_id: str, *, limit: int) -> list[TaskView]:
    """What a worker holds, the oldest first."""
    return [view(row) for row in tx.rows(_HELD_BY, worker_id=worker_id, limit=limit)]


_OVERDUE = Statement(
    select(*VIEW)
    .where(
        task.c.status == bindparam("status"),
        task.c.due_at <= bindparam("now"),
        task.c.due_at.is_not(None),
    )
    .order_by(task.c.due_at)
    .limit(bindparam("limit"))
)


def list_due(tx: Transaction, *, status: str, limit: int) -> list[TaskView]:
    """Tasks in a state whose ``due_at`` has passed, the longest overdue first."""
    return [view(row) for row in tx.rows(_OVERDUE, status=status, now=tx.now, limit=limit)]


_over = task.alias("over")
_REMOVE = Statement(
    task.delete().where(
        task.c.seq.in_(
            select(_over.c.seq)
            .where(
                _over.c.status == bindparam("status"),
                _over.c.due_at <= bindparam("now"),
                _over.c.due_at.is_not(None),
                or_(
                    _over.c.idempotency_key.is_(None),
                    _over.c.created_at < bindparam("keys_before"),
                ),
            )
            .limit(bindparam("limit"))
        )
    )
)


def remove_past_retention(tx: Transaction, *, status: str, keys_before: int, limit: int) -> int:
    """Delete finished tasks past their retention, but none whose idempotency key still lives."""
    return tx.change(_REMOVE, status=status, now=tx.now, keys_before=keys_before, limit=limit)
