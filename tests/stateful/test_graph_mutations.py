"""The machine bites: each rule of the graph, when it is broken on purpose, makes it fail."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from breaking import Break, python, sql
from core_door import CoreDoor
from doors import DoorError
from draws import BITE
from graph_rules import GraphRules
from hypothesis.stateful import RULE_MARKER, run_state_machine_as_test
from machine import QueueMachine, driving

from jobroom.domain import graph
from jobroom.domain.graph import Beginning, EdgeState, Need
from jobroom.domain.lifecycle import TaskStatus
from jobroom.service import planning, retrying
from jobroom.service.use_case import reads
from jobroom.store import edges, reports, reruns, weaving

_true_begin = graph.begin
_true_plan = retrying.plan_retry


def _any_broken(root: str, broken: Iterable[tuple[str, str]]) -> list[str]:
    """All that failed because of it, whoever else is to blame."""
    pairs, undone = list(broken), [root]
    for each in undone:
        undone += [end for start, end in pairs if start == each and end not in undone]
    return undone[1:]


def _one_is_enough(needs: Iterable[Need]) -> Beginning:
    known = list(needs)
    begun = _true_begin(known)
    has_met = any(need.state == EdgeState.MET for need in known)
    return Beginning(TaskStatus.PENDING) if has_met and begun.error is None else begun


@reads
def _list_too_much(tx: Any, /, **asked: Any) -> retrying.RetryPlan:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "undone_with", _any_broken)
        return _true_plan.rule(tx, **asked)


@reads
def _list_the_task_alone(tx: Any, /, **asked: Any) -> retrying.RetryPlan:
    plan = _true_plan.rule(tx, **asked)
    return plan._replace(ids=plan.ids[:1])


def _nothing(*_: object, **__: object) -> None:
    """Not do it at all."""


OTHER_RULES = {"claim_what_there_is", "complete", "fail", "retry", "delete_worker"}
"""What else is needed for a graph to move."""


def _on_graphs_alone(machine: type[QueueMachine]) -> type[QueueMachine]:
    """The same machine without the rules that have no part in this, so that it bites sooner."""
    for name, member in inspect.getmembers(machine, lambda each: hasattr(each, RULE_MARKER)):
        if name not in OTHER_RULES and name not in vars(GraphRules):
            setattr(machine, name, _no_rule(member))
    return machine


def _no_rule(method: Callable[..., None]) -> Callable[..., None]:
    def called(*args: object, **kwargs: object) -> None:
        method(*args, **kwargs)

    return called


MUTATIONS: dict[str, Break] = {
    "a failure is none for afternotok": sql(
        [edges._SETTLE], "edge.condition = 'afternotok' AND NOT", "1 = 0 AND NOT"
    ),
    "any end completes": sql([edges._SETTLE], "edge.condition = 'afterok' AND", "1 = 1 OR"),
    "promoted with one dependency left": sql(
        [edges._PROMOTE], "open.state = 'waiting'", "open.state = 'broken'"
    ),
    "a cascade goes one level down": sql(
        [edges._FAIL],
        "way.dependency_id = breaking.id",
        "way.dependency_id = breaking.id AND breaking.id = :key",
    ),
    "an end concerns nobody": python(reports, "_settle", _nothing),
    "one met dependency is enough": python(graph, "begin", _one_is_enough),
    "a task may depend on itself": python(graph, "find_cycle", _nothing),
    "a dependency may be anybody's": python(planning, "_sees", lambda *_: True),
    "anybody's task may be a parent": python(planning, "_check_parents", _nothing),
    "a child is waited for by nobody": python(weaving, "inherit", _nothing),
    "what has ended waits for a child": sql([weaving._INHERIT], "AND task.status = 'blocked'", ""),
    "a retry takes who failed for another": python(graph, "undone_with", _any_broken),
    "a retry takes nobody along": python(graph, "undone_with", lambda *_: []),
    "a retry leaves the edges": python(reruns, "expect_again", _nothing),
    "a retry lets go on what it has freed": python(reruns, "hold_back", _nothing),
    "a retried task is still to blame": python(reruns, "blame_others", _nothing),
    "a dry run lists too much": python(retrying, "plan_retry", _list_too_much),
    "a dry run lists too little": python(retrying, "plan_retry", _list_the_task_alone),
}


@pytest.mark.only_on("sqlite")  # it is the machine that is tried here
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_of_the_graph_is_caught(
    mutation: str, monkeypatch: pytest.MonkeyPatch, fresh_database: Callable[[], str]
) -> None:
    """By a wrong answer, a wrong state, or the database's own constraints."""
    MUTATIONS[mutation](monkeypatch)
    machine = _on_graphs_alone(driving(lambda: CoreDoor(fresh_database())))
    # KeyError: a cycle that was let in has no task to begin with.
    with pytest.raises((AssertionError, DoorError, sqlite3.IntegrityError, KeyError)):
        run_state_machine_as_test(machine, settings=BITE)
