"""One claimed task, run in the thread that calls: it ends as on a worker, the test goes on."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from jobroom.client import failure, work
from jobroom.client.sender import LOG_SECONDS
from jobroom.client.task import ClaimedTask, current_task
from jobroom.worker import capture
from jobroom.worker.runner import TaskCancelled
from jobroom.worker.telling import TaskTell

TASKS_OWN = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)
"""What ends the task alone; all else that is raised, as by ``pytest.fail``, ends the test too."""

_lock = threading.Lock()
_echoes: list[dict[str, Any]] = []


def run(task: ClaimedTask, cls: type[BaseModel] | None, *, vis: Any = None) -> None:
    """Run the task's class on its payload, and report how it ended.

    Ctrl-C, and what a test says by an exception of its own, fail the task and go on their way.
    """
    if not task.begin():
        return
    voice = _Voice(task)
    raised: BaseException | None = None
    result: Any = None
    with _hearing(), _minding_ctrl_c() as pressed:
        try:
            with task.speaking(voice), capture.into(voice.log):
                result = work.carry_out(work.build(cls, task.payload, job_name=task.job_name), vis)
        except BaseException as caught:  # noqa: BLE001  # as a worker, which outlives its tasks
            raised = caught
    _settle(task, voice, raised, result)
    if raised is not None and (pressed or not isinstance(raised, (*TASKS_OWN, TaskCancelled))):
        raise raised


def _settle(task: ClaimedTask, voice: TaskTell, raised: BaseException | None, result: Any) -> None:
    rest = voice.last_words()
    if raised is None:
        task.settle("completed", result=result, **rest)
    elif isinstance(raised, TaskCancelled):
        task.settle("cancelled", **rest)
    elif isinstance(raised, work.Refused):
        task.settle("failed", error=str(raised), final=True, **rest)
    else:
        trace = raised.__traceback__
        told = raised.with_traceback(None if trace is None else trace.tb_next)  # without our frame
        task.settle("failed", error=failure.text_of(told), **rest)
        raised.with_traceback(trace)


class _Voice(TaskTell):
    """Sends progress at once, as no other thread does it here, and the log once a second."""

    def __init__(self, task: ClaimedTask) -> None:
        super().__init__(task)
        self._sent_at = time.monotonic()

    def progress(self, fraction: float | None, message: str | None = None) -> None:
        """Send how far the work is."""
        super().progress(fraction, message)
        self.flush()

    def log(self, text: str) -> None:
        """Keep the text, and send it when it is time to."""
        super().log(text)
        if time.monotonic() - self._sent_at > LOG_SECONDS:
            self._sent_at = time.monotonic()
            self.flush()


class _Echo(capture.Split):
    """A stream that is the task's log inside of a task, and the real one always."""

    @property
    def real(self) -> Any:
        """The stream that it stands before."""
        return self._real

    def write(self, text: str) -> int:
        """Write to both."""
        if current_task() is not None:
            self._real.write(text)
        return super().write(text)


@contextlib.contextmanager
def _hearing() -> Iterator[None]:
    """Let what tasks print and log be in their logs, and be printed and logged as well."""
    root, handler = logging.getLogger(), capture.TaskLogHandler()
    _stand_before_the_streams()
    if root.handlers:  # else basicConfig() would take ours for the program's own
        root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        _step_aside()


def _stand_before_the_streams() -> None:
    # Several threads may run tasks: the streams are given back by the last of them.
    with _lock:
        ours: dict[str, Any] = {}
        for name in () if _echoes else ("stdout", "stderr"):
            ours[name] = _Echo(getattr(sys, name) or io.StringIO())
            setattr(sys, name, ours[name])
        _echoes.append(ours)


def _step_aside() -> None:
    with _lock:
        ours = _echoes.pop()
        for name, echo in ours.items():
            if getattr(sys, name) is echo:  # else the job has left another there
                setattr(sys, name, echo.real)


@contextlib.contextmanager
def _minding_ctrl_c() -> Iterator[list[int]]:
    """Give a list that holds something once Ctrl-C has broken off what runs in here."""
    pressed: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield pressed
        return

    def on_signal(number: int, frame: Any) -> None:
        pressed.append(number)
        before(number, frame)
        pressed.pop()  # that handler raises nothing

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
