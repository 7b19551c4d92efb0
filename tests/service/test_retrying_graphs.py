"""Retrying a task with what failed because of it, and with what its end has freed."""

from __future__ import annotations

import time

import pytest
from growing import grow
from plots import Plot, tangles

from jobroom.domain.records import Caller
from jobroom.errors import Forbidden, InvalidTaskTransition, TaskNotFound
from jobroom.service import retrying

DESCENDANTS = {True: 10_000, False: 2_000}
"""On a file; fewer on a server, which shares this machine with the tests."""
SECONDS = 2


@pytest.fixture
def plot(desk, alice, bob, rotate):
    """A graph of bob's, in a job that alice's worker serves; in the end it is whole."""
    drawn = Plot(desk, bob, rotate)
    yield drawn
    assert tangles(desk) == []


def retry(plot, name, caller=None):
    return plot.desk.queue.run(
        retrying.retry_task, caller=caller or plot.caller, task_id=plot.ids[name]
    ).task


def planned(plot, name):
    """What a dry run lists, by name."""
    plan = plot.desk.queue.run(retrying.plan_retry, caller=plot.caller, task_id=plot.ids[name])
    return [plot.named(task_id) for task_id in plan.ids]


def states_of(plot, name):
    """The edges that lead to a task: dependency and state."""
    return [(dependency, state) for dependency, _, state, _ in plot.edges_of(name)]


# --- what failed because of it ----------------------------------------------------------------


def test_an_attempt_that_is_left_keeps_the_dependents_waiting(desk, alice, bob) -> None:
    """C40: the parent fails once, is tried again in place, succeeds: they run once, after it."""
    plot = Plot(desk, bob, desk.job(alice, max_attempts=2))
    plot.draw(a="", b="a")
    again = plot.fail("a", alice, final=False)
    assert (again.status, again.attempt) == ("pending", 1)
    assert plot.statuses()["b"] == "blocked"
    assert plot.start("a", alice).attempt == 2
    plot.complete("a", alice)
    assert plot.complete("b", alice).attempt == 1


def test_a_failed_middle_node_takes_its_descendants_with_it(plot, alice) -> None:
    """C40: rerun only the failed middle node of a finished graph."""
    plot.draw(a="", b="a", c="b", d="c", other="a", last="other")
    plot.complete("a", alice)
    plot.fail("b", alice)
    plot.complete("other", alice)
    plot.complete("last", alice)
    before = plot.rows()
    assert planned(plot, "b") == ["b", "c", "d"]
    assert plot.rows() == before
    again = retry(plot, "b")
    assert (again.status, again.starts, again.attempt) == ("pending", 0, 1)
    after = plot.rows()
    assert (after["c"][0], after["d"][0]) == ("blocked", "blocked")
    assert all(after[name] == before[name] for name in ("a", "other", "last"))
    for name in ("b", "c", "d"):
        assert plot.complete(name, alice).status == "completed"


def test_what_is_blocked_again_has_no_trace_of_its_failure(plot, alice) -> None:
    plot.draw(a="", b="a")
    plot.fail("a", alice)
    retry(plot, "a")
    task = plot.task("b")
    assert (task.failed_by, task.error, task.completed_at, task.due_at) == (None,) * 4
    assert states_of(plot, "b") == [("a", "waiting")]


def test_a_diamond_is_retried_as_a_whole(plot, alice) -> None:
    plot.draw(a="", b="a", c="a", d="b c")
    plot.fail("a", alice)
    assert set(plot.statuses().values()) == {"failed"}
    assert sorted(planned(plot, "a")) == ["a", "b", "c", "d"]
    retry(plot, "a")
    assert plot.statuses() == {"a": "pending", "b": "blocked", "c": "blocked", "d": "blocked"}
    for name in ("a", "b", "c", "d"):
        plot.complete(name, alice)


