"""Jobs that wait for each other in the embedded queue (graph contract)."""

from __future__ import annotations

import itertools
import random

import jobmaker
import pytest
from jobmaker import CASCADE, add, again, counts, details, fail, statuses, succeed, take

from jobroom.embedded import JobStatus


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records if record.name == "jobroom"]
    caplog.clear()
    return said


def test_a_diamond_waits_for_both_sides(queue) -> None:
    """Number 7: C only after A and B."""
    add(queue, "A")
    add(queue, "B")
    add(queue, "C", "A", "B")
    assert [take(queue), take(queue)] == ["A", "B"]
    succeed(queue, "A")
    assert take(queue) == "pending"
    succeed(queue, "B")
    assert take(queue) == "C"


def test_a_diamond_fails_with_either_side(queue) -> None:
    """Number 7: if B then errors, C errors with exactly this text."""
    add(queue, "A")
    add(queue, "B")
    add(queue, "C", "A", "B")
    assert [take(queue), take(queue)] == ["A", "B"]
    succeed(queue, "A")
    fail(queue, "B")
    assert statuses(queue, "A", "B", "C") == "SUCCESS ERROR ERROR"
    assert details(queue, "C") == "A job this job depends on failed"
    assert take(queue) == "complete"


def test_a_chain_fails_the_whole_way_down_at_once(queue) -> None:
    """Number 8 (b): 0 -> 1 -> 2 -> 3, 0 fails: error=4."""
    for n in range(4):
        add(queue, str(n), *([str(n - 1)] if n else []))
    fail(queue, "0")
    assert counts(queue) == {"total": 4, "error": 4}
    assert [details(queue, str(n)) for n in range(4)] == ["it broke", CASCADE, CASCADE, CASCADE]


def test_a_job_that_waits_for_itself_is_refused(queue, caplog) -> None:
    """Number 8 (d)."""
    assert not add(queue, "a", "a", "b")
    assert refusals(caplog) == [
        "job.refused job_id=a reason=it depends on itself: a -> a",
    ]
    assert counts(queue) == {}


def test_a_ready_job_keeps_its_place_however_late_it_became_ready(queue) -> None:
    add(queue, "first")
    add(queue, "second", "first")
    add(queue, "third")
    assert take(queue) == "first"
    succeed(queue, "first")
    assert [take(queue), take(queue)] == ["second", "third"]


def test_the_cascade_touches_only_jobs_that_wait(queue) -> None:
    """Graph contract: never RUNNING, SUCCESS, or an own ERROR text."""
    add(queue, "a")
    for each in ("runs", "done", "failed", "waits"):
        add(queue, each, "a")
    queue.update_job_status("runs", JobStatus.RUNNING)
    succeed(queue, "done")
    fail(queue, "failed", "my own reason")
    fail(queue, "a")
    assert statuses(queue, "runs", "done", "failed", "waits") == "RUNNING SUCCESS ERROR ERROR"
    assert (details(queue, "failed"), details(queue, "waits")) == ("my own reason", CASCADE)


# --- dependencies that are not there, or have ended ----------------------------------------------


def test_an_unknown_dependency_is_waited_for(queue) -> None:
    add(queue, "b", "a")
    assert take(queue) == "pending"
    add(queue, "a")
    assert take(queue) == "a"
    succeed(queue, "a")
    assert take(queue) == "b"


def test_what_waits_for_a_late_job_fails_with_it(queue) -> None:
    add(queue, "c", "b")
    add(queue, "b", "a")
    add(queue, "a")
    fail(queue, "a")
    assert statuses(queue, "a", "b", "c") == "ERROR ERROR ERROR"


def test_a_late_job_that_begins_as_failed_fails_what_waits_for_it(queue) -> None:
    add(queue, "c", "b")
    add(queue, "d", "b", dependency_type="afternotok")
    add(queue, "a")
    fail(queue, "a")
    add(queue, "b", "a")
    assert statuses(queue, "b", "c", "d") == "ERROR ERROR READY"


def test_a_dependency_that_succeeded_already_is_no_reason_to_wait(queue) -> None:
    add(queue, "a")
    succeed(queue, "a")
    add(queue, "b", "a")
    assert take(queue) == "b"


def test_a_dependency_that_failed_already_fails_the_job_at_once(queue) -> None:
    add(queue, "a")
    fail(queue, "a")
    assert add(queue, "b", "a", "unknown")
    assert (statuses(queue, "b"), details(queue, "b")) == ("ERROR", CASCADE)


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize(
    ("condition", "when_ok", "when_not"),
    [
        ("afterok", "READY", "ERROR"),
        ("afternotok", "ERROR", "READY"),
        ("afterany", "READY", "READY"),
    ],
)
def test_each_condition_says_how_the_dependency_must_end(
    queue, condition, when_ok, when_not, is_late
) -> None:
    for name, end, expected in (("ok", succeed, when_ok), ("not", fail, when_not)):
        add(queue, name)
        if not is_late:
            add(queue, f"after {name}", name, dependency_type=condition)
        end(queue, name)
        if is_late:
            add(queue, f"after {name}", name, dependency_type=condition)
        assert statuses(queue, f"after {name}") == expected


