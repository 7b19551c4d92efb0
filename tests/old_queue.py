"""Writes a ``queue.db`` with the four tables of pyantz's own queue, as its seed describes them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

CHUNKSIZE = 2000
READY, PENDING, RUNNING, ERROR, SUCCESS = range(5)
NOP = "pyantz.jobs.testing.nop.do_nothing"
CASCADE = "A job this job depends on failed"
TABLES = """
CREATE TABLE job_queue (q_index INTEGER NOT NULL PRIMARY KEY, job_id VARCHAR NOT NULL);
CREATE INDEX ix_job_queue_job_id ON job_queue (job_id);
CREATE TABLE queue_items (
    job_id VARCHAR NOT NULL, job_subindex INTEGER NOT NULL,
    job_config_content VARCHAR(2000) NOT NULL, PRIMARY KEY (job_id, job_subindex)
);
CREATE TABLE dependencies (
    job_id VARCHAR NOT NULL, depends_on VARCHAR NOT NULL, PRIMARY KEY (job_id, depends_on)
);
CREATE INDEX ix_dependencies_depends_on ON dependencies (depends_on);
CREATE TABLE job_status (
    job_id VARCHAR NOT NULL PRIMARY KEY, job_status INTEGER NOT NULL,
    worker_id INTEGER, details TEXT
);
CREATE INDEX ix_job_status_job_status ON job_status (job_status);
"""


def config(job_id: str, **more: Any) -> str:
    """The JSON that pyantz stores for a job."""
    usual = {
        "job_id": job_id,
        "depends_on": None,
        "parameters": {},
        "strict": False,
        "name": None,
        "function": NOP,
        "num_attempted_runs": 0,
        "timeout_seconds": None,
        "max_retries": 0,
        "dependency_type": "afterok",
        "virtual": False,
        "variables": None,
    }
    return json.dumps({**usual, **more}, ensure_ascii=False, separators=(",", ":"))


class OldQueue:
    """The file while it is written; each job is committed with all its rows."""

    def __init__(self, path: Path, *, wal: bool = False) -> None:
        self.path = path
        self.connection = sqlite3.connect(path)
        if wal:
            self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.executescript(TABLES)

    def add(
        self,
        job_id: str,
        status: int = READY,
        needs: Iterable[str] = (),
        *,
        details: str | None = None,
        worker_id: int | None = None,
        text: str | None = None,
        **more: Any,
    ) -> None:
        """Add a job; one that was taken is in the queue no more."""
        stored = config(job_id, **more) if text is None else text
        chunks = [stored[at : at + CHUNKSIZE] for at in range(0, len(stored), CHUNKSIZE)]
        self.connection.executemany(
            "INSERT INTO queue_items VALUES (?, ?, ?)",
            [(job_id, index, chunk) for index, chunk in enumerate(chunks)],
        )
        self.connection.executemany(
            "INSERT INTO dependencies VALUES (?, ?)", [(job_id, each) for each in needs]
        )
        self.run("INSERT INTO job_status VALUES (?, ?, ?, ?)", job_id, status, worker_id, details)
        if status in (READY, PENDING):
            self.run("INSERT INTO job_queue (job_id) VALUES (?)", job_id)

    def run(self, sql: str, *values: object) -> None:
        """Any other statement."""
        self.connection.execute(sql, values)

    def close(self) -> Path:
        """Commit and close; the file."""
        self.connection.commit()
        self.connection.close()
        return self.path


def write(path: Path, jobs: Mapping[str, tuple[Any, ...]]) -> Path:
    """A file with these jobs: id -> (status, needs), in this order."""
    queue = OldQueue(path)
    for job_id, given in jobs.items():
        queue.add(job_id, *given)
    return queue.close()


def dump(path: Path) -> bytes:
    """The file's bytes, to see that nothing was written to it."""
    with closing(path.open("rb")) as file:
        return file.read()
