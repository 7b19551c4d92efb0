"""What a run returned, as a task's result; and where a value is none that JSON can carry."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from jobroom.client import failure
from jobroom.client.problems import NotJson

Place = tuple[str, ...]

DEEPEST = 100
"""How deep the server lets a document nest."""


def plain(result: Any) -> Any:
    """Return the result as JSON's own types; raises ``NotJson`` for a model that has none."""
    if not isinstance(result, BaseModel):
        return result
    try:
        return result.model_dump(mode="json")
    except Exception as trouble:  # noqa: BLE001  # a user's serializer may raise anything
        raise NotJson(f"{type(result).__name__} has no JSON: {failure.headline(trouble)}") from None


def why_not(value: Any, trouble: BaseException) -> str:
    """Say why JSON could not carry a value: where its fault is, else what was raised."""
    with contextlib.suppress(Exception):  # a user's types may raise anything, and do so again
        if fault := fault_of(value):
            return fault
    return failure.first_line(failure.headline(trouble.__cause__ or trouble))


def fault_of(value: Any) -> str | None:
    """Say where the first thing is that JSON cannot carry, and of what type; None without one.

    >>> fault_of({"e": [1.0, float("inf")]})
    'float at /e/1 is not finite'
    >>> fault_of({"seen": {1, 2}})
    'set at /seen is no JSON type'
    """
    waiting: list[tuple[Place, Any]] = [((), value)]
    while waiting:
        place, one = waiting.pop()
        if wrong := _wrong_with(one, place):
            at = "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in place)
            return f"{type(one).__name__} at {at or 'the top'} {wrong}"
        waiting.extend(reversed(list(_inside(place, one))))
    return None


def _wrong_with(value: Any, place: Place) -> str | None:
    if isinstance(value, float):
        return None if math.isfinite(value) else "is not finite"
    if value is not None and not isinstance(value, str | int | list | tuple | dict):
        return "is no JSON type"
    if len(place) > DEEPEST:
        return "lies too deep, or holds itself"
    if isinstance(value, dict):
        odd = [key for key in value if not isinstance(key, str | int | float | None)]
        return f"has a key that is a {type(odd[0]).__name__}, not a str" if odd else None
    return None


def _inside(place: Place, value: Any) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, dict):
        yield from (((*place, str(key)), one) for key, one in value.items())
    elif isinstance(value, list | tuple):
        yield from (((*place, str(index)), one) for index, one in enumerate(value))
