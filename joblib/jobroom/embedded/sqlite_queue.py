"""The queue as a class: jobs in a SQLite file, for all processes of a machine."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from pydantic import ValidationError

from jobroom.embedded.interface import QueueInterface
from jobroom.embedded.jobs import JobWithContext, written
from jobroom.embedded.local_queue import Found, LocalQueue, NewJob
from jobroom.embedded.returns import (
    CompleteReturn,
    GetJobReturn,
    JobReturn,
    JobsReport,
    JobStatus,
    JobStatusReport,
    PendingReturn,
    counted_later,
)
from jobroom.service.local import Idle

log = logging.getLogger("jobroom")


class SqliteQueue(QueueInterface):
    """A queue of jobs in a SQLite file, which is made if it is missing.

    Any number of objects, threads and processes may use one file at once; an object may be
    pickled, and used after a fork that was made while no other thread was in a call. What a
    method has returned from is on the disk. Nothing needs to be closed. ``uvicorn app:app`` on
    the same file shows the jobs as tasks of the room ``@local``.

    Raises ``jobroom.errors.ConfigurationError`` for a file that cannot be used, and
    ``StoreUnavailable`` where it does not take a write (disk full, kept busy): nothing of that
    was kept.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> from jobroom.testing import do_nothing
    >>> with SqliteQueue(Path(folder.name, "queue.db")) as queue:
    ...     job = JobWithContext(job_id="relax", function=do_nothing, parameters={})
    ...     queue.add_job(job, None)
    ...     result = queue.get_job()
    ...     print(result.payload.type_, result.payload.job.job_id)
    ...     queue.update_job_status("relax", JobStatus.SUCCESS)
    ...     print(queue.get_job().payload.type_)
    True
    job relax
    complete
    >>> folder.cleanup()
    """

    database_file: Path
    """The file, as it was given."""

    def __init__(self, database_file: Path | str) -> None:
        self.database_file = Path(database_file)
        self._jobs = LocalQueue(self.database_file)

    def __reduce__(self) -> tuple[type[Self], tuple[Path]]:
        return type(self), (self._jobs.path,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.database_file)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file, which happens by itself as well; the next call opens it again."""
        self._jobs.close()

    def add_job(self, job_config: JobWithContext, parent_job_id: str | UUID | None = None) -> bool:
        """Add a job; False if its id is taken, it would wait for itself, or it comes too late.

        It waits for ``depends_on``, which may come later. A job that submits others gives its own
        id as ``parent_job_id``: what waits for it then waits for them too. They come too late
        where that has begun. The reason is logged, unless it is the id. Raises ValueError for what
        JSON cannot hold.

        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> queue = SqliteQueue(Path(folder.name, "queue.db"))
        >>> nop = "jobroom.testing.do_nothing"
        >>> scan = JobWithContext(job_id="scan", function=nop, parameters={})
        >>> plot = JobWithContext(job_id="plot", depends_on={"scan"}, function=nop, parameters={})
        >>> queue.add_job(scan), queue.add_job(plot), queue.add_job(scan)
        (True, True, False)
        >>> point = JobWithContext(job_id="point", function=nop, parameters={})
        >>> queue.add_job(point, parent_job_id="scan")
        True
        >>> queue.update_job_status("scan", JobStatus.SUCCESS)
        >>> queue.get_job_status("plot").status.name  # it waits for the point as well
        'PENDING'
        >>> queue.close(); folder.cleanup()
        """
        return self._jobs.add(_new(job_config), parent=_text(parent_job_id))

    def get_job(self) -> GetJobReturn:
        """Take the first job that is ready, by order of ``add_job``, and mark it RUNNING.

        ``payload.type_`` says what it is: ``job``; ``pending``, if nothing is ready but a job
        waits or runs; ``complete``, if all have ended. A job whose stored config cannot be loaded
        becomes ERROR with the reason, and the next one is given.

        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> queue = SqliteQueue(Path(folder.name, "queue.db"))
        >>> queue.get_job().payload.type_
        'complete'
        >>> job = JobWithContext(function="jobroom.testing.do_nothing", parameters={"angle": 90})
        >>> queue.add_job(job)
        True
        >>> queue.get_job().payload.job.parameters
        {'angle': 90}
        >>> waiting = queue.get_job()
        >>> waiting.payload.type_, waiting.payload.jobs_report.running
        ('pending', 1)
        >>> queue.close(); folder.cleanup()
        """
        while True:
            taken = self._jobs.take()
            if isinstance(taken, Idle):
                return self._nothing(taken)
            try:
                job = JobWithContext.model_validate_json(taken.config)
            except ValidationError as error:
                self._jobs.report(taken.job_id, JobStatus.ERROR, _why_not_loaded(error))
                continue
            return GetJobReturn(payload=JobReturn(job=job))

    def _nothing(self, idle: Idle) -> GetJobReturn:
        report = counted_later(self.get_jobs_report)
        kind = CompleteReturn if idle.is_complete else PendingReturn
        return GetJobReturn(payload=kind(jobs_report=report))

    def update_job_status(
        self, job_id: str | UUID, status: JobStatus, details: str | None = None
    ) -> None:
        """Say how a job stands, with ``details`` for whoever asks.

        SUCCESS and ERROR end it: its dependents are ready, or fail, all the way down, in the same
        transaction. PENDING, or READY, queues it again in its old place, ready as soon as its
        dependencies are met; what depends on it waits again unless it has begun. RUNNING takes it
        by its id. Any other report on a job that has ended changes nothing, and is logged.

        Raises KeyError for an unknown job, and ValueError for what is no status.

        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> queue = SqliteQueue(Path(folder.name, "queue.db"))
        >>> nop = "jobroom.testing.do_nothing"
        >>> queue.add_job(JobWithContext(job_id="scan", function=nop, parameters={}))
        True
        >>> queue.update_job_status("scan", JobStatus.ERROR, "the disk is full")
        >>> found = queue.get_job_status("scan")
        >>> found.status.name, found.status_details
        ('ERROR', 'the disk is full')
        >>> queue.close(); folder.cleanup()
        """
        self._jobs.report(_text(job_id), status, details)

    def change_config_in_place(self, job_config: JobWithContext) -> None:
        """Store another config for the job of that id; what it depends on stays as it was.

        It takes effect when the job is taken next. Raises KeyError for an unknown job.

        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> queue = SqliteQueue(Path(folder.name, "queue.db"))
        >>> nop = "jobroom.testing.do_nothing"
        >>> queue.add_job(JobWithContext(job_id="scan", function=nop, parameters={}))
        True
        >>> taken = queue.get_job().payload.job
        >>> queue.change_config_in_place(taken.model_copy(update={"num_attempted_runs": 1}))
        >>> queue.update_job_status("scan", JobStatus.PENDING)
        >>> queue.get_job().payload.job.num_attempted_runs
        1
        >>> queue.close(); folder.cleanup()
        """
        self._jobs.replace(_new(job_config))

    def get_job_status(self, job_id: str | UUID) -> JobStatusReport:
        """Where a job stands, and what was said of it. Raises KeyError for an unknown job."""
        return _report(self._jobs.find(_text(job_id)))

    def set_job_worker(self, job_id: str | UUID, worker_id: int) -> None:
        """Remember which process of this host runs a job; at first it is the one that took it.

        Raises KeyError for an unknown job.
        """
        self._jobs.set_worker(_text(job_id), worker_id)

    def fail_jobs_of_worker(self, worker_id: int) -> list[str]:
        """Fail what a process of this host ran that has died; the ids of its jobs.

        What depends on them fails too, and is not among them.

        >>> import os, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> queue = SqliteQueue(Path(folder.name, "queue.db"))
        >>> nop = "jobroom.testing.do_nothing"
        >>> queue.add_job(JobWithContext(job_id="scan", function=nop, parameters={}))
        True
        >>> taken = queue.get_job()
        >>> queue.fail_jobs_of_worker(os.getpid())
        ['scan']
        >>> queue.close(); folder.cleanup()
        """
        return self._jobs.fail_jobs_of(worker_id)

    def fail_deadlocked_jobs(self) -> list[str]:
        """Fail the jobs that wait in vain, if nothing is READY or RUNNING; ids in order of adding.

        Each says what it waited for. What was to run after the end of such a job, or after its
        failure, is READY then.

        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> queue = SqliteQueue(Path(folder.name, "queue.db"))
        >>> job = JobWithContext(
        ...     job_id="plot",
        ...     depends_on={"scan"},
        ...     function="jobroom.testing.do_nothing",
        ...     parameters={},
        ... )
        >>> queue.add_job(job), queue.fail_deadlocked_jobs()
        (True, ['plot'])
        >>> queue.get_job_status("plot").status_details
        'It waits for scan, which never came'
        >>> queue.close(); folder.cleanup()
        """
        return self._jobs.fail_deadlocked()

    def get_failed_jobs(self) -> list[JobStatusReport]:
        """The jobs that failed, with the reason of each, sorted by id."""
        return [_report(found) for found in self._jobs.list_failed()]

    def get_job_ids_with_status(self, status: JobStatus) -> list[str]:
        """The ids of the jobs that have a status now, sorted."""
        return self._jobs.list_names(JobStatus(status))

    def get_jobs_report(self) -> JobsReport:
        """How many jobs there are in each status, all at one moment."""
        return JobsReport(**self._jobs.count())


def _text(job_id: Any) -> Any:
    return str(job_id) if isinstance(job_id, UUID) else job_id


def _new(job: JobWithContext) -> NewJob:
    return NewJob(
        job.job_id,
        written(job),
        job.function,
        max_retries=job.max_retries,
        timeout_seconds=job.timeout_seconds,
        depends_on=tuple(job.depends_on or ()),
        condition=job.dependency_type,
    )


def _report(found: Found) -> JobStatusReport:
    return JobStatusReport(job_id=found.job_id, status=found.status, status_details=found.details)


def _why_not_loaded(error: ValidationError) -> str:
    """What does not fit in a stored config, without its values."""
    faults = "; ".join(
        ": ".join(
            [
                ".".join(map(str, fault["loc"])) or "config",
                fault["msg"].removeprefix("Value error, "),
            ]
        )
        for fault in error.errors(include_input=False, include_url=False, include_context=False)
    )
    return f"The stored config of this job cannot be loaded: {faults}."
