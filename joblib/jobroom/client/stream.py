"""The tasks of a worker, one after the other, until it is told to stop.

A look for the next task runs in a thread of its own, so that ``stop()`` ends the iteration at
once even while the server holds the request open; a task that still arrives is handed back. The
two sides talk through a ``SimpleQueue``, whose ``put`` may be called from a signal handler (the
lock inside a ``threading.Event`` may not: the handler could interrupt its own holder).
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Self

from jobroom.client import connection
from jobroom.client.search import Search
from jobroom.client.sigterm import SigtermGuard
from jobroom.client.task import ClaimedTask
from jobroom.client.worker import ProcessWorker
from jobroom.errors import JobroomError, Unauthorized

log = logging.getLogger("jobroom.client")

LONGEST_WAIT_SECONDS = 10
"""How long one claim may be held open, so that leaving in good order takes no longer either."""
SIGNALS_SECONDS = 0.25


class TaskStream(Iterator[ClaimedTask]):
    """Iterates over claimed tasks; ``polling_interval`` is the longest pause between two looks.

    A server that can hold a claim open answers as soon as there is work, without any pause.
    ``stop_all`` is what the first SIGTERM does; without it, it stops this stream. The iteration
    ends in a forked child, whose parent holds the tasks.
    """

    def __init__(
        self,
        api: connection.ApiManager,
        worker_id: str,
        polling_interval: float = 2.0,
        *,
        worker: ProcessWorker | None = None,
        stop_all: Callable[[], None] | None = None,
    ) -> None:
        self.api = api
        self.interval = checked_interval(polling_interval)
        self._worker = ProcessWorker(api, adopted=worker_id) if worker is None else worker
        self._looks: set[_Look] = set()
        self._lock = threading.Lock()
        self._stopped = False
        self._stop_all = self.stop if stop_all is None else stop_all
        self._pid = os.getpid()
        self._guard = SigtermGuard(_stopper(self))
        # A loop that was left by break forgets its stream, and SIGTERM means what it did before.
        weakref.finalize(self, self._guard.lower).atexit = False

    @property
    def worker_id(self) -> str | None:
        """The worker that claims; another one after the server has forgotten it."""
        return self._worker.id

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ClaimedTask:
        if self._stopped or self._pid != os.getpid():
            self.close()
            raise StopIteration
        self._guard.raise_it()
        try:
            found = self._look()
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None  # without the places where we waited
        if isinstance(found, ClaimedTask):
            return found
        self.close()
        raise StopIteration if found is None else told(found, self.api)

    def _look(self) -> ClaimedTask | Exception | None:
        look = _Look(self._worker, self.interval, self.longest_claim_seconds)
        try:
            self._begin(look)
            return look.wait()
        except BaseException:
            look.abandon()
            look.take_back()
            self._guard.lower()
            raise

    def _begin(self, look: _Look) -> None:
        with self._lock:  # never taken by stop(), which only reads
            self._looks = {one for one in self._looks if not one.is_over} | {look}
        look.start()
        if self._stopped:  # before the look was known to stop()
            look.abandon()

    @property
    def longest_claim_seconds(self) -> int:
        """How long the server may hold a claim open."""
        return min(max(1, math.ceil(self.interval)), LONGEST_WAIT_SECONDS)

    def stop(self) -> None:
        """End the iteration now; callable from any thread and from a signal handler."""
        self._stopped = True
        for look in tuple(self._looks):
            look.abandon()

    def close(self) -> None:
        """Stop for good; SIGTERM means again what it did before."""
        self.stop()
        self._guard.lower()


def checked_interval(seconds: float) -> float:
    """Return a good interval; raises ``TypeError`` or ``ValueError`` for others."""
    if not isinstance(seconds, int | float):
        raise TypeError(f"The interval is a number of seconds, not a {type(seconds).__name__}.")
    if not 0 <= seconds < math.inf:
        raise ValueError(f"The interval must be 0 seconds or more, and finite; it is {seconds}.")
    return seconds


def _stopper(stream: TaskStream) -> Callable[[], bool]:
    known = weakref.ref(stream)

    def stop() -> bool:
        there = known()
        if there is not None:
            there._worker.ending.ask()  # noqa: SLF001  # as below
            there._stop_all()  # noqa: SLF001  # our own, from inside a signal handler
        return there is not None

    return stop


def told(trouble: Exception, api: connection.ApiManager) -> Exception:
    """Return what the loop is told: an error of ours without our frames, others as they are."""
    if isinstance(trouble, Unauthorized):
        return Unauthorized(f"{trouble} {connection.on_refusal(api)}", errors=trouble.errors)
    return trouble.with_traceback(None) if isinstance(trouble, JobroomError) else trouble


class _Look(threading.Thread):
    """Looks for one task until there is one or nobody waits for it any more."""

    def __init__(self, worker: ProcessWorker, interval: float, claim_seconds: int = 1) -> None:
        super().__init__(name="jobroom-claim", daemon=True)
        self.found: queue.SimpleQueue[ClaimedTask | Exception | None] = queue.SimpleQueue()
        self._worker = worker
        self._search = Search(worker, interval, claim_seconds)

    @property
    def is_over(self) -> bool:
        """Whether it has run to its end."""
        return self.ident is not None and not self.is_alive()

    def wait(self) -> ClaimedTask | Exception | None:
        """Return what was found; None after ``abandon``."""
        while True:
            # Not without a timeout: a signal that comes just before the wait would not be
            # handled before its end, and Ctrl-C or a handler's stop() would be lost till then.
            with contextlib.suppress(queue.Empty):
                return self.found.get(timeout=SIGNALS_SECONDS)

    def abandon(self) -> None:
        """Nobody waits any more; safe in a signal handler."""
        self._search.abandon()
        self.found.put(None)

    def take_back(self) -> None:
        """Hand back what was found for nobody."""
        try:
            while True:
                if isinstance(found := self.found.get_nowait(), ClaimedTask):
                    self._search.hand_back(found)
        except queue.Empty:
            self.found.put(None)  # the one that was taken out may be waited for

    def run(self) -> None:
        # Before anything is asked: who leaves waits for those that claim.
        self._worker.note_claimer(self)
        try:
            found: ClaimedTask | Exception | None = next(iter(self._search.find()), None)
        except Exception as trouble:  # noqa: BLE001  # raised where the task is waited for
            if self._search.abandoned:
                log.debug("claim.abandoned reason=%r", str(trouble))
            found = trouble
        self.found.put(found)
        if self._search.abandoned:
            self.take_back()
