"""What the server answers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, RootModel

from jobroom.domain.graph import Condition, EdgeState
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


class WaitedFor(Answer):
    """A task that another one waits for; of one in another room the id alone is told."""

    id: str
    key: str | None
    job_name: str | None
    status: TaskStatus | None = Field(
        description="Null where there is no such task (yet), or in another room."
    )
    condition: Condition = Field(description="How it must end for the other one to go on.")


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
    payload: dict[str, Any] | None = Field(
        description="Null if left out: in lists over 4 KiB, and where it is too long to send."
    )
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
    result: Any = Field(
        description="Null if left out, as a payload is; the address of the result has it."
    )
    depends_on: list[str] = Field(description="Ids of the tasks that must end before it starts.")
    waiting_on: list[WaitedFor] = Field(description="Those that it still waits for.")
    lease_expires_at: AwareDatetime | None = Field(description="When its worker counts as lost.")
    schema_version: int = Field(description="The version of the job's schema it was checked by.")
    timeout_seconds: float | None
    key: str | None = Field(description="The name that it was given when it was submitted.")
    failed_by: str | None = Field(description="The dependency for which it failed unstarted.")
    dependency_count: int | None = Field(
        default=None, description="How many it has, where some of them only are shown."
    )
    payload_bytes: int | None = Field(default=None, description="Size of a payload left out.")
    result_bytes: int | None = Field(default=None, description="Size of a result left out.")


class BulkBody(Answer):
    """The tasks of a bulk submission, in its order."""

    items: list[TaskBody]


class TaskReport(TaskBody):
    """A task after a report, and the worker's next one if it asked for it."""

    next_task: TaskBody | None = None
    log_bytes: int | None = Field(
        default=None, description="How far the attempt's log reaches; told where log was sent."
    )


class TaskLog(Answer):
    """A part of what an attempt has written while it ran."""

    attempt: int = Field(description="Whose log it is; 0 before the first claim.")
    offset: int = Field(description="Where the text begins, in bytes of UTF-8.")
    text: str
    next_offset: int = Field(description="The offset to ask for next.")
    ended: bool = Field(description="Nothing more will come: the attempt is over, this its end.")


class ClaimBody(Answer):
    """What a claim got; ``task`` is the first of ``tasks``."""

    task: TaskBody | None
    tasks: list[TaskBody]


class RetryPlan(Answer):
    """The tasks that a retry would put back to work."""

    tasks: list[str] = Field(description="Ids, the named task first.")
    hidden: int = Field(description="How many more there are that this token may not see.")


class RetryBody(RootModel[Any]):
    """The task that goes again; with ``dry_run`` only the plan."""

    # Not as RootModel[TaskBody | RetryPlan]: that one would be built here and now.
    model_config = ConfigDict(defer_build=True)
    root: TaskBody | RetryPlan


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
    """A part of a list."""

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


class GraphNode(Answer):
    """A task of a graph, as much of it as a drawing shows."""

    id: str
    key: str | None = Field(description="The name that it was given when it was submitted.")
    job_name: str = Field(description="Full name of its job.")
    room_id: str
    status: TaskStatus
    progress: float | None
    error: str | None = Field(description="Its beginning.")
    failed_by: str | None = Field(description="The dependency for which it failed unstarted.")
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    completed_at: AwareDatetime | None


class GraphEdge(Answer):
    """A task depends on another, which need not be there any more."""

    dependency: str = Field(alias="from", description="Id of the task that is waited for.")
    dependent: str = Field(alias="to", description="Id of the task that waits; it is on the page.")
    condition: Condition = Field(description="How the first must end for the other to go on.")
    state: EdgeState = Field(description="Not ended yet, ended so, or ended otherwise.")


class GraphProgress(Answer):
    """How far a graph is: how many of its tasks are in each state."""

    total: int
    blocked: int
    pending: int
    claimed: int
    running: int
    completed: int
    failed: int
    cancelled: int
    done_share: float = Field(description="The share that has ended, from 0 to 1.")


