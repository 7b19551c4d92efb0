"""Stdout and stderr that are closed, full or read by nobody."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any


class Unwritten(OSError):
    """What was asked for cannot be printed."""

    def __init__(self, failure: OSError) -> None:
        super().__init__(f"the output cannot be written: {failure.strerror or failure}.")
        self.is_unread = failure.errno == errno.EPIPE
        """Whether who read it, as ``head`` does, has had enough."""


class _Stream:
    """A text stream; all but writing is the stream's own."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text."""
        with self._borne():
            self._stream.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Give on what was written."""
        with self._borne():
            self._stream.flush()

    @contextlib.contextmanager
    def _borne(self) -> Iterator[None]:
        try:
            yield
        except OSError as failure:
            _to_nowhere(self._stream)
            self._failed(failure)

    def _failed(self, failure: OSError) -> None:
        """Nobody need hear what is said to people: the work goes on."""


class _Output(_Stream):
    def _failed(self, failure: OSError) -> None:
        raise Unwritten(failure)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """In here ``Unwritten`` is raised where stdout takes no more; stderr may be gone."""
    _open_missing()
    ours = _Output(sys.stdout), _Stream(sys.stderr)
    theirs = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = ours
    try:
        yield
    finally:
        # A verb may have set streams of its own, and tests do.
        sys.stdout = theirs[0] if sys.stdout is ours[0] else sys.stdout
        sys.stderr = theirs[1] if sys.stderr is ours[1] else sys.stderr


def _open_missing() -> None:
    """Open /dev/null where a stream was closed: else a connection would get its number."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    number = 0
    while number <= 2:  # noqa: PLR2004 - stdin, stdout, stderr
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123


def _to_nowhere(stream: Any) -> None:
    """Let what is still held back go to /dev/null: Python would try it once more at its end."""
    with contextlib.suppress(OSError, ValueError):
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
