"""Our SqliteQueue, as the scenes call it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import graph_scenes
from graph_floor import FUNCTION, OUR_TABLES

from jobroom.embedded import JobStatus, JobWithContext, SqliteQueue

SYNCHRONOUS = "ZNDRAW_JOBLIB_SQLITE_SYNCHRONOUS"


class OurQueue:
    """By the calls that a user makes."""

    tables = OUR_TABLES

    def __init__(self, path: Path, synchronous: str) -> None:
        self.path = path
        with _set(SYNCHRONOUS, synchronous):
            self._queue = SqliteQueue(path)

    def prepare(self, job_id: str, depends_on: Sequence[str]) -> JobWithContext:
        """A job that calls the function that does nothing."""
        return JobWithContext(
            job_id=job_id,
            depends_on=set(depends_on) or None,
            function=FUNCTION,
            parameters=graph_scenes.PARAMETERS,
        )

    def add(self, job: JobWithContext) -> None:
        """``add_job``."""
        assert self._queue.add_job(job, None)

    def take(self) -> str | None:
        """``get_job``."""
        payload = self._queue.get_job().payload
        return payload.job.job_id if payload.type_ == "job" else None

    def end(self, job_id: str, *, ok: bool) -> None:
        """``update_job_status``."""
        self._queue.update_job_status(job_id, JobStatus.SUCCESS if ok else JobStatus.ERROR)

    def number(self, job_id: str) -> int:
        """Its ``seq``."""
        with sqlite3.connect(self.path) as reading:
            found = reading.execute("SELECT seq FROM task WHERE id = ?", [job_id])
            return int(found.fetchone()[0])

    def failed(self) -> int:
        """Of its own report."""
        return self._queue.get_jobs_report().error

    def close(self) -> None:
        """Let go of the file."""


@contextmanager
def _set(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for a moment."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
