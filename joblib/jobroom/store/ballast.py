"""A write of the size of a usual request: whether the disk has room is known by writing alone.

A write that is undone never reaches the disk, so this one is kept: one row, which each write
replaces as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, func
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.store.schema import queue_state
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from sqlalchemy.dialects.sqlite import Insert

    from jobroom.store.transaction import Transaction

BALLAST_BYTES = 64 * 1024
"""A submission with a small payload was measured to write 6 to 10 pages of 4 KiB."""

# Random, as pages that did not change are not written. SQLite keeps bytes in any column.
_row = upsert(queue_state).values(
    name=literal("ballast"), value=func.randomblob(literal(BALLAST_BYTES))
)
_mark = upsert(queue_state).values(name=literal("ballast"), value=bindparam("now"))


def _kept(row: Insert) -> Insert:
    return row.on_conflict_do_update(index_elements=["name"], set_={"value": row.excluded.value})


# A server's disk is the server's affair: it says itself when that is full.
_WRITE = Statement(_kept(_row), libsql=_kept(_mark), postgresql=_kept(_mark))


def write(tx: Transaction) -> None:
    """Write the ballast anew."""
    tx.later(_WRITE)
