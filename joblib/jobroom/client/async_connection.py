"""Where the server is and how to be known there, for programs with an event loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import weakref
from collections.abc import Awaitable, Callable
from typing import Self

import httpx

from jobroom.client import address
from jobroom.client.connection import bearer, guarded
from jobroom.client.spell import Troubles

AsyncToken = str | Callable[[], str | Awaitable[str]]


class AsyncConnection:
    """What an ``AsyncClient`` needs of its surroundings.

    ``token`` may be a callable, async or plain (which is called in a thread), for tokens that
    expire; it is asked as that of a ``Connection`` is. A child process and another event loop get
    connections of their own.
    """

    def __init__(
        self,
        base_url: str,
        token: AsyncToken | None = None,
        *,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        address.check(base_url)
        if not callable(token):
            bearer(token)
        self.base_url = base_url.rstrip("/")
        self._token = token
        self._http = http
        self._own = http is None
        self._pid = os.getpid()
        self._loop: weakref.ref[asyncio.AbstractEventLoop] | None = None
        self._asking = asyncio.Lock()
        self.troubles = Troubles()

    @property
    def http(self) -> httpx.AsyncClient:
        """The client that all requests of this event loop go through."""
        loop = asyncio.get_running_loop()
        moved = self._loop is None or self._loop() is not loop or self._pid != os.getpid()
        if moved:
            self._loop, self._pid = weakref.ref(loop), os.getpid()
            self._asking = asyncio.Lock()
        if self._http is None or (moved and self._own):
            # The connections of a loop that has ended cannot be used, or closed, in this one.
            self._http = guarded(httpx.AsyncClient)
        return self._http

    async def get_headers(self) -> dict[str, str]:
        """Return the bearer token's header, or nothing without a token."""
        token = self._token
        if not callable(token):
            return bearer(token)
        async with self._asking:
            is_async = inspect.iscoroutinefunction(token)
            given = token() if is_async else await asyncio.to_thread(token)
            return bearer(await given if inspect.isawaitable(given) else given)

    @property
    def renews_token(self) -> bool:
        """Whether another token may come when one is refused."""
        return callable(self._token)

    async def close(self) -> None:
        """Close the connections, unless the client was given by the caller."""
        if self._own and self._http is not None:
            await self.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