def test_a_cancelled_task_takes_those_with_it_that_failed_because_of_that(plot) -> None:
    plot.draw(a="", b="a", c="b")
    plot.cancel("a")
    retry(plot, "a")
    assert plot.statuses() == {"a": "pending", "b": "blocked", "c": "blocked"}


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_who_failed_for_two_waits_again_when_both_are_retried(plot, alice, order) -> None:
    """Rules, *Retry*: because of it alone; the error then names the other one."""
    first, second = order
    plot.draw(a="", b="", c="a b", d="c")
    plot.fail("a", alice)
    plot.fail("b", alice)
    assert planned(plot, first) == [first]
    retry(plot, first)
    status, _, failed_by, error = plot.rows()["c"]
    assert (status, failed_by) == ("failed", second)
    assert error == f"dependency {second} failed"
    assert planned(plot, second) == [second, "c", "d"]
    retry(plot, second)
    assert plot.statuses() == {"a": "pending", "b": "pending", "c": "blocked", "d": "blocked"}
    for name in ("a", "b", "c", "d"):
        plot.complete(name, alice)


def test_the_other_cause_is_named_by_how_it_ended(plot, alice) -> None:
    plot.draw(a="", b="", c="a b:afternotok", d="c")
    plot.fail("a", alice)
    plot.complete("b", alice)
    retry(plot, "a")
    assert plot.rows()["c"][2:] == ("b", "dependency b completed, and was to fail")
    assert plot.rows()["d"][2:] == ("c", "dependency c failed")


def test_a_cause_that_has_completed_since_counts_no_more(plot, alice) -> None:
    plot.draw(a="", b="", c="a b")
    plot.fail("a", alice)
    plot.fail("b", alice)
    retry(plot, "a")
    plot.complete("a", alice)
    assert states_of(plot, "c") == [("a", "met"), ("b", "broken")]
    retry(plot, "b")
    assert states_of(plot, "c") == [("a", "met"), ("b", "waiting")]
    plot.complete("b", alice)
    assert plot.statuses()["c"] == "pending"


def test_who_was_cancelled_or_expired_by_itself_stays_so(plot, desk, alice) -> None:
    """Rules, *Retry*: they did not fail because of it."""
    plot.draw({"late": {"expires_at": desk.soon(5)}}, a="", gone="a", late="a", below="gone")
    plot.cancel("gone")
    desk.wait(6)
    desk.sweep()
    plot.fail("a", alice)
    before = plot.rows()
    assert planned(plot, "a") == ["a"]
    retry(plot, "a")
    assert {**plot.rows(), "a": None} == {**before, "a": None}


def test_a_past_expiry_of_a_descendant_is_cleared_too(plot, desk, alice) -> None:
    """Rules, *Time fields*: manual retry clears a past one."""
    times = {"b": {"expires_at": desk.soon(5)}, "c": {"expires_at": desk.soon(60)}}
    plot.draw(times, a="", b="a", c="a")
    plot.fail("a", alice)
    desk.wait(6)
    retry(plot, "a")
    assert plot.task("b").expires_at is None
    assert plot.task("c").expires_at is not None
    desk.sweep()
    assert plot.statuses() == {"a": "pending", "b": "blocked", "c": "blocked"}
    desk.wait(60)
    assert desk.sweep().expired_tasks == 1


# --- what its end has freed -------------------------------------------------------------------


@pytest.mark.parametrize(("how", "then"), [("afterany", "pending"), ("afternotok", "failed")])
def test_what_the_failure_freed_and_nobody_claimed_waits_again(plot, alice, how, then) -> None:
    plot.draw(a="", b=f"a:{how}")
    plot.fail("a", alice)
    assert plot.statuses()["b"] == "pending"
    assert planned(plot, "a") == ["a", "b"]
    retry(plot, "a")
    assert plot.statuses() == {"a": "pending", "b": "blocked"}
    plot.complete("a", alice)
    assert plot.statuses()["b"] == then


@pytest.mark.parametrize("state", ["claimed", "running", "completed", "failed"])
def test_what_the_failure_freed_and_somebody_has_taken_is_left_as_it_is(
    plot, desk, alice, state
) -> None:
    plot.draw(a="", b="a:afterany")
    plot.fail("a", alice)
    task = desk.claim_one(alice, start=state != "claimed")
    if state in {"completed", "failed"}:
        desk.report(alice, task, state)
    before = plot.rows()["b"]
    assert planned(plot, "a") == ["a"]
    retry(plot, "a")
    assert plot.rows()["b"] == before
    assert states_of(plot, "b") == [("a", "met")]


