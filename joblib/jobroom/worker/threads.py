"""Tasks in the slots' own threads: cheap, and stopped at their next step in Python."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from jobroom.client.holds import Alarm
from jobroom.client.options import Registration
from jobroom.client.task import ClaimedTask
from jobroom.worker import capture, performing
from jobroom.worker.runner import Outcome, TaskCancelled, TaskStopped, Tell

Stop = type[TaskCancelled] | type[TaskStopped]


class ThreadRunner:
    """Runs a task in the thread that calls; ``vis`` is what each class's ``run`` is given.

    A thread is interrupted between two steps of Python. One that waits in C (``time.sleep``, a
    long call of numpy's) is interrupted when it comes back.
    """

    def __init__(self, jobs: Mapping[str, Registration], vis: Any = None) -> None:
        self._jobs = jobs
        self._vis = vis
        self._reaches: set[_Reach] = set()
        self._closed = False

    def run(self, task: ClaimedTask, tell: Tell) -> Outcome:
        """Run the task to its end, or to the step at which it was interrupted."""
        with capture.minded():
            return self._run(task, tell)

    def close(self) -> None:
        """Interrupt all that runs; those tasks are handed back."""
        self._closed = True
        for reach in tuple(self._reaches):
            reach.interrupt(TaskStopped)

    def _run(self, task: ClaimedTask, tell: Tell) -> Outcome:
        registration = self._jobs.get(task.job_name)
        cls = None if registration is None else registration.cls
        reach = _Reach()
        self._reaches.add(reach)
        outcome: Outcome | None = None
        try:
            try:
                self._listen(reach, tell)
                with capture.into(tell.log):
                    outcome = performing.perform(
                        task, cls, tell, vis=self._vis, run_async=reach.run_async
                    )
            finally:
                reach.end()
        except TaskCancelled:  # it came before the work had begun, or after its end
            outcome = outcome or Outcome("cancelled")
        except TaskStopped:
            outcome = outcome or Outcome("handed_back")
        self._reaches.discard(reach)
        return outcome

    def _listen(self, reach: _Reach, tell: Tell) -> None:
        alarm = tell.cancelled
        if isinstance(alarm, Alarm):
            alarm.tell(lambda: reach.interrupt(TaskCancelled))
        if self._closed:  # just before this task was known to close()
            reach.interrupt(TaskStopped)


class _Reach:
    """Raises an exception in the thread that made it, once, and only while its task runs."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._stopped_by: Stop | None = None
        self._over = False
        self._cancel_async: Callable[[], object] | None = None

    def interrupt(self, stop: Stop) -> None:
        """Raise it there, unless that was done before or the task is over."""
        if self._stopped_by is not None:  # its thread may hold the lock for good, see end()
            return
        with self._lock:
            if self._over or self._stopped_by is not None:
                return
            self._stopped_by = stop
            if self._cancel_async is None:
                _raise_in(self._thread, stop)
            else:
                self._cancel_async()

    def end(self) -> None:
        """Let nothing be raised any more. What was raised and not felt yet is felt here."""
        # Only one is ever raised: if that happens while the lock is held, nobody wants it again.
        with self._lock:
            self._over = True
        if self._stopped_by is not None:
            self._feel(self._stopped_by)

    def _feel(self, stop: Stop) -> None:
        # Whether it was felt is not known, so it takes the place of itself. To take it back instead
        # leaves a mark on CPython 3.11, by which code that is traced later never goes on.
        with contextlib.suppress(TaskCancelled, TaskStopped):
            _raise_in(self._thread, stop)
            while True:
                time.sleep(0)

    def run_async(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run it in an event loop of its own, where an interruption is its cancellation."""
        with asyncio.Runner() as runner:
            return runner.run(self._interruptible(coroutine))

    async def _interruptible(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        loop, work = asyncio.get_running_loop(), asyncio.ensure_future(coroutine)

        def cancel() -> None:
            loop.call_soon_threadsafe(work.cancel)

        with self._lock:
            self._cancel_async = cancel
        try:
            return await work
        except asyncio.CancelledError:
            if self._stopped_by is None:
                raise
            raise self._stopped_by from None
        finally:
            with self._lock:
                self._cancel_async = None


def _raise_in(thread: int, stop: Stop) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(stop))
