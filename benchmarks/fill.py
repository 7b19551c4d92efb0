"""A queue file with a backlog, filled by direct SQL: a million tasks in seconds instead of hours.

Jobs and workers are registered as anybody registers them; the task rows are written past the
queue, with what each would hold had it been submitted (and claimed, and completed) in earnest.
"""

from __future__ import annotations

import os
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from jobroom.domain.records import Caller
from jobroom.service import claiming, registration
from jobroom.service import workers as crew
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store.hrana.transport import Step
from jobroom.store.libsql import CLOCK
from jobroom.store.schema import task

ADMIN = Caller("bench", is_admin=True)
"""Who registered the jobs and serves all of them; a token for this identity may do everything."""
PAYLOAD = '{"angle": 90, "axis": "z", "note": "as long as the payloads that come from a user"}'
SCHEMA = (
    '{"type": "object", "properties": {"angle": {"type": "number"}, "axis": {"type": "string"}},'
    ' "required": ["angle"]}'
)
RARE = "rare"
"""An identity that submitted few tasks, whatever the size; the others come from ten others."""
_RARE_TASKS = 60
_RETENTION = 7 * 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a file is filled with. Jobs are global, so that every room submits to the same ones."""

    pending: int
    finished: int = 0
    rooms: int = 1
    jobs: int = 1
    workers: int = 0
    """Instance workers that serve every job, beside the identity worker that does so, too."""


def room(number: int) -> str:
    """The name of a room, from 0 on."""
    return f"room{number}"


def job(number: int) -> str:
    """The full name of a job, from 0 on."""
    return f"@global:modifiers:Rotate{number}"


def task_id(seq: int) -> str:
    """The id of a filled task: a UUID of version 7 that rises with ``seq``, as ours do."""
    return f"{seq >> 16:08x}-{seq & 0xFFFF:04x}-7000-8000-{seq:012x}"


def fill(path: Path, backlog: Backlog) -> None:
    """Make the file, and check that the first task can be claimed from it."""
    settings = JobLibSettings(database_url=f"sqlite:///{path}")
    with JobQueue.open(settings) as queue:
        made = [
            queue.run(crew.create_worker, caller=ADMIN, name=None) for _ in range(backlog.workers)
        ]
        workers = [None, *(view.worker.id for view in made)]
        job_seqs = [_register(queue, number, workers) for number in range(backlog.jobs)]
    _insert(path, backlog, first_job=min(job_seqs))
    with JobQueue.open(settings) as queue:
        claimed = queue.run(claiming.claim_tasks, caller=ADMIN)
        oldest = task_id(backlog.finished + 1)
        assert [found.task.id for found in claimed] == [oldest], f"{path} is not filled as meant"
        queue.run(claiming.give_back, claimed=claimed, started=False)


def _register(queue: JobQueue, number: int, workers: list[str | None]) -> int:
    """Register a job for these workers, None being the identity worker; the job's seq."""
    spec = registration.JobSpec("modifiers", job(number).rpartition(":")[2], SCHEMA)
    made = [
        queue.run(
            registration.register_job, caller=ADMIN, room_id="@global", spec=spec, worker_id=worker
        )
        for worker in workers
    ]
    return made[0].view.job.seq


