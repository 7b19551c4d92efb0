"""A queue in one file, for the processes of one machine: no server, and REST's work in it too."""

from __future__ import annotations

from jobroom.embedded.interface import QueueInterface
from jobroom.embedded.jobs import JobWithContext
from jobroom.embedded.returns import (
    CompleteReturn,
    GetJobReturn,
    JobReturn,
    JobsReport,
    JobStatus,
    JobStatusReport,
    PendingReturn,
)
from jobroom.embedded.sqlite_queue import SqliteQueue

__all__ = [
    "CompleteReturn",
    "GetJobReturn",
    "JobReturn",
    "JobStatus",
    "JobStatusReport",
    "JobWithContext",
    "JobsReport",
    "PendingReturn",
    "QueueInterface",
    "SqliteQueue",
]
