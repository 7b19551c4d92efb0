"""Queues with every kind of row, written and read behind jobroom's back, and ``jobroom`` itself."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from jobroom.service import standing
from jobroom.store.hrana import dbapi
from jobroom.store.schema import metadata

ROOT = Path(__file__).parents[2]
TABLES = [table.name for table in metadata.sorted_tables]
COLUMNS = {
    table.name: [column.name for column in table.columns] for table in metadata.sorted_tables
}
KEYS = {
    table.name: [column.name for column in table.primary_key.columns]
    for table in metadata.sorted_tables
}
NOW = 1_795_000_000_123_457
ODD_TEXTS = ("é😀\u2028", "a\\u0000b", "'; DROP TABLE task; --", "%s $1 ?1 :x", "", "\t\r\n")
STATUSES = ("blocked", "pending", "claimed", "running", "completed", "failed", "cancelled")
ENDED = STATUSES[4:]
CONDITIONS = ("afterok", "afternotok", "afterany")


def rows_of(tasks: int, *, payload: str = "") -> dict[str, list[tuple[Any, ...]]]:
    """Every kind of row, more of them with more tasks; the greatest of a table is not its last."""
    jobs = [_job(seq) for seq in (1, 2, 7, 2**40)]
    workers = [_worker(place) for place in range(max(9, tasks // 100))]
    made = [_task(place, jobs, workers, payload) for place in range(tasks)]
    return {
        "job": jobs,
        "job_schema": [
            (job[0], version, f'{{"title": "v{version} é"}}')
            for job in jobs
            for version in (1, 2, 3)
        ],
        "worker": workers,
        "worker_job_link": [
            (worker[0], jobs[place % 4][0]) for place, worker in enumerate(workers)
        ],
        "task": made,
        "edge": [edge for place, task in enumerate(made) for edge in _edges(place, task[0])],
        "task_log": [
            (task[0], attempt, upto, odd)
            for task in made[::3]
            for attempt in (1, 2**31 - 1)
            for upto, odd in enumerate(ODD_TEXTS, 2**40)
        ],
        "schedule": [_schedule(place, jobs) for place in range(6)],
        "fair_turn": [
            (7, priority, room, NOW + priority)
            for priority in (-(2**31), -1, 0, 2**31 - 1)
            for room in ("@global", "Zimmer", "room", "räume", "😀")
        ],
        "notice": [
            (worker[0], f"task-{place}", NOW - place) for place, worker in enumerate(workers)
        ],
        "queue_state": [("sweep_finished_at", NOW), ("judge_again_at", -(2**63)), ("swept_at", 0)],
    }


def _job(seq: int) -> tuple[Any, ...]:
    return (
        seq,
        f"job-{seq}",
        "@global",
        "modifiers",
        f"Name{seq}é",
        '{"type": "object"}',
        3,
        seq % 1000 + 1,
        seq % 2,
        None if seq % 2 else "Beschreibung 😀",
        3,
        "fail" if seq % 2 else "requeue",
        "fair" if seq == 7 else "fifo",
        None if seq % 2 else 0.1,
        1e-7,
        None,
        1.7976931348623157e308 if seq == 2 else 3600.0,
        1,
        NOW,
        None if seq % 2 else NOW + 1,
    )


def _worker(place: int) -> tuple[Any, ...]:
    name = f"{'wWé😀_'[place % 5]}{place}"
    kind = "identity" if place % 2 else "instance"
    identity = name if kind == "identity" else "alice"
    state = ("active", "asleep", "gone")[place % 3]
    return name, identity, kind, state, None if place % 4 else "Laptop", NOW, NOW - place


def _schedule(place: int, jobs: list[Any]) -> tuple[Any, ...]:
    odd = place % 2
    return (
        place + 1,
        f"schedule-{place}",
        "räume",
        f"jede Nacht {place} 😀",
        jobs[place % 4][0],
        f"creator {ODD_TEXTS[place]}",
        standing.write(standing.StandingTask('{"angle": 1.0}')),
        "0 3 * * *" if odd else None,
        None if odd else 0.1,
        "Europe/Berlin",
        ("one", "all", "skip")[place % 3],
        odd,
        None if odd else NOW,
        NOW + 1 if odd else None,
        NOW,
        None if odd else NOW + place,
        NOW - 1 if odd else None,
        f"task-{place}" if odd else None,
        None if odd else "the job is hidden é",
        2**31 - 1,
    )


def _task(place: int, jobs: list[Any], workers: list[Any], payload: str) -> tuple[Any, ...]:
    status = STATUSES[place % 7]
    odd = ODD_TEXTS[place % len(ODD_TEXTS)]
    seq = place + 1 + (place // 50) * 3  # with gaps, as removed tasks leave them
    ended = status in ENDED
    held = status in ("claimed", "running")
    return (
        seq,
        f"01930000-0000-7000-8000-{place:012d}",
        jobs[place % 4][0],
        ("r1", "@global", "räume")[place % 3],
        f"creator {odd}",
        status,
        int(place % 5 != 0),
        (-(2**31), -1, 0, 5, 2**31 - 1)[place % 5],
        2**62 + place,
        f'{{"n": {place}, "odd": "{odd}", "more": "{payload}"}}',
        place % 3 + 1,
        NOW + place,
        NOW - place if place % 5 == 0 else None,
        2**63 - 1 if place % 11 == 0 else None,
        NOW if held else None,
        NOW + 1 if status == "running" else None,
        NOW + 2 if ended else None,
        workers[place % len(workers)][0] if held or ended else None,
        place % 4,
        place % 3,
        place % 2,
        3,
        None if place % 2 else 0.30000000000000004,
        NOW + 3 if place % 3 == 0 else None,
        f"claim-{place}" if held else None,
        f"key-{place}" if place % 6 == 0 else None,
        "f" * 64 if place % 6 == 0 else None,
        (None, 0.0, 0.1, 1.0, 5e-324)[place % 5],
        odd if place % 2 else None,
        "gone wrong␀" if status == "failed" else None,
        "[1.0, null]" if status == "completed" else None,
        f"key {odd}" if place % 4 == 0 else None,
        int(status in ("blocked", "pending", "failed")),
        int(place % 3 == 0),
        f"gone-{place} 😀" if status == "failed" else None,
        place % 50 + 1,
    )


def _edges(place: int, dependent_seq: int) -> list[tuple[Any, ...]]:
    """What it depends on: a task that many share, one that is gone, and a name of none."""
    odd = ODD_TEXTS[place % len(ODD_TEXTS)]
    shared, gone, name = "01930000-0000-7000-8000-000000000003", f"gone-{place} 😀", f"zZé😀_{odd}"
    states = {
        "blocked": ((shared, "waiting"), (gone, "met"), (name, "met")),
        "pending": ((gone, "met"), (name, "met")),
        "failed": ((gone, "broken"), (name, "waiting")),
    }
    return [
        (key, dependent_seq, CONDITIONS[place % 3], state, odd if key == name else None)
        for key, state in states.get(STATUSES[place % 7], ())
    ]


@contextmanager
def connected(url: str) -> Iterator[Any]:
    """A connection by the driver, and commit."""
    if url.startswith("sqlite"):
        opened: Any = sqlite3.connect(path_of(url))
    elif url.startswith("postgresql"):
        opened = psycopg.connect(url)
    else:
        opened = dbapi.connect(url)
    with closing(opened):
        yield opened
        opened.commit()


def fill(url: str, tasks: int = 60, **more: Any) -> None:
    """Write a queue with every kind of row into a migrated database."""
    made = rows_of(tasks, **more)
    for table in TABLES:
        insert(url, table, made[table])


def insert(url: str, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    mark = "%s" if url.startswith("postgresql") else "?"
    names = COLUMNS[table]
    marks = ", ".join([mark] * len(names))
    sql = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - our own names
    with connected(url) as connection:
        connection.cursor().executemany(sql, list(rows))


def execute(url: str, sql: str) -> list[tuple[Any, ...]]:
    with connected(url) as connection:
        cursor = connection.cursor()
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


def dump(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """All rows but those that are a database's own, sorted here, each value with its type."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for table in TABLES:
        rows = execute(url, f"SELECT {', '.join(COLUMNS[table])} FROM {table}")  # noqa: S608 - as above
        if table == "queue_state":
            rows = [row for row in rows if row[0] != "ballast"]
        found[table] = sorted(
            (tuple((type(value).__name__, value) for value in row) for row in rows), key=repr
        )
    return found


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "jobroom.cli.main", *arguments]


def environment(**settings: object) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ZNDRAW_JOBLIB_")}
    ours = {f"ZNDRAW_JOBLIB_{name.upper()}": str(value) for name, value in settings.items()}
    return {**kept, **ours, "PYTHONPATH": str(ROOT / "joblib"), "TERM": "dumb", "COLUMNS": "200"}


def jobroom(*arguments: str, seconds: float = 120, **settings: object) -> Any:
    """Run ``jobroom`` to its end."""
    return subprocess.run(
        command(*arguments),
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def refusal_of(done: Any) -> str:
    """The one sentence on stderr of a command that failed."""
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert done.stderr.startswith("jobroom: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return str(done.stderr)
