"""Noticing that a file was written to: inotify where there is one, else a short sleep."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IN_MODIFY = 0x2
IN_NONBLOCK = 0o4000
POLL_SECONDS = 0.02
EVENT_BYTES = 64 * (struct.calcsize("iIII") + 256)


class Commits(Protocol):
    """Signs that somebody may be about to commit."""

    def wait(self, seconds: float) -> bool:
        """Wait for the next sign; False when the time is up, or has been long enough to look."""


class _Inotify:
    """Woken by the kernel at each write to the files of a folder with one of the names."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # Not select(): it takes no descriptor over 1023, and a server holds many connections.
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        readable = self._poll.poll(seconds * 1000)
        if readable:
            os.read(self._descriptor, EVENT_BYTES)
        return bool(readable)


class _Poll:
    """Without inotify there are no signs, only intervals short enough to do without."""

    def wait(self, seconds: float) -> bool:
        time.sleep(min(seconds, POLL_SECONDS))
        return False


@contextmanager
def watch_file(path: Path) -> Iterator[Commits]:
    """Signs of writes to a file, for the time of the ``with``."""
    descriptor = _open_inotify(path)
    if descriptor is None:
        yield _Poll()
        return
    try:
        yield _Inotify(descriptor)
    finally:
        os.close(descriptor)


def _open_inotify(path: Path) -> int | None:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = int(libc.inotify_init1(IN_NONBLOCK))
        if descriptor < 0:
            return None
        if libc.inotify_add_watch(descriptor, os.fsencode(path), IN_MODIFY) < 0:
            os.close(descriptor)
            return None
    except (AttributeError, OSError):  # another system than Linux
        return None
    return descriptor
