"""Who waits for which task to change, on one event loop."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobroom.domain.records import Logged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobroom.domain.records import Change, Task

UNREAD = -1
"""Before the first version of a row."""
Place = tuple[int, int]
"""How far a task's log reaches: its newest attempt, and the bytes of that."""


class TaskWatch:
    """Who waits for which task, on one event loop; told of changes by the queue."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[str, set[Waiting]] = {}
        self.known: dict[str, int] = {}
        """The row version that a waiter has seen, for changes by other processes."""
        self.logs: dict[str, Place] = {}
        """How far a follower has read the task's log, for what other processes append."""

    def enter(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve this loop from now on."""
        self._loop = loop
        self._waiting.clear()
        self.known.clear()
        self.logs.clear()

    @contextmanager
    def of(self, task_id: str) -> Iterator[Waiting]:
        """Be told of changes of a task; enter before reading it, so that none is missed."""
        waiting = Waiting(self, task_id)
        self._waiting.setdefault(task_id, set()).add(waiting)
        # Any version is news to who has read none: another process may write during the read.
        self.known.setdefault(task_id, UNREAD)
        try:
            yield waiting
        finally:
            self._leave(waiting)

    def tell(self, changed: Sequence[Task | Change | Logged]) -> None:
        """Called on a lane's thread after a commit."""
        news = {task.id: task.version for task in changed if task.id in self._waiting}
        if news and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._hear, news)
            logs = [task for task in changed if type(task) is Logged and task.id in news]
            if logs:
                self._loop.call_soon_threadsafe(self._hear_logs, logs)

    def saw(self, task_id: str, version: int, log: Place | None) -> None:
        """One waiter has read so far: it is news to those who have read less."""
        if task_id in self._waiting:
            self.known[task_id] = version
            self._hear({task_id: version})
            if log is not None:
                self.logs[task_id] = max(log, self.logs.get(task_id, log))
                self._hear_logs([Logged(task_id, version, *log)])
            self._begin()

    def _hear(self, news: dict[str, int]) -> None:
        for task_id, version in news.items():
            for waiting in self._waiting.get(task_id, ()):
                waiting.hear(version)

    def _hear_logs(self, logs: list[Logged]) -> None:
        for log in logs:
            for waiting in self._waiting.get(log.id, ()):
                waiting.hear_log((log.attempt, log.upto))

    def _leave(self, waiting: Waiting) -> None:
        others = self._waiting.get(waiting.task_id, set())
        others.discard(waiting)
        if not others:
            self._waiting.pop(waiting.task_id, None)
            self.known.pop(waiting.task_id, None)
            self.logs.pop(waiting.task_id, None)


class Waiting:
    """One request's interest in one task.

    A change may be told before the read that it follows has come back, so what counts is its
    version: ``changed`` is done as long as one is known that this request has not read.
    """

    def __init__(self, watch: TaskWatch, task_id: str) -> None:
        self._watch = watch
        self.task_id = task_id
        self._read = UNREAD
        self._newest = UNREAD
        self._log_read: Place | None = None
        self._log_newest: Place = (0, 0)
        self.changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def hear(self, version: int) -> None:
        """There is this version."""
        self._newest = max(self._newest, version)
        if self._has_news() and not self.changed.done():
            self.changed.set_result(None)

    def hear_log(self, place: Place) -> None:
        """The log reaches so far, which is news to who follows it."""
        self._log_newest = max(self._log_newest, place)
        if self._has_news() and not self.changed.done():
            self.changed.set_result(None)

    def saw(self, version: int, *, log: Place | None = None) -> None:
        """This version has been read: wait for a newer one.

        ``log``: its log was read up to there, and what comes behind is news as well.
        """
        self._read, self._log_read = version, log
        if self.changed.done() and not self._has_news():
            self.changed = asyncio.get_running_loop().create_future()
        elif self._has_news() and not self.changed.done():
            self.changed.set_result(None)  # what was told during the read of who begins to follow
        self._watch.saw(self.task_id, version, log)

    def _has_news(self) -> bool:
        is_logged = self._log_read is not None and self._log_newest > self._log_read
        return self._newest > self._read or is_logged
