"""Settling: what an end does to those that wait for it, all the way down, in its transaction."""

from __future__ import annotations

import time

import pytest
import tables
from desk import Waiter
from plots import Plot, tangles

from jobroom.errors import InvalidTaskTransition
from jobroom.service import reporting
from jobroom.store import edges
from jobroom.store.session import Outcome

CONDITIONS = ("afterok", "afternotok", "afterany")
CHAIN = 10_000
CHAIN_SECONDS = 30
"""Acceptance C39 says 5, and it takes half a second: but others may be at work on this machine."""


@pytest.fixture
def plot(desk, alice, bob, rotate):
    """A graph of bob's, in a job that alice's worker serves; in the end it is whole."""
    drawn = Plot(desk, bob, rotate)
    yield drawn
    assert tangles(desk) == []


@pytest.fixture
def lenient(desk, alice):
    """A job of three attempts that requeues what a lost worker held."""
    return desk.job(alice, on_worker_lost="requeue", max_attempts=3)


def lose(desk):
    desk.wait(61)
    return desk.sweep()


def expire(desk):
    desk.wait(31)
    return desk.sweep()


# --- promotion --------------------------------------------------------------------------------


def test_a_task_waits_for_all_it_depends_on(plot, desk, alice) -> None:
    plot.draw(a="", b="", c="a b")
    assert plot.statuses() == {"a": "pending", "b": "pending", "c": "blocked"}
    plot.complete("a", alice)
    assert plot.statuses()["c"] == "blocked"
    plot.complete("b", alice)
    assert plot.statuses()["c"] == "pending"
    assert plot.start("c", alice).status == "running"


def test_a_view_tells_what_a_task_depends_on_and_how_that_stands(plot, alice) -> None:
    plot.draw(a="", b="", c="a b:afterany")
    plot.complete("a", alice)
    assert plot.edges_of("c") == [
        ["a", "afterok", "met", "completed"],
        ["b", "afterany", "waiting", "pending"],
    ]
    assert plot.view("a").edges is None


def test_what_is_promoted_is_told_to_those_who_wait(plot, desk, alice, bob) -> None:
    """The dependents are among what the transaction has changed, with their new version."""
    plot.draw(a="", b="a", c="b:afternotok", d="a:afternotok")
    task = plot.start("a", alice)
    told = []

    def end(tx):
        done = reporting.report(
            tx, caller=alice, task_id=task.id, report=reporting.Report("completed")
        )
        told.extend((plot.named(each.id), each.version) for each in tx.changed)
        told.extend(tx.claimable)
        return done

    desk.queue.run(end)
    assert sorted(told[:-1]) == [("a", 3), ("b", 2), ("d", 2)]
    assert told[-1] == plot.job.seq


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_each_condition_by_each_end(plot, alice, condition, end) -> None:
    """Contract, *Tasks*: afterok wants it completed, afternotok failed or cancelled."""
    plot.draw(a="", b=f"a:{condition}")
    plot.cancel("a") if end == "cancel" else getattr(plot, end)("a", alice)
    goes_on = condition == "afterany" or (condition == "afterok") == (end == "complete")
    said = {"complete": "completed, and was to fail", "fail": "failed", "cancel": "was cancelled"}
    status, version, failed_by, error = plot.rows()["b"]
    if goes_on:
        assert (status, version, failed_by, error) == ("pending", 2, None, None)
    else:
        assert (status, version, failed_by) == ("failed", 2, "a")
        assert error == f"dependency a {said[end]}"


def test_mixed_edges_of_one_task_all_have_to_be_met(plot, alice) -> None:
    plot.draw(a="", b="", c="", d="a b:afternotok c:afterany")
    plot.complete("a", alice)
    plot.fail("b", alice)
    assert plot.statuses()["d"] == "blocked"
    plot.cancel("c")
    assert plot.statuses()["d"] == "pending"


def test_one_broken_edge_of_several_is_enough(plot, alice) -> None:
    plot.draw(a="", b="", c="a b:afternotok")
    plot.complete("b" if plot.start("a", alice) and plot.start("b", alice) else "", alice)
    assert plot.rows()["c"][2:] == ("b", "dependency b completed, and was to fail")
    assert plot.edges_of("c")[0][2] == "waiting"
    plot.complete("a", alice)
    assert plot.rows()["c"][:2] == ("failed", 2)
    assert plot.edges_of("c")[0][2] == "met"


