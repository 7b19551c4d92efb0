"""The way from an HTTP client to an application in the same process, without a socket."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Any

import httpx

END_SECONDS = 10


class Bridge(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Carries requests to an ASGI application, which runs in an event loop of its own thread.

    So both kinds of clients may use it, from any thread and from any event loop, also from inside
    of one. An answer comes as a whole, when the application has ended it.
    """

    def __init__(self, app: Any) -> None:
        self._app = httpx.ASGITransport(app=app)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="jobroom-testing", daemon=True
        )
        self._thread.start()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and wait for its answer, as long as the client's timeout allows."""
        request.read()
        answer = self._begin(request)
        try:
            return answer.result(_patience(request))
        except TimeoutError:
            message = "The application has not answered in time."
            raise httpx.ReadTimeout(message, request=request) from None
        finally:
            answer.cancel()  # does nothing to one that is done

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The same for a client with an event loop."""
        await request.aread()
        answer = asyncio.wrap_future(self._begin(request))
        try:
            return await asyncio.wait_for(answer, _patience(request))
        except TimeoutError:
            message = "The application has not answered in time."
            raise httpx.ReadTimeout(message, request=request) from None

    def stop(self) -> None:
        """Break off what is under way; nothing can be sent any more."""
        if self._loop.is_closed():
            return
        ending = asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop)
        ending.result(END_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_SECONDS)
        self._loop.close()

    def call(self, function: Any) -> None:
        """Call a function in the application's event loop, and wait for its end."""

        async def called() -> None:
            function()

        asyncio.run_coroutine_threadsafe(called(), self._loop).result(END_SECONDS)

    def _begin(self, request: httpx.Request) -> concurrent.futures.Future[httpx.Response]:
        if self._loop.is_closed():
            raise httpx.ConnectError("The application is closed already.", request=request)
        return asyncio.run_coroutine_threadsafe(self._answer(request), self._loop)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        answer = await self._app.handle_async_request(request)
        assert isinstance(answer.stream, httpx.AsyncByteStream)  # noqa: S101 - for the type checker
        body = b"".join([part async for part in answer.stream])
        return httpx.Response(
            answer.status_code, headers=answer.headers, stream=httpx.ByteStream(body)
        )


def _patience(request: httpx.Request) -> float | None:
    timeouts: dict[str, float | None] = request.extensions.get("timeout", {})
    return timeouts.get("read")


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
