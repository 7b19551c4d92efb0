"""Counts of what this process has done since it began: plain numbers, fed by the lanes.

Each committed transaction passes here once, whichever door it came by; nothing is counted that
was rolled back.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import TYPE_CHECKING

from jobroom.domain.records import MICROSECONDS, SweepReport, Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobroom.store.transaction import Transaction

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)
"""Upper ends of the histograms' ranges, in seconds: from a hand-off to an hour's backlog."""


class Histogram:
    """How often a span of time was how long."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)


class Counts:
    """What has happened to tasks, claims and sweeps.

    ``ended`` counts by status; ``requeued`` what went back to be claimed again: handed back, lost,
    failed with attempts left, retried by hand. ``unserved`` are claims that got nothing.
    ``queued`` is the time from when a task could be claimed to its first claim.
    """

    def __init__(self, plainly: Callable[[], int] = lambda: 0) -> None:
        self._lock = threading.Lock()
        self._plainly = plainly
        self._submitted = 0
        self.claimed = 0
        self.unserved = 0
        self.requeued = 0
        self.ended = {"completed": 0, "failed": 0, "cancelled": 0}
        self.queued = Histogram()
        self.store_errors = 0
        self.sweeps = 0
        self.swept = dict.fromkeys(SweepReport._fields[1:], 0)

    @property
    def submitted(self) -> int:
        """New tasks, with those that the lane counts by itself."""
        return self._submitted + self._plainly()

    def note(self, tx: Transaction) -> None:
        """Count what a committed transaction did; called on any lane's thread."""
        with self._lock:
            self._submitted += tx.submitted
            self.unserved += tx.unserved
            self.ended["failed"] += tx.fallen
            for task in tx.granted:
                self._note_granted(task)
            for each in tx.changed:
                if type(each) is Task:
                    self._note_changed(each.status)

    def _note_changed(self, status: str) -> None:
        if status in self.ended:
            self.ended[status] += 1
        elif status == "pending":
            self.requeued += 1

    def _note_granted(self, task: Task) -> None:
        self.claimed += 1
        # When one that was requeued, or waited for others, became claimable is not in its row.
        if task.attempt == 1 and not task.has_dependencies and task.claimed_at is not None:
            since = max(task.created_at, task.run_at or 0)
            self.queued.observe(max(0, task.claimed_at - since) / MICROSECONDS)

    def note_left(self) -> None:
        """A claim has waited in vain, or its client has gone."""
        with self._lock:
            self.unserved += 1

    def note_store_error(self) -> None:
        """The store did not take what was asked of it."""
        with self._lock:
            self.store_errors += 1

    def note_swept(self, step: SweepReport) -> None:
        """A step of a sweep is committed."""
        with self._lock:
            for name, count in zip(step._fields[1:], step[1:], strict=True):
                self.swept[name] += count

    def note_sweep(self) -> None:
        """A sweep has come to its end."""
        with self._lock:
            self.sweeps += 1
