"""What is submitted: which job, in which room, the task as a request has it, the result's type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from jobroom.client import described, failure, outcome, problems
from jobroom.client.call import Json
from jobroom.client.extension import category_of
from jobroom.domain.names import GLOBAL_ROOM
from jobroom.errors import PayloadInvalid

JOB_MARK = "__jobroom_job__"
"""Where a function that is a job keeps what ``@job`` made of it."""


class NoPayload(PayloadInvalid, TypeError):
    """What is to be a payload is of a type that none has."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A task to be submitted; ``jobs`` are the full names that it may have, the likeliest first."""

    room: str
    jobs: tuple[str, ...]
    task: Json
    returns: TypeAdapter[Any] | None

    @property
    def job(self) -> str:
        """The full name that is tried first."""
        return self.jobs[0]

    def elsewhere(self) -> Submission | None:
        """Return the same task for the next name; None if there is none."""
        return replace(self, jobs=self.jobs[1:]) if len(self.jobs) > 1 else None


def submission_of(
    job: Any,
    payload: Any,
    *,
    room: str | None,
    returns: Any = None,
    **options: Any,
) -> Submission:
    """Return the submission that a caller describes; ``options`` may hold fields of the payload.

    Raises ``PayloadInvalid`` for a function's arguments that do not fit its signature.
    """
    made = getattr(job, JOB_MARK, None)
    if made is None:
        names = (job,) if isinstance(job, str) else _names_of(_class_of(job), None, room)
        _, task = described.task_of({}, job, _given(payload), room=room, **options)
    else:
        fields = {key: options.pop(key) for key in options.keys() - OPTIONS}
        arguments = _checked(made.model, {**_given(payload), **fields})
        names = _names_of(made.model, made.room, room)
        _, task = described.task_of({}, names[0], arguments, room=room, **options)
        returns = made.model.job_result if returns is None else returns
    place = names[0].partition(":")[0] if room is None else room
    return Submission(place, names, task, outcome.adapter_of(returns))


OPTIONS = frozenset(
    {"priority", "run_at", "expires_at", "max_attempts", "timeout_seconds", "depends_on", "parent"}
)


def _given(payload: Any) -> Mapping[str, Any]:
    if isinstance(payload, BaseModel):
        return _as_json(payload)
    if not isinstance(payload, Mapping | None):
        kind = type(payload).__name__
        raise NoPayload(f"A payload is a mapping or a pydantic model; this one is a {kind}.")
    return payload or {}


def _checked(model: type[BaseModel], arguments: Mapping[str, Any]) -> Json:
    try:
        return _as_json(model.model_validate(arguments))
    except ValidationError as invalid:
        faults = failure.faults_of(invalid)
        raise PayloadInvalid(f"These are no arguments of {model.__name__}: {faults}") from None


def _as_json(payload: BaseModel) -> Json:
    """Return what was given of a payload as JSON's types; its defaults are the worker's."""
    try:
        return payload.model_dump(mode="json", exclude_unset=True)
    except Exception as trouble:  # noqa: BLE001  # a user's serializer may raise anything
        name = type(payload).__name__
        raise problems.NotJson(f"{name} has no JSON: {failure.headline(trouble)}") from None


def _class_of(job: Any) -> type[BaseModel]:
    found = job if isinstance(job, type) else type(job)
    if not issubclass(found, BaseModel):
        raise TypeError(
            "A job is named by its full name, its function with @job, its pydantic class or an"
            f" instance of that; what was given is of the type {type(job).__name__}."
        )
    return found


def _names_of(cls: type[BaseModel], own: str | None, room: str | None) -> tuple[str, ...]:
    """Return the full names of a class's job: in its own room, else in the task's, else global."""
    rooms = [own] if own is not None else [room, GLOBAL_ROOM]
    name = f"{category_of(cls)}:{cls.__name__}"
    return tuple(dict.fromkeys(f"{one}:{name}" for one in rooms if one is not None))
