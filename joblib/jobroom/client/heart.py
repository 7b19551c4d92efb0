"""The background thread that says "alive" while a task keeps the program busy.

It needs the interpreter for some microseconds in each third of the worker timeout. C code that
holds the interpreter's lock for longer than the timeout starves it: such a worker counts as lost,
its report is refused with a conflict, and the log says so in one line.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from jobroom.client import problems, transport

log = logging.getLogger("jobroom.client")


class Heart:
    """Calls ``beat`` every ``period()`` seconds; sooner again after a beat that said False."""

    def __init__(self, beat: Callable[[], bool], period: Callable[[], float]) -> None:
        self._beat = beat
        self._period = period
        self._told: str | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobroom-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat; the first beat comes after one period."""
        self._thread.start()

    def stop(self, *, timeout: float) -> None:
        """Beat no more; waits for a beat under way, but not longer than ``timeout`` seconds."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        missed = 0
        delay = self._period()
        while not self._stopped.wait(delay):
            began = time.monotonic()
            try:
                missed = 0 if self._try() else missed + 1
            except problems.ConnectionClosed:
                return
            period = self._period()
            if missed:
                delay = min(period, transport.delay_before(missed - 1))
            else:
                delay = max(0.0, period - (time.monotonic() - began))

    def _try(self) -> bool:
        try:
            beaten = self._beat()
        except problems.ConnectionClosed:
            raise
        except Exception as failure:  # noqa: BLE001  # the thread's edge: it must outlive this
            reason = f"{type(failure).__name__}: {failure}"
            if reason != self._told:
                log.warning("heartbeat.failed reason=%r retrying=yes", reason)
            self._told = reason
            return False
        self._told = None
        return beaten
