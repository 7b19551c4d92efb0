"""The core itself as a door: use cases by ``JobQueue.run``."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from doors import (
    MANY,
    MICROSECONDS,
    SCHEMAS,
    Accepted,
    DoorError,
    Filters,
    Joined,
    Listed,
    settings_for,
    stored_tasks,
    task_of,
)
from model import Order, Policy, Word

from jobroom.domain import jsontext
from jobroom.domain.records import Caller, Job, TaskView, WorkerView
from jobroom.errors import JobroomError, PayloadInvalid
from jobroom.service import (
    bulk,
    claiming,
    payloads,
    reading,
    registration,
    reporting,
    retrying,
    submission,
    workers,
)
from jobroom.service.planning import Asked
from jobroom.service.queue import JobQueue

T = TypeVar("T")


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
                return Accepted(task_of(known.view), replayed=True)
            if found.room_id not in (room, "@global"):
                raise DoorError("job-not-found", job)
            self._jobs[job] = found
            done: submission.Submitted | None = self._ask(
                submission.submit_task, caller=caller, room_id=room, job=found, new=new
            )
            if done is not None:
                return Accepted(task_of(done.view), done.replayed)
            del self._jobs[job]
        message = f"{job} is never the same twice"
        raise AssertionError(message)

    def _new_task(
        self, room: str, job: str, order: Order, places: Mapping[str, int] | None = None
    ) -> submission.NewTask:
        places = places or {}
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
            fingerprint=fingerprint if order.key or order.id else None,
            key=order.label,
            depends_on=tuple((places.get(each, each), how) for each, how in order.depends_on),
            parent=order.parent,
        )

    def submit_many(
        self, caller: Caller, room: str, wanted: Sequence[tuple[str, Order]], key: str | None
    ) -> tuple[list[dict[str, Any]], bool]:
        """Look for the jobs, and submit to all of them as they are now."""
        places = {order.label: n for n, (_, order) in enumerate(wanted) if order.label}
        find = partial(self._ask, registration.find_job, caller=caller, room_id=room)
        asked = [
            Asked(self._new_task(room, job, order, places), find(full_name=job), ("tasks", n))
            for n, (job, order) in enumerate(wanted)
        ]
        if key is not None:
            orders = [dataclasses.asdict(order) for _, order in wanted]
            said = jsontext.fingerprint("POST", room, orders)
            asked = [each._replace(new=each.new._replace(fingerprint=said)) for each in asked]
        done: bulk.SubmittedTasks | None = self._ask(
            bulk.submit_tasks, caller=caller, room_id=room, asked=asked, key=key
        )
        assert done is not None
        return [task_of(view) for view in done.views], done.replayed

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
        return [task_of(view) for view in found]

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
        return task_of(done.view)

    def retry(self, caller: Caller, task_id: str) -> dict[str, Any]:
        """Retry."""
        return task_of(self._ask(retrying.retry_task, caller=caller, task_id=task_id))

    def would_change(self, caller: Caller, task_id: str) -> tuple[list[str], int]:
        """Ask what a retry would change."""
        plan: retrying.RetryPlan = self._ask(retrying.plan_retry, caller=caller, task_id=task_id)
        return plan.ids, plan.hidden

    def task(self, caller: Caller, task_id: str) -> dict[str, Any]:
        """Read."""
        return task_of(self._ask(reading.get_task, caller=caller, task_id=task_id))

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
        return Listed([task_of(view) for view in shown], total, after)

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
