"""Tasks in processes of their own: a crash, a hang or a leak ends one task and no worker."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from jobroom.client.options import Registration
from jobroom.client.task import ClaimedTask
from jobroom.errors import ConfigurationError
from jobroom.worker import limits
from jobroom.worker.attempt import Attempt, Work
from jobroom.worker.channel import Message
from jobroom.worker.guardian import Guardian
from jobroom.worker.process import SlotProcess
from jobroom.worker.runner import Outcome, Tell

TRIES = 2
"""How many processes may end before they have begun with a task, which is no fault of the task."""
GOODBYE_SECONDS = 1.0


class ProcessRunner:
    """Runs each task in a process that is kept for the next ones, and replaced when it ended.

    ``echo`` shows what tasks print on this program's stderr as well.
    """

    def __init__(self, jobs: Mapping[str, Registration], *, echo: bool = False) -> None:
        if os.name != "posix":
            raise ConfigurationError(
                "Tasks in processes of their own need Linux or macOS: use threads on this machine."
            )
        self._folder: str | None = None
        with contextlib.suppress(OSError):  # it was removed
            self._folder = str(Path.cwd())  # a task in a thread may change it later
        self._jobs = jobs
        self._echo = echo
        self._guardian = Guardian()
        self._lock = threading.Lock()
        self._idle: list[SlotProcess] = []
        self._busy = 0
        self._closed = threading.Event()

    def run(self, task: ClaimedTask, tell: Tell) -> Outcome:
        """Run the task to its end, or to the end of its process."""
        with self._lock:
            self._busy += 1
        try:
            return self._run(_work_of(task, self._jobs), tell)
        except ConfigurationError as wrong:
            return Outcome("failed", error=str(wrong), final=True)
        except OSError as trouble:
            return Outcome("failed", error=f"no process could be started for this task: {trouble}")
        finally:
            with self._lock:
                self._busy -= 1
            self._close_guardian()

    def close(self) -> None:
        """Stop what runs, which is handed back, and end the processes."""
        self._closed.set()
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.hang_up()
        for process in idle:
            process.end(wait_seconds=GOODBYE_SECONDS)
        self._close_guardian()

    def _run(self, work: Work, tell: Tell) -> Outcome:
        attempt: Attempt | None = None
        for _ in range(TRIES):
            if self._closed.is_set():
                return Outcome("handed_back")
            process = self._take()
            attempt = Attempt(process, work, tell, closed=self._closed, echo=self._echo)
            try:
                outcome = attempt.run()
            finally:
                self._settle(process, reusable=attempt.is_process_good)
            if outcome is not None:
                return outcome
        why = limits.lost(0 if attempt is None else attempt.exit_code)
        return Outcome("failed", error=f"before it could begin, {why}")

    def _take(self) -> SlotProcess:
        while True:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is None:
                return SlotProcess(self._guardian, self._folder)
            if process.exit_code() is None:
                return process
            process.end()  # it ended between two tasks

    def _settle(self, process: SlotProcess, *, reusable: bool) -> None:
        with self._lock:
            if reusable and not self._closed.is_set():
                self._idle.append(process)
                return
        process.end()

    def _close_guardian(self) -> None:
        with self._lock:
            over = self._closed.is_set() and self._busy == 0
        if over:
            self._guardian.close()


def _work_of(task: ClaimedTask, jobs: Mapping[str, Registration]) -> Work:
    registration = jobs.get(task.job_name)
    if registration is None:
        raise ConfigurationError(f"No class is registered for {task.job_name} in this worker.")
    limits.check_memory_limit(registration.memory_mb)
    seconds = task.timeout_seconds or registration.job.get("timeout_seconds")
    return Work(
        task={**task.model_dump(mode="python"), "created_at": task.created_at.isoformat()},
        target=_target_of(task.job_name, registration),
        timeout_seconds=seconds,
        memory_mb=registration.memory_mb,
    )


def _target_of(full_name: str, registration: Registration) -> Message:
    """Return what to import, and where the job is in it."""
    cls = registration.cls
    defined = getattr(cls, "job_function", cls)
    module, source = defined.__module__, registration.source
    if module == "__main__":
        source = source or _main_source()
    return {
        "job": full_name,
        "room": registration.room,
        "module": module,
        "name": defined.__qualname__,
        "source": source,
    }


def _main_source() -> str:
    main = sys.modules["__main__"]
    if (spec := getattr(main, "__spec__", None)) is not None:
        return str(spec.name)
    path = getattr(main, "__file__", None)
    if path is None or not path.endswith(".py"):
        raise ConfigurationError(
            "What runs in a process of its own must be defined in a module or a file  name.py: a"
            " session or a notebook cannot be imported there."
        )
    return str(Path(path).resolve())
