"""The small machine bites: each rule of the embedded queue, broken on purpose, makes it fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from breaking import Break, python, sql
from draws import BITE
from hypothesis.stateful import run_state_machine_as_test
from local_machine import driving

from jobroom.domain import graph
from jobroom.domain.graph import Beginning, EdgeState
from jobroom.domain.lifecycle import TaskStatus
from jobroom.service import local_graph
from jobroom.store import edges, local, local_deadlocks, local_reads
from jobroom.store import local_graph as links

_true_state = graph.edge_state


def _nothing(*_: object, **__: object) -> None:
    """Not do it at all."""


def _unknown_is_met(condition: str, status: str | None) -> EdgeState:
    return EdgeState.MET if status is None else _true_state(condition, status)


MUTATIONS: dict[str, Break] = {
    "the newest is taken first": sql([local._TAKE], "ORDER BY head.seq", "ORDER BY -head.seq"),
    "a late report changes the end": sql([local._END], "task.completed_at IS NULL", "1 = 1"),
    "an unknown dependency is met": python(graph, "edge_state", _unknown_is_met),
    "a cascade touches who runs": sql([edges._FAIL], "= 'blocked'", "!= 'completed'"),
    "promoted with one dependency left": sql(
        [edges._PROMOTE], "open.state = 'waiting'", "open.state = 'broken'"
    ),
    "a cycle is let in": python(local_graph, "_find_cycle", _nothing),
    "a child is waited for by nobody": python(links, "inherit", _nothing),
    "a child may come too late": python(local_graph, "_heir_that_ran", _nothing),
    "queued again, it leaves its dependents free": python(links, "reopen", _nothing),
    "queued again, it forgets its dependencies": python(
        local_graph, "begin_again", lambda *_: Beginning(TaskStatus.PENDING)
    ),
    "a worker's end fails what others run": sql(
        [local_reads._HELD_BY], "task.worker_id = :worker_id"
    ),
    "a deadlock is seen while one runs": python(local_reads, "moves", lambda _: False),
    "a deadlock takes who was to run after it": sql(
        [local_deadlocks._FAIL_THOSE], "down.condition = 'afterok'"
    ),
    "after a deadlock nobody goes on": sql([local_deadlocks._PROMOTE], "'blocked'", "'pending'"),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_of_the_embedded_queue_is_caught(
    mutation: str, monkeypatch: pytest.MonkeyPatch, fresh_file: Callable[[], Path]
) -> None:
    """By a wrong answer, a wrong state, or the database's own constraints."""
    MUTATIONS[mutation](monkeypatch)
    with pytest.raises((AssertionError, sqlite3.IntegrityError)):
        run_state_machine_as_test(driving(fresh_file), settings=BITE)
