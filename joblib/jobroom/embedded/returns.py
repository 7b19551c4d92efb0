"""What the queue answers."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from jobroom.embedded.jobs import JobWithContext


class JobStatus(IntEnum):
    """Where a job stands."""

    READY = 0
    """It can be run, and waits for a worker."""
    PENDING = 1
    """It waits for other jobs."""
    RUNNING = 2
    """A worker has taken it."""
    ERROR = 3
    """It failed, was cancelled, or can never run."""
    SUCCESS = 4
    """It is done."""


class JobStatusReport(BaseModel):
    """Where one job stands, and what was said of it."""

    job_id: str
    status: JobStatus
    status_details: str | None = None


class JobsReport(BaseModel):
    """How many jobs there are in each status; the five add up to ``total``.

    >>> report = JobsReport(total=2, success=1, error=0, pending=0, ready=1, running=0)
    >>> report.all_succeeded
    False
    """

    total: int = Field(ge=0)
    success: int = Field(ge=0)
    error: int = Field(ge=0)
    pending: int = Field(ge=0)
    ready: int = Field(ge=0)
    running: int = Field(ge=0)

    @property
    def all_succeeded(self) -> bool:
        """Whether every job is done, and none failed."""
        return self.error == self.pending == self.ready == self.running == 0


class _CountedLater(JobsReport):
    """A report that becomes a plain ``JobsReport`` when anything of it is looked at.

    Counting walks over all jobs, and who polls an idle queue hardly ever looks.
    """

    def __getattribute__(self, name: str) -> Any:
        values = object.__getattribute__(self, "__dict__")
        if "count" in values:
            counted = values["count"]()
            values.update(counted.__dict__)
            object.__setattr__(self, "__pydantic_fields_set__", set(counted.__dict__))
            object.__setattr__(self, "__class__", JobsReport)
            values.pop("count", None)
        return object.__getattribute__(self, name)


def counted_later(count: Callable[[], JobsReport]) -> JobsReport:
    """A report of the moment at which it is first looked at."""
    report = _CountedLater.__new__(_CountedLater)
    for name in ("__pydantic_extra__", "__pydantic_private__"):
        object.__setattr__(report, name, None)
    object.__setattr__(report, "__pydantic_fields_set__", set())
    object.__setattr__(report, "__dict__", {"count": count})
    return report


class JobReturn(BaseModel):
    """A job to be run."""

    type_: Literal["job"] = "job"
    job: JobWithContext


class PendingReturn(BaseModel):
    """Nothing is ready, but something is under way: ask again in a while.

    The report that ``get_job`` gives is counted when it is first looked at.
    """

    type_: Literal["pending"] = "pending"
    jobs_report: JobsReport


class CompleteReturn(BaseModel):
    """All jobs have ended, or there were none: nothing is left to wait for.

    The report that ``get_job`` gives is counted when it is first looked at.
    """

    type_: Literal["complete"] = "complete"
    jobs_report: JobsReport


class GetJobReturn(BaseModel):
    """What ``get_job`` has found, told apart by ``payload.type_``.

    >>> none = dict.fromkeys(("total", "success", "error", "pending", "ready", "running"), 0)
    >>> GetJobReturn.model_validate({"payload": {"type_": "complete", "jobs_report": none}})
    GetJobReturn(payload=CompleteReturn(type_='complete', jobs_report=JobsReport(total=0, \
success=0, error=0, pending=0, ready=0, running=0)))
    """

    model_config = ConfigDict(frozen=True)

    payload: JobReturn | PendingReturn | CompleteReturn = Field(discriminator="type_")
