"""What the store holds, as immutable records. Times are integer microseconds since 1970, UTC.

They are named tuples because a row of the store becomes one by ``Task._make(row)`` at no cost;
the order of the fields is the order of the columns in every statement that reads a whole row.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from jobroom.domain.names import LOCAL_ROOM

MICROSECONDS = 1_000_000
KEY_LIFE = 24 * 3600 * MICROSECONDS
"""How long an idempotency key is remembered, by the store's clock (rules, *Idempotency*)."""

NOTICE_LIFE = 600 * MICROSECONDS
"""How long a worker is told to stop a task that it does not report on (rules, *Cancel*)."""


class Caller(NamedTuple):
    """Who asks: what a verified token says. ``rooms`` None means every room."""

    identity: str
    is_admin: bool = False
    rooms: frozenset[str] | None = None

    def sees(self, room_id: str) -> bool:
        """Whether the token reaches this room; it binds admins too (rules, *Who sees what*).

        ``@local`` is an admin's alone: what the embedded queue does is no client's business.
        """
        is_in_token = self.rooms is None or room_id in self.rooms
        return is_in_token and (self.is_admin or room_id != LOCAL_ROOM)


class Job(NamedTuple):
    """A registered kind of work. ``version`` rises with each change of the row."""

    seq: int
    id: str
    room_id: str
    category: str
    name: str
    schema: str
    schema_version: int
    version: int
    hidden: int
    description: str | None
    max_attempts: int
    on_worker_lost: str
    claim_order: str
    retry_delay_seconds: float | None
    timeout_seconds: float | None
    claim_timeout_seconds: float | None
    result_ttl_seconds: float | None
    validate: int
    created_at: int
    last_seen: int | None

    @property
    def full_name(self) -> str:
        """``<room>:<category>:<name>``, the job's name everywhere outside."""
        return f"{self.room_id}:{self.category}:{self.name}"


class Worker(NamedTuple):
    """What claims tasks. ``kind``: identity or instance; ``state``: active, asleep or gone."""

    id: str
    identity: str
    kind: str
    state: str
    name: str | None
    created_at: int
    last_heartbeat: int

    def is_alive(self, threshold: timedelta, *, now: datetime | None = None) -> bool:
        """Whether the last heartbeat is younger than ``threshold`` (the seed's name)."""
        at = datetime.now(UTC) if now is None else now
        beat = datetime.fromtimestamp(self.last_heartbeat / MICROSECONDS, UTC)
        return self.state == "active" and at - beat < threshold


class WorkerJobLink(NamedTuple):
    """A worker serves a job."""

    worker_id: str
    job_seq: int


class Task(NamedTuple):
    """One unit of submitted work. ``payload`` and ``result`` are JSON text as it came.

    ``seq`` is the order, ``id`` the name, ``attempt`` the fence (one more with each claim),
    ``starts`` what ``max_attempts`` limits, ``idle_claims`` the claims since the last start,
    ``ready`` 0 while a ``run_at`` or a retry delay lies ahead, ``due_at`` when the sweep acts on
    the row next (expiry, timeout or end of retention, by status), ``key`` the name it was given by
    who made it, ``has_dependents`` 1 where its end concerns others, ``failed_by`` the id of the
    dependency for which it failed without having started, ``version`` the ETag.
    """

    seq: int
    id: str
    job_seq: int
    room_id: str
    created_by_id: str
    status: str
    ready: int
    priority: int
    turn: int
    payload: str
    schema_version: int
    created_at: int
    run_at: int | None
    expires_at: int | None
    claimed_at: int | None
    started_at: int | None
    completed_at: int | None
    worker_id: str | None
    attempt: int
    starts: int
    idle_claims: int
    max_attempts: int
    timeout_seconds: float | None
    due_at: int | None
    claim_request_id: str | None
    idempotency_key: str | None
    fingerprint: str | None
    progress: float | None
    message: str | None
    error: str | None
    result: str | None
    key: str | None
    has_dependencies: int
    has_dependents: int
    failed_by: str | None
    version: int


class Change(NamedTuple):
    """A task that was written, by what those who wait for one know it by."""

    id: str
    version: int


class Logged(NamedTuple):
    """A task to whose log something was appended; the row itself is as it was."""

    id: str
    version: int
    attempt: int
    upto: int


class TaskView(NamedTuple):
    """A task as a reader sees it: the row and what is computed beside it.

    ``edges`` is JSON: what it depends on, each ``[id, condition, state, name, job name, status]``;
    None where it depends on nothing. In a list a large payload or result is left out; its size in
    bytes stands here instead, and of many dependencies how many there are. Of a long error or
    message there is the beginning, and its whole size here.
    """

    task: Task
    job_name: str
    edges: str | None = None
    lease_expires_at: int | None = None
    queue_position: int | None = None
    payload_bytes: int = 0
    result_bytes: int = 0
    dependency_count: int = 0
    error_bytes: int = 0
    message_bytes: int = 0


class WorkerView(NamedTuple):
    """A worker as a reader sees it."""

    worker: Worker
    alive: bool
    job_count: int
    running_tasks: int


class JobView(NamedTuple):
    """A job as a reader sees it; ``workers`` are the ids of the live ones, sorted."""

    job: Job
    workers: tuple[str, ...]
    last_seen: int | None


class Schedule(NamedTuple):
    """A task that is submitted again and again. ``task`` is JSON: the parts of a submission."""

    seq: int
    id: str
    room_id: str
    name: str
    job_seq: int
    created_by_id: str
    task: str
    cron: str | None
    every_seconds: float | None
    timezone: str
    catch_up: str
    paused: int
    start_at: int | None
    end_at: int | None
    created_at: int
    next_at: int | None
    last_at: int | None
    last_task_id: str | None
    last_error: str | None
    version: int


class SweepReport(NamedTuple):
    """What one sweep did, as committed counts; ``judged`` False after an outage (no one failed)."""

    judged: bool = True
    lost_workers: int = 0
    requeued_tasks: int = 0
    failed_tasks: int = 0
    timed_out_tasks: int = 0
    expired_tasks: int = 0
    hidden_jobs: int = 0
    stuck_tasks: int = 0
    removed_tasks: int = 0
    fired_schedules: int = 0
