"""What the server answers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, RootModel

from jobroom.domain.lifecycle import TaskStatus


class Answer(BaseModel):
    """What the server answers; a reader ignores members that it does not know."""

    # Built on first use: a server checks no answers, and its cold start counts.
    model_config = ConfigDict(
        extra="ignore", frozen=True, defer_build=True, serialize_by_alias=True
    )


class FieldFault(Answer):
    """One fault at one place of the request."""

    pointer: str = Field(description="JSON Pointer (RFC 6901) to the place; empty for the whole.")
    message: str = Field(description="What is wrong there.")


class Problem(Answer):
    """An error (RFC 9457)."""

    type: str = Field(description="The kind of problem; the address explains it.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What went wrong this time and what to do.")
    instance: str = Field(description="The request's id, as the server's log names it.")
    errors: list[FieldFault] = Field(default=[], description="The faults, place by place.")


class TaskBody(Answer):
    """A task."""

    id: str
    job_name: str = Field(description="Full name of its job.")
    room_id: str = Field(description="The room it was submitted in.")
    status: TaskStatus
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    completed_at: AwareDatetime | None
    worker_id: str | None = Field(description="Who holds it, or held it last.")
    error: str | None
    payload: dict[str, Any] | None = Field(description="Null in lists if over 4 KiB.")
    queue_position: int | None = Field(description="From 1, capped at 1,000; null if not counted.")
    created_by_id: str
    claimed_at: AwareDatetime | None
    attempt: int = Field(description="How often it was claimed: the fence for reports.")
    starts: int = Field(description="How often it went to running.")
    max_attempts: int = Field(description="How often it may go to running.")
    priority: int
    run_at: AwareDatetime | None
    expires_at: AwareDatetime | None
    progress: float | None
    message: str | None
    result: Any = Field(description="Null in lists if over 4 KiB.")
    depends_on: list[str]
    waiting_on: list[str]
    lease_expires_at: AwareDatetime | None = Field(description="When its worker counts as lost.")
    schema_version: int = Field(description="The version of the job's schema it was checked by.")
    timeout_seconds: float | None
    payload_bytes: int | None = Field(default=None, description="Size of a payload left out.")
    result_bytes: int | None = Field(default=None, description="Size of a result left out.")


class TaskReport(TaskBody):
    """A task after a report, and the worker's next one if it asked for it."""

    next_task: TaskBody | None = None


class ClaimBody(Answer):
    """What a claim got; ``task`` is the first of ``tasks``."""

    task: TaskBody | None
    tasks: list[TaskBody]


class RetryPlan(Answer):
    """The tasks that a retry would put back to work."""

    tasks: list[str] = Field(description="Ids, the named task first.")


class RetryBody(RootModel[TaskBody | RetryPlan]):
    """The task that goes again; with ``dry_run`` only the plan."""


class JobSummary(Answer):
    """A job in a list."""

    id: str
    room_id: str
    category: str
    name: str
    full_name: str = Field(description="room:category:name")
    description: str | None
    workers: list[str] = Field(description="Ids of its live workers.")
    alive_workers: int
    created_at: AwareDatetime
    last_seen: AwareDatetime | None = Field(description="When a worker of it was last heard of.")


class JobBody(JobSummary):
    """A job with its schema and policy."""

    job_schema: dict[str, Any] = Field(alias="schema")
    schema_version: int
    worker_id: str | None = Field(description="The worker that this call linked.")
    max_attempts: int
    on_worker_lost: Literal["fail", "requeue"]
    order: Literal["fifo", "fair"]
    retry_delay_seconds: float | None
    timeout_seconds: float | None
    claim_timeout_seconds: float | None
    result_ttl_seconds: float | None
    check_payload: bool = Field(alias="validate")


class WorkerBody(Answer):
    """A worker."""

    id: str
    last_heartbeat: AwareDatetime
    job_count: int
    alive: bool
    running_tasks: int
    name: str | None
    identity: str = Field(description="Who owns it.")
    kind: Literal["identity", "instance"]
    created_at: AwareDatetime


class NewWorkerBody(WorkerBody):
    """A worker that was just made."""

    timeout_seconds: float = Field(description="It counts as lost when it is silent for longer.")


class HeartbeatBody(Answer):
    """The answer to a heartbeat."""

    id: str
    last_heartbeat: AwareDatetime
    cancel: list[str] = Field(description="Ids of the tasks that the worker should stop.")


class HeartbeatReply(HeartbeatBody):
    """The answer to a heartbeat over HTTP, which says how long the next one has time."""

    timeout_seconds: float = Field(description="It counts as lost when it is silent for longer.")


class PageBody(Answer):
    """A part of a list, newest first."""

    total: int = Field(description="How many there are, counted to 10,000.")
    limit: int
    offset: int
    next_cursor: str | None = Field(description="Where the next page begins; null on the last.")
    total_capped: bool = Field(default=False, description="Whether there are more than counted.")


class TaskPage(PageBody):
    """A page of tasks."""

    items: list[TaskBody]


class JobPage(PageBody):
    """A page of jobs."""

    items: list[JobSummary]


class WorkerPage(PageBody):
    """A page of workers."""

    items: list[WorkerBody]


class Me(Answer):
    """Who the token says the caller is."""

    id: str
    is_admin: bool
    rooms: list[str] | None = Field(description="The rooms it reaches; null means all.")


class SweepBody(Answer):
    """What one sweep did, counted as committed."""

    judged: bool = Field(description="False after an outage: nobody was failed this time.")
    lost_workers: int
    requeued_tasks: int
    failed_tasks: int
    timed_out_tasks: int
    expired_tasks: int
    hidden_jobs: int
    removed_tasks: int


class HealthBody(Answer):
    """Whether the server is alive or ready."""

    status: str
