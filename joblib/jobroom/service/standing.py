"""A standing task: what a schedule submits each time, as the store keeps it."""

from __future__ import annotations

import json
from types import NoneType
from typing import NamedTuple

from jobroom.domain import jsontext
from jobroom.errors import JobroomError


class StandingTask(NamedTuple):
    """The parts of a submission. ``payload`` is JSON text, kept character by character.

    ``checked_version`` is the version of the job's schema that the payload was checked by, 0 for
    none; ``fault`` is what was wrong with it then.
    """

    payload: str = "{}"
    priority: int = 0
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    checked_version: int = 0
    fault: str | None = None


UNREADABLE = (JobroomError, LookupError)
"""What ``read`` raises where another hand has written to the row."""
FLAW = "task is no submission"
"""What is wrong with it then."""


def write(task: StandingTask) -> str:
    """As JSON text, with the payload as it came."""
    rest = task._asdict()
    del rest["payload"]
    return f'{{"payload":{task.payload},{json.dumps(rest)[1:]}'


def read(text: str) -> StandingTask:
    """The inverse of ``write``.

    Raises what is ``UNREADABLE``.
    """
    found = jsontext.parse_object(text.encode())
    members = {name: found.values[name] for name in StandingTask._fields}
    for name, kinds in _KINDS.items():
        if type(members[name]) not in kinds:
            raise LookupError(name)
    return StandingTask(**(members | {"payload": found.raw("payload")}))


def flaw(text: str) -> str | None:
    """What keeps it from being read; None where nothing does."""
    try:
        read(text)
    except UNREADABLE:
        return FLAW
    return None


_KINDS: dict[str, tuple[type, ...]] = {
    "payload": (dict,),
    "priority": (int,),
    "max_attempts": (int, NoneType),
    "timeout_seconds": (int, float, NoneType),
    "checked_version": (int,),
    "fault": (str, NoneType),
}
