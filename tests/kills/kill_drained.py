"""Whether a graph was drained as planned: what its workers wrote down, and what the rows say."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import defaultdict

IN_VAIN = "as planned"
"""The error of a job that fails by itself."""


class Notes:
    """Appends lines to a file of its own, each at once: what, of which job, who, when."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, kind, what):
        line = json.dumps([kind, what, os.getpid(), time.monotonic_ns()])
        os.write(self._file, line.encode() + b"\n")


def await_kill(path, name):
    """Say who waits for it, in the name of a file beside the notes."""
    path.with_name(f"{name}.dies.{os.getpid()}").touch()
    signal.pause()


class Log:
    """All notes until now; the last line of a file may still be being written."""

    def __init__(self, folder):
        self.times = defaultdict(lambda: defaultdict(list))
        self.by = defaultdict(lambda: defaultdict(list))
        for path in sorted(folder.glob("*.notes")):
            for line in path.read_bytes().splitlines(keepends=True):
                if line.endswith(b"\n"):
                    kind, what, pid, at = json.loads(line)
                    self.times[kind][what].append(at)
                    self.by[kind][what].append(pid)

    def count(self, kind):
        return sum(map(len, self.times[kind].values()))


def check_log(log, fates):
    """Each job that was to run ended once, behind all that it depends on."""
    running = {name: fate for name, fate in fates.items() if fate.runs}
    starts, ends = log.times["start"], log.times["end"]
    assert starts.keys() == ends.keys() == running.keys()
    assert {name for name, times in ends.items() if len(times) != 1} == set()
    again = {name for name, fate in running.items() if fate.job.dies == "again"}
    assert {name: len(times) for name, times in starts.items() if len(times) != 1} == (
        dict.fromkeys(again, 2)
    )
    late = [
        (needed, name)
        for name, fate in running.items()
        for needed in fate.needs
        # One that failed with what it depends on was never begun.
        if needed in ends and ends[needed][0] >= min(starts[name])
    ]
    assert late == []
    assert all(ends[name][0] > max(starts[name]) for name in running)


def check_rows(store, fates, *, name_of, lost):
    """The rows say the same: how each job ended, why, after what, and on which it depended."""
    rows = {name_of(row): row for row in store.tasks().values()}
    assert rows.keys() == fates.keys()
    names = {row.id: name for name, row in rows.items()}
    by_seq = {row.seq: name for name, row in rows.items()}
    edges = {name: {} for name in rows}
    for edge in store.rows("SELECT * FROM edge"):
        edges[by_seq[edge.dependent_seq]][names.get(edge.dependency_id)] = edge
    for name, fate in fates.items():
        row = rows[name]
        assert row.status == fate.status, (name, row.status, row.error, fate)
        if fate.runs:
            check_run(row, fate, rows, edges[name], lost=lost)
        else:
            check_never_begun(row, fate, rows, edges[name], names)
    check_store(store)


def check_run(row, fate, rows, edges, *, lost):
    name = fate.job.name
    assert {each: edge.condition for each, edge in edges.items()} == fate.needs, name
    assert row.attempt == (2 if fate.job.dies == "again" else 1), name
    assert row.failed_by is None
    if fate.end == "lost":
        assert row.error.startswith(lost)
    else:
        assert row.error == (None if fate.end == "well" else IN_VAIN), name
    assert row.started_at <= row.completed_at
    assert [each for each in fate.needs if rows[each].completed_at > row.started_at] == [], name


def check_never_begun(row, fate, rows, edges, names):
    """It need not wait for what came after its end."""
    name = fate.job.name
    named = {each: edge.condition for each, edge in edges.items() if each is not None}
    assert named.items() <= fate.needs.items(), name
    assert {each for each in fate.job.needs if each in rows} <= named.keys(), name
    assert (row.attempt, row.starts, row.started_at, row.worker_id) == (0, 0, None, None), name
    assert names[row.failed_by] in fate.broken, name
    assert row.error.startswith(f"dependency {row.failed_by} "), name
    assert row.completed_at >= rows[names[row.failed_by]].completed_at, name


WRONG_EDGES = """
    SELECT edge.*, task.status FROM edge JOIN task ON task.id = edge.dependency_id
    WHERE edge.state <> CASE
        WHEN task.completed_at IS NULL THEN 'waiting'
        WHEN edge.condition = 'afterany' THEN 'met'
        WHEN (edge.condition = 'afterok') = (task.status = 'completed') THEN 'met'
        ELSE 'broken' END
"""
WRONG_TASKS = """
    SELECT task.id, task.status FROM task WHERE
        completed_at IS NULL
        OR status NOT IN ('completed', 'failed')
        OR has_dependencies <> EXISTS (SELECT 1 FROM edge WHERE dependent_seq = task.seq)
        OR has_dependents < EXISTS (SELECT 1 FROM edge WHERE dependency_id = task.id)
        OR (failed_by IS NOT NULL) <> EXISTS (
            SELECT 1 FROM edge WHERE dependent_seq = task.seq AND state = 'broken')
"""
WAITING_EDGES = """
    SELECT edge.* FROM edge JOIN task ON task.seq = edge.dependent_seq
    WHERE edge.state = 'waiting' AND (
        task.failed_by IS NULL OR EXISTS (SELECT 1 FROM task WHERE id = edge.dependency_id))
"""


def check_store(store):
    """Nothing is left to do, each edge stands as its dependency has ended, and the file is whole.

    An edge may wait for a job that never came, if what it leads to has failed for another reason.
    """
    assert store.rows(WRONG_TASKS) == []
    assert store.rows(WRONG_EDGES) == []
    assert store.rows(WAITING_EDGES) == []
    assert store.is_whole()
