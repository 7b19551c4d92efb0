"""What the embedded queue will give next, looked at and not taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from jobroom.store.local import IS_LOCAL
from jobroom.store.schema import task
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from jobroom.store.transaction import Transaction

_FIRST = Statement(
    select(task.c.payload)
    .where(IS_LOCAL, task.c.status == literal("pending"), task.c.ready == literal(1))
    .order_by(task.c.seq)
    .limit(literal(1))
)


def first_config(tx: Transaction) -> str | None:
    """The config of the first task that is ready; None if there is none, or it is damaged."""
    row = tx.row(_FIRST)
    return row[0] if row is not None and isinstance(row[0], str) else None
