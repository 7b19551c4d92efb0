"""A standing task: what a schedule submits each time, as the store keeps it."""

from __future__ import annotations

import json
from typing import NamedTuple

from jobroom.domain import jsontext


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


def write(task: StandingTask) -> str:
    """As JSON text, with the payload as it came."""
    rest = task._asdict()
    del rest["payload"]
    return f'{{"payload":{task.payload},{json.dumps(rest)[1:]}'


def read(text: str) -> StandingTask:
    """The inverse of ``write``.

    Raises ValidationFailed or LookupError where another hand has written to the row.
    """
    found = jsontext.parse_object(text.encode())
    members = {name: found.values[name] for name in StandingTask._fields}
    return StandingTask(**(members | {"payload": found.raw("payload")}))
