"""Waiting without a thread or a connection: for a task to change, for something to claim."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from jobroom.domain.prefer import requested_wait
from jobroom.errors import TooManyRequests, Unauthorized
from jobroom.http.exchange import ClientGone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobroom.domain.records import Task
    from jobroom.http.exchange import Call

UNREAD = -1
"""Before the first version of a row."""


class TaskWatch:
    """Who waits for which task, on one event loop; told of changes by the queue."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[str, set[Waiting]] = {}
        self.known: dict[str, int] = {}
        """The row version that a waiter has seen, for changes by other processes."""

    def enter(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve this loop from now on."""
        self._loop = loop
        self._waiting.clear()
        self.known.clear()

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

    def tell(self, changed: list[Task]) -> None:
        """Called on a lane's thread after a commit."""
        news = {task.id: task.version for task in changed if task.id in self._waiting}
        if news and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._hear, news)

    def saw(self, task_id: str, version: int) -> None:
        """One waiter has read this version: it is news to those who have read an older one."""
        if task_id in self._waiting:
            self.known[task_id] = version
            self._hear({task_id: version})
            self._begin()

    def _hear(self, news: dict[str, int]) -> None:
        for task_id, version in news.items():
            for waiting in self._waiting.get(task_id, ()):
                waiting.hear(version)

    def _leave(self, waiting: Waiting) -> None:
        others = self._waiting.get(waiting.task_id, set())
        others.discard(waiting)
        if not others:
            self._waiting.pop(waiting.task_id, None)
            self.known.pop(waiting.task_id, None)


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
        self.changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def hear(self, version: int) -> None:
        """There is this version."""
        self._newest = max(self._newest, version)
        if self._newest > self._read and not self.changed.done():
            self.changed.set_result(None)

    def saw(self, version: int) -> None:
        """This version has been read: wait for a newer one."""
        self._read = version
        if self.changed.done() and self._newest <= version:
            self.changed = asyncio.get_running_loop().create_future()
        self._watch.saw(self.task_id, version)


def granted_wait(call: Call) -> int:
    """The whole seconds that this request may wait: what was asked, capped; 0 is not at all.

    ``Prefer: wait=N`` by RFC 7240; what cannot be read is ignored.
    """
    asked = requested_wait(call.headers(b"prefer"))
    if not asked:
        return 0
    return int(min(asked, call.door.settings.long_poll_max_wait_seconds))


@contextmanager
def place_to_wait(call: Call) -> Iterator[None]:
    """Count a waiter; beyond the limit a request is refused rather than held."""
    door = call.door
    if door.waiters >= door.settings.max_waiters:
        raise TooManyRequests("Too many requests wait here already; ask again in a moment.")
    door.waiters += 1
    try:
        yield
    finally:
        door.waiters -= 1


class Patience:
    """How long one request still waits: to its deadline, its token's end, or the server's stop."""

    def __init__(self, call: Call, seconds: float) -> None:
        self._call = call
        self._deadline = time.monotonic() + seconds
        # Both are watched for the whole wait: one task each, however often the wait goes on.
        self._gone = asyncio.ensure_future(_disconnected(call))
        self._stopping = asyncio.ensure_future(call.door.stopping.wait())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._gone.cancel()
        self._stopping.cancel()

    async def wait(self, future: asyncio.Future[Any], *, at_most: float | None = None) -> bool:
        """Wait for a future; True when it is done, False when the time is up.

        Raises Unauthorized when the token ends first and ClientGone when nobody listens any more.
        ``at_most`` seconds end one wait early; ``over`` tells whether the whole time is up.
        """
        seconds = max(0.0, self._deadline - time.monotonic())
        if at_most is not None:
            seconds = min(seconds, at_most)
        token_ends = self._call.identity.expires_at
        if token_ends is not None:
            seconds = min(seconds, max(0.0, token_ends - time.time()))
        await asyncio.wait(
            {future, self._gone, self._stopping},
            timeout=seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        # First of all: what was claimed for a client that has gone must not be sent to nobody.
        if self._gone.done():
            raise ClientGone
        if future.done():
            return True
        if token_ends is not None and time.time() >= token_ends:
            raise Unauthorized("The token expired while the request waited; send a new one.")
        return False

    @property
    def over(self) -> bool:
        """Whether the wait has come to its end."""
        return self._stopping.done() or time.monotonic() >= self._deadline


async def _disconnected(call: Call) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass
