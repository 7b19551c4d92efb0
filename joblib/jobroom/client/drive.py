"""Carries out the steps of a flow in the colour that blocks."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any, TypeVar

import httpx

from jobroom.client import connection, drawing, intime, problems
from jobroom.client.flow import Draw, Exchange, Flow, Give, Identify, Pause, Step

T = TypeVar("T")


class Driver:
    """Runs flows for one ``ApiManager``; safe to use from several threads."""

    def __init__(self, api: connection.ApiManager) -> None:
        self.api = api

    def run(self, flow: Flow[T]) -> T:
        """Return what the flow returns."""
        ended: list[T] = []
        for _ in self._steps(flow, ended):
            raise TypeError("This flow gives values one by one: iterate over it.")
        return ended[0]

    def iterate(self, flow: Flow[None]) -> Iterator[Any]:
        """Yield what the flow gives, one by one."""
        return self._steps(flow, [])

    def _steps(self, flow: Flow[T], ended: list[T]) -> Generator[Any, None, None]:
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
                        answer = self._perform(step)
                except BaseException as raised:  # noqa: BLE001  # the flow hears of it
                    failure = raised
        except StopIteration as stop:
            ended.append(stop.value)
        finally:
            failure = None  # its traceback holds this frame: it would wait for the collector

    def _perform(self, step: Step) -> Any:
        match step:
            case Identify():
                return self.api.get_headers()
            case Exchange():
                return self._exchange(step)
            case Pause():
                return self._pause(step)
            case Draw():
                return _drawn(step)
        raise AssertionError(step)

    def _exchange(self, step: Exchange) -> httpx.Response:
        http = self.api.http
        if getattr(http, "is_closed", False):
            raise problems.ConnectionClosed("The connection to the server was closed already.")
        ask = partial(
            http.request,
            step.method,
            f"{self.api.base_url.rstrip('/')}{step.path}",
            content=step.content,
            headers=dict(step.headers),
            timeout=step.timeout,
        )
        return ask() if math.isinf(step.seconds) else intime.ask(ask, step.seconds)

    def _pause(self, step: Pause) -> bool:
        if step.by is not None:
            return step.by(step.seconds)
        time.sleep(step.seconds)
        return True


def _drawn(step: Draw) -> list[Any]:
    supply = step.supply
    if supply.is_at_hand:
        supply.ask(step.most)
        return supply.take()
    if supply.pump is None:
        supply.pump = drawing.Pump(supply)
    found: list[Any] = supply.pump.take(step.most, step.seconds)
    return found
