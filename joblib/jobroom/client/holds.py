"""The tasks that this process has claimed and not yet given a last report on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Hold:
    """One held task; ``attempt`` and ``worker_id`` are the fence for its reports.

    Only the process that claimed it speaks for it: a forked child has a copy, and no say.
    """

    task_id: str
    worker_id: str
    attempt: int | None
    started: bool = False
    cancelled: bool = False
    pid: int = field(default_factory=os.getpid)

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
                hold.cancelled = True

    def lose(self, worker_id: str) -> None:
        """Note that the server has taken the tasks of this worker away."""
        self.cancel([hold.task_id for hold in self if hold.worker_id == worker_id])

    def __iter__(self) -> Iterator[Hold]:
        return iter(tuple(self._by_id.values()))