def test_a_diamond_runs_its_bottom_once_both_sides_are_done(plot, alice) -> None:
    plot.draw(a="", b="a", c="a", d="b c")
    plot.complete("a", alice)
    plot.complete("b", alice)
    assert plot.statuses() == {"a": "completed", "b": "completed", "c": "pending", "d": "blocked"}
    plot.complete("c", alice)
    assert plot.rows()["d"] == ("pending", 2, None, None)


def test_a_diamond_fails_as_a_whole_in_one_transaction(plot, alice) -> None:
    plot.draw(a="", b="a", c="a", d="b c", e="d:afternotok", f="d:afterany c:afternotok")
    plot.fail("a", alice)
    rows = plot.rows()
    assert [rows[name][:2] for name in "abcd"] == [("failed", 3)] + [("failed", 2)] * 3
    assert rows["b"][3] == rows["c"][3] == "dependency a failed"
    assert rows["d"][2] in ("b", "c")
    assert rows["d"][3] == f"dependency {rows['d'][2]} failed"
    assert [rows[name][:2] for name in "ef"] == [("pending", 2)] * 2


def test_what_waits_for_a_failure_far_below_goes_on_at_once(plot, alice) -> None:
    plot.draw(a="", b="a", c="b", cleanup="c:afternotok", after="cleanup")
    plot.cancel("a")
    assert plot.statuses() == {
        "a": "cancelled",
        "b": "failed",
        "c": "failed",
        "cleanup": "pending",
        "after": "blocked",
    }
    plot.complete("cleanup", alice)
    assert plot.statuses()["after"] == "pending"


def test_a_task_that_ended_before_settles_the_edge_as_it_is_added(plot, alice) -> None:
    plot.draw(a="", b="")
    plot.complete("a", alice)
    plot.fail("b", alice)
    plot.draw(c="a", d="b", e="b:afternotok a", f="d")
    assert plot.statuses() == {
        "a": "completed",
        "b": "failed",
        "c": "pending",
        "d": "failed",
        "e": "pending",
        "f": "failed",
    }
    assert plot.rows()["f"][3] == "dependency d failed"


# --- every way to end -------------------------------------------------------------------------


def test_cancelling_a_blocked_task_fails_what_waits_for_it_alone(plot, alice) -> None:
    """C39; rules, *Cancel*."""
    plot.draw(a="", b="a", c="b", d="a")
    plot.cancel("b")
    assert plot.statuses() == {"a": "pending", "b": "cancelled", "c": "failed", "d": "blocked"}
    plot.complete("a", alice)
    assert plot.statuses() == {"a": "completed", "b": "cancelled", "c": "failed", "d": "pending"}
    assert plot.edges_of("b") == [["a", "afterok", "met", "completed"]]


def test_cancelling_a_running_task_settles_at_once_and_its_report_is_late(plot, alice) -> None:
    """C39: cancel A running: B and C end at once."""
    plot.draw(a="", b="a", c="b")
    task = plot.start("a", alice)
    plot.cancel("a")
    before = plot.rows()
    assert plot.statuses() == {"a": "cancelled", "b": "failed", "c": "failed"}
    with pytest.raises(InvalidTaskTransition):
        plot.desk.report(alice, task, "completed", attempt=1)
    assert plot.rows() == before


def test_a_lost_worker_settles_like_a_failure(plot, desk, alice) -> None:
    """Issue 4: loss of a worker settles like failure."""
    plot.draw(a="", b="a", c="a:afternotok")
    plot.start("a", alice)
    assert lose(desk).failed_tasks == 1
    assert plot.statuses() == {"a": "failed", "b": "failed", "c": "pending"}


def test_a_lost_workers_requeued_task_settles_nothing(desk, alice, bob, lenient) -> None:
    plot = Plot(desk, bob, lenient)
    plot.draw(a="", b="a", c="a:afternotok")
    plot.start("a", alice)
    assert lose(desk).requeued_tasks == 1
    assert plot.statuses() == {"a": "pending", "b": "blocked", "c": "blocked"}
    plot.complete("a", alice)
    assert plot.statuses() == {"a": "completed", "b": "pending", "c": "failed"}
    assert tangles(desk) == []


def test_a_worker_that_leaves_settles_what_it_held(plot, desk, alice) -> None:
    plot.draw(a="", b="a", c="", d="c")
    plot.start("c", alice)
    desk.leave(alice)
    assert plot.statuses() == {"a": "failed", "b": "failed", "c": "failed", "d": "failed"}


def test_a_timeout_settles(plot, desk, alice) -> None:
    plot.draw({"a": {"timeout_seconds": 5.0}}, a="", b="a", c="a:afterany")
    plot.start("a", alice)
    desk.wait(6)
    assert desk.sweep().timed_out_tasks == 1
    assert plot.statuses() == {"a": "failed", "b": "failed", "c": "pending"}


