"""The machine bites: each rule of the core, when it is broken on purpose, makes it fail."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from breaking import Break, python, sql
from core_door import CoreDoor
from doors import DoorError
from draws import BITE
from hypothesis.stateful import run_state_machine_as_test
from machine import driving

from jobroom.service import access, claiming, losing, submission, sweeping
from jobroom.service.use_case import writes
from jobroom.store import claims, jobs, lists, notices, reports, tasks, workers
from jobroom.store.statement import Statement

# What is asked of a file; the twins of a store across a network are never run here.
ENDED_BY_HOLDER = tuple(reports.SETTLED_BY.values())
BY_HOLDER = (
    reports.START,
    reports.NOTE_PROGRESS,
    *ENDED_BY_HOLDER,
    reports.HAND_BACK,
)
CLAIMS = (
    claims._CLAIM,
    claims._CLAIM_AND_START,
    claims._CLAIM_PLAINLY,
    claims._CLAIM_AND_START_PLAINLY,
)
BOUND_CLAIMS = tuple(claims._CLAIM_IN_ROOMS.values())
OF_ROOMS = (
    "((SELECT its_job.room_id FROM job AS its_job WHERE its_job.seq = worker_job_link.job_seq)"
    " IN (SELECT value FROM json_each(:rooms)))"
)
ENDS = (*ENDED_BY_HOLDER, reports.CANCEL, reports._END)
OWNER = (
    "(EXISTS (SELECT 1 FROM worker"
    " WHERE worker.id = task.worker_id AND worker.identity = :identity))"
)
FENCE = "(:attempt_sent IS NULL OR task.attempt = :attempt_sent)"
UNFINISHED = "task.status IN ('blocked', 'pending', 'claimed', 'running')"


def _any_request_is_a_repeat(tx: Any, caller: Any, new: Any) -> submission.Submitted | None:
    if new.idempotency_key is None:
        return None
    found = tasks.get_by_key(tx, identity=caller.identity, key=new.idempotency_key)
    return None if found is None else submission.Submitted(found, replayed=True)


def _all_named(caller: Any) -> str | None:
    return None if caller.rooms is None else json.dumps(sorted(caller.rooms))


def _forget_all_of(tx: Any, worker: Any) -> None:
    jobs.unlink_all(tx, worker.id)
    workers.remove(tx, worker.id)


_true_page = lists._page


def _page_from_its_last_item(statuses: int, *, of_job: bool) -> Statement:
    page = Statement(_true_page(statuses, of_job=of_job).element())
    sql([page], "task.seq < :before", "task.seq <= :before")(pytest.MonkeyPatch())
    return page


MUTATIONS: dict[str, Break] = {
    "anybody may report": sql(BY_HOLDER, OWNER),
    "a stranger may cancel": sql([reports.CANCEL], "task.created_by_id = :identity"),
    "the fence is down": sql(BY_HOLDER, FENCE),
    "the newest is served first": sql(
        CLAIMS, "ahead.turn, ahead.seq", "ahead.turn, ahead.seq DESC"
    ),
    "priority counts for nothing": sql(CLAIMS, "ahead.priority DESC, ", ""),
    "rooms take no turns": sql(CLAIMS, "ahead.turn, ", ""),
    "what has ended can be cancelled": sql([reports.CANCEL], UNFINISHED),
    "a claim does not raise the attempt": sql(CLAIMS, "(task.attempt + 1)", "task.attempt"),
    "what has expired is handed out": sql(
        CLAIMS, "(task.expires_at IS NULL OR task.expires_at > :now)"
    ),
    "one start more than allowed": sql(
        [reports.SETTLED_BY[reports.FAIL_FOR_GOOD]],
        "task.starts >= task.max_attempts",
        "task.starts > task.max_attempts",
    ),
    "a stale schema lets a payload in": sql(
        [tasks._ADD, tasks._ADD_IN_TURN],
        "job.version = :job_version",
        "job.version >= :job_version",
    ),
    "a key answers any request": python(submission, "_known", _any_request_is_a_repeat),
    "a key lives for ever": python(submission, "KEY_LIFE", 2**62),
    "an outage is no excuse": python(sweeping, "begin_sweep", writes(lambda tx: True)),
    "a lost identity worker is forgotten": python(sweeping, "_let_go", _forget_all_of),
    "a report is no sign of life": python(workers, "fresh_for", lambda _tx: 10**18),
    "rooms are no limit": python(access, "check_room", lambda *_: None),
    "rooms do not bind a claim": sql(BOUND_CLAIMS, OF_ROOMS),
    "a token of some rooms gets global tasks": python(access, "rooms_to_claim_from", _all_named),
    "a repeat shows what another token got": python(claiming, "_is_shown", lambda *_: True),
    "a worker's jobs are counted beyond the rooms": python(access, "rooms_seen", lambda _: None),
    "what is lost is tried for ever": python(
        losing, "_goes_back", lambda tx, task, job: job.on_worker_lost == "requeue"
    ),
    "lost tasks always fail": python(losing, "_goes_back", lambda *_: False),
    "nobody is told to stop": python(notices, "add", lambda *_, **__: None),
    "a repeated claim claims again": python(claims, "claimed_by_request", lambda *_, **__: []),
    "everybody sees every task": python(access, "sees_task", lambda *_: True),
    "a page repeats its last item": python(lists, "_page", _page_from_its_last_item),
    "retention comes before the key": sql(ENDS, "task.idempotency_key IS NOT NULL", "1 = 0"),
}


@pytest.mark.only_on("sqlite")  # it is the machine that is tried here
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_is_caught(
    mutation: str, monkeypatch: pytest.MonkeyPatch, fresh_database: Callable[[], str]
) -> None:
    """By a wrong answer, a wrong state, or the database's own constraints."""
    MUTATIONS[mutation](monkeypatch)
    machine = driving(lambda: CoreDoor(fresh_database()))
    with pytest.raises((AssertionError, DoorError, sqlite3.IntegrityError)):
        run_state_machine_as_test(machine, settings=BITE)
