"""What a client sends."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic.config import JsonDict

from jobroom.domain import names
from jobroom.domain.graph import Condition
from jobroom.domain.lifecycle import TaskStatus
from jobroom.wire.fields import (
    LONGEST_LABEL,
    MAX_SECONDS,
    Attempt,
    Attempts,
    Delay,
    Label,
    Limit,
    Microseconds,
    Name,
    Offset,
    Priority,
    Seconds,
    Share,
    TaskId,
    WorkerId,
)

NULL: JsonDict = {"type": "null"}
MOST_TASKS = 1000
"""How many tasks one request submits, and on how many one task may depend."""


def _finish_schema(schema: JsonDict, model: type[Any]) -> None:
    """Write what the base class adds: an optional member may be null; there is an example."""
    required = schema.get("required", [])
    properties = schema.get("properties")
    if isinstance(properties, dict) and isinstance(required, list):
        for name, member in properties.items():
            if isinstance(member, dict) and name not in required:
                properties[name] = _nullable(member)
    schema["examples"] = [model.example]


def _nullable(member: JsonDict) -> JsonDict:
    choices = member.get("anyOf")
    if member == NULL or (isinstance(choices, list) and NULL in choices):
        return member
    notes: JsonDict = {
        key: member[key] for key in ("title", "description", "default") if key in member
    }
    kind: JsonDict = {key: value for key, value in member.items() if key not in notes}
    return {"anyOf": [kind, NULL], **notes} if kind and kind != NULL else member


class Request(BaseModel):
    """What a client sends: strict types, unknown members ignored, null the same as absent."""

    model_config = ConfigDict(
        strict=True,
        defer_build=True,
        extra="ignore",
        serialize_by_alias=True,
        hide_input_in_errors=True,
        json_schema_extra=_finish_schema,
    )
    example: ClassVar[dict[str, Any]] = {}

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, values: object) -> object:
        if isinstance(values, dict) and None in values.values():
            return {name: value for name, value in values.items() if value is not None}
        return values


class RegisterJob(Request):
    """A kind of work that a worker offers to a room."""

    example: ClassVar[dict[str, Any]] = {
        "category": "modifiers",
        "name": "Rotate",
        "schema": {"type": "object", "properties": {"angle": {"type": "number"}}},
    }
    category: Name = Field(description="One of the allowed categories.")
    name: Name = Field(description="The job's name, unique in its room and category.")
    # The released clients of zndraw-joblib send their model's own name for it, schema_.
    job_schema: dict[str, Any] = Field(
        default={},
        alias="schema",
        validation_alias=AliasChoices("schema", "schema_"),
        description="JSON Schema (2020-12) that payloads must fit.",
    )
    worker_id: WorkerId | None = Field(
        default=None, description="The worker to link; without it the caller's identity worker."
    )
    description: str | None = Field(
        default=None, max_length=4096, description="What the job does, for people."
    )
    max_attempts: Attempts | None = Field(
        default=None,
        description="How often a task may start; without it 1, or 3 if lost tasks are requeued.",
    )
    on_worker_lost: Literal["fail", "requeue"] = Field(
        default="fail", description="What becomes of a task whose worker is lost."
    )
    order: Literal["fifo", "fair"] = Field(
        default="fifo", description="Oldest first, or in turns between rooms."
    )
    retry_delay_seconds: Delay | None = Field(
        default=None, description="Pause before a failed task is tried again; doubles each time."
    )
    timeout_seconds: Seconds | None = Field(
        default=None, description="How long a task may run before it counts as lost."
    )
    claim_timeout_seconds: Seconds | None = Field(
        default=None, description="How long a claimed task may wait for its start."
    )
    result_ttl_seconds: Seconds | None = Field(
        default=None, description="How long a finished task is kept."
    )
    check_payload: bool = Field(
        default=True, alias="validate", description="Whether payloads are checked by the schema."
    )
    replace: bool = Field(
        default=False, description="Whether a different schema replaces the one that is there."
    )


class CreateWorker(Request):
    """A new worker of the caller."""

    example: ClassVar[dict[str, Any]] = {"name": "gpu-node-7"}
    name: Label | None = Field(default=None, description="A label for people.")


class Dependency(Request):
    """A task that another one depends on, and how it must end for that one to go on."""

    id: TaskId
    condition: Annotated[Condition, Field(strict=False)] = Condition.AFTEROK


class DependencyInBulk(Request):
    """As ``Dependency``; ``id`` may also be the key of a task of the same request."""

    id: Label | None = None
    key: Label | None = None
    condition: Annotated[Condition, Field(strict=False)] = Condition.AFTEROK

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if (self.id is None) == (self.key is None):
            raise ValueError("must have either an id or a key")
        return self


def _as_dependency(value: object) -> object:
    if isinstance(value, dict):
        return value
    found = names.parse_task_id(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a task's id (a UUID), or an object with id and condition")
    return {"id": found}


def _as_dependency_in_bulk(value: object) -> object:
    if isinstance(value, dict):
        return value
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_LABEL:
        raise ValueError("must be a key or an id, or an object with one of them and condition")
    return {"id": value}


_UUID: JsonDict = {"type": "string", "format": "uuid"}
_NAME: JsonDict = {"type": "string", "minLength": 1, "maxLength": LONGEST_LABEL}
_CONDITION: JsonDict = {
    "anyOf": [{"enum": [each.value for each in Condition]}, NULL],
    "default": Condition.AFTEROK.value,
    "description": "How it must end: completed, failed or cancelled, or in any way.",
}
_DEPENDENCY: JsonDict = {
    "type": "object",
    "properties": {"id": _UUID, "condition": _CONDITION},
    "required": ["id"],
}
_DEPENDENCY_IN_BULK: JsonDict = {
    "type": "object",
    "properties": {
        "id": {"anyOf": [_NAME, NULL]},
        "key": {"anyOf": [_NAME, NULL]},
        "condition": _CONDITION,
    },
    "anyOf": [{"required": ["id"]}, {"required": ["key"]}],
}


class TaskFields(Request):
    """What every new task may say of itself."""

    payload: dict[str, Any] = Field(default_factory=dict, description="The task's arguments.")
    priority: Priority = Field(default=0, description="Higher is claimed first.")
    run_at: Microseconds | None = Field(
        default=None, description="Not claimable before this time (RFC 3339 with an offset)."
    )
    expires_at: Microseconds | None = Field(
        default=None, description="Fails if it has not started by then (RFC 3339 with an offset)."
    )
    max_attempts: Attempts | None = Field(
        default=None, description="How often it may start; without it the job's number."
    )
    timeout_seconds: Seconds | None = Field(
        default=None, description="How long it may run; without it the job's figure."
    )
    id: TaskId | None = Field(
        default=None, description="An id of the client's choice (any UUID), for safe repeats."
    )
    parent: TaskId | None = Field(
        default=None,
        description="A task that the caller is running: what waits for it waits for this one too.",
    )


class SubmitTask(TaskFields):
    """One unit of work for a job."""

    example: ClassVar[dict[str, Any]] = {"payload": {"angle": 90}}
    depends_on: list[
        Annotated[
            Dependency,
            BeforeValidator(_as_dependency),
            WithJsonSchema({"anyOf": [_UUID, _DEPENDENCY]}),
        ]
    ] = Field(
        default_factory=list,
        max_length=MOST_TASKS,
        description="Ids of the tasks that must have completed before, or have ended otherwise.",
    )


class BulkTask(TaskFields):
    """One of the tasks of a bulk submission."""

    example: ClassVar[dict[str, Any]] = {"job": "lab:modifiers:Rotate", "payload": {"angle": 90}}
    job: Annotated[str, Field(min_length=1, max_length=1024)] = Field(
        description="The job's full name, room:category:name."
    )
    key: Label | None = Field(
        default=None, description="A name by which others of the same request may depend on it."
    )
    depends_on: list[
        Annotated[
            DependencyInBulk,
            BeforeValidator(_as_dependency_in_bulk),
            WithJsonSchema({"anyOf": [_NAME, _DEPENDENCY_IN_BULK]}),
        ]
    ] = Field(
        default_factory=list,
        max_length=MOST_TASKS,
        description="Keys of tasks of the same request, and ids of tasks, that must come before.",
    )


class SubmitTasks(Request):
    """Several tasks for jobs that a room sees: all of them or none."""

    example: ClassVar[dict[str, Any]] = {
        "tasks": [
            {"job": "lab:modifiers:Rotate", "key": "first", "payload": {"angle": 90}},
            {"job": "lab:modifiers:Rotate", "payload": {"angle": 180}, "depends_on": ["first"]},
        ]
    }
    tasks: list[BulkTask] = Field(
        min_length=1, max_length=MOST_TASKS, description="The tasks, in the order of their claims."
    )


class PutSchedule(Request):
    """A task that is submitted again and again, by a calendar or at an interval."""

    example: ClassVar[dict[str, Any]] = {
        "name": "nightly",
        "job": "lab:modifiers:Rotate",
        "payload": {"angle": 90},
        "cron": "0 3 * * *",
        "timezone": "Europe/Berlin",
    }
    name: Name = Field(description="The schedule's name, unique in its room.")
    job: Annotated[str, Field(min_length=1, max_length=1024)] = Field(
        description="The job's full name, room:category:name."
    )
    payload: dict[str, Any] = Field(
        default_factory=dict, description="The arguments of each of its tasks, up to 64 KiB."
    )
    cron: Label | None = Field(
        default=None,
        description="Minute, hour, day of the month, month, day of the week; or @daily and such.",
    )
    every_seconds: Annotated[float, Field(ge=1, le=MAX_SECONDS, allow_inf_nan=False)] | None = (
        Field(default=None, description="The interval; either this or cron.")
    )
    timezone: Label = Field(default="UTC", description="The IANA name of the zone of cron.")
    catch_up: Literal["one", "all", "skip"] = Field(
        default="one",
        description="What becomes of missed times: one task for all, one for each, or none.",
    )
    paused: bool = Field(default=False, description="Whether it is kept without firing.")
    start_at: Microseconds | None = Field(
        default=None, description="Not before this time (RFC 3339 with an offset)."
    )
    end_at: Microseconds | None = Field(
        default=None, description="Not after this time (RFC 3339 with an offset)."
    )
    priority: Priority = Field(default=0, description="Higher is claimed first.")
    max_attempts: Attempts | None = Field(
        default=None, description="How often a task may start; without it the job's number."
    )
    timeout_seconds: Seconds | None = Field(
        default=None, description="How long a task may run; without it the job's figure."
    )

    @model_validator(mode="after")
    def _has_one_kind_of_times(self) -> Self:
        if (self.cron is None) == (self.every_seconds is None):
            raise ValueError("must have either cron or every_seconds")
        return self


class ClaimTasks(Request):
    """A worker asks for work."""

    example: ClassVar[dict[str, Any]] = {"limit": 1, "start": True}
    worker_id: WorkerId | None = Field(
        default=None, description="Who claims; without it the caller's identity worker."
    )
    limit: Limit = Field(default=1, description="At most this many tasks.")
    start: bool = Field(default=False, description="Whether the tasks go straight to running.")
    request_id: Label | None = Field(
        default=None, description="Repeating a claim with the same text gives the same tasks."
    )


class UpdateTask(Request):
    """A report on a task, or its cancellation."""

    example: ClassVar[dict[str, Any]] = {"status": "completed", "result": 42, "attempt": 1}
    # Not strict: JSON has no enumerations, the text is the value.
    status: Annotated[TaskStatus, Field(strict=False)] | None = Field(
        default=None, description="Where the task shall go; without it only progress is reported."
    )
    error: str | None = Field(default=None, description="Why it failed; cut at 64 KiB.")
    result: Any = Field(default=None, description="What came out, any JSON; with completed only.")
    progress: Share | None = Field(default=None, description="How much is done, from 0 to 1.")
    message: str | None = Field(default=None, description="What it is doing now, for people.")
    attempt: Attempt | None = Field(
        default=None, description="The attempt that reports; an outdated one is refused."
    )
    worker_id: WorkerId | None = Field(default=None, description="The worker that holds the task.")
    claim_next: bool = Field(
        default=False, description="Whether to claim and start the worker's next task as well."
    )
    final: bool = Field(default=False, description="Whether a failure uses up all attempts.")
    log: str | None = Field(default=None, description="Text to append to the attempt's log.")
    log_offset: Offset | None = Field(
        default=None,
        description="How many bytes of the attempt's log are known to be stored: where log begins.",
    )