def test_who_was_to_run_after_a_failure_is_told_that_there_was_none(queue) -> None:
    add(queue, "a")
    add(queue, "b", "a", dependency_type="afternotok")
    add(queue, "c", "b")
    succeed(queue, "a")
    assert details(queue, "b") == "A job this job depends on succeeded, and was to fail"
    assert details(queue, "c") == CASCADE


def test_a_fan_of_hundreds_is_one_step(queue) -> None:
    many = [str(n) for n in range(500)]
    add(queue, "a")
    for each in many:
        add(queue, each, "a")
    add(queue, "z", *many)
    succeed(queue, "a")
    assert counts(queue) == {"total": 502, "success": 1, "ready": 500, "pending": 1}
    for each in many:
        assert take(queue) == each
        succeed(queue, each)
    assert take(queue) == "z"


# --- cycles --------------------------------------------------------------------------------------


def test_a_cycle_is_refused_and_logged_by_its_names(queue, caplog) -> None:
    """It takes a dependency that was not there yet to close one."""
    add(queue, "A", "B")
    add(queue, "C", "A")
    assert not add(queue, "B", "C", "other")
    assert refusals(caplog) == [
        "job.refused job_id=B reason=its dependencies form a cycle: B -> C -> A -> B"
    ]
    assert counts(queue) == {"total": 2, "pending": 2}
    assert add(queue, "B")
    succeed(queue, "B")
    assert statuses(queue, "A", "C") == "READY PENDING"


def test_a_long_cycle_is_logged_in_one_short_line(queue, caplog) -> None:
    for n in range(300):
        add(queue, f"job {n}", f"job {n + 1}")
    assert not add(queue, "job 300", "job 0")
    [said] = refusals(caplog)
    assert "job 8 -> (282 more) -> job 291" in said
    assert len(said) < 400


def test_one_that_is_there_already_is_no_cycle(queue, caplog) -> None:
    add(queue, "A")
    add(queue, "B", "A")
    assert not add(queue, "A", "B")
    assert refusals(caplog) == []


def test_what_failed_already_closes_no_cycle(queue) -> None:
    add(queue, "x")
    add(queue, "A", "B", "x")
    fail(queue, "x")
    assert add(queue, "B", "A")
    assert (statuses(queue, "B"), details(queue, "B")) == ("ERROR", CASCADE)


# --- parents -------------------------------------------------------------------------------------


def test_what_waits_for_the_parent_waits_for_the_child(queue) -> None:
    add(queue, "A")
    add(queue, "B", "A")
    assert take(queue) == "A"
    assert add(queue, "C", parent="A")
    succeed(queue, "A")
    assert statuses(queue, "B", "C") == "PENDING READY"
    assert take(queue) == "C"
    assert take(queue) == "pending"
    succeed(queue, "C")
    assert take(queue) == "B"


def test_a_child_does_not_wait_for_its_parent(queue) -> None:
    add(queue, "A")
    take(queue)
    add(queue, "C", parent="A")
    assert take(queue) == "C"


def test_what_waits_for_the_parent_waits_for_grandchildren_too(queue) -> None:
    add(queue, "A")
    add(queue, "B", "A")
    take(queue)
    add(queue, "C", parent="A")
    succeed(queue, "A")
    take(queue)
    add(queue, "D", parent="C")
    succeed(queue, "C")
    take(queue)
    add(queue, "E", parent="D")
    succeed(queue, "D")
    assert statuses(queue, "B", "E") == "PENDING READY"
    succeed(queue, "E")
    assert statuses(queue, "B") == "READY"


def test_a_child_that_fails_fails_what_waits_for_the_parent(queue) -> None:
    add(queue, "A")
    add(queue, "B", "A")
    add(queue, "C", parent="A")
    fail(queue, "C")
    assert (statuses(queue, "A", "B"), details(queue, "B")) == ("READY ERROR", CASCADE)


def test_a_child_that_begins_as_failed_fails_what_waits_for_the_parent(queue) -> None:
    add(queue, "bad")
    fail(queue, "bad")
    add(queue, "A")
    add(queue, "B", "A")
    add(queue, "C", "bad", parent="A")
    assert statuses(queue, "C", "B") == "ERROR ERROR"


@pytest.mark.parametrize("condition", ["afterany", "afternotok"])
def test_the_child_is_waited_for_under_the_condition_of_the_parent(queue, condition) -> None:
    add(queue, "A")
    add(queue, "B", "A", dependency_type=condition)
    add(queue, "C", parent="A")
    fail(queue, "A")
    assert statuses(queue, "B") == "PENDING"
    fail(queue, "C")
    assert statuses(queue, "B") == "READY"


