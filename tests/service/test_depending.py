"""Submitting tasks that depend on others (issue 4; rules, *Graph over REST*)."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from jobroom.domain.records import Caller
from jobroom.errors import (
    DependencyCycle,
    DependencyNotFound,
    Forbidden,
    InvalidTaskTransition,
    TaskExists,
    ValidationFailed,
)
from jobroom.service import submission
from jobroom.store import tasks as task_rows

AN_ID = "0190163d-8694-739b-aea5-966c26f8ad91"
DAY = 24 * 3600
TABLES = ("task", "edge", "fair_turn", "job", "notice")


def after(*tasks, condition="afterok"):
    return tuple((task.id, condition) for task in tasks)


def edges_of(desk, caller, task):
    """What a task depends on: id -> (condition, state)."""
    found = json.loads(desk.view(caller, task).edges or "[]")
    return {task_id: (condition, state) for task_id, condition, state, *_ in found}


def rows(desk):
    """How many rows there are, and the sum of their versions."""
    counts = [desk.read(f"SELECT count(*) FROM {name}")[0][0] for name in TABLES]  # noqa: S608 - our own names
    return [*counts, desk.read("SELECT coalesce(sum(version), 0) FROM task")[0][0]]


def end(desk, worker, task, status):
    """Bring a pending task to that end."""
    if status != "cancelled":
        assert desk.run_one(worker).id == task.id
    desk.report(worker, task, status)


# --- what a new task begins as ----------------------------------------------------------------


def test_a_task_that_waits_for_another_is_blocked(desk, bob, rotate) -> None:
    """Contract, *States*: ``blocked`` exists for tasks with ``depends_on``."""
    first = desk.submit(bob, rotate)
    second = desk.submit(bob, rotate, depends_on=after(first))
    assert (second.status, second.has_dependencies) == ("blocked", 1)
    assert edges_of(desk, bob, second) == {first.id: ("afterok", "waiting")}


@pytest.mark.parametrize(
    ("ended", "condition", "begins"),
    [
        ("completed", "afterok", "pending"),
        ("completed", "afternotok", "failed"),
        ("completed", "afterany", "pending"),
        ("failed", "afterok", "failed"),
        ("failed", "afternotok", "pending"),
        ("failed", "afterany", "pending"),
        ("cancelled", "afterok", "failed"),
        ("cancelled", "afternotok", "pending"),
        ("cancelled", "afterany", "pending"),
    ],
)
def test_a_dependency_that_has_ended_decides_at_once(
    desk, alice, rotate, *, ended, condition, begins
) -> None:
    first = desk.submit(alice, rotate)
    end(desk, alice, first, ended)
    second = desk.submit(alice, rotate, depends_on=after(first, condition=condition))
    assert second.status == begins
    assert (second.failed_by, second.completed_at is None) == (
        (first.id, False) if begins == "failed" else (None, True)
    )
    if begins == "failed":
        assert second.error is not None
        assert second.error.startswith(f"dependency {first.id} ")
    else:
        assert desk.claim_one(alice).id == second.id


def test_one_that_failed_at_once_is_removed_when_its_retention_is_over(desk, alice) -> None:
    job = desk.job(alice, result_ttl_seconds=60)
    first = desk.submit(alice, job)
    end(desk, alice, first, "cancelled")
    second = desk.submit(alice, job, depends_on=after(first))
    assert second.due_at - second.created_at == 60_000_000


def test_a_dependency_named_twice_counts_once(desk, bob, rotate) -> None:
    first = desk.submit(bob, rotate)
    second = desk.submit(bob, rotate, depends_on=after(first, first))
    assert edges_of(desk, bob, second) == {first.id: ("afterok", "waiting")}


def test_a_dependency_named_twice_with_two_conditions_is_refused(desk, bob, rotate) -> None:
    first = desk.submit(bob, rotate)
    both = after(first) + after(first, condition="afterany")
    before = rows(desk)
    with pytest.raises(ValidationFailed) as caught:
        desk.submit(bob, rotate, depends_on=both)
    assert [fault.pointer for fault in caught.value.errors] == ["/depends_on/1"]
    assert rows(desk) == before


def test_a_task_with_1000_dependencies_waits_for_all(desk, bob, rotate) -> None:
    """Contract: a list of up to 1,000 ids."""
    first = desk.submit_many(bob, rotate, 1000)
    ids = [row[0] for row in desk.read("SELECT id FROM task")]
    second = desk.submit(bob, rotate, depends_on=tuple((each, "afterok") for each in ids))
    assert second.status == "blocked"
    assert desk.read("SELECT count(*) FROM edge WHERE state = 'waiting'") == [(1000,)]
    assert desk.read("SELECT min(has_dependents) FROM task WHERE status = 'pending'") == [(1,)]
    assert desk.get(bob, first).has_dependents == 1


def test_it_goes_on_when_its_dependency_completes(desk, alice, rotate) -> None:
    first = desk.submit(alice, rotate)
    second = desk.submit(alice, rotate, depends_on=after(first))
    desk.run_one(alice)
    done = desk.reported(alice, first, "completed", claim_next=True)
    assert done.next_task is not None
    assert done.next_task.task.id == second.id


# --- together with everything else ------------------------------------------------------------


def test_it_waits_for_its_run_at_when_its_dependencies_are_done(desk, alice, rotate) -> None:
    """Rules, *Time fields*."""
    first = desk.submit(alice, rotate)
    second = desk.submit(alice, rotate, depends_on=after(first), run_at=desk.soon(60))
    end(desk, alice, first, "completed")
    assert (desk.get(alice, second).status, desk.claim(alice)) == ("pending", [])
    desk.wait(61)
    assert desk.claim_one(alice).id == second.id


def test_it_expires_while_it_is_blocked(desk, alice, rotate) -> None:
    """Rules, *Time fields*: not started by then = failed."""
    first = desk.submit(alice, rotate)
    second = desk.submit(alice, rotate, depends_on=after(first), expires_at=desk.soon(5))
    desk.wait(6)
    desk.beat(alice)
    desk.sweep()
    assert desk.get(alice, second).status == "failed"


def test_it_has_priority_and_policy_of_its_own(desk, alice, rotate) -> None:
    first = desk.submit(alice, rotate)
    said = {"priority": 7, "max_attempts": 3, "timeout_seconds": 2.5, "payload": '{"a": 1.0}'}
    second = desk.submit(alice, rotate, depends_on=after(first), **said)
    assert {name: getattr(second, name) for name in said} == said


def test_it_takes_a_turn_of_its_room_in_a_fair_job(desk, admin) -> None:
    job = desk.job(admin, room_id="@global", claim_order="fair")
    first = desk.submit(admin, job, room_id="a")
    second = desk.submit(admin, job, room_id="a", depends_on=after(first))
    assert (first.turn, second.turn) == (0, 1)


def test_it_lists_a_hidden_job_again(desk, alice, bob, rotate) -> None:
    """Rules, *Jobs*: submitting to a hidden job: 202, and it is listed again."""
    other = desk.job(bob, "Other")
    first = desk.submit(bob, other)
    desk.leave(alice)
    assert rotate.full_name not in desk.listed(bob)
    second = desk.submit(bob, rotate, depends_on=after(first))
    assert second.status == "blocked"
    assert rotate.full_name in desk.listed(bob)


def test_one_checked_by_an_older_job_is_not_taken(desk, alice, bob, rotate) -> None:
    first = desk.submit(bob, rotate)
    desk.job(alice, schema='{"type": "object"}', replace=True)
    before = rows(desk)
    new = submission.NewTask(depends_on=after(first))
    done = desk.queue.run(submission.submit_task, caller=bob, room_id="r1", job=rotate, new=new)
    assert (done, rows(desk)) == (None, before)


@pytest.mark.parametrize("by", [{"idempotency_key": "k"}, {"id": AN_ID}])
def test_a_repeat_is_answered_though_a_dependency_is_gone(desk, alice, rotate, by) -> None:
    """Rules, *Idempotency*: the answer is the task as it is now."""
    first = desk.submit(alice, rotate)
    said = {"depends_on": after(first), "fingerprint": "f", **by}
    second = desk.submit(alice, rotate, **said)
    desk.write(f"DELETE FROM edge WHERE dependency_id = '{first.id}'")  # noqa: S608 - our own id
    desk.write(f"DELETE FROM task WHERE id = '{first.id}'")  # noqa: S608 - our own id
    again = desk.submitted(alice, rotate, **said)
    assert (again.replayed, again.view.task.id) == (True, second.id)


def test_an_old_key_is_free_again(desk, alice, rotate) -> None:
    first = desk.submit(alice, rotate)
    said = {"depends_on": after(first), "fingerprint": "f", "idempotency_key": "k"}
    second = desk.submit(alice, rotate, **said)
    desk.wait(DAY + 1)
    third = desk.submitted(alice, rotate, **said)
    assert not third.replayed
    assert third.view.task.id != second.id
    assert desk.submit(alice, rotate, **said).id == third.view.task.id


def test_an_id_that_is_taken_is_a_conflict(desk, alice, rotate) -> None:
    first = desk.submit(alice, rotate, id=AN_ID, fingerprint="f")
    with pytest.raises(TaskExists):
        desk.submit(alice, rotate, id=AN_ID, fingerprint="g", depends_on=after(first))


@pytest.mark.only_on("libsql", "postgresql")
def test_one_whose_answer_was_lost_is_found_again(desk, alice, rotate) -> None:
    """Design, *The write path*: a client-made token, so that a lost reply is looked up."""
    first = desk.submit(alice, rotate)
    new = submission.NewTask(depends_on=after(first))

    def again(tx):
        done = submission.submit_task(tx, caller=alice, room_id="r1", job=rotate, new=new)
        if not tx.is_repeat:
            tx.commit()
            tx.kept = True
            raise lost(desk.queue)
        return done

    done = desk.queue.run(again)
    assert not done.replayed
    assert desk.list(alice)[1] == 2


@pytest.mark.only_on("libsql", "postgresql")
def test_one_that_nobody_could_be_told_of_is_taken_back(desk, alice, rotate) -> None:
    first = desk.submit(alice, rotate)
    new = submission.NewTask(depends_on=after(first))
    undo = []

    def submit(tx):
        submission.submit_task(tx, caller=alice, room_id="r1", job=rotate, new=new)
        undo.append(tx.undo)

    before = rows(desk)[:2]
    desk.queue.run(submit)
    desk.queue.run(undo[0])
    assert rows(desk)[:2] == before


def lost(queue):
    """The error of a store that is lost while it is at work."""
    if type(queue.database).__name__ == "LibSQL":
        from jobroom.store.hrana.errors import Error

        return Error("the answer was lost", applied=None)
    from jobroom.store.postgres_session import PerhapsKeptError

    return PerhapsKeptError("the answer was lost")


# --- refusals ---------------------------------------------------------------------------------


def test_an_unknown_dependency_is_refused_by_its_id(desk, bob, rotate) -> None:
    """Acceptance C39: ``depends_on`` an unknown id."""
    before = rows(desk)
    with pytest.raises(DependencyNotFound, match=AN_ID) as caught:
        desk.submit(bob, rotate, depends_on=((AN_ID, "afterok"),))
    assert [fault.pointer for fault in caught.value.errors] == ["/depends_on/0"]
    assert rows(desk) == before


def test_a_dependency_that_may_not_be_seen_is_unknown(desk, bob, rotate) -> None:
    """Rules, *Graph over REST*: what the token may not see is ``dependency-not-found``."""
    first = desk.submit(bob, rotate)
    carol = Caller("carol", rooms=frozenset({"r2"}))
    other = desk.job(Caller("root", is_admin=True), "All", room_id="@global")
    with pytest.raises(DependencyNotFound):
        desk.submit(carol, other, room_id="r2", depends_on=after(first))


def test_dependencies_may_cross_rooms_that_the_token_sees(desk, bob, rotate) -> None:
    """Rules, *Graph over REST*."""
    first = desk.submit(bob, rotate)
    other = desk.job(bob, room_id="r2")
    second = desk.submit(bob, other, room_id="r2", depends_on=after(first))
    assert second.status == "blocked"


def test_of_a_dependency_in_another_room_the_id_alone_is_told(desk, bob, rotate) -> None:
    """Rules, *Who sees what*: who reads the task need not see the room of what it waits for."""
    same = desk.submit(bob, rotate)
    other = desk.submit(bob, desk.job(bob, room_id="r2"), room_id="r2")
    waiting = desk.submit(bob, rotate, depends_on=after(same, other))
    told = {each[0]: each[3:] for each in json.loads(desk.view(bob, waiting).edges)}
    assert told[other.id] == [None, None, None]
    assert told[same.id] == [None, "r1:modifiers:Rotate", "pending"]


def test_who_holds_a_task_may_depend_on_it_whatever_his_rooms(desk, admin, bob) -> None:
    """Rules, *Who sees what*: whoever holds a task may read it."""
    job = desk.job(admin, room_id="@global")
    carol = Caller("carol", rooms=frozenset({"r2"}))
    worker = desk.worker(carol)
    desk.write(
        "INSERT INTO worker_job_link (worker_id, job_seq)"  # noqa: S608 - our own ids
        f" VALUES ('{worker}', {job.seq})"
    )
    first = desk.submit(bob, job)
    assert desk.claim_one(Caller("carol"), worker).id == first.id
    assert desk.submit(carol, job, room_id="r2", depends_on=after(first)).status == "blocked"


def test_a_task_that_depends_on_itself_is_refused(desk, bob, rotate) -> None:
    """Acceptance C39: on itself: 422 naming the cycle."""
    before = rows(desk)
    with pytest.raises(DependencyCycle, match=f"'{AN_ID}' → '{AN_ID}'"):
        desk.submit(bob, rotate, id=AN_ID, fingerprint="f", depends_on=((AN_ID, "afterok"),))
    assert rows(desk) == before


# --- children of a running task ---------------------------------------------------------------


@pytest.fixture
def running(desk, alice, rotate):
    """A task that alice runs."""
    task = desk.submit(alice, rotate)
    return desk.run_one(alice) if task else None


@pytest.mark.parametrize("condition", ["afterok", "afterany"])
def test_what_waits_for_a_parent_waits_for_its_child(
    desk, alice, rotate, running, condition
) -> None:
    """Graph contract: every job that waits for the parent also waits for the new job."""
    waits = desk.submit(alice, rotate, depends_on=after(running, condition=condition))
    child = desk.submit(alice, rotate, parent=running.id)
    assert (child.status, child.has_dependents) == ("pending", 1)
    assert edges_of(desk, alice, waits)[child.id] == (condition, "waiting")
    desk.report(alice, running, "completed")
    assert desk.get(alice, waits).status == "blocked"
    end(desk, alice, child, "completed")
    assert desk.get(alice, waits).status == "pending"


def test_it_waits_for_grandchildren_too(desk, alice, rotate, running) -> None:
    waits = desk.submit(alice, rotate, depends_on=after(running))
    child = desk.submit(alice, rotate, parent=running.id)
    desk.report(alice, running, "completed")
    desk.run_one(alice)
    grandchild = desk.submit(alice, rotate, parent=child.id)
    desk.report(alice, child, "completed")
    assert desk.get(alice, waits).status == "blocked"
    end(desk, alice, grandchild, "completed")
    assert desk.get(alice, waits).status == "pending"


def test_a_parent_for_which_nobody_waits_changes_nothing(desk, alice, rotate, running) -> None:
    child = desk.submit(alice, rotate, parent=running.id)
    assert (child.status, child.has_dependents) == ("pending", 0)
    assert desk.read("SELECT count(*) FROM edge") == [(0,)]


def test_a_child_may_wait_for_its_parent_if_it_says_so(desk, alice, rotate, running) -> None:
    waits = desk.submit(alice, rotate, depends_on=after(running))
    child = desk.submit(alice, rotate, parent=running.id, depends_on=after(running))
    assert child.status == "blocked"
    assert child.id in edges_of(desk, alice, waits)


def test_a_child_that_fails_at_once_settles_what_waits_for_it(desk, alice, rotate, running) -> None:
    failed = desk.submit(alice, rotate)
    desk.report(alice, failed, "cancelled")
    waits = desk.submit(alice, rotate, depends_on=after(running))
    below = desk.submit(alice, rotate, depends_on=after(waits))
    child = desk.submit(alice, rotate, parent=running.id, depends_on=after(failed))
    assert child.status == "failed"
    assert [desk.get(alice, each).status for each in (waits, below)] == ["failed", "failed"]
    assert desk.get(alice, waits).failed_by == child.id


def test_what_waits_is_shown_as_changed(desk, alice, rotate, running) -> None:
    """Rules, *ETag*: it rises with what is shown."""
    waits = desk.submit(alice, rotate, depends_on=after(running))
    seen = []
    desk.queue.listeners.append(
        type("L", (), {"known": {}, "logs": {}, "tell": staticmethod(seen.extend)})()
    )
    desk.submit(alice, rotate, parent=running.id)
    assert desk.get(alice, waits).version == waits.version + 1
    assert (waits.id, waits.version + 1) in [(each.id, each.version) for each in seen]


def test_a_child_that_depends_on_what_waits_for_it_is_a_cycle(desk, alice, rotate, running) -> None:
    """Rules, *Graph over REST*: refused, and named."""
    waits = desk.submit(alice, rotate, depends_on=after(running))
    below = desk.submit(alice, rotate, depends_on=after(waits))
    for named in (waits, below):
        before = rows(desk)
        with pytest.raises(DependencyCycle, match=named.id):
            desk.submit(alice, rotate, parent=running.id, depends_on=after(named))
        assert rows(desk) == before


def test_a_way_through_what_has_ended_is_a_cycle_too(desk, alice, rotate, running) -> None:
    """Once it is retried it waits again: for the child, which waits for it; for ever."""
    waits = desk.submit(alice, rotate, depends_on=after(running))
    ended = desk.submit(alice, rotate, depends_on=after(waits, condition="afterany"))
    desk.report(alice, waits, "cancelled")
    end(desk, alice, ended, "failed")
    desk.retry(alice, waits)
    named = after(ended, condition="afterany")
    with pytest.raises(DependencyCycle, match=ended.id):
        desk.submit(alice, rotate, parent=running.id, depends_on=named)


def test_what_has_ended_does_not_wait_for_a_child(desk, alice, rotate, running) -> None:
    """Contract, *States*: terminal states never change."""
    waits = desk.submit(alice, rotate, depends_on=after(running))
    cancelled = desk.submit(alice, rotate, depends_on=after(running))
    was = desk.report(alice, cancelled, "cancelled")
    child = desk.submit(alice, rotate, parent=running.id)
    assert child.id in edges_of(desk, alice, waits)
    assert child.id not in edges_of(desk, alice, cancelled)
    assert desk.get(alice, cancelled).version == was.version


def test_a_parent_that_has_ended_is_a_conflict(desk, alice, rotate, running) -> None:
    """Rules, *Graph over REST*: a parent that ended: 409."""
    desk.report(alice, running, "completed")
    before = rows(desk)
    with pytest.raises(InvalidTaskTransition, match="has ended"):
        desk.submit(alice, rotate, parent=running.id)
    assert rows(desk) == before


def test_only_who_holds_a_task_may_name_it_as_a_parent(desk, bob, admin, rotate, running) -> None:
    """Rules, *Graph over REST*: the caller must hold that task."""
    for caller in (bob, admin):
        with pytest.raises(Forbidden):
            desk.submit(caller, rotate, parent=running.id)


def test_a_task_that_nobody_holds_is_no_parent(desk, alice, rotate) -> None:
    waiting = desk.submit(alice, rotate)
    with pytest.raises(Forbidden):
        desk.submit(alice, rotate, parent=waiting.id)


def test_an_unknown_parent_is_refused(desk, alice, rotate) -> None:
    with pytest.raises(DependencyNotFound) as caught:
        desk.submit(alice, rotate, parent=AN_ID)
    assert [fault.pointer for fault in caught.value.errors] == ["/parent"]


def test_a_chosen_id_that_somebody_waits_for_settles_him(desk, alice, rotate) -> None:
    """The embedded queue lets a task wait for one that is not there yet."""
    waits = desk.submit(alice, rotate, depends_on=after(desk.submit(alice, rotate)))
    desk.write(f"UPDATE edge SET dependency_id = '{AN_ID}'")  # noqa: S608 - a constant
    desk.claim_one(alice)
    parent = desk.submit(alice, rotate)
    new = {"id": AN_ID, "fingerprint": "f", "depends_on": after(parent, condition="afterany")}
    assert desk.submit(alice, rotate, **new).has_dependents == 1
    end(desk, alice, parent, "completed")
    found = desk.queue.run(lambda tx: task_rows.get(tx, AN_ID))
    assert found is not None
    end(desk, alice, found[0].task, "completed")
    assert desk.get(alice, waits).status == "pending"


# --- at the same moment -----------------------------------------------------------------------


def test_none_is_left_waiting_that_was_added_while_its_dependency_ended(
    desk, alice, bob, rotate, tally
) -> None:
    """Whoever ends a task settles all edges to it, those of this very moment too."""
    rounds, each = 8, 4
    begun = {"blocked": 0, "pending": 0}
    for _ in range(rounds):
        first = desk.submit(alice, rotate)
        desk.run_one(alice)
        start = threading.Barrier(each + 1)

        def add(start=start, first=first):
            start.wait(30)
            return desk.submit(bob, rotate, depends_on=after(first)).status

        with ThreadPoolExecutor(each) as threads:
            added = [threads.submit(add) for _ in range(each)]
            start.wait(30)
            desk.report(alice, first, "completed", attempt=1)
            for one in added:
                begun[one.result()] += 1
        assert desk.list(bob, statuses=("blocked",))[1] == 0
        for task in desk.claim(alice, limit=each, start=True):
            desk.report(alice, task, "completed")
    tally(**begun)
    assert desk.list(bob, statuses=("completed",))[1] == rounds * (each + 1)
