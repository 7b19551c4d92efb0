"""The ways into a queue that the machine drives, each in the same words: what a door must do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from model import OPEN, RETENTION, SWEEP_INTERVAL, TYPED, WORKER_TIMEOUT, Order, Policy, Word
from sqlalchemy import func, select

from jobroom.domain.records import Caller, TaskView
from jobroom.service.queue import JobQueue
from jobroom.service.use_case import reads
from jobroom.settings import JobLibSettings
from jobroom.store import views
from jobroom.store.schema import task as table
from jobroom.store.statement import Statement

MICROSECONDS = 1_000_000
MANY = 500
ROOT = Caller("root", is_admin=True)

SCHEMAS = {
    OPEN: "{}",
    TYPED: '{"type": "object", "properties": {"n": {"type": ["integer", "null"], "minimum": 1}}}',
}
SCHEMAS[f"{TYPED}, spelled otherwise"] = (
    '{"properties": {"n": {"minimum": 1.0, "type": ["null", "integer"]}}, "type": "object"}'
)


class DoorError(Exception):
    """The queue refused; the slug says how."""

    def __init__(self, slug: str, detail: str) -> None:
        super().__init__(f"{slug}: {detail}")
        self.slug = slug


class Joined(NamedTuple):
    """A registration as a door answers it."""

    created: bool
    worker_id: str
    workers: list[str]


class Accepted(NamedTuple):
    """A submission as a door answers it."""

    task: dict[str, Any]
    replayed: bool


class Listed(NamedTuple):
    """A page of tasks."""

    items: list[dict[str, Any]]
    total: int
    cursor: Any


class Filters(NamedTuple):
    """Which tasks a list is asked for."""

    room: str
    job: str | None = None
    statuses: tuple[str, ...] = ()
    created_by_id: str | None = None


class Door(Protocol):
    """Everything that the machine asks of a queue; refusals are ``DoorError``."""

    def advance(self, seconds: int) -> None:
        """Let time pass by the store's clock."""

    def restart(self) -> None:
        """Close the queue and open it again."""

    def close(self) -> None:
        """Let go of everything."""

    def register(
        self,
        caller: Caller,
        room: str,
        name: str,
        *,
        schema: str,
        policy: Policy,
        worker_id: str | None,
        replace: bool,
    ) -> Joined:
        """Register a job of category ``modifiers``."""

    def create_worker(self, caller: Caller) -> str:
        """Make an instance worker; its id."""

    def heartbeat(self, caller: Caller, worker_id: str) -> list[str]:
        """The ids of the tasks to stop."""

    def delete_worker(self, caller: Caller, worker_id: str) -> None:
        """Leave."""

    def submit(self, caller: Caller, room: str, job: str, order: Order) -> Accepted:
        """Submit a task."""

    def submit_many(
        self, caller: Caller, room: str, wanted: Sequence[tuple[str, Order]], key: str | None
    ) -> tuple[list[dict[str, Any]], bool]:
        """Submit tasks for jobs together; and whether that had been done before."""

    def claim(
        self,
        caller: Caller,
        worker_id: str | None,
        *,
        limit: int,
        start: bool,
        request_id: str | None,
    ) -> list[dict[str, Any]]:
        """Claim tasks."""

    def report(self, caller: Caller, task_id: str, word: Word) -> dict[str, Any]:
        """Report on a task."""

    def retry(self, caller: Caller, task_id: str) -> dict[str, Any]:
        """Retry a task."""

    def would_change(self, caller: Caller, task_id: str) -> tuple[list[str], int]:
        """The tasks whose status a retry would change, and how many more: the dry run."""

    def task(self, caller: Caller, task_id: str) -> dict[str, Any]:
        """Read a task."""

    def tasks(self, caller: Caller, asked: Filters, *, limit: int, cursor: Any) -> Listed:
        """A page of tasks; with a cursor the page after it."""

    def workers_of(self, caller: Caller, room: str, job: str) -> list[str]:
        """The live workers of a job."""

    def jobs(self, caller: Caller, room: str) -> dict[str, list[str]]:
        """The jobs that a room sees, each with its live workers."""

    def workers(self, caller: Caller) -> dict[str, tuple[bool, int, int]]:
        """The caller's workers: alive, jobs served, tasks held."""

    def sweep(self) -> dict[str, int | bool]:
        """One sweep; its counts."""

    def stored(self) -> dict[str, dict[str, Any]]:
        """All tasks by their id as the store holds them, whoever may see them."""


def settings_for(database_url: str) -> JobLibSettings:
    """The settings that the model knows the figures of."""
    return JobLibSettings(
        database_url=database_url,
        sqlite_synchronous="NORMAL",
        worker_timeout_seconds=WORKER_TIMEOUT,
        sweeper_interval_seconds=SWEEP_INTERVAL,
        task_retention_seconds=RETENTION,
    )


_IN_LINE = func.row_number().over(
    partition_by=[table.c.job_seq, table.c.status, table.c.ready],
    order_by=[table.c.priority.desc(), table.c.turn, table.c.seq],
)
_STORED = Statement(select(*views.VIEW, _IN_LINE))


def stored_tasks(queue: JobQueue) -> dict[str, dict[str, Any]]:
    """The rows of the task table, each with its place among those that wait for a claim."""
    found = {}
    for row in queue.run(reads(lambda tx: tx.rows(_STORED))):
        view = views.view(row[:-1])
        if view.task.status == "pending" and view.task.ready:
            view = view._replace(queue_position=row[-1])
        found[view.task.id] = task_of(view)
    return found


def task_of(view: TaskView) -> dict[str, Any]:
    """A task as the machine compares it."""
    task = view.task
    return {
        "id": task.id,
        "job_name": view.job_name,
        "room_id": task.room_id,
        "status": task.status,
        "worker_id": task.worker_id,
        "error": task.error,
        "payload": json.loads(task.payload),
        "queue_position": view.queue_position,
        "created_by_id": task.created_by_id,
        "attempt": task.attempt,
        "starts": task.starts,
        "max_attempts": task.max_attempts,
        "priority": task.priority,
        "progress": task.progress,
        "message": task.message,
        "result": None if task.result is None else json.loads(task.result),
        "schema_version": task.schema_version,
        "key": task.key,
        "failed_by": task.failed_by,
        **_needs_of(view),
    }


def _needs_of(view: TaskView) -> dict[str, Any]:
    edges = [] if view.edges is None else json.loads(view.edges)
    waiting = [
        {"id": dependency, "condition": condition, "status": status}
        for dependency, condition, state, _, _, status in edges
        if state == "waiting" and view.task.status == "blocked"
    ]
    return {"depends_on": [edge[0] for edge in edges], "waiting_on": waiting}
