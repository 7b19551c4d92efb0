"""The CHECKs, keys and references of the schema bite, whoever writes."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest
import tables
from sqlalchemy import CheckConstraint

from jobroom.domain.records import Job, Task, Worker
from jobroom.service.queue import JobQueue
from jobroom.store import schema
from jobroom.store.hrana import errors

REFUSALS = (sqlite3.IntegrityError, errors.IntegrityError, psycopg.IntegrityError)

ROWS = {
    "job": "INSERT INTO job (seq, id, room_id, category, name, schema, schema_version, version,"
    " hidden, max_attempts, on_worker_lost, claim_order, validate, created_at)"
    " VALUES (1, 'j', 'r', 'modifiers', 'n', '{}', 1, 1, 0, 1, 'fail', 'fifo', 1, 1)",
    "job_schema": "INSERT INTO job_schema VALUES (1, 1, '{}')",
    "worker": "INSERT INTO worker VALUES ('w', 'alice', 'instance', 'active', NULL, 1, 1)",
    "worker_job_link": "INSERT INTO worker_job_link VALUES ('w', 1)",
    "task": "INSERT INTO task (id, job_seq, room_id, created_by_id, status, ready, priority, turn,"
    " payload, schema_version, created_at, attempt, starts, idle_claims, max_attempts,"
    " has_dependencies, has_dependents, version, idempotency_key)"
    " VALUES ('t', 1, 'r', 'alice', 'pending', 1, 0, 0, '{}', 1, 1, 0, 0, 0, 1, 0, 0, 1, 'k')",
    "edge": "INSERT INTO edge SELECT 'd', seq, 'afterok', 'waiting', NULL FROM task",
    "task_log": "INSERT INTO task_log SELECT seq, 1, 5, 'hello' FROM task",
    "schedule": "INSERT INTO schedule (id, room_id, name, job_seq, created_by_id, task,"
    " every_seconds, timezone, catch_up, paused, created_at, version)"
    " VALUES ('s', 'r', 'n', 1, 'alice', '{}', 60, 'UTC', 'one', 0, 1, 1)",
    "fair_turn": "INSERT INTO fair_turn VALUES (1, 0, 'r', 1)",
    "notice": "INSERT INTO notice VALUES ('w', 't', 1)",
    "queue_state": "INSERT INTO queue_state VALUES ('s', 1)",
}


@pytest.fixture
def filled(queue: JobQueue) -> JobQueue:
    """One good row in each table."""
    tables.write(queue, *ROWS.values())
    return queue


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
        ("UPDATE edge SET condition = 'after'", "ck_edge_condition"),
        ("UPDATE edge SET state = 'done'", "ck_edge_state"),
        ("UPDATE schedule SET every_seconds = NULL", "ck_schedule_times"),
        ("UPDATE schedule SET cron = '* * * * *'", "ck_schedule_times"),
        ("UPDATE schedule SET catch_up = 'some'", "ck_schedule_catch_up"),
    ],
)
def test_a_check_refuses(filled: JobQueue, statement: str, constraint: str) -> None:
    with pytest.raises(REFUSALS, match=rf"(?i)CHECK constraint.*\b{constraint}\b"):
        tables.write(filled, statement)


def test_every_check_of_the_schema_is_tried_above() -> None:
    tried = {case[1] for mark in test_a_check_refuses.pytestmark for case in mark.args[1]}
    checks = {
        constraint.name
        for table in schema.metadata.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, CheckConstraint)
    }
    assert tried == checks


@pytest.mark.parametrize(
    ("statement", "column", "name"),
    [
        (ROWS["job"].replace("(1, 'j', 'r'", "(2, 'j', 'r2'"), "job.id", "uq_job_id"),
        (ROWS["job"].replace("(1, 'j'", "(2, 'k'"), "job.room_id", "unique_job"),
        (ROWS["task"].replace("'k')", "'k2')"), "task.id", "uq_task_id"),
        (ROWS["task"].replace("('t'", "('t2'"), "task.created_by_id", "ix_task_idempotency"),
        (ROWS["worker"], "worker.id", "pk_worker"),
        (ROWS["worker_job_link"], "worker_job_link", "pk_worker_job_link"),
        (ROWS["job_schema"], "job_schema", "pk_job_schema"),
        (ROWS["fair_turn"], "fair_turn", "pk_fair_turn"),
        (ROWS["notice"], "notice", "pk_notice"),
        (ROWS["edge"], "edge", "pk_edge"),
        (ROWS["task_log"], "task_log", "pk_task_log"),
        (ROWS["schedule"].replace("'r', 'n'", "'r', 'm'"), "schedule.id", "uq_schedule_id"),
        (ROWS["schedule"].replace("('s'", "('s2'"), "schedule.room_id", "unique_schedule"),
    ],
)
def test_a_key_refuses(filled: JobQueue, statement: str, column: str, name: str) -> None:
    """SQLite names the column, PostgreSQL the constraint."""
    said = rf'UNIQUE constraint failed: {column}|unique constraint "{name}"'
    with pytest.raises(REFUSALS, match=said):
        tables.write(filled, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE task SET job_seq = 9",
        "UPDATE worker_job_link SET job_seq = 9",
        "UPDATE job_schema SET job_seq = 9",
        "UPDATE fair_turn SET job_seq = 9",
        "UPDATE edge SET dependent_seq = 9",
        "UPDATE task_log SET task_seq = 9",
        "UPDATE schedule SET job_seq = 9",
        "DELETE FROM job",
    ],
)
def test_a_reference_refuses(filled: JobQueue, statement: str) -> None:
    with pytest.raises(REFUSALS, match=r"(?i)FOREIGN KEY constraint"):
        tables.write(filled, statement)


def test_the_links_of_a_worker_go_with_it(filled: JobQueue) -> None:
    tables.write(filled, "DELETE FROM worker")
    assert tables.read(filled, "SELECT count(*) FROM worker_job_link") == [(0,)]


def test_what_a_task_depends_on_goes_with_it(filled: JobQueue) -> None:
    """The other end may name a task that is not there, or no more."""
    tables.write(filled, "DELETE FROM task")
    assert tables.read(filled, "SELECT count(*) FROM edge") == [(0,)]


def test_the_log_of_a_task_goes_with_it(filled: JobQueue) -> None:
    tables.write(filled, "DELETE FROM task")
    assert tables.read(filled, "SELECT count(*) FROM task_log") == [(0,)]


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
