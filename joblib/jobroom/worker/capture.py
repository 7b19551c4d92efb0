"""What a task prints and logs, as the task's log."""

from __future__ import annotations

import codecs
import contextlib
import io
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, TextIO

Sink = Callable[[str], None]

PIECE_BYTES = 64 * 1024
MOST_PIECES = 64
"""How much of a pipe is read at once, so that whoever reads it sees to the rest as well."""
OWN_LOGGERS = ("jobroom", "httpx", "httpcore")
"""What the worker itself logs is no part of a task's log."""
LINE = "%(levelname)s %(name)s: %(message)s"

_sink: ContextVar[Sink | None] = ContextVar("jobroom_log_of_the_task", default=None)
_lock = threading.Lock()
_installed: list[list[tuple[str, Any]]] = []
_running = 0


@contextlib.contextmanager
def into(sink: Sink) -> Iterator[None]:
    """Give what this context prints to the sink, wherever ``installed`` is in force.

    A thread that the task starts has a context of its own: what it prints goes where it went.
    """
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Stand before ``sys.stdout``, ``sys.stderr`` and the root logger, until the end of the block.

    Outside of tasks everything goes where it went. Handlers that were made before would write
    past us, so a handler of ours tells the task too.
    """
    before = sys.stdout, sys.stderr
    ours = [("stdout", _split(before[0])), ("stderr", _split(before[1]))]
    for name, stream in ours:
        setattr(sys, name, stream)
    _installed.append(ours)
    handler = TaskLogHandler()
    root = logging.getLogger()
    if root.handlers:  # else basicConfig() would take ours for the program's own
        root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        _installed.remove(ours)
        sys.stdout, sys.stderr = before


@contextlib.contextmanager
def minded() -> Iterator[None]:
    """Put our streams back, before and after a task, where one has left another.

    One that is open may be a running task's own, and is left until none runs. Not to be entered
    or left while the task may be interrupted: the count would be wrong ever after.
    """
    _mend(coming=1)
    try:
        yield
    finally:
        _mend(going=1)


def _mend(*, coming: int = 0, going: int = 0) -> None:
    global _running  # noqa: PLW0603  # as the streams are, of the whole process
    with _lock:
        _running -= going
        for name, ours in _installed[-1] if _installed else ():
            now = getattr(sys, name)
            if now is not ours and (_running == 0 or getattr(now, "closed", now is None)):
                setattr(sys, name, ours)
        _running += coming


class TaskLogHandler(logging.Handler):
    """Writes records to the log of the task that they come from, and nothing anywhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(LINE))

    def emit(self, record: logging.LogRecord) -> None:
        """Tell the task, unless another handler does so by its stream."""
        sink = _sink.get()
        if sink is None or record.name.partition(".")[0] in OWN_LOGGERS:
            return
        others = logging.getLogger().handlers
        if any(isinstance(getattr(other, "stream", None), Split) for other in others):
            return
        try:
            sink(f"{self.format(record)}\n")
        except Exception:  # noqa: BLE001  # as logging has it: a bad format is no fault of the task
            self.handleError(record)


class Split(io.TextIOBase):
    """A stream that is the task's log inside of a task, and the real one outside."""

    def __init__(self, real: TextIO) -> None:
        super().__init__()
        self._real = real
        self._bytes = _SplitBytes(real)

    def write(self, text: str) -> int:
        """Write to the task's log, or to the real stream."""
        sink = _sink.get()
        if sink is None:
            return self._real.write(text)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        sink(text)
        return len(text)

    def writelines(self, lines: Iterable[Any]) -> None:
        """Write each of them."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the real stream; a task's log has nothing to wait for."""
        if _sink.get() is None:
            self._real.flush()

    def isatty(self) -> bool:
        """Whether a person sees what is written: nobody does inside of a task."""
        return _sink.get() is None and self._real.isatty()

    def writable(self) -> bool:
        """It can be written to."""
        return True

    def fileno(self) -> int:
        """The descriptor of the real stream: what is written there is in no task's log."""
        return self._real.fileno()

    def close(self) -> None:
        """Nothing: the real stream is not ours to close."""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the base has a place for it, empty
        """The encoding of the real stream."""
        return self._real.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]  # as above
        """What the real stream does with what it cannot encode."""
        return self._real.errors

    @property
    def buffer(self) -> _SplitBytes:
        """The same for bytes."""
        return self._bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _SplitBytes(io.BufferedIOBase):
    """The bytes beneath ``Split``; what is no UTF-8 is replaced in a task's log."""

    def __init__(self, real: TextIO) -> None:
        super().__init__()
        self._real = real

    def write(self, data: Any) -> int:
        """Write to the task's log, or to the real stream's bytes."""
        sink = _sink.get()
        if sink is not None:
            data = bytes(data)
            sink(data.decode("utf-8", "replace"))
            return len(data)
        return int(self._real.buffer.write(data))

    def flush(self) -> None:
        """Flush the real stream."""
        if _sink.get() is None:
            self._real.flush()

    def writable(self) -> bool:
        """It can be written to."""
        return True

    def close(self) -> None:
        """Nothing: the real stream is not ours to close."""


class PipeReader:
    """Reads what another process writes, as text: a letter that came in halves is put together."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.is_at_end = False

    def read(self) -> Iterator[bytes]:
        """Give what is there now and not more than some MiB of it; never waits."""
        for _ in range(MOST_PIECES):
            try:
                data = os.read(self._descriptor, PIECE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.is_at_end = True
                return
            yield data

    def text(self, data: bytes, *, final: bool = False) -> str:
        """Return the bytes as text; ``final``: nothing comes that a half letter waits for."""
        text = self._decoder.decode(data, final)
        if final:
            self._decoder.reset()
        return text


def _split(stream: TextIO | None) -> Any:
    # Without a console (pythonw) there is no stream, and nothing to fall through to.
    return Split(io.StringIO() if stream is None else stream)
