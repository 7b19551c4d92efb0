"""What a program says of a job when it registers it, checked before anything is sent."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from pydantic import BaseModel

from jobroom.client.extension import category_of
from jobroom.domain import names


class JobOptions(TypedDict, total=False):
    """What a registration may say beside class and room; the contract's words."""

    description: str
    max_attempts: int
    on_worker_lost: Literal["fail", "requeue"]
    order: Literal["fifo", "fair"]
    retry_delay_seconds: float
    timeout_seconds: float
    claim_timeout_seconds: float
    result_ttl_seconds: float
    validate: bool
    replace: bool


KNOWN = ("room", *JobOptions.__annotations__)


@dataclass(frozen=True, slots=True)
class Registration:
    """A job as this process registered it, to be said again by a new worker.

    ``schema_version`` is what the server called the class's schema; None before it answered.
    ``isolate`` and ``memory_mb`` are how its tasks are run, None as the worker's others, and
    ``source`` is what to import, a module or a file, to have the class in another process.
    """

    cls: type[BaseModel]
    room: str
    job: Mapping[str, Any]
    schema_version: int | None = None
    isolate: Literal["thread", "process"] | None = None
    memory_mb: float | None = None
    source: str | None = None

    @property
    def full_name(self) -> str:
        """The job's full name."""
        return f"{self.room}:{self.job['category']}:{self.job['name']}"


def registration_of(cls: object, room: str, options: JobOptions) -> Registration:
    """Describe a class as a job; raises for what is no pydantic class or has no good name."""
    if not (isinstance(cls, type) and issubclass(cls, BaseModel)):
        kind = "another class" if isinstance(cls, type) else f"of the type {type(cls).__name__}"
        raise TypeError(f"A job is a pydantic class (BaseModel); what was given is {kind}.")
    category = category_of(cls)
    names.check_category(category, (category,))  # which are allowed, the server knows
    names.check_name(cls.__name__)
    job = {"category": category, "name": cls.__name__, "schema": cls.model_json_schema()}
    return Registration(cls, room, {**job, **options})


def check_options(options: Mapping[str, Any]) -> None:
    """Raise ``TypeError`` for an option that there is not, naming the nearest one."""
    for option in options.keys() - set(KNOWN):
        near = difflib.get_close_matches(option, KNOWN, n=1)
        choice = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(KNOWN)}."
        raise TypeError(f"register() has no option {option!r}; {choice}")


def check_room(room: object) -> None:
    """Raise ``TypeError`` for what is no str, ``InvalidRoomId`` for a room that cannot be."""
    if not isinstance(room, str):
        raise TypeError(f"A room is a str; what was given is of the type {type(room).__name__}.")
    names.check_room(room)
