"""Schemas rewritten so that each reference takes steps from an allowance, and the allowance.

Levels and references of a schema may multiply; what a check may still spend bounds them all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from jobroom.domain.places import Places
from jobroom.domain.schemas import DATA, REFERENCES, rebuild

STEP = "x-jobroom-step"
_ALTERNATIVES = ("anyOf", "oneOf")

Change = Callable[[dict[str, Any], dict[str, Any]], Any]
"""A change made to a schema: it is given the old one and its copy."""


class Steps:
    """What a guarded check may still spend; as a custom keyword, each reference takes one."""

    def __init__(self) -> None:
        self._left = 0
        self._sizes: dict[int, int] = {}
        self._lock = threading.Lock()

    @property
    def are_spent(self) -> bool:
        """Whether more was asked for than allowed."""
        return self._left < 0

    def allowing(self, steps: int) -> Self:
        """Begin a check that may take so many; others wait for its end."""
        self._lock.acquire()
        self._left = steps
        self._sizes = {}
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sizes = {}
        self._lock.release()

    def keyword(self, _: object, price: int, *__: object) -> _Step:
        """Make the custom keyword of one reference, whose value is its price."""
        return _Step(self, price)

    def take(self, value: object, price: int) -> None:
        """Take the steps of one reference to one value, or raise ``ValueError``."""
        size = self._size_of(value) // 16 if isinstance(value, list | dict) else 0
        self._left -= price * (1 + size)
        if self._left < 0:
            raise ValueError

    def _size_of(self, value: object) -> int:
        if not isinstance(value, list | dict):
            return 1
        size = self._sizes.get(id(value))
        if size is None:
            inner = value.values() if isinstance(value, dict) else value
            size = self._sizes[id(value)] = 1 + sum(map(self._size_of, inner))
        return size


class _Step:
    """The custom keyword before one reference."""

    def __init__(self, steps: Steps, price: int) -> None:
        self._steps = steps
        self._price = price

    def validate(self, value: object) -> None:
        self._steps.take(value, self._price)


def with_steps(
    places: Places, price: Callable[[dict[str, Any], str], int], *, is_terse: bool
) -> Any:
    """The same schema with a step before each reference; terse, alternatives keep their faults."""

    def change(schema: dict[str, Any], built: dict[str, Any]) -> Any:
        built.pop("$schema", None)
        extra: list[Any] = [
            {
                "if": {STEP: price(schema, keyword)},
                "then": {keyword: built.pop(keyword)},
                "else": False,
            }
            for keyword in REFERENCES
            if keyword in built
        ]
        if is_terse:
            forms = {keyword: built.pop(keyword) for keyword in _ALTERNATIVES if keyword in built}
            extra.append({"if": forms, "else": False})
        own = built.get("allOf")
        all_of = [*(own if isinstance(own, list) else ()), *extra]
        return built | {"allOf": all_of} if extra else built

    return _rebuilt(places, change)


def without_drafts(places: Places) -> Any:
    """The same schema; inside it, no subschema asks for the rules of another draft."""
    inner = (one for one in places.reachable if one is not places.root)
    return (
        _rebuilt(places, _without_draft) if any("$schema" in one for one in inner) else places.root
    )


def _rebuilt(places: Places, change: Change) -> Any:
    """A copy, with a change made to each schema that can be reached."""
    return _rebuilt_one(places.root, {id(one) for one in places.reachable}, change)


def _rebuilt_one(value: Any, reachable: set[int], change: Change) -> Any:
    again = partial(_rebuilt_one, reachable=reachable, change=change)

    def other(keyword: str, value: Any) -> Any:
        return value if keyword in DATA else again(value)

    if isinstance(value, list):
        return [again(item) for item in value]
    if not isinstance(value, dict):
        return value
    if id(value) in reachable:
        return change(value, rebuild(value, again, other))
    return {name: again(item) for name, item in value.items()}


def _without_draft(_: dict[str, Any], built: dict[str, Any]) -> Any:
    built.pop("$schema", None)
    return built