def test_a_late_child_of_a_finished_parent_holds_back_what_has_not_begun(queue) -> None:
    """Graph contract: a dependent that is READY goes back to PENDING."""
    add(queue, "A")
    add(queue, "x")
    add(queue, "B", "A")
    add(queue, "B2", "A", "x")
    succeed(queue, "A")
    assert statuses(queue, "B", "B2") == "READY PENDING"
    assert add(queue, "C", parent="A")
    assert statuses(queue, "B", "B2", "C") == "PENDING PENDING READY"
    succeed(queue, "C", "x")
    assert statuses(queue, "B", "B2") == "READY READY"


@pytest.mark.parametrize("ended", [None, succeed, fail])
def test_a_child_that_comes_after_a_dependent_has_begun_is_refused(queue, caplog, ended) -> None:
    """Graph contract: never "B before C"."""
    add(queue, "A")
    for each in ("B", "B2"):
        add(queue, each, "A")
    succeed(queue, "A")
    assert take(queue) == "B"
    if ended:
        ended(queue, "B")
    assert not add(queue, "C", parent="A")
    [said] = refusals(caplog)
    assert said.startswith("job.refused job_id=C reason=its parent A has ended, and B, which")
    assert statuses(queue, "B2") == "READY"
    assert counts(queue)["total"] == 3


def test_a_child_of_an_unknown_parent_whose_dependent_has_begun_is_refused(queue, caplog) -> None:
    add(queue, "B", "A")
    queue.update_job_status("B", JobStatus.RUNNING)
    assert not add(queue, "C", parent="A")
    assert "its parent A is not there, and B" in refusals(caplog)[0]


def test_a_child_of_an_unknown_parent_is_waited_for_with_it(queue) -> None:
    add(queue, "B", "A")
    assert add(queue, "C", parent="A")
    add(queue, "A")
    succeed(queue, "A")
    assert statuses(queue, "B") == "PENDING"
    succeed(queue, "C")
    assert statuses(queue, "B") == "READY"


@pytest.mark.parametrize("parent", ["nobody waits for it", "unknown", "C"])
def test_a_parent_that_nobody_waits_for_is_no_obstacle(queue, parent) -> None:
    add(queue, "nobody waits for it")
    succeed(queue, "nobody waits for it")
    assert add(queue, "C", parent=parent)
    assert statuses(queue, "C") == "READY"


def test_a_child_of_a_failed_parent_is_added_and_helps_nobody(queue) -> None:
    add(queue, "A")
    add(queue, "B", "A")
    fail(queue, "A")
    assert add(queue, "C", parent="A")
    assert statuses(queue, "B", "C") == "ERROR READY"


def test_a_child_that_a_dependent_names_too_is_waited_for_once(queue) -> None:
    """Graph contract: a child that names a dependent twice is fine."""
    add(queue, "A")
    add(queue, "B", "A", "C")
    assert add(queue, "C", parent="A")
    succeed(queue, "A")
    assert statuses(queue, "B") == "PENDING"
    succeed(queue, "C")
    assert statuses(queue, "B") == "READY"


@pytest.mark.parametrize("ready", [False, True])
def test_a_child_that_waits_for_who_would_wait_for_it_is_refused(queue, caplog, ready) -> None:
    add(queue, "A")
    add(queue, "B", "A")
    add(queue, "D", "B")
    if ready:
        succeed(queue, "A")
    for waits_for in ("B", "D"):
        assert not add(queue, "C", waits_for, parent="A")
        [said] = refusals(caplog)
        assert "form a cycle" in said
        assert all(name in said for name in ("B", "C", waits_for))
    assert counts(queue)["total"] == 3


def test_a_child_may_wait_for_its_parent_if_it_says_so(queue) -> None:
    add(queue, "A")
    add(queue, "B", "A")
    assert add(queue, "C", "A", parent="A")
    assert statuses(queue, "A", "B", "C") == "READY PENDING PENDING"
    succeed(queue, "A")
    assert statuses(queue, "B", "C") == "PENDING READY"


# --- queued again --------------------------------------------------------------------------------


def test_a_running_job_that_is_queued_again_keeps_its_dependents_waiting(queue) -> None:
    """Case C40: dependents run once, after the last attempt."""
    add(queue, "a")
    add(queue, "b", "a")
    take(queue)
    again(queue, "a")
    assert statuses(queue, "a", "b") == "READY PENDING"
    assert take(queue) == "a"
    succeed(queue, "a")
    assert take(queue) == "b"


