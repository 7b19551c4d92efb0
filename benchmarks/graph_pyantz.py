"""pyantz's own queue, measured in an environment of its own; asked and answering in JSON.

Run: <its venv>/bin/python graph_pyantz.py FOLDER. Each line asks for one of ``PeerScenes``'
methods, ``[name, arguments...]``; each answer is a line too.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import graph_scenes
from graph_filling import Rows
from pyantz.infrastructure.config.job import (  # type: ignore[import-not-found]  # as below, of the peer's environment
    JobWithContext,
)
from pyantz.infrastructure.distributed_queue.common.return_types import (  # type: ignore[import-not-found]
    JobStatus,
)
from pyantz.infrastructure.distributed_queue.sql.sql_queue import (  # type: ignore[import-not-found]
    SqliteQueue,
)

NOTHING = "pyantz.jobs.testing.nop.do_nothing"
TABLES: Mapping[str, Rows] = {
    "job_queue": Rows("job_id", ("q_index",)),
    "queue_items": Rows("job_id"),
    "dependencies": Rows("job_id"),
    "job_status": Rows("job_id"),
}


class PyantzQueue:
    """Its SqliteQueue, by its own calls."""

    tables = TABLES

    def __init__(self, path: Path) -> None:
        self.path = path
        self._queue = SqliteQueue(path)

    def prepare(self, job_id: str, depends_on: Sequence[str]) -> Any:
        """Its own JobWithContext."""
        return JobWithContext(
            job_id=job_id,
            depends_on=set(depends_on) or None,
            function=NOTHING,
            parameters=graph_scenes.PARAMETERS,
        )

    def add(self, job: Any) -> None:
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
        """Its place in the queue; that of a job which was taken no longer counts."""
        with sqlite3.connect(self.path) as reading:
            found = reading.execute("SELECT q_index FROM job_queue WHERE job_id = ?", [job_id])
            return int((found.fetchone() or (0,))[0])

    def failed(self) -> int:
        """Of its own report."""
        return int(self._queue.get_jobs_report().error)

    def close(self) -> None:
        """Let go of the file."""
        self._queue._engine.dispose()  # noqa: SLF001 - it has no other way


class PeerScenes:
    """The scenes that were asked for, by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, graph_scenes.Scene] = {}

    def fill(self, name: str, kind: str, size: int) -> None:
        """Make one, in a file of its own."""
        queue = PyantzQueue(self._folder / f"{name}.db")
        self._open[name] = graph_scenes.SCENES[kind](queue, size)

    def round(self, name: str, calls: int, seconds: float) -> dict[str, graph_scenes.Cost]:
        """Measure a round of it."""
        return self._open[name].round(calls, seconds)

    def close(self, name: str) -> None:
        """It is not needed any more."""
        self._open.pop(name).queue.close()


def main() -> None:
    """Answer until nothing is asked any more."""
    scenes = PeerScenes(Path(sys.argv[1]))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(scenes, name)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
