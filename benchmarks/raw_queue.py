"""The floors of the embedded queue: plain sqlite3, by hand and by replay of our own statements."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

Row = tuple[Any, ...]


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """A connection with the settings of ours, and no transactions of the driver's own."""
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=512)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA cache_size = -32768")
    return connection


class MinimalQueue:
    """The least that may be called a queue: one table, one index, one statement a step."""

    _CLAIM = (
        "UPDATE task SET status = 'running', worker = ?, attempt = attempt + 1 WHERE seq ="
        " (SELECT seq FROM task WHERE status = 'pending' ORDER BY priority DESC, seq LIMIT 1)"
        " RETURNING seq, payload, attempt"
    )
    _COMPLETE = (
        "UPDATE task SET status = 'completed' WHERE seq = ? AND status = 'running' AND attempt = ?"
    )

    def __init__(self, path: Path, synchronous: str, payload: str) -> None:
        self._payload = payload
        self._run = connect(path, synchronous).execute
        self._run(
            "CREATE TABLE task (seq INTEGER PRIMARY KEY, job INTEGER NOT NULL,"
            " status TEXT NOT NULL, priority INTEGER NOT NULL, payload TEXT NOT NULL,"
            " created_at INTEGER NOT NULL, worker TEXT, attempt INTEGER NOT NULL)"
        )
        self._run(
            "CREATE INDEX ix_task_pending ON task (priority DESC, seq) WHERE status = 'pending'"
        )
        self._held: Row = ()

    def submit(self) -> None:
        """One row."""
        self._run(
            "INSERT INTO task (job, status, priority, payload, created_at, attempt)"
            " VALUES (?, 'pending', ?, ?, ?, 0)",
            (1, 0, self._payload, 1_790_000_000_000_000),
        )

    def claim(self) -> None:
        """Take the first one."""
        self._held = self._run(self._CLAIM, ("w",)).fetchall()[0]

    def claim_and_complete(self) -> None:
        """Two transactions, as by a worker that works in between."""
        self.claim()
        assert self._run(self._COMPLETE, (self._held[0], self._held[2])).rowcount == 1

    def complete_and_claim(self) -> None:
        """One transaction."""
        self._run("BEGIN IMMEDIATE")
        assert self._run(self._COMPLETE, (self._held[0], self._held[2])).rowcount == 1
        self._held = self._run(self._CLAIM, ("w",)).fetchall()[0]
        self._run("COMMIT")


class Step(NamedTuple):
    """A statement as it was run once: its rows, and whether it wrote any."""

    text: str
    values: Row
    rows: list[Row]
    wrote: bool


class _Result(NamedTuple):
    rows: list[Row]
    rowcount: int
    lastrowid: int | None

    def fetchall(self) -> list[Row]:
        return self.rows


class Recorder:
    """A connection that remembers what is run on it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._steps: list[Step] = []

    def execute(self, text: str, values: Row = ()) -> _Result:
        """Run a statement and remember it."""
        before = self._connection.total_changes
        cursor = self._connection.execute(text, values)
        rows = cursor.fetchall()
        wrote = self._connection.total_changes != before
        self._steps.append(Step(text, tuple(values), rows, wrote))
        return _Result(rows, cursor.rowcount, cursor.lastrowid)

    def record(self, work: Callable[[], object]) -> list[Step]:
        """What a piece of work runs."""
        self._steps.clear()
        work()
        return list(self._steps)


class Replay:
    """The statements of one transaction, run again for other tasks than ``of``."""

    def __init__(self, connection: sqlite3.Connection, steps: Iterable[Step], of: str) -> None:
        self._run = connection.execute
        self._steps = [(step.text, step.wrote, *_split(step.values, of)) for step in steps]

    def __call__(self, task_id: str = "") -> list[Row]:
        """One transaction; what its last statement that writes returned."""
        run = self._run
        written: list[Row] = []
        run("BEGIN IMMEDIATE")
        for text, writes, values, named in self._steps:
            filled: Row | list[Any] = values
            if named:
                filled = list(values)
                for place, name in named:
                    filled[place] = name.replace("?", task_id)
            rows = run(text, filled).fetchall()
            if writes:
                written = rows
        run("COMMIT")
        return written


def _split(values: Row, of: str) -> tuple[Row, tuple[tuple[int, str], ...]]:
    """The values, and those among them that speak of the task: place, and text with a ``?``."""
    named = [
        (place, value.replace(of, "?"))
        for place, value in enumerate(values)
        if isinstance(value, str) and of in value
    ]
    return values, tuple(named)


class Recording(NamedTuple):
    """Our own transactions as they were run once; ``id_at`` is where a claim returns the id."""

    submit: list[Step]
    claim: list[Step]
    complete: list[Step]
    complete_and_claim: list[Step]
    task_id: str
    held_id: str
    id_at: int

    def writes(self) -> Recording:
        """Without the statements that wrote nothing: reads, and updates that found no row."""
        return self._replace(
            submit=[step for step in self.submit if step.wrote],
            claim=[step for step in self.claim if step.wrote],
            complete=[step for step in self.complete if step.wrote],
            complete_and_claim=[step for step in self.complete_and_claim if step.wrote],
        )


class ReplayQueue:
    """Our own statements on plain sqlite3, in a file of our own schema."""

    def __init__(self, path: Path, synchronous: str, recording: Recording) -> None:
        connection = connect(path, synchronous)
        task_id = recording.task_id
        self._submit = Replay(connection, recording.submit, task_id)
        self._claim = Replay(connection, recording.claim, task_id)
        self._complete = Replay(connection, recording.complete, task_id)
        held = recording.held_id
        self._complete_and_claim = Replay(connection, recording.complete_and_claim, held)
        self._id_at = recording.id_at
        self._numbers = itertools.count()
        self._held = ""

    def submit(self) -> None:
        """One transaction."""
        self._submit(f"01a22835-d29e-7bf8-9d24-{next(self._numbers):012d}")

    def claim(self) -> None:
        """Take the first one."""
        self._held = self._claim()[0][self._id_at]

    def claim_and_complete(self) -> None:
        """Two transactions."""
        self.claim()
        self._complete(self._held)

    def complete_and_claim(self) -> None:
        """One transaction."""
        self._held = self._complete_and_claim(self._held)[0][self._id_at]
