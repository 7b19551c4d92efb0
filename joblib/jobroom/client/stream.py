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
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from typing import Self

from pydantic import ValidationError

from jobroom.client import connection, failure, problems
from jobroom.client.sigterm import SigtermGuard
from jobroom.client.task import ClaimedTask
from jobroom.client.transport import Json, Patience
from jobroom.client.worker import BRIEF, ProcessWorker
from jobroom.errors import AnswerTooLarge, JobroomError, Unauthorized

log = logging.getLogger("jobroom.client")

CLAIM_TIMEOUT_SECONDS = 10.0
LONGEST_WAIT_SECONDS = 10
"""How long one claim may be held open, so that leaving in good order takes no longer either."""
LONGEST_CLAIM_DELAY_SECONDS = 2.0
"""The longest pause between two tries in an outage: tasks may wait when the server is back."""
REFUSED_SECONDS = 60.0
"""How long claims wait for a token that is accepted, from a callable that may yet give one."""
LAST_LOOK = Patience(0.0, timeout=2.0)
HONOURED_SHARE = 0.9
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
        raise StopIteration if found is None else _told(found, self.api)

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


def _told(trouble: Exception, api: connection.ApiManager) -> Exception:
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
        self._interval = interval
        self._claim_seconds = claim_seconds
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._abandoned = False
        self._told = ""
        self._patience = Patience(
            math.inf,
            timeout=CLAIM_TIMEOUT_SECONDS,
            pause=self._pause,
            outlive_seconds=math.inf,
            refused_seconds=REFUSED_SECONDS,
            longest_delay=LONGEST_CLAIM_DELAY_SECONDS,
        )

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
        self._abandoned = True
        self._wake.put(None)
        self.found.put(None)

    def take_back(self) -> None:
        """Hand back what was found for nobody."""
        try:
            while True:
                if isinstance(found := self.found.get_nowait(), ClaimedTask):
                    self._hand_back(found)
        except queue.Empty:
            self.found.put(None)  # the one that was taken out may be waited for

    def run(self) -> None:
        # Before anything is asked: who leaves waits for those that claim.
        self._worker.note_claimer(self)
        try:
            found: ClaimedTask | Exception | None = self._search()
        except Exception as trouble:  # noqa: BLE001  # raised where the task is waited for
            if self._abandoned:
                log.debug("claim.abandoned reason=%r", str(trouble))
            found = trouble
        self.found.put(found)
        if self._abandoned:
            self.take_back()

    def _search(self) -> ClaimedTask | None:
        wait = self._claim_seconds
        while not self._abandoned:
            began = time.monotonic()
            # One id for one claim, over all its repeats: a lost answer is then given again.
            request_id = uuid.uuid4().hex
            data = self._claim(request_id, wait)
            if data is None:
                waited = time.monotonic() - began
                if waited < wait * HONOURED_SHARE:  # the server did not hold the claim open
                    self._pause(self._interval - waited)
            elif (task := self._read(data)) is not None:
                return task
        return None

    def _claim(self, request_id: str, wait: int) -> Json | None:
        try:
            return self._worker.claim(request_id=request_id, wait=wait, patience=self._patience)
        except AnswerTooLarge as refusal:
            # Nothing overtakes that task, but somebody may take it away through another door.
            if str(refusal) != self._told:
                log.warning("claim.too_large reason=%r", str(refusal))
                self._told = str(refusal)
            return None
        except problems.ELSEWHERE:
            if not self._abandoned:
                raise
        return self._look_again(request_id)

    def _look_again(self, request_id: str) -> Json | None:
        """Ask for what a claim may have brought whose answer was lost when nobody waited more."""
        worker_id = self._worker.id
        if worker_id is None:
            return None
        try:
            return self._worker.api.claim(
                worker_id, request_id=request_id, wait=0, patience=LAST_LOOK
            )
        except JobroomError as trouble:
            log.debug("claim.abandoned reason=%r", str(trouble))
            return None

    def _read(self, data: Json) -> ClaimedTask | None:
        try:
            return ClaimedTask.model_validate(data).bind(self._worker)
        except ValidationError as invalid:
            faults = failure.faults_of(invalid)
        log.error("task.unreadable task=%s reason=%r", data.get("id"), faults)
        changes = {"status": "failed", "error": f"The worker cannot read this task: {faults}"}
        fence = {key: data[key] for key in ("attempt", "worker_id") if data.get(key) is not None}
        try:
            self._worker.api.report(str(data.get("id")), {**changes, **fence, "final": True})
        except JobroomError as refusal:
            log.warning("report.refused task=%s reason=%r", data.get("id"), str(refusal))
        return None

    def _pause(self, seconds: float) -> bool:
        if self._abandoned or seconds <= 0:
            return not self._abandoned
        try:
            self._wake.get(timeout=seconds)
        except queue.Empty:
            return not self._abandoned
        return False

    def _hand_back(self, task: ClaimedTask) -> None:
        hold = self._worker.hold(task.id, worker_id=task.worker_id, attempt=task.attempt)
        try:
            self._worker.hand_back(hold, patience=BRIEF)
        except JobroomError as refusal:
            log.warning("task.not_handed_back task=%s reason=%r", task.id, str(refusal))
