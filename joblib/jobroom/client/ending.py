"""The end of the program, once it was asked for: how long reports may still be tried."""

from __future__ import annotations

import math
import time

LAST_CHANCE_SECONDS = 5.0
"""How long reports are still tried after SIGTERM while the server is away."""
LAST_CHANCE_DELAY_SECONDS = 0.5
SIGNALS_SECONDS = 0.25


class Ending:
    """Whether the program was asked to end, and when; without locks, for signal handlers."""

    def __init__(self) -> None:
        self._asked_at = math.inf

    def ask(self) -> None:
        """Note that the program is to end."""
        self._asked_at = min(self._asked_at, time.monotonic())

    def put_off(self) -> None:
        """Note that it goes on after all."""
        self._asked_at = math.inf

    def pause(self, seconds: float) -> bool:
        """Wait between two tries of a report; False when the program must end without it."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._asked_at < math.inf:
                until = min(until, time.monotonic() + LAST_CHANCE_DELAY_SECONDS)
                left = min(left, LAST_CHANCE_DELAY_SECONDS)
            time.sleep(min(left, SIGNALS_SECONDS))
            if time.monotonic() - self._asked_at >= LAST_CHANCE_SECONDS:
                return False
        return time.monotonic() - self._asked_at < LAST_CHANCE_SECONDS
