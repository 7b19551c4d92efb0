"""What a queue of jobs can be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from uuid import UUID

from jobroom.embedded.jobs import JobWithContext
from jobroom.embedded.returns import GetJobReturn, JobsReport, JobStatus, JobStatusReport


class QueueInterface(ABC):
    """A queue of jobs that may wait for each other; ``SqliteQueue`` is one."""

    @abstractmethod
    def add_job(self, job_config: JobWithContext, parent_job_id: str | UUID | None) -> bool:
        """Add a job; False if it cannot be added."""

    @abstractmethod
    def get_job(self) -> GetJobReturn:
        """Take the next job that is ready, or say whether there is anything to wait for."""

    @abstractmethod
    def update_job_status(
        self, job_id: str | UUID, status: JobStatus, details: str | None = None
    ) -> None:
        """Say how a job stands."""

    @abstractmethod
    def get_job_status(self, job_id: str | UUID) -> JobStatusReport:
        """Where a job stands, and what was said of it."""

    @abstractmethod
    def change_config_in_place(self, job_config: JobWithContext) -> None:
        """Store another config for a job."""

    @abstractmethod
    def set_job_worker(self, job_id: str | UUID, worker_id: int) -> None:
        """Remember which process runs a job."""

    @abstractmethod
    def fail_jobs_of_worker(self, worker_id: int) -> list[str]:
        """Fail what a process ran that has died; the ids of its jobs."""

    @abstractmethod
    def fail_deadlocked_jobs(self) -> list[str]:
        """Fail the jobs that wait in vain; their ids."""

    @abstractmethod
    def get_failed_jobs(self) -> list[JobStatusReport]:
        """The jobs that failed, sorted by id."""

    @abstractmethod
    def get_job_ids_with_status(self, status: JobStatus) -> list[str]:
        """The ids of the jobs that have a status now, sorted."""

    @abstractmethod
    def get_jobs_report(self) -> JobsReport:
        """How many jobs there are in each status."""