@pytest.mark.parametrize("by", ["sweep", "claim"])
def test_an_expired_pending_task_settles(plot, desk, alice, by) -> None:
    """Rules, *Time fields*: expired, dependents settle; by a sweep, or by the claim that met it."""
    plot.draw({"a": {"expires_at": desk.soon(30)}}, a="", b="a", c="a:afternotok")
    desk.wait(31)
    if by == "sweep":
        assert desk.sweep().expired_tasks == 1
    else:
        desk.beat(alice)
        assert desk.claim_one(alice).id == plot.ids["c"]
    statuses = plot.statuses()
    assert (statuses["a"], statuses["b"]) == ("failed", "failed")
    assert statuses["c"] == ("pending" if by == "sweep" else "claimed")


def test_an_expired_blocked_task_settles(plot, desk, alice) -> None:
    plot.draw({"b": {"expires_at": desk.soon(30)}}, a="", b="a", c="b", d="b:afternotok")
    assert expire(desk).expired_tasks == 1
    assert plot.statuses() == {"a": "pending", "b": "failed", "c": "failed", "d": "pending"}
    plot.complete("a", alice)
    assert plot.rows()["b"][:2] == ("failed", 2)


def test_failing_with_attempts_left_settles_nothing(desk, alice, bob, lenient) -> None:
    """C39, C40: with attempts left they wait; dependents run once, after the last attempt."""
    plot = Plot(desk, bob, lenient)
    plot.draw(a="", b="a", c="a:afternotok")
    for _ in range(2):
        plot.fail("a", alice, final=False)
        assert plot.statuses() == {"a": "pending", "b": "blocked", "c": "blocked"}
    plot.fail("a", alice, final=False)
    assert plot.statuses() == {"a": "failed", "b": "failed", "c": "pending"}
    assert tangles(desk) == []


def test_a_retry_that_succeeds_lets_the_dependents_run_once(desk, alice, bob, lenient) -> None:
    """C40: fails once, is retried in place, succeeds."""
    plot = Plot(desk, bob, lenient)
    plot.draw(a="", b="a")
    plot.fail("a", alice, final=False)
    assert plot.complete("a", alice).attempt == 2
    assert plot.rows()["b"][:2] == ("pending", 2)
    assert tangles(desk) == []


# --- time, turns, and the claim beside the report ---------------------------------------------


def test_a_blocked_task_waits_for_its_run_at_once_it_is_free(plot, desk, alice) -> None:
    """Rules, *Time fields*: it becomes pending then, and is claimable from its time on."""
    plot.draw({"b": {"run_at": desk.soon(50)}}, a="", b="a")
    plot.complete("a", alice)
    assert plot.task("b").status == "pending"
    assert desk.claim(alice) == []
    desk.wait(51)
    desk.beat(alice)
    assert desk.claim_one(alice).id == plot.ids["b"]


def test_a_run_at_that_has_passed_meanwhile_holds_nothing_up(plot, desk, alice) -> None:
    plot.draw({"b": {"run_at": desk.soon(5)}}, a="", b="a")
    desk.wait(10)
    plot.complete("a", alice)
    assert desk.claim_one(alice).id == plot.ids["b"]


def test_what_becomes_free_late_keeps_its_place(plot, desk, alice) -> None:
    """Contract (graph): a task that becomes ready late keeps its place."""
    plot.draw(a="", b="a", c="")
    plot.complete("a", alice)
    assert [task.id for task in desk.claim(alice, limit=2)] == [plot.ids["b"], plot.ids["c"]]


def test_a_blocked_task_of_a_fair_job_has_its_turn(desk, alice, bob) -> None:
    plot = Plot(desk, bob, desk.job(alice, claim_order="fair"))
    plot.draw(a="", b="a", c="a b")
    for name in "abc":
        plot.complete(name, alice)
    assert set(plot.statuses().values()) == {"completed"}


@pytest.mark.parametrize("end", ["completed", "failed"])
def test_the_claim_beside_a_report_gets_what_the_report_set_free(plot, desk, alice, end) -> None:
    condition = "afterok" if end == "completed" else "afternotok"
    plot.draw(a="", b=f"a:{condition}")
    task = plot.start("a", alice)
    said = {"error": "boom", "final": True} if end == "failed" else {}
    done = desk.reported(alice, task, end, claim_next=True, attempt=1, **said)
    assert done.next_task is not None
    assert done.next_task.task.id == plot.ids["b"]
    again = desk.reported(alice, task, end, claim_next=True, attempt=1, **said)
    assert again.next_task is not None
    assert again.next_task.task == done.next_task.task


