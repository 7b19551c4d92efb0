"""How long a request may wait, without a thread and without a connection."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from jobroom.domain.prefer import requested_wait
from jobroom.errors import TooManyRequests, Unauthorized
from jobroom.http.exchange import ClientGone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobroom.http.exchange import Call


def granted_wait(call: Call) -> int:
    """The whole seconds that this request may wait: what was asked, capped; 0 is not at all.

    ``Prefer: wait=N`` by RFC 7240; what cannot be read is ignored. A platform that ends requests
    by itself has said in ``scope["jobroom.answer_by"]`` when the answer must be on its way.
    """
    asked = requested_wait(call.headers(b"prefer"))
    if not asked:
        return 0
    seconds = min(asked, call.door.settings.long_poll_max_wait_seconds)
    answer_by: float | None = call.scope.get("jobroom.answer_by")
    if answer_by is not None:
        seconds = min(seconds, answer_by - time.monotonic())
    return max(0, int(seconds))


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
        # The first look has taken its time, too: the platform does not wait the longer for it.
        platform: float = call.scope.get("jobroom.answer_by", math.inf)
        self._deadline = min(time.monotonic() + seconds, platform)
        self._waker: asyncio.Future[None] | None = None
        # Watched for the whole wait: one task, however often the wait goes on.
        self._gone = asyncio.ensure_future(_disconnected(call))
        self._gone.add_done_callback(self._wake)
        call.door.held.add(self._wake)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._call.door.held.discard(self._wake)
        self._gone.cancel()

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
        await self._first_of(future, seconds)
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
        return self._call.door.is_stopping or time.monotonic() >= self._deadline

    async def _first_of(self, future: asyncio.Future[Any], seconds: float) -> None:
        """Until the future is done, the client gone, the server stopping, or the time up.

        By hand, where ``asyncio.wait`` would keep a task and three callbacks for each waiter.
        """
        if future.done() or self._gone.done() or self._call.door.is_stopping:
            await asyncio.sleep(0)  # a client that has gone meanwhile is noticed
            return
        loop = asyncio.get_running_loop()
        self._waker = loop.create_future()
        timer = loop.call_later(seconds, self._wake)
        future.add_done_callback(self._wake)
        try:
            await self._waker
        finally:
            timer.cancel()
            future.remove_done_callback(self._wake)
            self._waker = None

    def _wake(self, _done: object = None) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)


async def _disconnected(call: Call) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass
