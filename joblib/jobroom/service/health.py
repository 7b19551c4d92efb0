"""Whether the store takes writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobroom.service.use_case import writes
from jobroom.store import ballast

if TYPE_CHECKING:
    from jobroom.store.transaction import Transaction


@writes
def check_writable(tx: Transaction) -> None:
    """Write as much as a usual request; raises StoreUnavailable where that does not get through.

    Less would still fit on a disk that has no room for a request.
    """
    ballast.write(tx)
