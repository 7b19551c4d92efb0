"""The steps that the client's rules ask for; a driver of either colour carries them out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import httpx

from jobroom.client.drawing import Supply

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Identify:
    """Ask for the headers that prove who asks; whatever that raises is raised in the flow."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Send one request and read its answer; httpx's errors are raised in the flow.

    ``timeout`` is httpx's: for each read. ``seconds`` is for all of it, to the answer's last byte.
    """

    method: str
    path: str
    content: bytes | None
    headers: Mapping[str, str]
    timeout: httpx.Timeout
    seconds: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait; ``by`` does it in the colour that blocks, and says whether to go on."""

    seconds: float
    by: Callable[[float], bool] | None = None


@dataclass(frozen=True, slots=True)
class Draw:
    """Take up to ``most`` of the caller's payloads, after ``seconds`` also none."""

    supply: Supply
    most: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Give:
    """Hand a value to whoever iterates over the flow."""

    value: Any


Step: TypeAlias = Identify | Exchange | Pause | Draw | Give
Flow: TypeAlias = Generator[Step, Any, T]
"""Yields steps, is sent what they came to, and returns what was asked for."""


def identify() -> Flow[Mapping[str, str]]:
    """Return the headers that prove who asks."""
    headers: Mapping[str, str] = yield Identify()
    return headers


def exchange(step: Exchange) -> Flow[httpx.Response]:
    """Return the answer to one request."""
    response: httpx.Response = yield step
    return response


def pause(seconds: float, by: Callable[[float], bool] | None = None) -> Flow[bool]:
    """Wait; return whether to go on."""
    goes_on: bool = yield Pause(seconds, by)
    return goes_on


def draw(supply: Supply, *, most: int, seconds: float) -> Flow[list[Any]]:
    """Return some of the caller's payloads, none if too few came in time."""
    drawn: list[Any] = yield Draw(supply, most, seconds)
    return drawn
