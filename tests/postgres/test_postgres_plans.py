"""What PostgreSQL does to run a statement: no step may read a table that grows as a whole."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from jobroom import store
from jobroom.store import planned, rooms
from jobroom.store.postgres import SPELLING
from jobroom.store.postgres_line import numbered
from jobroom.store.statement import Statement

FILL = (
    (
        "INSERT INTO job (seq, id, room_id, category, name, schema, schema_version, version,"
        " hidden, max_attempts, on_worker_lost, claim_order, validate, created_at)"
        " SELECT n, 'j' || n, 'r' || n % 10, 'c', 'n' || n, '{}', 1, 1, 0, 1, 'fail', 'fifo', 1, 1"
        " FROM generate_series(1, 200) n"
    ),
    (
        "INSERT INTO worker (id, identity, kind, state, created_at, last_heartbeat)"
        " SELECT 'w' || n, 'i' || n % 100, 'instance',"
        " CASE WHEN n % 5 = 0 THEN 'asleep' ELSE 'active' END, 1, n FROM generate_series(1, 2000) n"
    ),
    (
        "INSERT INTO worker_job_link SELECT 'w' || n, 1 + n * k % 200"
        " FROM generate_series(1, 2000) n, generate_series(1, 3) k ON CONFLICT DO NOTHING"
    ),
    (
        "INSERT INTO task (seq, id, job_seq, room_id, created_by_id, status, ready, priority, turn,"
        " payload, schema_version, created_at, run_at, completed_at, worker_id, attempt, starts,"
        " idle_claims, max_attempts, due_at, has_dependencies, has_dependents, version)"
        " SELECT n, 't' || n, 1 + n % 200, 'r' || n % 10, 'u' || n % 50, status,"
        " CASE WHEN n % 7 = 3 THEN 0 ELSE 1 END, 0, 0, '{}', 1, n, CASE WHEN n % 7 = 3 THEN n END,"
        " CASE WHEN status IN ('completed', 'failed') THEN n END,"
        " CASE WHEN status IN ('claimed', 'running') THEN 'w' || 1 + n % 2000 END,"
        " 0, 0, 0, 1, CASE WHEN n % 3 = 0 THEN n END, n % 2, 1, 1 FROM (SELECT n, CASE"
        " WHEN n % 100 = 0 THEN 'claimed' WHEN n % 100 = 1 THEN 'running' WHEN n % 3 = 0 THEN"
        " 'completed' WHEN n % 31 = 0 THEN 'failed' WHEN n % 31 = 1 THEN 'blocked' ELSE 'pending'"
        " END AS status"
        " FROM generate_series(1, 60000) n) AS made"
    ),
    (
        "INSERT INTO edge SELECT 't' || n * k % 60000, n, 'afterok',"
        " CASE n % 3 WHEN 0 THEN 'waiting' WHEN 1 THEN 'met' ELSE 'broken' END, NULL"
        " FROM generate_series(1, 60000) n, generate_series(1, 2) k ON CONFLICT DO NOTHING"
    ),
    "INSERT INTO notice SELECT 'w' || 1 + n % 2000, 't' || n, n FROM generate_series(1, 3000) n",
    (
        "INSERT INTO fair_turn SELECT 1 + n % 200, 0, 'r' || n % 10, n"
        " FROM generate_series(1, 2000) n ON CONFLICT DO NOTHING"
    ),
    "ANALYZE",
)
READ_AS_A_WHOLE = {
    # name of the statement: what it reads, and why that may be
    "jobs._HIDE": {"ix_worker_beat"},  # the live workers, for a job that has lost its last
    "jobs._ORPHANS": {"pk_job", "ix_task_held"},  # by a sweep: jobs are few, so is what is held
    "overdue._HELD_BY_NOBODY": {"pk_task"},  # never asked: a constraint forbids such a row
    "workers._HELD_BY_NOBODY": {"ix_task_held", "pk_worker"},  # by a sweep, as above
    "rosters._COUNT_ALL": {"ix_worker_beat"},  # a list of the live workers counts them
    "rosters._COUNT_SERVING": {"ix_worker_beat", "pk_worker_job_link", "pk_job"},
    "rosters._SERVING": {"ix_worker_beat", "pk_worker_job_link", "pk_job", "pk_worker"},
    "rosters._SERVING_IN_ROOMS": {"ix_worker_beat", "pk_worker_job_link", "pk_job", "pk_worker"},
    "jobs._COUNT": {"pk_job", "unique_job"},
}


def statements() -> Iterator[tuple[str, Statement]]:
    for found in pkgutil.iter_modules(store.__path__):
        if found.name == "soundness":
            continue  # it reads all there is, and half of it is SQLite's
        module = importlib.import_module(f"jobroom.store.{found.name}")
        for name, value in vars(module).items():
            several = value.values() if isinstance(value, dict) else [value]
            for number, one in enumerate(several):
                if isinstance(one, Statement):
                    yield f"{found.name}.{name}" + (f"[{number}]" if number else ""), one


OWN = ("edges.", "planned.")
STATEMENTS = {value: name for name, value in statements()} | {
    planned._find(4): "planned._find",
    planned._look_at(4): "planned._look_at",
    planned._expect(4): "planned._expect",
    planned._get(4): "planned._get",
    rooms._present(4): "rooms._present",
    rooms._counts(4, ("pending", "failed")): "rooms._counts",
}
OF_A_GRAPH = {one: name for one, name in STATEMENTS.items() if name.startswith(OWN)}
FIRST_COLUMN = {
    "pk_edge": "dependency_id",
    "ix_edge_dependent": "dependent_seq",
    "pk_task": "seq",
    "uq_task_id": "id",
    "ix_task_blocked": "seq",
    "ix_task_job": "job_seq",
    "ix_task_room": "room_id",
    "ix_task_creator": "created_by_id",
}
"""Without a condition on it an index is read from one end to the other."""


@pytest.fixture(scope="module")
def populated(stores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection]:
    url = stores.fresh("postgresql", Path(tmp_path_factory.mktemp("plans")))
    with psycopg.connect(url, autocommit=True) as connection:
        for text in FILL:
            connection.execute(text)
        connection.execute("SET enable_seqscan = off")  # as our sessions have it
        yield connection
    stores.release(url)


def plan_of(connection: psycopg.Connection, statement: Statement) -> list[str]:
    text = numbered(statement.compiled(SPELLING).text).decode()
    generic = " (GENERIC_PLAN)" if "$1" in text else ""
    return [row[0] for row in connection.execute(f"EXPLAIN{generic} {text}".encode())]


def read_as_a_whole(plan: list[str]) -> set[str]:
    """The tables and indexes that a plan reads from one end to the other."""
    whole = set()
    for number, line in enumerate(plan):
        if found := re.search(r"Seq Scan on (\w+)", line):
            whole.add(found[1])
        found = re.search(r"Index (?:Only )?Scan (?:using|on) (\w+)", line)
        if found is None:
            continue
        details = []
        for detail in plan[number + 1 :]:
            if detail.lstrip().startswith("->"):
                break
            details.append(detail)
        if not any("Index Cond" in detail for detail in details):
            whole.add(found[1])
    return whole


@pytest.mark.parametrize("statement", STATEMENTS, ids=STATEMENTS.values())
def test_a_statement_reads_no_table_as_a_whole(
    populated: psycopg.Connection, statement: Statement
) -> None:
    """Design, *Cost that does not grow*: query plans are tests, on this store too."""
    plan = plan_of(populated, statement)
    allowed = READ_AS_A_WHOLE.get(STATEMENTS[statement], set()) | {"queue_state", "pk_queue_state"}
    assert read_as_a_whole(plan) <= allowed, "\n".join(plan)


@pytest.fixture(scope="module")
def early_plans(stores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EarlyPlans]]:
    """Plans made while there was nothing, and while there was little and it had been counted."""
    url = stores.fresh("postgresql", Path(tmp_path_factory.mktemp("early")))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET enable_seqscan = off")
        bare = {one: plan_of(connection, one) for one in OF_A_GRAPH}
        for text in FILL:
            connection.execute(re.sub(r"1, (2000|60000)\)", "1, 60)", text).encode())
        yield [bare, {one: plan_of(connection, one) for one in OF_A_GRAPH}]
    stores.release(url)


EarlyPlans = dict[Statement, list[str]]


@pytest.mark.parametrize("statement", OF_A_GRAPH, ids=OF_A_GRAPH.values())
def test_a_plan_made_early_is_good_for_later(
    early_plans: list[EarlyPlans], statement: Statement
) -> None:
    """A connection keeps its plans: a minute of them must not read all that came meanwhile."""
    for plans in early_plans:
        plan = plans[statement]
        assert read_as_a_whole(plan) <= {"pk_job"}, "\n".join(plan)
        for line, detail in pairwise(plan):
            found = re.search(r"Index (?:Only )?Scan (?:using|on) (\w+)", line)
            if found and found[1] in FIRST_COLUMN:
                assert re.search(rf"Index Cond: \(+{FIRST_COLUMN[found[1]]} ", detail), "\n".join(
                    plan
                )
