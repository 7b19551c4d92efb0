"""The embedded queue in plain words: text, numbers and JSON, whatever classes a caller has."""

from __future__ import annotations

import logging
import os
import socket
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jobroom.domain.jsontext import cut_text, escape_nul
from jobroom.domain.lifecycle import TaskStatus
from jobroom.embedded.opening import OpenFile
from jobroom.embedded.returns import JobStatus
from jobroom.service import local, local_reports
from jobroom.service.local import Config, Idle, Outcome, Taken
from jobroom.service.queue import JobQueue
from jobroom.store.local_reads import Said

log = logging.getLogger("jobroom")

MOST_DETAILS_BYTES = 1024 * 1024
MOST_ATTEMPTS = 2**31 - 1
TASK_STATUSES: dict[JobStatus, tuple[str, ...]] = {
    JobStatus.READY: (TaskStatus.PENDING,),
    JobStatus.PENDING: (TaskStatus.BLOCKED,),
    JobStatus.RUNNING: (TaskStatus.CLAIMED, TaskStatus.RUNNING),
    JobStatus.ERROR: (TaskStatus.FAILED, TaskStatus.CANCELLED),
    JobStatus.SUCCESS: (TaskStatus.COMPLETED,),
}
"""The words of the embedded queue, and those of all others for the same."""
_STATUS_OF = {task: status for status, tasks in TASK_STATUSES.items() for task in tasks}


class NewJob(NamedTuple):
    """A job to be stored; ``config`` is JSON, and is given back as it is."""

    job_id: str
    config: str
    function: str
    max_retries: int = 0
    timeout_seconds: float | None = None
    depends_on: tuple[str, ...] = ()
    condition: str = "afterok"


class Found(NamedTuple):
    """Where a job stands, and what was said of it."""

    job_id: str
    status: JobStatus
    details: str | None


class LocalQueue:
    """The jobs in one file; each method is one transaction, and raises JobroomError for the store.

    Details are kept as text of any store: NUL becomes U+2400, a lone surrogate ``?``, and what is
    over 1 MiB is cut, with a mark that says so.
    """

    def __init__(self, path: Path) -> None:
        self._file = OpenFile(path)
        self._functions: dict[str, int] = {}
        self.queue()

    @property
    def path(self) -> Path:
        """The file, as an absolute path."""
        return self._file.path

    def queue(self) -> JobQueue:
        """The open queue."""
        return self._file.queue()

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        self._file.close()

    def add(self, new: NewJob, *, parent: str | None) -> bool:
        """Add a job; False, with a line in the log, where it cannot be added."""
        added = self.queue().run(
            local.add_job,
            job_id=new.job_id,
            config=self._config(new),
            depends_on=new.depends_on,
            condition=new.condition,
            parent=parent,
        )
        if added.job_seq is not None:
            self._functions[new.function] = added.job_seq
        if added.refusal is not None:
            log.warning("job.refused job_id=%s reason=%s", new.job_id, added.refusal)
        return added.is_added

    def _config(self, new: NewJob) -> Config:
        return Config(
            new.config,
            new.function,
            max_attempts=min(new.max_retries + 1, MOST_ATTEMPTS),
            timeout_seconds=new.timeout_seconds,
            job_seq=self._functions.get(new.function),
        )

    def take(self) -> Taken | Idle:
        """Take the first job that is ready; until somebody else is named, this process runs it."""
        return self.queue().run(local.take_job, worker_id=worker_id_of(os.getpid()))

    def report(self, job_id: str, status: JobStatus, details: str | None) -> None:
        """Say how a job stands. Of one that has ended only PENDING and READY change anything.

        Raises KeyError if it is unknown.
        """
        outcome = self._report(job_id, JobStatus(status), _kept(details))
        if outcome is Outcome.UNKNOWN:
            raise unknown(job_id)
        if outcome is Outcome.ENDED_BEFORE:
            log.warning("job.ended_before job_id=%s told=%s", job_id, JobStatus(status).name)

    def _report(self, job_id: str, status: JobStatus, details: str | None) -> Outcome:
        queue = self.queue()
        if status in {JobStatus.SUCCESS, JobStatus.ERROR}:
            succeeded = status == JobStatus.SUCCESS
            return queue.run(local.end_job, job_id=job_id, succeeded=succeeded, details=details)
        if status == JobStatus.RUNNING:
            worker_id = worker_id_of(os.getpid())
            return queue.run(local.run_job, job_id=job_id, worker_id=worker_id, details=details)
        return queue.run(local.queue_job, job_id=job_id, details=details)

    def replace(self, new: NewJob) -> None:
        """Store another config for a job; what it depends on stays. KeyError if it is unknown."""
        config = self._config(new)
        job_seq = self.queue().run(local.change_config, job_id=new.job_id, config=config)
        if job_seq is None:
            raise unknown(new.job_id)
        self._functions[new.function] = job_seq

    def set_worker(self, job_id: str, process: int) -> None:
        """Remember which process of this host runs a job. KeyError if it is unknown."""
        if not self.queue().run(local.set_worker, job_id=job_id, worker_id=worker_id_of(process)):
            raise unknown(job_id)

    def fail_jobs_of(self, process: int) -> list[str]:
        """Fail what a process of this host ran; the names of its jobs, in order."""
        worker_id = worker_id_of(process)
        why = f"The worker that ran this job ended before it did (process {process} on {_host()})"
        return self.queue().run(local.fail_jobs_of, worker_id=worker_id, details=why)

    def fail_deadlocked(self) -> list[str]:
        """Fail the jobs that wait in vain, if nothing is ready or runs; their names, in order."""
        return self.queue().run(local.fail_deadlocked)

    def find(self, job_id: str) -> Found:
        """Where a job stands. KeyError if it is unknown."""
        said = self.queue().run(local_reports.find_job, job_id=job_id)
        if said is None:
            raise unknown(job_id)
        return _found(said)

    def list_failed(self) -> list[Found]:
        """The jobs that failed, sorted by name."""
        statuses = TASK_STATUSES[JobStatus.ERROR]
        return [
            _found(said) for said in self.queue().run(local_reports.list_jobs, statuses=statuses)
        ]

    def list_names(self, status: JobStatus) -> list[str]:
        """The names of the jobs that have a status now, sorted."""
        statuses = TASK_STATUSES[JobStatus(status)]
        return self.queue().run(local_reports.list_names, statuses=statuses)

    def count(self) -> dict[str, int]:
        """How many jobs there are in each status, by its name in lower case; and in ``total``."""
        counted = self.queue().run(local_reports.count_jobs)
        counts = {
            status.name.lower(): sum(counted.get(each, 0) for each in statuses)
            for status, statuses in TASK_STATUSES.items()
        }
        return {"total": sum(counts.values()), **counts}


def _found(said: Said) -> Found:
    return Found(said.name, _STATUS_OF[said.status], local_reports.details_of(said))


def unknown(job_id: str) -> KeyError:
    """What is raised for a job that is not there."""
    return KeyError(f"There is no job {job_id!r} in this queue.")


def _kept(details: str | None) -> str | None:
    return None if details is None else cut_text(escape_nul(str(details)), MOST_DETAILS_BYTES)


def worker_id_of(process: int) -> str:
    """What a process of this host is known by: equal numbers on two hosts are two workers."""
    return f"{_host()}:{process}"


@cache
def _host() -> str:
    return socket.gethostname()
