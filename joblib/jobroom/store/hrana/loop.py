"""An event loop on a thread of its own, for a client that knows no other way; nothing hangs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

log = logging.getLogger("jobroom")

GRACE_SECONDS = 5.0
T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads, each bounded in time."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_note)
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="jobroom-libsql", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], *, timeout_seconds: float) -> T:
        """The coroutine's result; raises TimeoutError, also where its own futures never end."""
        with self._lock:
            if self._is_closed:
                work.close()
                raise RuntimeError("the loop is closed")
            future = asyncio.run_coroutine_threadsafe(_bounded(work, timeout_seconds), self._loop)
        try:
            return future.result(timeout_seconds + GRACE_SECONDS)
        except CancelledError:
            raise TimeoutError from None
        except BaseException:
            future.cancel()
            raise

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Run a last coroutine, cancel what is left, and end the thread."""
        with self._lock:
            if self._is_closed:
                last.close()
                return
            self._is_closed = True
        future = asyncio.run_coroutine_threadsafe(self._finish(last), self._loop)
        future.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))
        self._thread.join(2 * GRACE_SECONDS)

    async def _finish(self, last: Coroutine[Any, Any, None]) -> None:
        try:
            await _bounded(last, GRACE_SECONDS)
        finally:
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            await asyncio.wait_for(asyncio.gather(*rest, return_exceptions=True), GRACE_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()


async def _bounded(work: Coroutine[Any, Any, T], seconds: float) -> T:
    return await asyncio.wait_for(work, seconds)


def _note(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Errors that nobody waits for, such as of a request that was given up."""
    log.debug("store.client error=%s", type(context.get("exception")).__name__)