def test_what_a_fallen_descendant_freed_waits_again_too(plot, alice) -> None:
    plot.draw(a="", b="a", c="b:afternotok", d="c")
    plot.fail("a", alice)
    assert plot.statuses()["c"] == "pending"
    assert sorted(planned(plot, "a")) == ["a", "b", "c"]
    retry(plot, "a")
    assert plot.statuses() == {"a": "pending", "b": "blocked", "c": "blocked", "d": "blocked"}


def test_a_met_edge_of_a_blocked_task_waits_again(plot, alice) -> None:
    plot.draw(a="", x="", b="a:afterany x")
    plot.fail("a", alice)
    assert states_of(plot, "b") == [("a", "met"), ("x", "waiting")]
    retry(plot, "a")
    plot.complete("x", alice)
    assert plot.statuses()["b"] == "blocked"
    plot.complete("a", alice)
    assert plot.statuses()["b"] == "pending"


# --- the task's own dependencies --------------------------------------------------------------


def test_a_task_that_failed_for_another_is_not_retried_itself(plot, alice) -> None:
    """409 names the one that all of it came from."""
    plot.draw(a="", b="a", c="b")
    plot.fail("a", alice)
    for ask in (retry, planned):
        with pytest.raises(InvalidTaskTransition, match=f"retry task {plot.ids['a']} instead"):
            ask(plot, "c")


def test_a_task_whose_dependency_was_to_fail_is_submitted_again(plot, alice) -> None:
    plot.draw(a="", b="a:afternotok", c="b")
    plot.complete("a", alice)
    told = f"dependency {plot.ids['a']} completed, and was to fail; submit it again"
    with pytest.raises(InvalidTaskTransition, match=told):
        retry(plot, "c")


def test_a_task_whose_dependency_failed_and_is_gone_is_submitted_again(plot, desk, alice) -> None:
    plot.draw(a="", b="a")
    plot.fail("a", alice)
    desk.write(f"DELETE FROM task WHERE id = '{plot.ids['a']}'")  # noqa: S608 - our own id
    with pytest.raises(InvalidTaskTransition, match="is gone; submit it again"):
        retry(plot, "b")


def test_a_cancelled_task_whose_dependency_has_to_end_is_blocked(plot, alice) -> None:
    plot.draw(a="", b="a", c="b")
    plot.cancel("b")
    again = retry(plot, "b")
    assert again.status == "blocked"
    assert plot.statuses()["c"] == "blocked"
    plot.complete("a", alice)
    assert plot.statuses()["b"] == "pending"


def test_a_cancelled_task_whose_dependencies_have_ended_is_pending(plot, alice) -> None:
    plot.draw(a="", b="a")
    plot.cancel("b")
    plot.complete("a", alice)
    assert retry(plot, "b").status == "pending"


def test_a_cancelled_task_whose_dependency_failed_waits_for_its_retry(plot, alice) -> None:
    plot.draw(a="", b="a")
    plot.cancel("b")
    plot.fail("a", alice)
    with pytest.raises(InvalidTaskTransition, match=f"retry task {plot.ids['a']} first, then"):
        retry(plot, "b")
    retry(plot, "a")
    assert plot.statuses()["b"] == "cancelled"
    assert retry(plot, "b").status == "blocked"
    plot.complete("a", alice)
    assert plot.statuses()["b"] == "pending"


def test_a_dependency_that_runs_again_is_waited_for(plot, alice) -> None:
    """What it was met by is not so any more."""
    plot.draw(a="", b="a:afterany")
    plot.fail("a", alice)
    plot.fail("b", alice)
    retry(plot, "a")
    again = retry(plot, "b")
    assert again.status == "blocked"
    assert states_of(plot, "b") == [("a", "waiting")]
    plot.complete("a", alice)
    assert plot.statuses()["b"] == "pending"


def test_what_retention_has_removed_ended_as_it_did(plot, desk, alice) -> None:
    plot.draw(a="", b="a")
    plot.complete("a", alice)
    plot.fail("b", alice)
    desk.write(f"DELETE FROM task WHERE id = '{plot.ids['a']}'")  # noqa: S608 - our own id
    assert retry(plot, "b").status == "pending"


