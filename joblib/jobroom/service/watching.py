"""Looking, while somebody waits, for what this process did not do: other processes, and time.

A commit by another process wakes nobody here by itself, and neither does the moment at which a
delayed task becomes due. One thread looks for both, however many wait, and only while any do.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any

from jobroom.service import claiming, reading
from jobroom.store.lane import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobroom.service.queue import JobQueue

TICK_SECONDS = 0.25
"""How late a delayed task may be noticed by a waiting claim."""
FIRST_PAUSE_SECONDS = 0.0005
"""After a sign of life: what comes closer together is looked at together.

A commit is written, and signalled, before it can be seen: an fsync lies between, and may take
long. So after a sign there are more looks, at growing distances up to a tick.
"""


class Watcher:
    """The looking thread of a queue; it ends when nobody waits any more."""

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._is_looked = False
        """Whether a thread looks; one that does no more may still be letting go of the store."""
        self._stopped = threading.Event()
        self._for_tasks = _Look(self._post_for_tasks)
        self._for_jobs = _Look(self._post_for_jobs)
        self._for_workers = _Look(self._post_for_workers)
        self._links_may_be_new = True
        self._newcomers = 0
        self._asked_after = 0
        self._next_due = 0.0

    def start(self) -> None:
        """Look from now on, if nobody does; somebody new waits."""
        with self._lock:
            self._newcomers += 1
            self._next_due = 0.0
            if self._is_looked or self._stopped.is_set():
                return
            self._is_looked = True
            thread = threading.Thread(target=self._look, name="jobroom-watcher", daemon=True)
            self._threads = [*(one for one in self._threads if one.is_alive()), thread]
            thread.start()

    def stop(self) -> None:
        """Look no more; waits until no thread has anything of the store's open."""
        self._stopped.set()
        with self._lock:
            threads = self._threads
        for thread in threads:
            thread.join()

    def _look(self) -> None:
        pause, due_at = FIRST_PAUSE_SECONDS, 0.0
        with self._queue.database.watch_commits() as commits:
            while not self._stopped.is_set():
                signed = commits.wait(pause)
                # Before the store is asked: a frozen process thaws here, its connections lost.
                if self._may_end():
                    return
                self._queue.writer.check_foreign(self._ask)
                pause = FIRST_PAUSE_SECONDS if signed else min(pause * 4, TICK_SECONDS)
                if time.monotonic() >= due_at:
                    self._tick()
                    due_at = time.monotonic() + TICK_SECONDS
                if signed:
                    self._stopped.wait(FIRST_PAUSE_SECONDS)

    def _may_end(self) -> bool:
        """Nobody waits: end, under the lock that ``start`` takes, so that no waiter is missed."""
        with self._lock:
            if self._someone_waits():
                return False
            self._is_looked = False
            return True

    def _someone_waits(self) -> bool:
        return bool(self._queue.waiting) or any(one.known for one in self._queue.listeners)

    def _tick(self) -> None:
        """Look for what the time has brought; and, after others wrote, whom they gave more jobs.

        A look at a job costs the same however many claims wait there; a look at each of a
        thousand workers is left to the moments when there may be something new to see. Where
        every commit is news, ours as well, the time alone brings nothing before it is known to.
        """
        if not self._queue.database.hears_itself or time.monotonic() >= self._next_due:
            self._for_jobs.ask()
        if self._links_may_be_new:
            self._links_may_be_new = False
            self._for_workers.ask()

    def _ask(self) -> None:
        self._links_may_be_new = True
        self._for_jobs.ask()
        self._for_tasks.ask()

    def _post_for_tasks(self) -> bool:
        known: dict[str, int] = {}
        logs: dict[str, tuple[int, int]] = {}
        for one in self._queue.listeners:
            known.update(one.known)
            logs.update(one.logs)
        if known:
            asked = {"known": known, "logs": logs}
            self._queue.reader.post(Work(reading.find_changed.rule, asked, self._tell_changed))
        return bool(known)

    def _post_for_jobs(self) -> bool:
        self._asked_after = self._newcomers
        jobs = self._queue.waiting.jobs()
        if jobs:
            self._queue.reader.post(
                Work(claiming.find_ready.rule, {"job_seqs": jobs}, self._offer_jobs)
            )
        return bool(jobs)

    def _offer_jobs(self, works: list[Work]) -> None:
        try:
            for work in works:
                if work.result is not None:
                    self._wait_until_due(work.result.seconds)
                    self._offer(set(work.result.ready))
        finally:
            self._for_jobs.came_back()

    def _wait_until_due(self, seconds: float | None) -> None:
        """Nothing becomes due before; unless somebody came meanwhile who waits for other jobs."""
        with self._lock:
            if self._asked_after == self._newcomers:
                self._next_due = math.inf if seconds is None else time.monotonic() + seconds

    def _post_for_workers(self) -> bool:
        workers = self._queue.waiting.workers()
        if workers:
            self._queue.reader.post(
                Work(claiming.find_served.rule, {"worker_ids": workers}, self._offer_workers)
            )
        return bool(workers)

    def _offer_workers(self, works: list[Work]) -> None:
        try:
            for work in works:
                self._offer(self._queue.waiting.jobs_of(work.result or ()))
        finally:
            self._for_workers.came_back()

    def _offer(self, jobs: set[int]) -> None:
        if jobs:
            self._queue.writer.post(Work(claiming.offer.rule, {"job_seqs": jobs}, _ignore))

    def _tell_changed(self, works: list[Work]) -> None:
        try:
            changed = [each for work in works for each in work.result or ()]
            if changed:
                for listener in self._queue.listeners:
                    listener.tell(changed)
        finally:
            self._for_tasks.came_back()


class _Look:
    """A read of the store that is on its way once at most; asked for meanwhile, it goes again.

    Others may commit faster than one look at what a thousand wait for takes: looks that queued up
    would keep every other read waiting behind them.
    """

    def __init__(self, post: Callable[[], bool]) -> None:
        self._post = post
        self._lock = threading.Lock()
        self._on_its_way = False
        self._again = False

    def ask(self) -> None:
        """Look, now or as soon as the look that is on its way has come back."""
        with self._lock:
            self._again = True
        self._go()

    def came_back(self) -> None:
        """The look has its answer."""
        with self._lock:
            self._on_its_way = False
        self._go()

    def _go(self) -> None:
        with self._lock:
            if self._on_its_way or not self._again:
                return
            self._on_its_way, self._again = True, False
        # Not under the lock: a lane that is closed answers at once, on this thread.
        if not self._post():
            self.came_back()


def _ignore(_works: list[Work]) -> Any:
    """An offer has no answer: whom it served is answered by itself."""
