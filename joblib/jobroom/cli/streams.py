"""Stdout and stderr that are closed, full or read by nobody."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Unwritten(OSError):
    """What was asked for cannot be printed."""

    def __init__(self, failure: OSError) -> None:
        why = "stdout is closed" if failure.errno == errno.EBADF else failure.strerror or failure
        super().__init__(f"the output cannot be written: {why}.")
        self.is_unread = failure.errno == errno.EPIPE
        """Whether who read it, as ``head`` does, has had enough."""


class _Stream:
    """A text stream; all but writing is the stream's own."""

    def __init__(self, stream: Any) -> None:
        self.real = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def write(self, text: str) -> int:
        """Write a text."""
        with self._borne():
            self.real.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Give on what was written."""
        with self._borne():
            self.real.flush()

    @contextlib.contextmanager
    def _borne(self) -> Iterator[None]:
        try:
            yield
        except OSError as failure:
            _to_nowhere(self.real)
            self._failed(failure)

    def _failed(self, failure: OSError) -> None:
        """Nobody need hear what is said to people: the work goes on."""


class _Output(_Stream):
    def _failed(self, failure: OSError) -> None:
        raise Unwritten(failure)


class _Closed(_Output):
    """A stdout that was closed before we began; /dev/null stands in its place."""

    def write(self, text: str) -> int:
        """Refuse whatever there is to write: an answer would be lost without a word."""
        if text:
            self._failed(OSError(errno.EBADF, os.strerror(errno.EBADF)))
        return 0


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """In here ``Unwritten`` is raised where stdout takes no more; stderr may be gone."""
    theirs = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    output = _Closed if theirs["stdout"] is None else _Output
    with contextlib.ExitStack() as opened:
        _open_missing(opened)
        sys.stdout, sys.stderr = output(sys.stdout), _Stream(sys.stderr)
        try:
            yield
        finally:
            for name, stream in theirs.items():
                if isinstance(getattr(sys, name), _Stream):  # else a verb has set its own
                    setattr(sys, name, stream)


def hold_no_answer() -> None:
    """From now on stdout holds nothing that was asked for: it may be closed or full as well."""
    if isinstance(sys.stdout, _Output):
        sys.stdout = _Stream(sys.stdout.real)


def _open_missing(opened: contextlib.ExitStack) -> None:
    """Open /dev/null where a stream was closed: else a connection would get its number."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    number = 0
    while number <= 2:  # noqa: PLR2004 - stdin, stdout, stderr
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - see the next line
            setattr(sys, name, opened.enter_context(nowhere))


def _to_nowhere(stream: Any) -> None:
    """Let what is still held back go to /dev/null: Python would try it once more at its end."""
    with contextlib.suppress(OSError, ValueError):
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
