"""What a client sends."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic.config import JsonDict

from jobroom.domain.lifecycle import TaskStatus
from jobroom.wire.fields import (
    Attempt,
    Attempts,
    Delay,
    Label,
    Limit,
    Microseconds,
    Name,
    Priority,
    Seconds,
    Share,
    TaskId,
    WorkerId,
)

NULL: JsonDict = {"type": "null"}


def _refuse_dependencies(value: list[Any]) -> list[Any]:
    if value:
        raise ValueError("is not supported yet; submit the task without it")
    return value


def _refuse_parent(value: object) -> None:
    if value is not None:
        raise ValueError("is not supported yet; submit the task without it")


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
    job_schema: dict[str, Any] = Field(
        default={}, alias="schema", description="JSON Schema (2020-12) that payloads must fit."
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


class SubmitTask(Request):
    """One unit of work for a job."""

    example: ClassVar[dict[str, Any]] = {"payload": {"angle": 90}}
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
    depends_on: Annotated[
        list[Any], AfterValidator(_refuse_dependencies), Field(json_schema_extra={"maxItems": 0})
    ] = Field(default_factory=list, description="Not supported yet: leave it out or empty.")
    parent: Annotated[None, BeforeValidator(_refuse_parent)] = Field(
        default=None, description="Not supported yet: leave it out."
    )


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
