"""The ways into a queue that the machine drives, each in the same words: what a door must do."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from model import OPEN, RETENTION, SWEEP_INTERVAL, TYPED, WORKER_TIMEOUT, Order, Policy, Word
from sqlalchemy import func, select

from jobroom.domain import jsontext
from jobroom.domain.records import Caller, Job, TaskView, WorkerView
from jobroom.errors import JobroomError, PayloadInvalid
from jobroom.service import (
    claiming,
    payloads,
    reading,
    registration,
    reporting,
    submission,
    workers,
)
from jobroom.service.queue import JobQueue
from jobroom.service.use_case import reads
from jobroom.settings import JobLibSettings
from jobroom.store import views
from jobroom.store.schema import task as table
from jobroom.store.statement import Statement

T = TypeVar("T")
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


class CoreDoor:
    """The core itself, by ``JobQueue.run``; it remembers jobs as the HTTP door does."""

    def __init__(self, database_url: str) -> None:
        self._settings = settings_for(database_url)
        self.queue = JobQueue.open(self._settings)
        self._jobs: dict[str, Job] = {}

    def advance(self, seconds: int) -> None:
        """Shift the clock."""
        self.queue.clock_offset += seconds * MICROSECONDS

    def restart(self) -> None:
        """A new queue on the same store, at the same time."""
        offset = self.queue.clock_offset
        self.queue.close()
        self._jobs.clear()
        self.queue = JobQueue.open(self._settings, clock_offset=offset)

    def close(self) -> None:
        """Close the queue."""
        self.queue.close()

    def _ask(self, use_case: Callable[..., T], /, **kwargs: Any) -> T:
        try:
            return self.queue.run(use_case, **kwargs)
        except JobroomError as error:
            raise DoorError(error.slug, str(error)) from error

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
        """Register, and leave the remembered job stale: its version must guard the submission."""
        spec = registration.JobSpec(
            "modifiers",
            name,
            SCHEMAS[schema],
            max_attempts=policy.max_attempts,
            on_worker_lost=policy.on_worker_lost,
            claim_order=policy.order,
            retry_delay_seconds=policy.retry_delay,
            timeout_seconds=policy.timeout,
            claim_timeout_seconds=policy.claim_timeout,
            result_ttl_seconds=policy.result_ttl,
        )
        done: registration.Registered = self._ask(
            registration.register_job,
            caller=caller,
            room_id=room,
            spec=spec,
            worker_id=worker_id,
            replace=replace,
        )
        return Joined(done.created, done.worker_id, list(done.view.workers))

    def create_worker(self, caller: Caller) -> str:
        """Make an instance worker."""
        made: WorkerView = self._ask(workers.create_worker, caller=caller, name=None)
        return made.worker.id

    def heartbeat(self, caller: Caller, worker_id: str) -> list[str]:
        """Beat."""
        done: workers.Heartbeat = self._ask(workers.heartbeat, caller=caller, worker_id=worker_id)
        return done.cancel

    def delete_worker(self, caller: Caller, worker_id: str) -> None:
        """Leave."""
        self._ask(workers.delete_worker, caller=caller, worker_id=worker_id)

    def submit(self, caller: Caller, room: str, job: str, order: Order) -> Accepted:
        """Check the payload by what is known of the job, then submit; again if it has changed."""
        new = self._new_task(room, job, order)
        for _ in range(3):
            is_fresh = job not in self._jobs or not caller.sees(room)
            found = self._jobs.get(job)
            if is_fresh or found is None:
                found = self._ask(registration.find_job, caller=caller, room_id=room, full_name=job)
            try:
                payloads.compile_schema(found.schema).check(dict(order.payload))
            except PayloadInvalid as error:
                if not is_fresh:
                    del self._jobs[job]
                    continue
                known = self._ask(submission.find_repeat, caller=caller, new=new)
                if known is None:
                    raise DoorError(error.slug, str(error)) from error
                return Accepted(_task(known.view), replayed=True)
            if found.room_id not in (room, "@global"):
                raise DoorError("job-not-found", job)
            self._jobs[job] = found
            done: submission.Submitted | None = self._ask(
                submission.submit_task, caller=caller, room_id=room, job=found, new=new
            )
            if done is not None:
                return Accepted(_task(done.view), done.replayed)
            del self._jobs[job]
        message = f"{job} is never the same twice"
        raise AssertionError(message)

    def _new_task(self, room: str, job: str, order: Order) -> submission.NewTask:
        fingerprint = jsontext.fingerprint(
            "POST", f"/rooms/{room}/tasks/{job}", dataclasses.asdict(order)
        )
        now = self.queue.run(lambda tx: tx.now)
        return submission.NewTask(
            payload=json.dumps(dict(order.payload)),
            priority=order.priority,
            run_at=None if order.run_in is None else now + order.run_in * MICROSECONDS,
            expires_at=None if order.expires_in is None else now + order.expires_in * MICROSECONDS,
            max_attempts=order.max_attempts,
            timeout_seconds=order.timeout,
            id=order.id,
            idempotency_key=order.key,
            fingerprint=fingerprint,
        )

    def claim(
        self,
        caller: Caller,
        worker_id: str | None,
        *,
        limit: int,
        start: bool,
        request_id: str | None,
    ) -> list[dict[str, Any]]:
        """Claim."""
        found: list[TaskView] = self._ask(
            claiming.claim_tasks,
            caller=caller,
            worker_id=worker_id,
            limit=limit,
            start=start,
            request_id=request_id,
        )
        return [_task(view) for view in found]

    def report(self, caller: Caller, task_id: str, word: Word) -> dict[str, Any]:
        """Report."""
        said = reporting.Report(
            status=word.status,
            error=word.error,
            result=None if word.result is None else json.dumps(word.result),
            progress=word.progress,
            message=word.message,
            attempt=word.attempt,
            worker_id=word.worker_id,
            final=word.final,
        )
        done: reporting.Reported = self._ask(
            reporting.report, caller=caller, task_id=task_id, report=said
        )
        return _task(done.view)

    def retry(self, caller: Caller, task_id: str) -> dict[str, Any]:
        """Retry."""
        return _task(self._ask(reading.retry_task, caller=caller, task_id=task_id))

    def task(self, caller: Caller, task_id: str) -> dict[str, Any]:
        """Read."""
        return _task(self._ask(reading.get_task, caller=caller, task_id=task_id))

    def tasks(self, caller: Caller, asked: Filters, *, limit: int, cursor: Any) -> Listed:
        """A page; the cursor is the sequence number of its last task."""
        views, total = self._ask(
            reading.list_tasks,
            caller=caller,
            room_id=asked.room,
            full_name=asked.job,
            statuses=asked.statuses,
            created_by_id=asked.created_by_id,
            before=cursor,
            limit=limit + 1,
            offset=0,
        )
        shown = views[:limit]
        after = shown[-1].task.seq if len(views) > limit > 0 else None
        return Listed([_task(view) for view in shown], total, after)

    def workers_of(self, caller: Caller, room: str, job: str) -> list[str]:
        """Show a job."""
        view = self._ask(registration.show_job, caller=caller, room_id=room, full_name=job)
        return list(view.workers)

    def jobs(self, caller: Caller, room: str) -> dict[str, list[str]]:
        """List the jobs."""
        views, total = self._ask(
            registration.list_jobs, caller=caller, room_id=room, limit=MANY, offset=0
        )
        assert total == len(views)
        return {view.job.full_name: list(view.workers) for view in views}

    def workers(self, caller: Caller) -> dict[str, tuple[bool, int, int]]:
        """List the workers."""
        views, total = self._ask(workers.list_workers, caller=caller, limit=MANY, offset=0)
        assert total == len(views)
        return {view.worker.id: (view.alive, view.job_count, view.running_tasks) for view in views}

    def sweep(self) -> dict[str, int | bool]:
        """Sweep."""
        return self.queue.sweep()._asdict()

    def stored(self) -> dict[str, dict[str, Any]]:
        """Read the table."""
        return stored_tasks(self.queue)


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
        found[view.task.id] = _task(view)
    return found


def _task(view: TaskView) -> dict[str, Any]:
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
    }
