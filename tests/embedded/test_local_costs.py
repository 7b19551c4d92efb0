"""What a call of the embedded queue costs: the same, whatever waits, runs or has ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import jobmaker
import pytest
from jobmaker import add, succeed, take

from jobroom.embedded import SqliteQueue
from jobroom.store import local, local_graph, local_reads
from jobroom.store.sqlite_file import SPELLING
from jobroom.store.statement import Statement

FEW, MANY = 20, 1500
MORE = 1.1
"""So much more a call may cost among many than among few: trees grow by a level."""


class Steps:
    """Counts what SQLite executes in the connections of a queue: its virtual machine's steps."""

    def __init__(self, queue: SqliteQueue) -> None:
        self.taken = 0
        lanes: Any = queue._jobs.queue()
        for lane in (lanes.writer, lanes.reader):
            lane._connection.set_progress_handler(self._step, 1)

    def _step(self) -> int:
        self.taken += 1
        return 0

    def of(self, call: Callable[[], object]) -> int:
        before = self.taken
        call()
        return self.taken - before


def ready(queue: SqliteQueue, count: int) -> None:
    for n in range(count):
        add(queue, f"ready {n}")


def waiting(queue: SqliteQueue, count: int) -> None:
    for n in range(count):
        add(queue, f"waits {n}", "never came" if n % 2 else f"waits {n - 1}")


def finished(queue: SqliteQueue, count: int) -> None:
    add(queue, "head")
    for n in range(count):
        add(queue, f"done {n}", "head")
    jobmaker.fail(queue, "head")


def running(queue: SqliteQueue, count: int) -> None:
    ready(queue, count)
    while take(queue) != "pending":
        pass


def calls(queue: SqliteQueue) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each call that workers make, on jobs of its own."""
    yield "add", lambda: add(queue, "new")
    yield "add a dependent", lambda: add(queue, "after", "new")
    yield "add twice", lambda: add(queue, "new")
    yield "take", lambda: take(queue)
    yield "status", lambda: queue.get_job_status("new")
    yield "worker", lambda: queue.set_job_worker("new", 1)
    yield "add a child", lambda: add(queue, "child", parent="new")
    yield "again", lambda: jobmaker.again(queue, "new")
    yield "end", lambda: succeed(queue, "new")
    yield "end the child", lambda: succeed(queue, "child")
    yield "of a worker", lambda: queue.fail_jobs_of_worker(1)


@pytest.mark.parametrize("of", [ready, waiting, finished, running])
def test_each_call_costs_the_same_among_many(empty_database, tmp_path, of) -> None:
    """Graph contract, *Cost*: flat, whatever waits, runs, failed or finished."""
    costs: list[dict[str, int]] = []
    for count in (FEW, MANY):
        path = tmp_path / f"{count}.db"
        path.write_bytes(empty_database.read_bytes())
        with SqliteQueue(path) as queue:
            of(queue, count)
            steps = Steps(queue)
            costs.append({name: steps.of(call) for name, call in calls(queue)})
    few, many = costs
    assert {name for name in few if many[name] > few[name] * MORE} == set()


@pytest.mark.parametrize("of", [waiting, finished, running])
def test_asking_an_idle_queue_costs_the_same_among_many(empty_database, tmp_path, of) -> None:
    costs = []
    for count in (FEW, MANY):
        path = tmp_path / f"{count}.db"
        path.write_bytes(empty_database.read_bytes())
        with SqliteQueue(path) as queue:
            of(queue, count)
            costs.append(Steps(queue).of(queue.get_job))
    assert costs[1] <= costs[0] * MORE


def test_a_chain_is_added_backwards_at_the_cost_of_one_added_forwards(queue) -> None:
    """Looking for a cycle goes no further than what waits above."""
    steps = Steps(queue)
    costs = [steps.of(lambda n=n: add(queue, f"{n}", f"{n + 1}")) for n in range(200)]
    assert costs[-1] <= costs[1] * MORE


@pytest.mark.parametrize("module", [local, local_graph, local_reads])
def test_no_statement_walks_over_a_table(path: Path, module: ModuleType) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for name, statement in vars(module).items():
            if not isinstance(statement, Statement):
                continue
            compiled = statement.compiled(SPELLING)
            values = [None] * compiled.text.count("?")
            plan = connection.execute(f"EXPLAIN QUERY PLAN {compiled.text}", values).fetchall()
            scans = {row[3] for row in plan if row[3].startswith("SCAN ")}
            assert scans <= {"SCAN CONSTANT ROW"}, name
