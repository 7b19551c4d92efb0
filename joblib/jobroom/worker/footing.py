"""What belongs to a whole process, and is made good when a task has changed it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

STREAMS = ("stdin", "stdout", "stderr")
DESCRIPTORS = (0, 1, 2)


class Footing:
    """How tasks find their process: its folder, streams, descriptors 0 to 2, umask and signals.

    To be made and used in the main thread: no other may change what a signal does.
    """

    def __init__(self) -> None:
        # Not inherited by programs, so whoever reads what is written waits for none of them.
        self._spares = [(number, os.dup(number)) for number in DESCRIPTORS]
        self.note()

    def note(self) -> None:
        """Take what is so now for what is right: a module may have set it at its import."""
        self._streams: list[tuple[str, Any]] = [(name, getattr(sys, name)) for name in STREAMS]
        self._folder = _folder()
        self._umask = os.umask(0o077)  # to read it is to set it
        os.umask(self._umask)
        self._handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def restore(self) -> bool:
        """Make it so again; False where that cannot be, and the process is of no more use."""
        try:
            self._restore_output()
            self._restore_signals()
            os.umask(self._umask)
            if self._folder is not None:
                os.chdir(self._folder)
        except OSError:
            return False
        return all(_is_open(stream) for _, stream in self._streams)

    def _restore_output(self) -> None:
        for number, spare in self._spares:
            os.dup2(spare, number)
            os.set_blocking(number, True)  # a program of the task may have changed it
        for name, stream in self._streams:
            setattr(sys, name, stream)

    def _restore_signals(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)  # an alarm of one task is not for the next
        for number, handler in self._handlers.items():
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def _folder() -> str | None:
    with contextlib.suppress(OSError):  # it was removed
        return str(Path.cwd())
    return None


def _is_open(stream: Any) -> bool:
    try:
        return not getattr(stream, "closed", False)
    except ValueError:  # it was detached from what it wrote to
        return False
