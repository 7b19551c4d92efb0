"""The tasks that this process has claimed and not yet given a last report on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field


class Alarm(threading.Event):
    """An event that calls back, in the thread that sets it, whoever asked for that."""

    def __init__(self) -> None:
        super().__init__()
        self._listeners: list[Callable[[], None]] = []

    def set(self) -> None:
        """Raise it; who listens may be called again each time."""
        super().set()
        for listener in tuple(self._listeners):
            listener()

    def tell(self, listener: Callable[[], None]) -> None:
        """Call the listener when the alarm is raised, at once if it has been."""
        self._listeners.append(listener)
        if self.is_set():
            listener()


@dataclass(slots=True)
class Hold:
    """One held task; ``attempt`` and ``worker_id`` are the fence for its reports.

    Only the process that claimed it speaks for it: a forked child has a copy, and no say.
    """

    task_id: str
    worker_id: str
    attempt: int | None
    started: bool = False
    pid: int = field(default_factory=os.getpid)
    alarm: Alarm = field(default_factory=Alarm, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """Whether the work is in vain: the task was cancelled, or taken away."""
        return self.alarm.is_set()

    def cancel(self) -> None:
        """Note that the work is in vain."""
        self.alarm.set()

    @property
    def is_ours(self) -> bool:
        """Whether this process is the one that claimed the task."""
        return self.pid == os.getpid()

    @property
    def fence(self) -> dict[str, str | int]:
        """What a report says so that it cannot hit another attempt at the task."""
        fence: dict[str, str | int] = {"worker_id": self.worker_id} if self.worker_id else {}
        return fence if self.attempt is None else {**fence, "attempt": self.attempt}


class Holds:
    """Held tasks by id. Each step is one look into a dictionary, so threads need no lock."""

    def __init__(self) -> None:
        self._by_id: dict[str, Hold] = {}

    def add(self, task_id: str, *, worker_id: str, attempt: int | None) -> Hold:
        """Remember a claimed task; another attempt at a known one is another hold."""
        hold = self._by_id.get(task_id)
        if hold is None or (hold.worker_id, hold.attempt) != (worker_id, attempt):
            hold = self._by_id[task_id] = Hold(task_id, worker_id, attempt)
        return hold

    def drop(self, hold: Hold) -> None:
        """Forget a task after its last report."""
        if self._by_id.get(hold.task_id) is hold:
            del self._by_id[hold.task_id]

    def cancel(self, task_ids: Iterable[str]) -> None:
        """Note that the work on these tasks is in vain."""
        for task_id in task_ids:
            hold = self._by_id.get(task_id)
            if hold is not None:
                hold.cancel()

    def lose(self, worker_id: str) -> None:
        """Note that the server has taken the tasks of this worker away."""
        self.cancel([hold.task_id for hold in self if hold.worker_id == worker_id])

    def __iter__(self) -> Iterator[Hold]:
        return iter(tuple(self._by_id.values()))
