"""Serving: one worker and one claimer for all slots, until it is told to stop.

The main thread waits and hears the signals. The first SIGTERM or Ctrl-C drains: what runs is
finished, what was claimed and not started is handed back. The second one stops what runs.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from jobroom.client.search import Search
from jobroom.client.stream import SIGNALS_SECONDS, told
from jobroom.client.task import ClaimedTask
from jobroom.client.worker import ProcessWorker
from jobroom.worker import capture, idle
from jobroom.worker.runner import Runner
from jobroom.worker.slots import STOPPED, Slots

log = logging.getLogger("jobroom.worker")

CLAIM_SECONDS = 2
"""How long one claim is held open, and so how long an idle worker may need to leave."""
MOST_SLOTS = 1000
MOST_CLAIMED = 100
"""What the server allows at a time."""
INTERVAL_SECONDS = 2.0
FIRST_IDLE_SECONDS = 60.0
LONGEST_IDLE_SECONDS = 3600.0
HURRY_SECONDS = 3.0
"""How long tasks may take to come to their end once they are interrupted."""

RunnerOf = Callable[[ClaimedTask], Runner]
Handler = Callable[[int, FrameType | None], Any] | int | None


class Serving:
    """Serves the jobs of a worker with so many slots; ``run`` once.

    ``until_empty``: end when nothing is left to claim and nothing runs. ``arrive`` is called to
    be a worker of the server's, ``announce`` when it hears signals and is about to claim,
    ``close`` to stop what its runners run.
    """

    def __init__(
        self,
        worker: ProcessWorker,
        runner_of: RunnerOf,
        *,
        slots: int = 1,
        until_empty: bool = False,
        arrive: Callable[[], object] | None = None,
        close: Callable[[], None] = lambda: None,
        announce: Callable[[], None] = lambda: None,
    ) -> None:
        if not 1 <= slots <= MOST_SLOTS:
            raise ValueError(f"A worker has 1 to {MOST_SLOTS} slots; what was given is {slots}.")
        self._worker = worker
        self._search = Search(worker, INTERVAL_SECONDS, CLAIM_SECONDS)
        self.slots = Slots(slots, worker, self._search, runner_of)
        self._until_empty = until_empty
        self._arrive = worker.arrive if arrive is None else arrive
        self._close_runners = close
        self._announce = announce
        self._events: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._claimer = threading.Thread(target=self._claim, name="jobroom-claim", daemon=True)
        self._trouble: Exception | None = None
        self._draining = False
        self._hurried_by: int | None = None
        self._next_idle = FIRST_IDLE_SECONDS

    def run(self) -> int:
        """Serve until it is stopped; the exit code: 0, or 130 and 143 for work cut short.

        Raises what ended the claims, a refused token above all.
        """
        self.slots.start()  # before there is a worker that could not run what it claims
        try:
            return self._run()
        finally:
            self.slots.close()

    def _run(self) -> int:
        self._arrive()
        self._worker.start_beating()
        with self._hearing_signals(), capture.installed():
            self._announce()
            self._claimer.start()
            while not self._is_over():
                self._hear()
                self._mind_idleness()
            self._leave()
        if self._trouble is not None:
            raise told(self._trouble, self._worker.connection)
        return 0 if self._hurried_by is None else 128 + self._hurried_by

    def stop(self) -> None:
        """Drain: callable from any thread, and again to cut short what runs."""
        self._events.put(signal.SIGTERM)

    def why_idle(self) -> str:
        """Say what it does just now, or why it does nothing."""
        now = time.monotonic()
        answered_at = self._worker.answered_at
        running = [(task.job_name, now - since) for task, since in self.slots.running]
        return idle.sentence(
            idle_seconds=now - self.slots.idle_since,
            jobs=self._worker.jobs,
            running=running,
            slots=self.slots.count,
            server=idle.heard(
                None if answered_at is None else now - answered_at,
                is_away=self._worker.api.is_away,
            ),
        )

    # Claiming

    def _claim(self) -> None:
        self._worker.note_claimer(threading.current_thread())
        try:
            while free := self.slots.await_free():
                if self._until_empty:
                    if not self._claim_at_once(free):
                        return
                else:
                    self._give(self._search.find(min(free, MOST_CLAIMED)))
        except Exception as trouble:  # noqa: BLE001  # raised by run(), where it is waited for
            if not self._draining:
                self._trouble = trouble

    def _claim_at_once(self, free: int) -> bool:
        """Claim what there is; False when there is nothing, and nothing runs that adds to it."""
        found = self._search.look(min(free, MOST_CLAIMED))
        self._give(found)
        if found:
            return True
        if free == self.slots.count:
            return False
        return self.slots.await_free(free + 1) > 0

    def _give(self, found: list[ClaimedTask]) -> None:
        for task in found:
            self.slots.give(task)

    # Waiting

    def _is_over(self) -> bool:
        if self._hurried_by is not None:
            return True
        if not self._claimer.is_alive():
            self._drain()
        return self._draining and not self._claimer.is_alive() and self.slots.await_idle(0)

    def _hear(self) -> None:
        try:
            # Not without a timeout, for a signal may come just before the wait.
            event = self._events.get(timeout=SIGNALS_SECONDS)
        except queue.Empty:
            return
        if event not in (signal.SIGTERM, signal.SIGINT):
            print(self.why_idle(), file=sys.stderr, flush=True)  # noqa: T201  # it was asked for
        elif self._draining:
            self._hurried_by = event
        else:
            self._drain()
            running = len(self.slots.running)
            log.info("worker.draining running=%s next=%r", running, "a second signal cuts it short")

    def _mind_idleness(self) -> None:
        if self.slots.free < self.slots.count:
            self._next_idle = FIRST_IDLE_SECONDS
        elif time.monotonic() - self.slots.idle_since >= self._next_idle:
            self._next_idle = min(self._next_idle * 2, self._next_idle + LONGEST_IDLE_SECONDS)
            log.info("worker.idle %s", self.why_idle())

    # Going

    def _drain(self) -> None:
        self._draining = True
        self._search.abandon()
        self.slots.drain()

    def _leave(self) -> None:
        if self._hurried_by is not None:
            self._cut_short()
        self._close_runners()
        self._worker.leave()

    def _cut_short(self) -> None:
        self._worker.ending.ask()
        self._close_runners()
        if self.slots.await_idle(HURRY_SECONDS):
            return
        for task, _ in self.slots.running:  # what cannot be interrupted ends with the process
            if not self._worker.api.is_away:
                task.give_up(STOPPED)

    @contextmanager
    def _hearing_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        heard = [signal.SIGTERM, signal.SIGINT]
        if hasattr(signal, "SIGUSR1"):
            heard.append(signal.SIGUSR1)
        ours = _heard_here(self._events.put)
        before = {number: signal.signal(number, ours) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _heard_here(put: Callable[[int], None]) -> Callable[[int, FrameType | None], None]:
    """Return a handler for this process: one that a task forks ends as others do.

    But not of a Ctrl-C, which a terminal sends to all, and which lets what runs come to its end.
    """
    here = os.getpid()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if os.getpid() == here:
            put(number)  # a SimpleQueue takes it in a handler, whatever was interrupted
        elif number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    return on_signal
