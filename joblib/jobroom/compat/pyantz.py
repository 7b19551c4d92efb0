"""``SqliteQueue`` in the place of pyantz's own class: its types and signatures, our tables.

pyantz tells by class what ``get_job`` returns, so what goes in and comes out is an object of its
own. Between two runs it deletes ``queue.db`` with its ``-wal`` and ``-shm``, and each of its worker
processes opens the file anew.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Self
from uuid import UUID

try:
    from pyantz.infrastructure.config.fn_utils import serialize_function
    from pyantz.infrastructure.config.job import JobWithContext
    from pyantz.infrastructure.distributed_queue.common.interface import QueueInterface
    from pyantz.infrastructure.distributed_queue.common.return_types import (
        CompleteReturn,
        GetJobReturn,
        JobReturn,
        JobsReport,
        JobStatus,
        JobStatusReport,
        PendingReturn,
    )

    from jobroom.embedded.local_queue import Found, LocalQueue, NewJob
    from jobroom.embedded.returns import JobStatus as Standing
    from jobroom.service.local import Idle
    from jobroom.service.use_case import reads
    from jobroom.store import local_heads
    from jobroom.store.transaction import Transaction
except ImportError as error:
    if not error.name:
        raise
    is_too_old = sys.version_info < (3, 13)  # the extra installs nothing there
    missing = error.name.partition(".")[0]
    message = f'jobroom.compat.pyantz needs {missing}; run: pip install "jobroom[queue,pyantz]"'
    if is_too_old:
        message = (
            "jobroom.compat.pyantz needs Python 3.13 or newer, as pyantz does;"
            f" this is Python {sys.version.split()[0]}."
        )
    raise ImportError(message, name=error.name) from None

__all__ = ["SqliteQueue"]

LONGEST_NAME = 255
"""Of a function's path as the name of a job over REST; the config has all of it."""


class SqliteQueue(QueueInterface):
    """A queue of jobs in a SQLite file, for pyantz's runners.

    It may be used by any number of processes at once, be pickled, and used after a fork that was
    made while no other thread was in a call. Raises
    ``jobroom.errors.ConfigurationError`` for a file that cannot be used, and ``StoreUnavailable``
    where it does not take a write: nothing of that was kept.
    """

    database_file: Path
    """The file, as it was given."""

    def __init__(self, database_file: Path) -> None:
        self.database_file = database_file
        self._queue = LocalQueue(Path(database_file))
        self._path = self._queue.path
        self._opened = _file_id(self._path)
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Self], tuple[Path]]:
        return type(self), (self._path,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.database_file)!r})"

    @property
    def _jobs(self) -> LocalQueue:
        """The jobs of the file that is at the path now; pyantz may have removed an earlier one."""
        if _file_id(self._path) != self._opened:
            with self._lock:
                if _file_id(self._path) != self._opened:
                    self._queue.close()
                    self._queue.queue()
                    self._opened = _file_id(self._path)
        return self._queue

    def add_job(self, job_config: JobWithContext, parent_job_id: str | UUID | None) -> bool:
        """Add a job; False if its id is taken, it would wait for itself, or it comes too late.

        What waits for the job ``parent_job_id`` will wait for the new one too; that comes too late
        where it has begun. The reason is logged.
        """
        parent = None if parent_job_id is None else str(parent_job_id)
        return self._jobs.add(_new(job_config), parent=parent)

    def get_job(self) -> GetJobReturn:
        """Take the first job that is ready, by order of ``add_job``, and mark it RUNNING.

        With ``PendingReturn`` there is something to wait for; with ``CompleteReturn`` all jobs have
        ended. A job whose config cannot be loaded becomes ERROR with the reason, and the next one
        is given.
        """
        while True:
            # pyantz loads while it keeps all others out, and there are pipelines that would run in
            # another order if a job, once taken, first had to import what others have ready.
            ahead = self._jobs.queue().run(_look_ahead)
            loaded = None if ahead is None else _load(ahead)
            taken = self._jobs.take()
            if isinstance(taken, Idle):
                kind = CompleteReturn if taken.is_complete else PendingReturn
                return GetJobReturn(payload=kind(jobs_report=self.get_jobs_report()))
            if loaded is None or taken.config != ahead:
                loaded = _load(taken.config)
            if isinstance(loaded, JobWithContext):
                return GetJobReturn(payload=JobReturn(job=loaded))
            self._jobs.report(taken.job_id, Standing.ERROR, loaded)

    def update_job_status(
        self, job_id: str | UUID, status: JobStatus, details: str | None = None
    ) -> None:
        """Say how a job stands; what depends on it is ready, or fails, in the same transaction.

        Of a job that has ended only PENDING and READY change anything. Raises KeyError for an
        unknown job, and ValueError for what is no status.
        """
        self._jobs.report(str(job_id), Standing(status), details)

    def get_job_status(self, job_id: str | UUID) -> JobStatusReport:
        """Where a job stands, and what was said of it. Raises KeyError for an unknown job."""
        return _report(self._jobs.find(str(job_id)))

    def change_config_in_place(self, job_config: JobWithContext) -> None:
        """Store another config for the job of that id. Raises KeyError for an unknown job."""
        self._jobs.replace(_new(job_config))

    def set_job_worker(self, job_id: str | UUID, worker_id: int) -> None:
        """Remember which process of this host runs a job. Raises KeyError for an unknown job."""
        self._jobs.set_worker(str(job_id), worker_id)

    def fail_jobs_of_worker(self, worker_id: int) -> list[str]:
        """Fail what a process of this host ran that has died; the ids of its jobs."""
        return self._jobs.fail_jobs_of(worker_id)

    def fail_deadlocked_jobs(self) -> list[str]:
        """Fail the jobs that wait in vain, if nothing is READY or RUNNING; their ids, in order."""
        return self._jobs.fail_deadlocked()

    def get_failed_jobs(self) -> list[JobStatusReport]:
        """The jobs that failed, with the reason of each, sorted by id."""
        return [_report(found) for found in self._jobs.list_failed()]

    def get_job_ids_with_status(self, status: JobStatus) -> list[str]:
        """The ids of the jobs that have a status now, sorted."""
        return self._jobs.list_names(Standing(status))

    def get_jobs_report(self) -> JobsReport:
        """How many jobs there are in each status, all at one moment."""
        return JobsReport(**self._jobs.count())


def _file_id(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - a path's own is slower, and each call asks
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _new(job: JobWithContext) -> NewJob:
    return NewJob(
        job.job_id,
        job.model_dump_json(),
        serialize_function(job.function)[-LONGEST_NAME:],
        max_retries=job.max_retries,
        timeout_seconds=job.timeout_seconds,
        depends_on=tuple(job.depends_on or ()),
        condition=job.dependency_type,
    )


def _report(found: Found) -> JobStatusReport:
    return JobStatusReport(
        job_id=found.job_id, status=JobStatus(found.status), status_details=found.details
    )


def _load(config: str) -> JobWithContext | str:
    """The job of a config, or why it cannot be loaded."""
    try:
        return JobWithContext.model_validate_json(config)
    except Exception as error:  # noqa: BLE001 - it imports the function: anything may come
        said = " ".join(str(error).split())
        return f"The stored config of this job cannot be loaded: {type(error).__name__}: {said}"


@reads
def _look_ahead(tx: Transaction) -> str | None:
    return local_heads.first_config(tx)