class TaskGraph(PageBody):
    """A part of the graph around a task: nodes, oldest first, and the edges that lead to them."""

    items: list[GraphNode]
    edges: list[GraphEdge]
    edges_left_out: int | None = Field(
        default=None, description="How many edges to the one task are not shown, if not all fit."
    )
    hidden: int = Field(description="How many tasks next to it the token may not see.")
    progress: GraphProgress = Field(description="Of the whole graph, not of this part.")


class RoomBody(Answer):
    """A room in a list; a count is null where the token may not see what was submitted there."""

    room_id: str
    jobs: int = Field(description="How many jobs of its own it lists.")
    alive_workers: int = Field(description="How many live workers serve a job that it sees.")
    blocked: int | None
    pending: int | None
    claimed: int | None
    running: int | None
    failed: int | None = Field(description="Of those that have not passed their retention.")
    capped: list[TaskStatus] = Field(description="The statuses of which there are more than told.")


class RoomPage(PageBody):
    """A page of rooms."""

    items: list[RoomBody]


class StatusCounts(Answer):
    """How many tasks are in each state; of those that ended, the ones not past their retention."""

    blocked: int
    pending: int
    claimed: int
    running: int
    completed: int
    failed: int
    cancelled: int


class JobStats(Answer):
    """What a job has to do in a room."""

    full_name: str
    alive_workers: int
    oldest_pending_seconds: float | None = Field(
        description="For how long its oldest claimable task has waited; null if there is none."
    )
    tasks: StatusCounts
    capped: list[TaskStatus] = Field(description="The statuses of which there are more than told.")


class RoomStats(Answer):
    """What goes on in a room."""

    room_id: str
    job_count: int = Field(description="How many jobs of its own it lists.")
    alive_workers: int = Field(description="How many live workers serve a job that it sees.")
    oldest_pending_seconds: float | None = Field(
        description="For how long the oldest claimable task has waited; null if there is none."
    )
    tasks: StatusCounts = Field(description="Of the whole room, each counted to 10,000.")
    capped: list[TaskStatus] = Field(description="The statuses of which there are more than told.")
    jobs: list[JobStats] = Field(
        description="Its own jobs, and those of @global that have tasks here."
    )
    jobs_left_out: bool = Field(description="Whether there are more jobs than told.")
    counted_to: int = Field(description="How far the tasks of each job and status are counted.")


class TaskWhy(Answer):
    """Why a task is where it is."""

    status: TaskStatus
    reason: str = Field(description="One sentence that begins with the status.")


class ScheduleBody(Answer):
    """A schedule: a task that is submitted again and again."""

    id: str
    name: str
    room_id: str
    job: str = Field(description="Full name of its job; empty where that is gone.")
    payload: dict[str, Any] | None = Field(
        description="Null if left out: in lists over 4 KiB, and where it is too long to send."
    )
    cron: str | None
    every_seconds: float | None
    timezone: str
    catch_up: Literal["one", "all", "skip"]
    paused: bool
    start_at: AwareDatetime | None
    end_at: AwareDatetime | None
    priority: int
    max_attempts: int | None = Field(description="Null: the job's number.")
    timeout_seconds: float | None = Field(description="Null: the job's figure.")
    created_by_id: str = Field(description="Who is the creator of its tasks.")
    created_at: AwareDatetime
    next_at: AwareDatetime | None = Field(
        description="When it fires next; null while it is paused, and after its end."
    )
    last_at: AwareDatetime | None = Field(description="When it has last submitted a task.")
    last_task_id: str | None = Field(description="The newest of its tasks.")
    last_error: str | None = Field(description="Why it submitted none the last time it was due.")
    payload_bytes: int | None = Field(default=None, description="Size of a payload left out.")


class ScheduleShown(ScheduleBody):
    """A schedule with what comes next."""

    upcoming: list[AwareDatetime] = Field(description="Its next times, up to five.")


class SchedulePage(PageBody):
    """A page of schedules, by name."""

    items: list[ScheduleBody]


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
    stuck_tasks: int
    removed_tasks: int
    fired_schedules: int = Field(description="How many tasks schedules have submitted.")


class HealthBody(Answer):
    """Whether the server is alive or ready."""

    status: str
