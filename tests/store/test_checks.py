"""The CHECKs, keys and references of the schema bite, whoever writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from jobroom.domain.records import Job, Task, Worker
from jobroom.service.queue import JobQueue
from jobroom.store import schema

ROWS = {
    "job": "INSERT INTO job (seq, id, room_id, category, name, schema, schema_version, version,"
    " hidden, max_attempts, on_worker_lost, claim_order, validate, created_at)"
    " VALUES (1, 'j', 'r', 'modifiers', 'n', '{}', 1, 1, 0, 1, 'fail', 'fifo', 1, 1)",
    "job_schema": "INSERT INTO job_schema VALUES (1, 1, '{}')",
    "worker": "INSERT INTO worker VALUES ('w', 'alice', 'instance', 'active', NULL, 1, 1)",
    "worker_job_link": "INSERT INTO worker_job_link VALUES ('w', 1)",
    "task": "INSERT INTO task (id, job_seq, room_id, created_by_id, status, ready, priority, turn,"
    " payload, schema_version, created_at, attempt, starts, idle_claims, max_attempts, version,"
    " idempotency_key) VALUES ('t', 1, 'r', 'alice', 'pending', 1, 0, 0, '{}', 1, 1, 0, 0, 0, 1,"
    " 1, 'k')",
    "fair_turn": "INSERT INTO fair_turn VALUES (1, 0, 'r', 1)",
    "notice": "INSERT INTO notice VALUES ('w', 't', 1)",
    "queue_state": "INSERT INTO queue_state VALUES ('s', 1)",
}


@pytest.fixture
def connection(queue: JobQueue) -> Iterator[sqlite3.Connection]:
    """A connection as the queue has one, and one good row in each table."""
    opened = queue.database.connect(read_only=False)
    for insert in ROWS.values():
        opened.execute(insert)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("UPDATE job SET on_worker_lost = 'retry'", "ck_job_on_worker_lost"),
        ("UPDATE job SET claim_order = 'lifo'", "ck_job_claim_order"),
        ("UPDATE job SET max_attempts = 0", "ck_job_max_attempts"),
        ("UPDATE worker SET kind = 'robot'", "ck_worker_kind"),
        ("UPDATE worker SET state = 'dead'", "ck_worker_state"),
        ("UPDATE worker SET kind = 'identity'", "ck_worker_identity"),
        ("UPDATE task SET status = 'lost'", "ck_task_status"),
        ("UPDATE task SET status = 'failed'", "ck_task_ended"),
        ("UPDATE task SET completed_at = 1", "ck_task_ended"),
        ("UPDATE task SET status = 'claimed'", "ck_task_held"),
        ("UPDATE task SET status = 'running'", "ck_task_held"),
        ("UPDATE task SET ready = 2", "ck_task_ready"),
    ],
)
def test_a_check_refuses(connection: sqlite3.Connection, statement: str, constraint: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=f"CHECK constraint failed: {constraint}"):
        connection.execute(statement)


def test_every_check_of_the_schema_is_tried_above(connection: sqlite3.Connection) -> None:
    text = "".join(
        row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    )
    tried = {case[1] for mark in test_a_check_refuses.pytestmark for case in mark.args[1]}
    assert {name for name in tried if f"CONSTRAINT {name} CHECK" in text} == tried
    assert text.count(" CHECK (") == len(tried)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            ROWS["job"].replace("(1, 'j', 'r'", "(2, 'j', 'r2'"),
            "UNIQUE constraint failed: job.id",
        ),
        (ROWS["job"].replace("(1, 'j'", "(2, 'k'"), "UNIQUE constraint failed: job.room_id"),
        (ROWS["task"].replace("'k')", "'k2')"), "UNIQUE constraint failed: task.id"),
        (ROWS["task"].replace("('t'", "('t2'"), "UNIQUE constraint failed: task.created_by_id"),
        (ROWS["worker"], "UNIQUE constraint failed: worker.id"),
        (ROWS["worker_job_link"], "UNIQUE constraint failed: worker_job_link"),
        (ROWS["job_schema"], "UNIQUE constraint failed: job_schema"),
        (ROWS["fair_turn"], "UNIQUE constraint failed: fair_turn"),
        (ROWS["notice"], "UNIQUE constraint failed: notice"),
        ("UPDATE task SET job_seq = 9", "FOREIGN KEY constraint failed"),
        ("UPDATE worker_job_link SET job_seq = 9", "FOREIGN KEY constraint failed"),
        ("DELETE FROM job", "FOREIGN KEY constraint failed"),
    ],
)
def test_a_key_or_a_reference_refuses(
    connection: sqlite3.Connection, statement: str, message: str
) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=message):
        connection.execute(statement)


def test_the_links_of_a_worker_go_with_it(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM worker")
    assert connection.execute("SELECT count(*) FROM worker_job_link").fetchone() == (0,)


def test_every_constraint_and_index_has_a_name() -> None:
    """Style, rule 13: a migration must be able to speak of it."""
    unnamed = [
        item
        for table in schema.metadata.tables.values()
        for item in (*table.constraints, *table.indexes)
        if item.name is None
    ]
    assert unnamed == []


@pytest.mark.parametrize(
    ("table", "record"), [(schema.job, Job), (schema.worker, Worker), (schema.task, Task)]
)
def test_a_record_has_the_columns_of_its_table_in_their_order(table, record) -> None:
    assert tuple(column.name for column in table.c) == record._fields