# --- who, and who is told ---------------------------------------------------------------------


def test_the_creator_of_the_first_takes_what_others_made_with_it(plot, desk, alice) -> None:
    plot.draw({"b": {"created_by_id": "carol"}}, a="", b="a")
    plot.fail("a", alice)
    retry(plot, "a")
    assert plot.statuses()["b"] == "blocked"


def test_a_stranger_may_not_and_who_does_not_see_it_finds_nothing(plot, alice) -> None:
    plot.draw(a="", b="a")
    plot.fail("a", alice)
    for use_case in (retrying.retry_task, retrying.plan_retry):
        with pytest.raises(Forbidden):
            plot.desk.queue.run(use_case, caller=Caller("carol"), task_id=plot.ids["a"])
        with pytest.raises(TaskNotFound):
            plot.desk.queue.run(
                use_case, caller=Caller("carol", rooms=frozenset()), task_id=plot.ids["a"]
            )


def test_a_completed_task_is_not_retried_whatever_waits_for_it(plot, alice) -> None:
    """Rules, *Retry*: completed 409."""
    plot.draw(a="", b="a")
    plot.complete("a", alice)
    with pytest.raises(InvalidTaskTransition, match="is completed"):
        retry(plot, "a")


def test_the_jobs_of_all_are_listed_again(plot, desk, alice, bob, rotate) -> None:
    other = desk.job(alice, "Other")
    plot.draw({"b": {"job_seq": other.seq}}, a="", b="a")
    plot.fail("a", alice)
    desk.write("UPDATE job SET hidden = 1")
    retry(plot, "a")
    assert set(desk.listed(bob)) == {rotate.full_name, other.full_name}


def test_those_who_wait_for_one_of_them_are_told(plot, desk, alice) -> None:
    plot.draw(a="", x="", b="a", c="a x", d="a:afterany")
    plot.fail("a", alice)
    plot.fail("x", alice)
    told = []
    desk.queue.listeners.append(
        type("L", (), {"known": {}, "logs": {}, "tell": staticmethod(told.extend)})()
    )
    retry(plot, "a")
    versions = {plot.named(each.id): each.version for each in told}
    assert versions == {name: plot.rows()[name][1] for name in ("a", "b", "c", "d")}


def test_a_claim_that_waits_gets_what_is_retried(plot, desk, alice) -> None:
    plot.draw(a="", b="a")
    plot.fail("a", alice)
    retry(plot, "a")
    assert desk.claim_one(alice).id == plot.ids["a"]
    assert desk.claim(alice) == []


@pytest.mark.only_on("libsql", "postgresql")
def test_a_retry_that_is_run_again_changes_nothing_more(plot, desk, alice) -> None:
    """A store across a network: the answer was lost on its way."""
    plot.draw(a="", b="a", c="a")
    plot.cancel("b")
    plot.fail("a", alice)
    retry(plot, "a")
    retry(plot, "b")
    before = plot.rows()

    def again(tx, name):
        tx.is_repeat = True
        return retrying.retry_task(tx, caller=plot.caller, task_id=plot.ids[name])

    assert desk.queue.run(again, "a").task.status == "pending"
    assert desk.queue.run(again, "b").task.status == "blocked"
    assert plot.rows() == before


# --- large ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["chain", "fan"])
def test_ten_thousand_descendants_are_taken_along_at_once(plot, desk, alice, shape, tally) -> None:
    """C39, C40: in one transaction, in less than two seconds on a file."""
    count = DESCENDANTS[desk.queue.database.is_at_hand]
    plot.draw(a="")
    grow(desk, plot.ids["a"], count, shape)
    plot.fail("a", alice)
    assert desk.read("SELECT count(*) FROM task WHERE status = 'failed'") == [(count + 1,)]
    began = time.perf_counter()
    retry(plot, "a")
    seconds = time.perf_counter() - began
    tally(f"{count:,} descendants in a {shape} retried: {seconds:.2f} s")
    assert seconds < 5 * SECONDS
    assert desk.read("SELECT count(*) FROM task WHERE status = 'blocked'") == [(count,)]
    assert desk.read("SELECT DISTINCT state FROM edge") == [("waiting",)]
