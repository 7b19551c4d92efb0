"""What walks a graph searches by index, with statistics and without: its size alone counts."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store import fallen, graphs, jobs, reruns, stuck
from jobroom.store.statement import Statement

BY_EDGE = "USING PRIMARY KEY (dependency_id=?)"
BY_END = "INDEX ix_edge_dependent (dependent_seq=?"
BY_ID = "USING INDEX sqlite_autoindex_task_1 (id=?)"
BY_SEQ = "USING INTEGER PRIMARY KEY (rowid=?)"

WALKS: dict[str, tuple[Statement, list[str]]] = {
    "walk": (
        graphs._walk(2),
        [f"down {BY_EDGE}", f"below {BY_SEQ}", "up USING COVERING INDEX ix_edge_dep", BY_ID],
    ),
    "walk, all rooms": (graphs._walk(None), [f"down {BY_EDGE}", f"below {BY_SEQ}", BY_ID]),
    "nodes": (graphs._nodes(4), [f"task {BY_SEQ}"]),
    "edges": (graphs._edges(4, 2), [f"edge USING {BY_END}", f"dependency {BY_ID}"]),
    "broken": (fallen._BROKEN[True], [f"down {BY_EDGE}", f"below {BY_SEQ}", f"task {BY_SEQ}"]),
    "freed": (fallen._FREED[True], [f"way {BY_EDGE}", f"down {BY_EDGE}", f"task {BY_SEQ}"]),
    "cause": (fallen._CAUSE, [f"above {BY_ID}", f"named {BY_ID}"]),
    "needs": (fallen._NEEDS, [f"edge USING {BY_END}", f"dependency {BY_ID}"]),
    "retry": (reruns._RETRY, [f"task {BY_SEQ}"]),
    "set an edge": (reruns._SET_EDGE, ["(dependency_id=? AND dependent_seq=?)"]),
    "expect again": (reruns._expect_again(4), [f"edge {BY_EDGE}", f"dependent {BY_SEQ}"]),
    "block again": (reruns._block_again(4), [f"task {BY_ID}"]),
    "hold back": (reruns._hold_back(4), [f"task {BY_ID}"]),
    "blame others": (reruns._blame_others(4), [f"task {BY_ID}", BY_END]),
    "show a job": (jobs._SHOW_TOO, [f"job {BY_SEQ}"]),
    "window": (stuck._WINDOW, ["task USING INDEX ix_task_blocked (seq>?)"]),
    "stuck": (stuck._STUCK, ["ix_task_blocked (seq>? AND seq<?)", BY_END, f"dependency {BY_ID}"]),
    "break": (stuck._BREAK, ["(dependency_id=? AND dependent_seq=?)"]),
    "fail": (stuck._FAIL, [f"task {BY_SEQ}"]),
    "free": (stuck._FREE, [f"task {BY_SEQ}"]),
}
# A Bloom filter is made of the whole table.
READS_ALL = re.compile(
    r"SCAN (task|edge|job|worker|\w+ AS|root|down|up|way|below|above|near|dependen\w+|named|needed)"
    r"|BLOOM FILTER|AUTOMATIC"
)


@pytest.fixture(scope="module", params=["fresh", "analyzed"])
def populated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, empty_database: Path
) -> Iterator[JobQueue]:
    """A fan, a chain and a crowd of single tasks."""
    path = tmp_path_factory.mktemp("plans") / "queue.db"
    shutil.copy(empty_database, path)
    with sqlite3.connect(path) as connection:
        _fill(connection)
        if request.param == "analyzed":
            connection.execute("ANALYZE")
    connection.close()
    with JobQueue.open(JobLibSettings(database_url=f"sqlite:///{path}")) as queue:
        yield queue


def _fill(connection: sqlite3.Connection) -> None:
    connection.executemany(
        "INSERT INTO job (seq, id, room_id, category, name, schema, schema_version, version,"
        " hidden, max_attempts, on_worker_lost, claim_order, validate, created_at)"
        " VALUES (?1, 'job' || ?1, 'r1', 'modifiers', 'n' || ?1, '{}', 1, 1, 0, 1, 'fail', 'fifo',"
        " 1, 1)",
        [(n,) for n in range(1, 51)],
    )
    connection.executemany(
        "INSERT INTO worker VALUES ('w' || ?1, 'u' || ?1, 'instance', 'active', NULL, 1, 1)",
        [(n,) for n in range(1, 51)],
    )
    connection.executemany(
        "INSERT INTO task (seq, id, job_seq, room_id, created_by_id, status, ready, priority, turn,"
        " payload, schema_version, created_at, attempt, starts, idle_claims, max_attempts,"
        " has_dependencies, has_dependents, failed_by, completed_at, version)"
        " VALUES (?1, 't' || ?1, ?1 % 50 + 1, 'r' || (?1 % 5), 'u1', ?2, 1, 0, 0, '{}', 1, 1, 0, 0,"
        " 0, 1, 1, 1, ?3, ?4, 1)",
        [_task(n) for n in range(1, 9001)],
    )
    connection.executemany(
        "INSERT INTO edge VALUES ('t' || ?, ?, 'afterok', ?, NULL)",
        [(1 if n < 3000 else n - 1, n, "waiting" if n % 2 else "broken") for n in range(2, 6001)],
    )


def _task(n: int) -> tuple[int, str, str | None, int | None]:
    status = ("blocked", "failed", "pending")[n % 3]
    has_failed = status == "failed"
    return n, status, f"t{n - 1}" if has_failed else None, 1 if has_failed else None


def plan_of(queue: JobQueue, statement: Statement) -> list[str]:
    text = statement.compiled(queue.database.spelling).text
    parameters = (1,) * text.count("?")
    rows = queue.writer._connection.execute(f"EXPLAIN QUERY PLAN {text}", parameters)
    return [row[3] for row in rows]


@pytest.mark.parametrize("name", WALKS)
def test_no_table_is_read_from_end_to_end(populated: JobQueue, name: str) -> None:
    """Contract, *Cost*: flat, whatever else there is."""
    assert [line for line in plan_of(populated, WALKS[name][0]) if READS_ALL.match(line)] == []


@pytest.mark.parametrize("name", WALKS)
def test_the_index_that_was_made_for_it_is_used(populated: JobQueue, name: str) -> None:
    plan = "\n".join(plan_of(populated, WALKS[name][0]))
    for wanted in WALKS[name][1]:
        assert wanted in plan
