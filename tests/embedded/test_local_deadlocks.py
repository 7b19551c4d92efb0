"""Jobs that wait in vain (graph contract, ``fail_deadlocked_jobs``)."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from jobmaker import CASCADE, add, counts, details, fail, statuses, succeed, take

from jobroom.domain.local import task_id_of


def test_what_waits_for_what_never_came_fails_and_says_for_what(queue) -> None:
    add(queue, "c", "b")
    add(queue, "b", "never came")
    add(queue, "done")
    succeed(queue, "done")
    assert queue.fail_deadlocked_jobs() == ["c", "b"]
    assert details(queue, "b") == "It waits for never came, which never came"
    assert details(queue, "c") == "It waits for b, which can never run"
    assert take(queue) == "complete"
    assert counts(queue) == {"total": 3, "success": 1, "error": 2}


@pytest.mark.parametrize("busy", ["READY", "RUNNING"])
def test_nothing_fails_while_anything_may_still_come(queue, busy) -> None:
    add(queue, "stuck", "never came")
    add(queue, "busy")
    if busy == "RUNNING":
        take(queue)
    assert statuses(queue, "busy") == busy
    assert queue.fail_deadlocked_jobs() == []
    assert statuses(queue, "stuck") == "PENDING"


def test_an_empty_queue_is_not_deadlocked(queue) -> None:
    assert queue.fail_deadlocked_jobs() == []


def test_what_was_to_run_after_a_failure_runs_after_a_deadlock(queue) -> None:
    """An afterany or afternotok dependent waits for an end of any kind, and this is one."""
    add(queue, "stuck", "never came")
    add(queue, "clean up", "stuck", dependency_type="afterany")
    add(queue, "report", "stuck", dependency_type="afternotok")
    add(queue, "after", "clean up")
    assert queue.fail_deadlocked_jobs() == ["stuck"]
    assert statuses(queue, "clean up", "report", "after") == "READY READY PENDING"
    assert queue.fail_deadlocked_jobs() == []


def test_both_kinds_of_waiting_in_vain_are_ended_by_one_call(queue, path) -> None:
    """A cycle cannot be made by ``add_job``; a hand can."""
    add(queue, "a", "b")
    add(queue, "b")
    add(queue, "stuck", "never came")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "INSERT INTO edge SELECT ?, seq, 'afterok', 'waiting', NULL FROM task WHERE key = 'b'",
            (task_id_of("a"),),
        )
        connection.execute(
            "UPDATE task SET status = 'blocked', has_dependencies = 1, has_dependents = 1"
            " WHERE key IN ('a', 'b')"
        )
    assert queue.fail_deadlocked_jobs() == ["a", "b", "stuck"]
    assert details(queue, "a") == "It waits for b, which can never run"
    assert counts(queue) == {"total": 3, "error": 3}


def test_a_job_that_comes_too_late_is_simply_run(queue) -> None:
    add(queue, "stuck", "late")
    queue.fail_deadlocked_jobs()
    add(queue, "late")
    succeed(queue, "late")
    assert statuses(queue, "late", "stuck") == "SUCCESS ERROR"


def test_a_stuck_job_may_be_queued_again_when_what_it_waits_for_has_come(queue) -> None:
    add(queue, "stuck", "late")
    queue.fail_deadlocked_jobs()
    queue.update_job_status("stuck", 1)
    assert statuses(queue, "stuck") == "PENDING"
    add(queue, "late")
    succeed(queue, "late")
    assert take(queue) == "stuck"


def test_a_deadlock_of_thousands_is_one_step(queue) -> None:
    for n in range(2000):
        add(queue, str(n), str(n - 1))
    assert queue.fail_deadlocked_jobs() == [str(n) for n in range(2000)]
    assert details(queue, "0") == "It waits for -1, which never came"
    assert details(queue, "1999") == "It waits for 1998, which can never run"


def test_the_reason_is_no_cascade(queue) -> None:
    add(queue, "stuck", "never came")
    add(queue, "bad")
    add(queue, "after bad", "bad")
    fail(queue, "bad")
    queue.fail_deadlocked_jobs()
    assert details(queue, "after bad") == CASCADE
    assert details(queue, "stuck") == "It waits for never came, which never came"
