"""Tasks that were checked by another version of their job's schema than this worker serves.

While a job moves to another schema (``replace=True``), workers of both versions claim its tasks.
A payload of the other version that does not fit here is handed back, for a worker that it fits.
As the task keeps its place this worker may claim it again at once, so it pauses after each time,
longer and longer; after eight times (some 45 seconds) nobody else was there, and the task fails.
"""

from __future__ import annotations

import time
from collections import Counter

MOST_HAND_BACKS = 8
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0


class Misfits:
    """How often this process has handed back which task because of its version."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()
        self.met = False
        """Whether there was one, so that more of them are to be expected."""

    def note(self, task_id: str) -> int | None:
        """Count one more hand-back; None when there were enough of them."""
        self.met = True
        if self._times[task_id] >= MOST_HAND_BACKS:
            del self._times[task_id]
            return None
        self._times[task_id] += 1
        return self._times[task_id]


def pause(times: int) -> None:
    """Leave the task to others, the longer the more often it was handed back."""
    time.sleep(min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (times - 1)))
