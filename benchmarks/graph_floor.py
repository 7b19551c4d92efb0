"""The floors of the graph queue: plain sqlite3, with counters, and on the tables of ours.

``MinimalQueue`` is the least that may be called a graph queue: a table of jobs with a counter of
what each waits for, one of edges, one index on what is ready. ``SameWrites`` works on our own
schema with all its indexes, and writes into each row what ours writes (`graph_watching`).
Neither checks, parses, or knows an error; both read no more than they must.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import graph_scenes
from graph_filling import Rows
from graph_watching import Watched
from raw_queue import connect

FUNCTION = "jobroom.testing.do_nothing"
OUR_TABLES: Mapping[str, Rows] = {
    "task": Rows("seq", ("seq",), "has_dependents = 1"),
    "edge": Rows("dependent_seq", ("dependent_seq",)),
}


class Job(NamedTuple):
    """A job, ready to be written."""

    id: str
    depends_on: tuple[str, ...]
    config: str


class PlainQueue:
    """What both floors share: a connection, and jobs that are made before the clock starts."""

    path: Path
    tables: Mapping[str, Rows]
    job_table: str

    def __init__(self, path: Path, synchronous: str) -> None:
        self.path = path
        self.connection = connect(path, synchronous)
        self.run = self.connection.execute

    def prepare(self, job_id: str, depends_on: Sequence[str]) -> Job:
        """With the JSON that ours would store."""
        config = {
            "job_id": job_id,
            "depends_on": list(depends_on) or None,
            "parameters": graph_scenes.PARAMETERS,
            "strict": False,
            "name": None,
            "function": FUNCTION,
            "num_attempted_runs": 0,
            "timeout_seconds": None,
            "max_retries": 0,
            "dependency_type": "afterok",
            "virtual": False,
            "variables": None,
        }
        return Job(job_id, tuple(depends_on), json.dumps(config, separators=(",", ":")))

    def number(self, job_id: str) -> int:
        """Its ``seq``."""
        found = self.run(f"SELECT seq FROM {self.job_table} WHERE id = ?", [job_id])  # noqa: S608 - a constant
        return int(found.fetchone()[0])

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()


_MINIMAL_TABLES: Mapping[str, Rows] = {
    "job": Rows("seq", ("seq",)),
    "edge": Rows("dependent", ("dependent",)),
}
_READY, _WAITING, _RUNNING, _FAILED, _DONE = range(5)


class MinimalQueue(PlainQueue):
    """Two tables, one index beside their keys, a counter."""

    tables = _MINIMAL_TABLES
    job_table = "job"

    def __init__(self, path: Path, synchronous: str) -> None:
        super().__init__(path, synchronous)
        self.connection.executescript(
            "CREATE TABLE job (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
            " config TEXT NOT NULL, status INTEGER NOT NULL, waiting INTEGER NOT NULL,"
            " details TEXT);"
            "CREATE TABLE edge (dependency TEXT NOT NULL, dependent INTEGER NOT NULL,"
            " PRIMARY KEY (dependency, dependent)) WITHOUT ROWID;"
            "CREATE INDEX ix_job_ready ON job (seq) WHERE status = 0;"
        )

    def add(self, job: Job) -> None:
        """One statement, or a transaction if it depends on others."""
        if not job.depends_on:
            self._insert(job, _READY, 0)
            return
        run = self.run
        run("BEGIN IMMEDIATE")
        waiting = 0
        for needed in job.depends_on:
            found = run("SELECT status FROM job WHERE id = ?", (needed,)).fetchone()
            waiting += found is None or found[0] != _DONE
        seq = self._insert(job, _WAITING if waiting else _READY, waiting)
        for needed in job.depends_on:
            run("INSERT INTO edge VALUES (?, ?)", (needed, seq))
        run("COMMIT")

    def _insert(self, job: Job, status: int, waiting: int) -> int | None:
        return self.run(
            "INSERT INTO job (id, config, status, waiting) VALUES (?, ?, ?, ?)",
            (job.id, job.config, status, waiting),
        ).lastrowid

    def take(self) -> str | None:
        """One statement; the id of the first one."""
        taken = self.run(
            "UPDATE job SET status = 2 WHERE seq ="
            " (SELECT seq FROM job WHERE status = 0 ORDER BY seq LIMIT 1) RETURNING id, config"
        ).fetchall()
        return taken[0][0] if taken else None

    def end(self, job_id: str, *, ok: bool) -> None:
        """What waits counts down, or fails all the way down."""
        run = self.run
        run("BEGIN IMMEDIATE")
        ended = run(
            "UPDATE job SET status = ? WHERE id = ? AND status = 2",
            (_DONE if ok else _FAILED, job_id),
        )
        assert ended.rowcount == 1
        run(self._COUNT_DOWN if ok else self._FAIL, (job_id,))
        run("COMMIT")

    _COUNT_DOWN = (
        "UPDATE job SET waiting = waiting - 1, status = iif(waiting = 1, 0, 1) WHERE status = 1"
        " AND seq IN (SELECT dependent FROM edge WHERE dependency = ?)"
    )
    _FAIL = (
        "WITH RECURSIVE lost(id, seq) AS (SELECT ?, 0 UNION"
        " SELECT job.id, job.seq FROM lost JOIN edge ON edge.dependency = lost.id"
        " JOIN job ON job.seq = edge.dependent AND job.status = 1)"
        " UPDATE job SET status = 3, details = 'A job this job depends on failed'"
        " WHERE seq IN (SELECT seq FROM lost)"
    )

    def failed(self) -> int:
        """Counted."""
        return int(self.run("SELECT count(*) FROM job WHERE status = 3").fetchone()[0])


class SameWrites(PlainQueue):
    """The writes of ours by hand, on our own schema, each step one transaction."""

    tables = OUR_TABLES
    job_table = "task"

    def __init__(self, path: Path, synchronous: str, watched: Watched) -> None:
        super().__init__(path, synchronous)
        self._insert = f"INSERT INTO task ({watched.columns}) VALUES ({watched.values})"  # noqa: S608 - told from rows of ours, here and below
        self._insert_edge = f"INSERT INTO edge VALUES ({watched.edge})"  # noqa: S608
        self._expect = (
            f"UPDATE task SET {watched.awaited} WHERE id = :dependency AND has_dependents = 0"  # noqa: S608
        )
        self._take = (
            f"UPDATE task SET {watched.taken} WHERE seq = (SELECT seq FROM task"  # noqa: S608
            " WHERE room_id = '@local' AND status = 'pending' AND ready = 1 ORDER BY seq LIMIT 1)"
            " RETURNING id, payload"
        )
        end = "UPDATE task SET {0} WHERE id = :id AND status = 'running' RETURNING has_dependents"
        self._complete, self._fail = end.format(watched.completed), end.format(watched.failed)
        self._promote = (
            f"UPDATE task SET {watched.promoted} WHERE seq IN (SELECT dependent_seq FROM edge"  # noqa: S608
            " WHERE dependency_id = :id) AND status = 'blocked' AND NOT EXISTS (SELECT 1"
            " FROM edge WHERE dependent_seq = task.seq AND state = 'waiting')"
        )
        self._fall = (
            "WITH RECURSIVE lost(id, seq, cause) AS (SELECT :id, 0, NULL UNION"  # noqa: S608
            " SELECT task.id, task.seq, lost.id FROM lost"
            " JOIN edge ON edge.dependency_id = lost.id"
            " JOIN task ON task.seq = edge.dependent_seq AND task.status = 'blocked')"
            f" UPDATE task SET {watched.fallen} FROM lost WHERE task.seq = lost.seq"
        )

    def add(self, job: Job) -> None:
        """A row, a row for each edge, and the mark on what it depends on."""
        run = self.run
        run("BEGIN IMMEDIATE")
        said: dict[str, Any] = {"id": job.id, "payload": job.config, "now": _now()}
        waiting = False
        for needed in job.depends_on:
            found = run("SELECT status FROM task WHERE id = ?", (needed,)).fetchone()
            waiting = waiting or found is None or found[0] != "completed"
        said["status"] = "blocked" if waiting else "pending"
        said["has_dependencies"] = int(bool(job.depends_on))
        said["seq"] = run(self._insert, said).lastrowid
        for needed in job.depends_on:
            said["dependency"] = needed
            run(self._insert_edge, said)
            run(self._expect, said)
        run("COMMIT")

    def take(self) -> str | None:
        """One statement; the id of the first one."""
        taken = self.run(self._take, {"now": _now()}).fetchall()
        return taken[0][0] if taken else None

    def end(self, job_id: str, *, ok: bool) -> None:
        """What waits goes on, or fails all the way down."""
        run = self.run
        said = {"id": job_id, "now": _now()}
        run("BEGIN IMMEDIATE")
        [(has_dependents,)] = run(self._complete if ok else self._fail, said).fetchall()
        if has_dependents:
            run(self._MEET if ok else self._BREAK, said)
            run(self._promote if ok else self._fall, said)
        run("COMMIT")

    _MEET = "UPDATE edge SET state = 'met' WHERE dependency_id = :id AND state = 'waiting'"
    _BREAK = (
        "WITH RECURSIVE lost(id) AS (SELECT :id UNION"
        " SELECT task.id FROM lost JOIN edge ON edge.dependency_id = lost.id"
        " JOIN task ON task.seq = edge.dependent_seq AND task.status = 'blocked')"
        " UPDATE edge SET state = 'broken' WHERE dependency_id IN (SELECT id FROM lost)"
    )

    def failed(self) -> int:
        """Counted."""
        return int(self.run("SELECT count(*) FROM task WHERE status = 'failed'").fetchone()[0])


def _now() -> int:
    return time.time_ns() // 1000