def test_a_claim_that_waits_gets_what_a_report_sets_free(plot, desk, alice) -> None:
    plot.draw(a="", b="a")
    task = plot.start("a", alice)
    waiter = Waiter(desk, alice).begin()
    desk.report(alice, task, "completed")
    assert [found.id for found in waiter.answer()] == [plot.ids["b"]]


# --- again, and not at all --------------------------------------------------------------------


@pytest.mark.parametrize("end", ["completed", "failed"])
def test_a_repeated_terminal_report_settles_nothing_twice(plot, desk, alice, end) -> None:
    """Rules, *Reports*: a terminal report is repeatable; its dependents were settled once."""
    plot.draw(a="", b="a", c="a:afternotok", d="b c:afternotok")
    task = plot.start("a", alice)
    said = {"error": "boom", "final": True} if end == "failed" else {"result": "[1]"}
    desk.report(alice, task, end, attempt=1, **said)
    before = plot.rows()
    again = desk.reported(alice, task, end, attempt=1, **said)
    assert again.view.task == plot.task("a")
    assert plot.rows() == before


@pytest.mark.only_on("libsql", "libsql+client", "postgresql")
@pytest.mark.parametrize("end", ["completed", "failed"])
def test_a_report_whose_answer_was_lost_is_found_taken(plot, desk, alice, end, store) -> None:
    """Design: where nobody knows whether it was kept, the request is run again as a whole."""
    plot.draw(a="", b="a", c="a:afternotok")
    task = plot.start("a", alice)
    said = {"error": "boom", "final": True} if end == "failed" else {}
    report = reporting.Report(end, **said)
    rounds = []

    def twice(tx):
        rounds.append(tx.is_repeat)
        done = reporting.report(tx, caller=alice, task_id=task.id, report=report)
        if len(rounds) == 1:
            raise LostError
        return done

    outcome = desk.queue.writer._outcome
    desk.queue.writer._outcome = lambda error: (
        outcome(error) if not isinstance(error, LostError) else lost()
    )
    done = desk.queue.run(twice)
    assert (rounds, done.view.task.status) == ([False, True], end)
    freed, broken = ("b", "c") if end == "completed" else ("c", "b")
    rows = plot.rows()
    assert (rows["a"][1], rows[freed][:2], rows[broken][:2]) == (
        3,
        ("pending", 2),
        ("failed", 2),
    )


class LostError(Exception):
    """The connection broke between the commit and the answer."""


def lost():
    return Outcome.UNKNOWN


@pytest.mark.parametrize("status", ["blocked", "pending", "running"])
def test_settling_a_task_that_has_not_ended_does_nothing(plot, desk, alice, status) -> None:
    plot.draw(z="", a="z" if status == "blocked" else "", b="a", c="a:afternotok")
    if status == "running":
        plot.start("a", alice)
    before = plot.rows()
    desk.queue.run(edges.settle, plot.ids["a"])
    assert plot.rows() == before


def test_settling_again_does_nothing(plot, desk, alice) -> None:
    plot.draw(a="", b="a", c="b", d="c:afternotok", e="a:afterany")
    plot.fail("a", alice)
    before = plot.rows()
    desk.queue.run(edges.settle, plot.ids["a"])
    assert plot.rows() == before


def test_a_refused_report_settles_nothing(plot, desk, alice, bob) -> None:
    plot.draw(a="", b="a")
    task = plot.start("a", alice)
    before = plot.rows()
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, task, "completed", attempt=7)
    assert plot.rows() == before


def test_an_admins_report_settles_too(plot, desk, alice, admin) -> None:
    plot.draw(a="", b="a", c="a:afternotok")
    desk.report(admin, plot.start("a", alice), "completed")
    assert plot.statuses() == {"a": "completed", "b": "pending", "c": "failed"}


# --- many -------------------------------------------------------------------------------------


def test_a_fan_out_and_in_settles_at_each_end(plot, desk, alice) -> None:
    """1 -> 500 -> 1."""
    middle = [f"m{number}" for number in range(500)]
    plot.draw(top="", **dict.fromkeys(middle, "top"), bottom=" ".join(middle))
    plot.complete("top", alice)
    assert list(plot.statuses().values()).count("pending") == 500
    for number, name in enumerate(middle):
        [task] = desk.claim(alice, start=True)
        assert plot.named(task.id) == name
        desk.report(alice, task, "completed")
        assert number == 499 or number % 100 or plot.statuses()["bottom"] == "blocked"
    assert plot.rows()["bottom"] == ("pending", 2, None, None)


