"""A desk at which a test acts for its users: one short call for each use case."""

from __future__ import annotations

import threading
from typing import Any, Self

import tables

from jobroom.domain.records import MICROSECONDS, Caller, Job, JobView, SweepReport, Task, TaskView
from jobroom.service import (
    claiming,
    reading,
    registration,
    reporting,
    retrying,
    submission,
    workers,
)
from jobroom.service.queue import JobQueue
from jobroom.store import jobs
from jobroom.store.lane import Work
from jobroom.store.schema import task as table

PATIENCE = 10


class Desk:
    """Drives the use cases of a queue as a door does; a job that has changed is read again."""

    def __init__(self, queue: JobQueue) -> None:
        self.queue = queue

    # --- time ---------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Let time pass by the store's clock."""
        self.queue.clock_offset += int(seconds * MICROSECONDS)

    def now(self) -> int:
        return self.queue.run(lambda tx: tx.now)

    def soon(self, seconds: float) -> int:
        """A time that lies so many seconds ahead."""
        return self.now() + int(seconds * MICROSECONDS)

    # --- workers and jobs ---------------------------------------------------------------------

    def worker(self, caller: Caller, name: str | None = None) -> str:
        """A new instance worker's id."""
        return self.queue.run(workers.create_worker, caller=caller, name=name).worker.id

    def beat(self, caller: Caller, worker_id: str | None = None) -> list[str]:
        """A heartbeat; the tasks that the worker should stop."""
        wanted = worker_id or caller.identity
        return self.queue.run(workers.heartbeat, caller=caller, worker_id=wanted).cancel

    def leave(self, caller: Caller, worker_id: str | None = None) -> None:
        wanted = worker_id or caller.identity
        self.queue.run(workers.delete_worker, caller=caller, worker_id=wanted)

    def workers(self, caller: Caller, room_id: str | None = None) -> list[str]:
        page: dict[str, Any] = {"caller": caller, "limit": 500, "offset": 0}
        if room_id is None:
            found, total = self.queue.run(workers.list_workers, **page)
        else:
            found, total = self.queue.run(workers.list_room_workers, room_id=room_id, **page)
        assert total == len(found)
        return [view.worker.id for view in found]

    def register(
        self,
        caller: Caller,
        name: str = "Rotate",
        *,
        room_id: str = "r1",
        worker_id: str | None = None,
        replace: bool = False,
        category: str = "modifiers",
        **spec: Any,
    ) -> registration.Registered:
        return self.queue.run(
            registration.register_job,
            caller=caller,
            room_id=room_id,
            spec=registration.JobSpec(category, name, **spec),
            worker_id=worker_id,
            replace=replace,
        )

    def job(self, caller: Caller, name: str = "Rotate", **kwargs: Any) -> Job:
        return self.register(caller, name, **kwargs).view.job

    def show(self, caller: Caller, full_name: str, room_id: str = "r1") -> JobView:
        return self.queue.run(
            registration.show_job, caller=caller, room_id=room_id, full_name=full_name
        )

    def listed(self, caller: Caller, room_id: str = "r1") -> list[str]:
        """The full names of the jobs that a room lists."""
        found, total = self.queue.run(
            registration.list_jobs, caller=caller, room_id=room_id, limit=500, offset=0
        )
        assert total == len(found)
        return [view.job.full_name for view in found]

    # --- tasks --------------------------------------------------------------------------------

    def submitted(
        self, caller: Caller, job: Job, *, room_id: str = "r1", **new: Any
    ) -> submission.Submitted:
        asked = {"caller": caller, "room_id": room_id, "new": submission.NewTask(**new)}
        done = self.queue.run(submission.submit_task, job=job, **asked)
        if done is None:  # the job has changed since it was read
            current = self.queue.run(lambda tx: jobs.get_by_seq(tx, job.seq))
            assert current is not None
            done = self.queue.run(submission.submit_task, job=current, **asked)
        assert done is not None
        return done

    def submit(self, caller: Caller, job: Job, *, room_id: str = "r1", **new: Any) -> Task:
        return self.submitted(caller, job, room_id=room_id, **new).view.task

    def claim(self, caller: Caller, worker_id: str | None = None, **kwargs: Any) -> list[Task]:
        found = self.queue.run(claiming.claim_tasks, caller=caller, worker_id=worker_id, **kwargs)
        return [view.task for view in found]

    def claim_one(self, caller: Caller, worker_id: str | None = None, **kwargs: Any) -> Task:
        [task] = self.claim(caller, worker_id, **kwargs)
        return task

    def run_one(self, caller: Caller, worker_id: str | None = None) -> Task:
        return self.claim_one(caller, worker_id, start=True)

    def reported(
        self, caller: Caller, task: Task, status: str | None, **said: Any
    ) -> reporting.Reported:
        return self.queue.run(
            reporting.report,
            caller=caller,
            task_id=task.id,
            report=reporting.Report(status, **said),
        )

    def report(self, caller: Caller, task: Task, status: str | None = None, **said: Any) -> Task:
        return self.reported(caller, task, status, **said).view.task

    def retry(self, caller: Caller, task: Task) -> Task:
        return self.queue.run(retrying.retry_task, caller=caller, task_id=task.id).task

    def view(self, caller: Caller, task: Task) -> TaskView:
        return self.queue.run(reading.get_task, caller=caller, task_id=task.id)

    def get(self, caller: Caller, task: Task) -> Task:
        return self.view(caller, task).task

    def list(
        self,
        caller: Caller,
        *,
        room_id: str = "r1",
        full_name: str | None = None,
        statuses: tuple[str, ...] = (),
        created_by_id: str | None = None,
        before: int | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[list[TaskView], int]:
        return self.queue.run(
            reading.list_tasks,
            caller=caller,
            room_id=room_id,
            full_name=full_name,
            statuses=statuses,
            created_by_id=created_by_id,
            before=before,
            limit=limit,
            offset=offset,
        )

    def sweep(self) -> SweepReport:
        return self.queue.sweep()

    def submit_many(self, caller: Caller, job: Job, count: int) -> Task:
        """Submit one, and make so many more like it, in one statement; the first."""
        first = self.submit(caller, job)
        rest = ", ".join(column.name for column in table.c if column.name not in {"seq", "id"})
        self.write(
            f"INSERT INTO task (id, {rest})"  # noqa: S608 - our own names
            " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
            f" WHERE i < {count - 1}) SELECT id || '-' || i, {rest}"
            f" FROM task CROSS JOIN n WHERE id = '{first.id}' ORDER BY i"
        )
        return first

    # --- behind the back of the rules ---------------------------------------------------------

    def read(self, sql: str) -> list[tuple[Any, ...]]:
        """Look into the tables."""
        return tables.read(self.queue, sql)

    def write(self, sql: str) -> None:
        """Write to the tables what no rule would."""
        tables.write(self.queue, sql)


class Waiter:
    """A claim posted with ``wait``, as the HTTP door posts it."""

    def __init__(
        self, desk: Desk, caller: Caller, worker_id: str | None = None, **kwargs: Any
    ) -> None:
        self._answered = threading.Event()
        self._parked = threading.Event()
        self.queue = desk.queue
        kwargs = {"caller": caller, "worker_id": worker_id, "wait": True, **kwargs}
        self.work = Work(claiming.claim_tasks, kwargs, lambda _: self._answered.set())

    def begin(self) -> Self:
        """Post the claim and wait until it is kept (or was answered at once)."""
        park = self.queue.park

        def note(work: Work) -> bool:
            is_kept = park(work)
            if work is self.work:
                self._parked.set()
            return is_kept

        self.queue.park = note
        self.queue.post(claiming.claim_tasks, self.work)
        assert self._parked.wait(PATIENCE)
        self.queue.park = park
        self.queue.run(lambda tx: tx.now)
        return self

    def answer(self) -> list[Task]:
        """What the claim got; waits for it."""
        assert self._answered.wait(PATIENCE)
        return [view.task for view in self.work.outcome()]

    @property
    def waits(self) -> bool:
        return not self._answered.is_set()