# One row a number: the oldest are finished, the others wait. Rooms and jobs take turns.
_ROW = {
    "seq": "n",
    "id": "printf('%08x-%04x-7000-8000-%012x', n >> 16, n & 65535, n)",
    "job_seq": ":first_job + n % :jobs",
    "room_id": "'room' || (n / :jobs % :rooms)",
    "created_by_id": f"iif(n % :rare_every = 0, '{RARE}', 'user' || (n % 10))",
    "status": "iif(n <= :finished, 'completed', 'pending')",
    "ready": "1",
    "priority": "0",
    "turn": "0",
    "payload": ":payload",
    "schema_version": "1",
    "created_at": ":start + n",
    "claimed_at": "iif(n <= :finished, :start + n + 1, NULL)",
    "started_at": "iif(n <= :finished, :start + n + 2, NULL)",
    "completed_at": "iif(n <= :finished, :start + n + 3, NULL)",
    "worker_id": "iif(n <= :finished, :worker, NULL)",
    "attempt": "n <= :finished",
    "starts": "n <= :finished",
    "idle_claims": "0",
    "max_attempts": "1",
    "has_dependencies": "0",
    "has_dependents": "0",
    "due_at": f"iif(n <= :finished, :start + n + {_RETENTION}, NULL)",
    "result": "iif(n <= :finished, '{\"ok\": true}', NULL)",
    "version": "iif(n <= :finished, 3, 1)",
}
_INSERT = (
    "WITH RECURSIVE numbers(n) AS"  # noqa: S608 - from the constants above
    " (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows)"
    f" INSERT INTO task ({', '.join(_ROW)}) SELECT {', '.join(_ROW.values())} FROM numbers"
)


def _insert(path: Path, backlog: Backlog, *, first_job: int) -> None:
    """Write the rows without their indexes, which are three times as fast to make afterwards."""
    _check_columns()
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -262144")
        indexes = connection.execute(
            "SELECT name, sql FROM sqlite_master"
            " WHERE type = 'index' AND tbl_name = 'task' AND sql IS NOT NULL"
        ).fetchall()
        clock = "SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000000"
        rows = backlog.finished + backlog.pending
        values = {
            "rows": rows,
            "rare_every": max(1, rows // _RARE_TASKS),
            "first_job": first_job,
            "jobs": backlog.jobs,
            "rooms": backlog.rooms,
            "finished": backlog.finished,
            "payload": PAYLOAD,
            "worker": ADMIN.identity,
            "start": connection.execute(clock).fetchone()[0] - rows - 60 * 1_000_000,
        }
        connection.execute("BEGIN IMMEDIATE")
        for name, _ in indexes:
            connection.execute(f'DROP INDEX "{name}"')
        connection.execute(_INSERT, values)
        for _, sql in indexes:
            connection.execute(sql)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    _write_through(path)


BATCH = 20_000


def fill_remote(queue: JobQueue, backlog: Backlog) -> None:
    """The same in a libSQL server: only what waits, and less of it, for each row crosses over."""
    _check_columns()
    made = [queue.run(crew.create_worker, caller=ADMIN, name=None) for _ in range(backlog.workers)]
    workers = [None, *(view.worker.id for view in made)]
    first_job = min(_register(queue, number, workers) for number in range(backlog.jobs))
    values = {
        "rare_every": max(1, backlog.pending // _RARE_TASKS),
        "first_job": first_job,
        "jobs": backlog.jobs,
        "rooms": backlog.rooms,
        "finished": 0,
        "payload": f"'{PAYLOAD}'",
        "worker": f"'{ADMIN.identity}'",
        "start": f"{CLOCK} - {backlog.pending + 60_000_000}",
    }
    text = re.sub(r":(\w+)", lambda found: str(values.get(found[1], found[0])), _INSERT)
    for start in range(1, backlog.pending + 1, BATCH):
        end = min(start + BATCH - 1, backlog.pending)
        part = text.replace("SELECT 1 UNION", f"SELECT {start} UNION").replace(":rows", str(end))
        queue.database.transport.batch([Step(part)], write=True)


def _check_columns() -> None:
    """A column that the schema has gained must be thought of here, too."""
    needed = {column.name for column in task.c if not column.nullable}
    unknown = set(_ROW) - set(task.c.keys())
    assert needed <= set(_ROW), f"fill.py does not fill {needed - set(_ROW)}"
    assert not unknown, f"fill.py fills {unknown}, which the schema does not have"


def _write_through(path: Path) -> None:
    """What the disk still has to write must not slow down what is measured next."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
