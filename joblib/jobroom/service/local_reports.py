"""What the embedded queue tells of its jobs, the tasks of the room ``@local``."""

from __future__ import annotations

from operator import attrgetter

from jobroom.domain import graph
from jobroom.domain.lifecycle import TaskStatus
from jobroom.domain.local import task_id_of
from jobroom.service.use_case import reads
from jobroom.store import local_reads
from jobroom.store.local_reads import Said
from jobroom.store.transaction import Transaction

BY_CASCADE = "A job this job depends on failed"
BY_SUCCESS = "A job this job depends on succeeded, and was to fail"
WAS_CANCELLED = "The job was cancelled"


@reads
def find_job(tx: Transaction, *, job_id: str) -> Said | None:
    """What is known of a job; None if it is unknown."""
    return local_reads.said_of(tx, task_id_of(job_id))


@reads
def list_jobs(tx: Transaction, *, statuses: tuple[str, ...]) -> list[Said]:
    """What is known of all jobs of these statuses, by name."""
    found = (said for status in statuses for said in local_reads.said_in(tx, status))
    return sorted(found, key=attrgetter("name"))


@reads
def list_names(tx: Transaction, *, statuses: tuple[str, ...]) -> list[str]:
    """The names of all jobs of these statuses, sorted."""
    return sorted(name for status in statuses for name in local_reads.names_in(tx, status))


@reads
def count_jobs(tx: Transaction) -> dict[str, int]:
    """How many jobs there are in each status, all at one moment."""
    return local_reads.count(tx)


def details_of(said: Said) -> str | None:
    """What there is to say of a job in its status."""
    if said.failed_by is not None:
        to_fail = graph.why_failed(said.failed_by, TaskStatus.COMPLETED)
        return BY_SUCCESS if said.error == to_fail else BY_CASCADE
    if said.status == TaskStatus.FAILED:
        return said.error
    if said.status == TaskStatus.CANCELLED:
        return said.error or WAS_CANCELLED
    return said.message
