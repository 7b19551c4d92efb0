"""Jobs for the tests, in few words."""

from __future__ import annotations

from typing import Any

from jobroom.embedded import JobStatus, JobWithContext, SqliteQueue

NOP = "jobroom.testing.do_nothing"
CASCADE = "A job this job depends on failed"


def job(job_id: str, *depends_on: str, **given: Any) -> JobWithContext:
    """A job that does nothing, after others."""
    given = {"function": NOP, "parameters": {}, **given}
    return JobWithContext(job_id=job_id, depends_on=set(depends_on) or None, **given)


def add(queue: SqliteQueue, job_id: str, *depends_on: str, **given: Any) -> bool:
    """Add a job; ``parent`` is who submits it."""
    parent = given.pop("parent", None)
    return queue.add_job(job(job_id, *depends_on, **given), parent)


def take(queue: SqliteQueue) -> str:
    """The id of the job that is taken, or ``pending`` or ``complete``."""
    payload = queue.get_job().payload
    return payload.job.job_id if payload.type_ == "job" else payload.type_


def succeed(queue: SqliteQueue, *job_ids: str) -> None:
    """These are done."""
    for job_id in job_ids:
        queue.update_job_status(job_id, JobStatus.SUCCESS)


def fail(queue: SqliteQueue, job_id: str, details: str | None = "it broke") -> None:
    """This one failed."""
    queue.update_job_status(job_id, JobStatus.ERROR, details)


def again(queue: SqliteQueue, job_id: str) -> None:
    """This one is to run again."""
    queue.update_job_status(job_id, JobStatus.PENDING)


def status(queue: SqliteQueue, job_id: str) -> str:
    """The name of a job's status."""
    return queue.get_job_status(job_id).status.name


def statuses(queue: SqliteQueue, *job_ids: str) -> str:
    """The names of the statuses of some jobs."""
    return " ".join(status(queue, job_id) for job_id in job_ids)


def details(queue: SqliteQueue, job_id: str) -> str | None:
    """What was said of a job."""
    return queue.get_job_status(job_id).status_details


def counts(queue: SqliteQueue) -> dict[str, int]:
    """The report without the zeros."""
    return {name: n for name, n in queue.get_jobs_report().model_dump().items() if n}
