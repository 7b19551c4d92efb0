"""Both clients behind one face, so that one table of behaviours is run for both."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import httpx

from jobroom.client.async_client import AsyncClient
from jobroom.client.handle import AsyncTaskHandle
from jobroom.client.sync_client import Client


class Blocking:
    """The client that blocks, as it is."""

    name = "blocking"

    def __init__(self) -> None:
        self._opened: list[httpx.Client] = []

    def client(self, url: str | None = None, token: Any = None, **more: Any) -> Any:
        return Client(url, token, **more)

    def http(self, transport: Any = None, **more: Any) -> httpx.Client:
        # Nothing is encrypted here, and reading the root certificates takes longer than a test.
        self._opened.append(http := httpx.Client(transport=transport, verify=False, **more))  # noqa: S501
        return http

    def close(self) -> None:
        for http in self._opened:
            http.close()


class Looping:
    """The client of event loops; each call is run in the same loop."""

    name = "looping"

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._opened: list[httpx.AsyncClient] = []

    def client(self, url: str | None = None, token: Any = None, **more: Any) -> Any:
        return Awaited(self._runner, AsyncClient(url, token, **more))

    def http(self, transport: Any = None, **more: Any) -> httpx.AsyncClient:
        self._opened.append(http := httpx.AsyncClient(transport=transport, verify=False, **more))  # noqa: S501
        return http

    def close(self) -> None:
        for http in self._opened:
            self._runner.run(http.aclose())
        self._runner.close()


class Awaited:
    """Awaits what the calls of a thing return; iterates over what they iterate over."""

    def __init__(self, runner: asyncio.Runner, thing: Any) -> None:
        self._runner = runner
        self._thing = thing

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._thing, name)
        return self._awaited(found) if callable(found) else found

    def _awaited(self, function: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            return self._plain(function(*args, **named))

        return call

    def _plain(self, found: Any) -> Any:
        if inspect.isawaitable(found):
            found = self._runner.run(_await(found))
        if hasattr(found, "__anext__"):
            return self._iterate(found)
        return Awaited(self._runner, found) if isinstance(found, AsyncTaskHandle) else found

    def _iterate(self, source: Any) -> Any:
        try:
            while True:
                try:
                    yield self._runner.run(_await(anext(source)))
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(source.aclose())

    def __repr__(self) -> str:
        return repr(self._thing)


async def _await(found: Any) -> Any:
    return await found


COLOURS = (Blocking, Looping)
