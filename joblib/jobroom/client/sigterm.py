"""SIGTERM while a program listens: the first one is a stop in good order, the second one kills."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType


class SigtermGuard:
    """Turns SIGTERM into ``stop()`` while it is up; only where nobody else handles the signal.

    ``stop`` says whether there was anything left to stop. It runs inside the signal handler.
    """

    def __init__(self, stop: Callable[[], bool]) -> None:
        self._stop = stop
        self._pid = os.getpid()
        self._up = False

    def raise_it(self) -> None:
        """Handle the signal from now on; does nothing outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            with contextlib.suppress(ValueError):  # a subinterpreter handles no signals
                signal.signal(signal.SIGTERM, self._handle)
                self._up = True

    def lower(self) -> None:
        """Give the signal back; from another thread it takes effect when the signal comes."""
        if not self._up:
            return
        self._up = False
        mine = signal.getsignal(signal.SIGTERM) == self._handle
        if mine and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # A forked child inherits the handler, and has nothing of ours to finish.
        ours = self._up and self._pid == os.getpid()
        if not (ours and self._stop()):
            signal.raise_signal(signal.SIGTERM)
