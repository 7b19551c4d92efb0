"""Carries out the steps of a flow in an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, TypeVar

import httpx

from jobroom.client import async_connection, drawing, problems
from jobroom.client.drawing import Supply
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
        seconds = None if math.isinf(step.seconds) else step.seconds
        try:
            async with asyncio.timeout(seconds):
                return await http.request(
                    step.method,
                    f"{self.api.base_url}{step.path}",
                    content=step.content,
                    headers=dict(step.headers),
                    timeout=step.timeout,
                )
        except TimeoutError:
            raise httpx.ReadTimeout("") from None


async def _drawn(step: Draw) -> list[Any]:
    supply = step.supply
    if supply.is_at_hand:
        supply.ask(step.most)
        return supply.take()
    if supply.pump is None:
        supply.pump = _Pump(supply)
    found: list[Any] = await supply.pump.take(step.most, step.seconds)
    return found


class _Pump:
    """Draws in a task of the event loop, or what would block it in a thread."""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self._news = asyncio.Event()
        if supply.is_async:
            supply.wake_taker = self._news.set
            self._room = asyncio.Event()
            self._task = asyncio.create_task(_draw(supply, self._room), name="jobroom-payloads")
            supply.wake_drawer = self._wake
        else:
            self._loop = asyncio.get_running_loop()
            supply.wake_taker = self._wake_from_thread
            drawing.start_thread(supply)

    async def take(self, most: int, seconds: float) -> list[Any]:
        """Return payloads, after ``seconds`` also none."""
        until = time.monotonic() + seconds
        self._supply.ask(most)
        while (rest := self._supply.rest(until)) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if math.isinf(rest) else rest):
                    await self._news.wait()
            self._news.clear()
        return self._supply.take()

    def _wake(self) -> None:
        if self._supply.is_wanted:
            self._room.set()
            return
        # The loop may have ended before who iterated in it was forgotten.
        with contextlib.suppress(RuntimeError):
            self._task.cancel()

    def _wake_from_thread(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._news.set)


async def _draw(supply: Supply, room: asyncio.Event) -> None:
    source = supply.source
    try:
        while supply.is_wanted:
            if supply.has_room:
                supply.put(await anext(source))
            else:
                await room.wait()
                room.clear()
    except StopAsyncIteration:
        supply.end()
    except BaseException as failure:  # noqa: BLE001  # raised where the payloads are taken
        supply.end(failure)
