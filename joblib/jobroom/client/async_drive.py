"""Carries out the steps of a flow in an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, TypeVar

import httpx

from jobroom.client import async_connection, problems
from jobroom.client.drive import drawn
from jobroom.client.flow import Draw, Exchange, Flow, Give, Identify, Pause, Step

T = TypeVar("T")


class AsyncDriver:
    """Runs flows for one connection."""

    def __init__(self, api: async_connection.AsyncConnection) -> None:
        self.api = api

    async def run(self, flow: Flow[T]) -> T:
        """Return what the flow returns."""
        ended: list[T] = []
        async for _ in self._steps(flow, ended):
            raise TypeError("This flow gives values one by one: iterate over it.")
        return ended[0]

    def iterate(self, flow: Flow[None]) -> AsyncIterator[Any]:
        """Yield what the flow gives, one by one."""
        return self._steps(flow, [])

    async def _steps(self, flow: Flow[T], ended: list[T]) -> AsyncGenerator[Any, None]:
        answer: Any = None
        failure: BaseException | None = None
        try:
            while True:
                step = flow.send(answer) if failure is None else flow.throw(failure)
                answer = failure = None
                try:
                    if isinstance(step, Give):
                        yield step.value
                    else:
                        answer = await self._perform(step)
                except BaseException as raised:  # noqa: BLE001  # the flow hears of it
                    failure = raised
        except StopIteration as stop:
            ended.append(stop.value)
        finally:
            failure = None  # its traceback holds this frame: it would wait for the collector

    async def _perform(self, step: Step) -> Any:
        match step:
            case Identify():
                return await self.api.get_headers()
            case Exchange():
                return await self._exchange(step)
            case Pause():
                await asyncio.sleep(step.seconds)
                return True
            case Draw():
                return await _drawn(step)
        raise AssertionError(step)

    async def _exchange(self, step: Exchange) -> httpx.Response:
        http = self.api.http
        if http.is_closed:
            raise problems.ConnectionClosed("The connection to the server was closed already.")
        return await http.request(
            step.method,
            f"{self.api.base_url}{step.path}",
            content=step.content,
            headers=dict(step.headers),
            timeout=step.timeout,
        )


async def _drawn(step: Draw) -> tuple[list[Any], bool]:
    if not hasattr(step.source, "__anext__"):
        return drawn(step)
    until = time.monotonic() + step.seconds
    items: list[Any] = []
    while len(items) < step.most:
        try:
            items.append(await anext(step.source))
        except StopAsyncIteration:
            return items, False
        if time.monotonic() > until:
            break
    return items, True
