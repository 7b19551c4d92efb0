"""Whether the store takes writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobroom.service.use_case import writes
from jobroom.store import state

if TYPE_CHECKING:
    from jobroom.store.transaction import Transaction


@writes
def check_writable(tx: Transaction) -> None:
    """Write something small; raises StoreUnavailable where that does not get through."""
    state.put(tx, "checked_at", tx.now)