def test_a_fan_whose_top_fails_fails_as_a_whole(plot, alice) -> None:
    middle = [f"m{number}" for number in range(500)]
    plot.draw(top="", **dict.fromkeys(middle, "top"), bottom=" ".join(middle))
    plot.fail("top", alice)
    rows = plot.rows()
    assert {row[0] for row in rows.values()} == {"failed"}
    assert {rows[name][1:] for name in middle} == {(2, "top", "dependency top failed")}
    assert rows["bottom"][1] == 2


def chain(desk, bob, job, length):
    """A chain of tasks, written past the rules; the id of its first."""
    first = desk.submit_many(bob, job, length)
    [(lowest, highest)] = desk.read("SELECT min(seq), max(seq) FROM task")
    assert highest - lowest == length - 1
    tables.write(
        desk.queue,
        "UPDATE task SET status = 'blocked', has_dependencies = 1"
        " WHERE seq > (SELECT min(seq) FROM task)",
        "UPDATE task SET has_dependents = 1 WHERE seq < (SELECT max(seq) FROM task)",
        "INSERT INTO edge (dependency_id, dependent_seq, condition, state)"
        " SELECT id, seq + 1, 'afterok', 'waiting' FROM task WHERE has_dependents = 1",
    )
    return first


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_a_long_chain_whose_head_ends_badly_ends_in_one_transaction(
    plot, desk, alice, bob, *, end, tally, store
) -> None:
    """C39: a 10,000-long chain whose first fails: all at once, no recursion error."""
    first = chain(desk, bob, plot.job, CHAIN)
    said = {"error": "boom", "final": True} if end == "failed" else {}
    if end == "failed":
        desk.run_one(alice)
    began = time.monotonic()
    desk.report(alice if end == "failed" else bob, first, end, **said)
    seconds = time.monotonic() - began
    tally(f"a chain of {CHAIN:,} whose head {end} on {store}: {seconds:.2f} s")
    counts = "SELECT status, version, count(*) FROM task GROUP BY status, version"
    assert set(desk.read(counts)) == {
        (end, 3 if end == "failed" else 2, 1),
        ("failed", 2, CHAIN - 1),
    }
    assert seconds < CHAIN_SECONDS


def test_the_end_of_a_long_chains_head_sets_one_free(plot, desk, alice, bob) -> None:
    """Only the next one is promoted; what that costs is counted in tests/roundtrips."""
    first = chain(desk, bob, plot.job, CHAIN)
    desk.run_one(alice)
    desk.report(alice, first, "completed")
    assert desk.read("SELECT status, count(*) FROM task GROUP BY status ORDER BY status") == [
        ("blocked", CHAIN - 2),
        ("completed", 1),
        ("pending", 1),
    ]


# --- damage -----------------------------------------------------------------------------------


def test_a_damaged_task_fails_at_its_claim_and_settles(plot, desk, alice) -> None:
    plot.draw(a="", b="a", c="a:afternotok")
    plot.rewrite("a", "payload = '[1]'")
    assert desk.claim_one(alice).id == plot.ids["c"]
    assert plot.statuses() == {"a": "failed", "b": "failed", "c": "claimed"}


def test_a_damaged_dependent_is_promoted_and_then_fails_at_its_claim(plot, desk, alice) -> None:
    plot.draw(a="", b="a", c="b:afternotok")
    plot.rewrite("b", "payload = 'no JSON'")
    plot.complete("a", alice)
    assert plot.statuses()["b"] == "pending"
    assert desk.claim_one(alice).id == plot.ids["c"]
    assert plot.statuses() == {"a": "completed", "b": "failed", "c": "claimed"}


def test_a_damaged_task_of_a_lost_worker_settles(plot, desk, alice) -> None:
    plot.draw(a="", b="a")
    plot.start("a", alice)
    plot.rewrite("a", "attempt = 0")
    lose(desk)
    assert plot.statuses() == {"a": "failed", "b": "failed"}


def test_what_depends_on_a_removed_task_keeps_what_came_of_it(plot, desk, alice) -> None:
    """Retention removes a dependency; its dependents stay as they are, and are still shown."""
    plot.draw(a="", z="", b="a z")
    plot.complete("a", alice)
    desk.write(f"DELETE FROM task WHERE id = '{plot.ids['a']}'")  # noqa: S608 - an id of ours
    assert plot.edges_of("b") == [
        ["a", "afterok", "met", None],
        ["z", "afterok", "waiting", "pending"],
    ]
    plot.complete("z", alice)
    assert plot.rows()["b"][0] == "pending"