def test_dependents_that_have_not_begun_wait_again_for_a_finished_job_that_is_queued(queue) -> None:
    add(queue, "a")
    add(queue, "other")
    add(queue, "ready", "a")
    add(queue, "pending", "a", "other")
    succeed(queue, "a")
    again(queue, "a")
    assert statuses(queue, "a", "ready", "pending") == "READY PENDING PENDING"
    succeed(queue, "other")
    assert statuses(queue, "pending") == "PENDING"
    succeed(queue, "a")
    assert statuses(queue, "ready", "pending") == "READY READY"


def test_dependents_that_have_begun_stay_as_they_are_when_a_finished_job_is_queued(queue) -> None:
    """Graph contract, ``change_config_in_place``."""
    add(queue, "a")
    for each in ("runs", "done", "failed"):
        add(queue, each, "a")
    succeed(queue, "a")
    assert [take(queue), take(queue), take(queue)] == ["runs", "done", "failed"]
    succeed(queue, "done")
    fail(queue, "failed", "own")
    again(queue, "a")
    fail(queue, "a")
    assert statuses(queue, "a", "runs", "done", "failed") == "ERROR RUNNING SUCCESS ERROR"
    assert details(queue, "failed") == "own"


def test_what_failed_with_a_job_stays_failed_when_the_job_is_queued_again(queue) -> None:
    add(queue, "a")
    add(queue, "b", "a")
    fail(queue, "a")
    again(queue, "a")
    succeed(queue, "a")
    assert statuses(queue, "a", "b") == "SUCCESS ERROR"


@pytest.mark.parametrize("began", ["RUNNING", "SUCCESS", "ERROR"])
def test_a_job_that_is_queued_again_waits_for_dependencies_that_run_again(queue, began) -> None:
    """An afterok dependent must not run before its dependency succeeds again."""
    add(queue, "a")
    add(queue, "b", "a")
    succeed(queue, "a")
    queue.update_job_status("b", JobStatus[began])
    again(queue, "a")
    again(queue, "b")
    assert statuses(queue, "a", "b") == "READY PENDING"
    succeed(queue, "a")
    assert statuses(queue, "b") == "READY"


def test_a_job_that_is_queued_again_while_its_dependency_is_failed_fails_again(queue) -> None:
    add(queue, "a")
    add(queue, "b", "a")
    add(queue, "c", "b")
    fail(queue, "a")
    again(queue, "b")
    assert (statuses(queue, "b", "c"), details(queue, "b")) == ("ERROR ERROR", CASCADE)


def test_a_job_that_failed_with_another_runs_when_both_are_queued_again(queue) -> None:
    add(queue, "a")
    add(queue, "b", "a")
    fail(queue, "a")
    again(queue, "a")
    again(queue, "b")
    assert (statuses(queue, "a", "b"), details(queue, "b")) == ("READY PENDING", None)
    succeed(queue, "a")
    assert take(queue) == "b"


def test_ready_says_the_same_as_pending(queue) -> None:
    add(queue, "a")
    add(queue, "b", "a")
    queue.update_job_status("b", JobStatus.READY)
    assert statuses(queue, "b") == "PENDING"
    take(queue)
    queue.update_job_status("a", JobStatus.READY)
    assert statuses(queue, "a") == "READY"


# --- against a model -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_end_as_the_rules_say(queue, seed) -> None:
    """Each job runs after all that it depends on, and exactly those run that may."""
    chance = random.Random(seed)
    names = [f"n{n}" for n in range(30)]
    needs: dict[str, set[str]] = {
        name: set(chance.sample(names[:n], chance.randint(0, min(n, 3))))
        for n, name in enumerate(names)
    }
    conditions = {
        name: chance.choice(["afterok", "afterok", "afterany", "afternotok"]) for name in names
    }
    for name in chance.sample(names, len(names)):
        assert add(queue, name, *needs[name], dependency_type=conditions[name])
    fates = {name: chance.random() < 0.7 for name in names}
    ended: dict[str, bool] = {}
    for _ in itertools.count():
        name = take(queue)
        if name == "complete":
            break
        assert needs[name] <= {*ended, *failed_by_now(queue)}
        ended[name] = fates[name]
        (succeed if fates[name] else fail)(queue, name)
    assert ended.keys() == {name for name in names if expected(name, needs, conditions, fates)[1]}
    for name in names:
        is_ok, _ = expected(name, needs, conditions, fates)
        assert jobmaker.status(queue, name) == ("SUCCESS" if is_ok else "ERROR")


def failed_by_now(queue) -> set[str]:
    return set(queue.get_job_ids_with_status(JobStatus.ERROR))


def expected(name, needs, conditions, fates) -> tuple[bool, bool]:
    """Whether a job succeeds, and whether it runs."""
    ends = [expected(each, needs, conditions, fates)[0] for each in needs[name]]
    runs = {"afterok": all(ends), "afternotok": not any(ends), "afterany": True}[conditions[name]]
    return runs and fates[name], runs
