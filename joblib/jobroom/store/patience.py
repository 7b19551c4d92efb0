"""How long the store is waited for: as long as each part bears it, and no longer than who asks.

A platform that ends requests by itself leaves each of them so much time. The door says so once,
by ``until``; whatever waits for the store asks ``left`` for its share, in any thread that works for
that request.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST_SECONDS = 0.05
"""What is sent is given so much, however late it is: a rollback sets others free on its arrival."""
SPARE_SECONDS = 0.4
"""For finding out what became of what was given up; nothing is tried again so late."""

ENDS_AT: ContextVar[float] = ContextVar("jobroom.ends_at", default=math.inf)
"""The second of ``time.monotonic()`` from which on the store's answer is of no use."""


@contextmanager
def until(moment: float) -> Iterator[None]:
    """Within the ``with`` the store is waited for until then, and no longer."""
    before = ENDS_AT.set(moment)
    try:
        yield
    finally:
        ENDS_AT.reset(before)


def left(seconds: float, *, spare: float = 0.0) -> float:
    """So many seconds, or what is left of them to whoever asks, less what is to be spared."""
    ends_at = ENDS_AT.get()
    if ends_at == math.inf:
        return seconds
    return min(seconds, max(LEAST_SECONDS, ends_at - spare - time.monotonic()))
