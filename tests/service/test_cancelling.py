"""Cancelling: by whom, what the worker is told, and for how long."""

from __future__ import annotations

import pytest

from jobroom.errors import Forbidden, InvalidTaskTransition
from jobroom.service.use_case import writes
from jobroom.store import notices


@pytest.fixture
def running(desk, alice, bob, rotate):
    """A task of bob's that alice runs."""
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    return task


@pytest.mark.parametrize("state", ["pending", "delayed", "claimed", "running"])
def test_the_creator_cancels_at_once_in_every_unfinished_state(
    desk, alice, bob, rotate, state
) -> None:
    """Rules, *Cancel*; C23."""
    task = desk.submit(bob, rotate, run_at=desk.soon(9) if state == "delayed" else None)
    if state in {"claimed", "running"}:
        desk.claim_one(alice, start=state == "running")
    ended = desk.report(bob, task, "cancelled")
    assert ended.status == "cancelled"
    assert ended.completed_at is not None
    desk.wait(10)
    assert desk.claim(alice) == []


def test_the_holder_cancels(desk, alice, running) -> None:
    assert desk.report(alice, running, "cancelled").status == "cancelled"


def test_an_admin_cancels(desk, admin, running) -> None:
    assert desk.report(admin, running, "cancelled").status == "cancelled"


def test_somebody_else_may_not_cancel(desk, alice, bob, running) -> None:
    """C23: another user: 403."""
    stranger = bob._replace(identity="mallory")
    with pytest.raises(Forbidden):
        desk.report(stranger, running, "cancelled")
    assert desk.get(bob, running).status == "running"


def test_a_worker_that_does_not_hold_it_may_not_cancel(desk, alice, bob, rotate) -> None:
    task = desk.submit(bob, rotate)
    with pytest.raises(Forbidden):
        desk.report(alice, task, "cancelled")


def test_a_former_holder_may_not_cancel(desk, alice, bob, rotate) -> None:
    task = desk.submit(bob, rotate)
    desk.claim_one(alice)
    desk.report(alice, task, "pending")
    with pytest.raises(Forbidden):
        desk.report(alice, task, "cancelled")


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_an_ended_task_cannot_be_cancelled(desk, alice, bob, running, status) -> None:
    """Rules, *Cancel*: on another terminal state 409."""
    desk.report(alice, running, status)
    with pytest.raises(InvalidTaskTransition, match=f"ended as {status}"):
        desk.report(bob, running, "cancelled")


def test_cancelling_twice_is_answered_twice(desk, bob, running) -> None:
    """Rules, *Cancel*: sent again by the same identity: 200."""
    first = desk.report(bob, running, "cancelled")
    desk.wait(5)
    assert desk.report(bob, running, "cancelled") == first


def test_a_cancel_repeated_by_somebody_else_is_forbidden(desk, bob, running) -> None:
    desk.report(bob, running, "cancelled")
    with pytest.raises(Forbidden):
        desk.report(bob._replace(identity="mallory"), running, "cancelled")


def test_a_reason_is_kept_as_the_error(desk, bob, running) -> None:
    assert desk.report(bob, running, "cancelled", error="changed my mind").error == (
        "changed my mind"
    )


def test_the_worker_stays_in_the_history(desk, bob, running) -> None:
    assert desk.report(bob, running, "cancelled").worker_id == "alice"


# --- what the worker is told ------------------------------------------------------------------


def test_the_worker_is_told_with_each_heartbeat(desk, alice, bob, running) -> None:
    """Rules, *Cancel*: the worker sees the id in each heartbeat's ``cancel``."""
    assert desk.beat(alice) == []
    desk.report(bob, running, "cancelled")
    assert desk.beat(alice) == [running.id]
    assert desk.beat(alice) == [running.id]


def test_only_the_worker_that_held_it_is_told(desk, alice, bob, running) -> None:
    other = desk.worker(alice)
    desk.report(bob, running, "cancelled")
    assert desk.beat(alice, other) == []


def test_nobody_is_told_of_a_task_that_nobody_held(desk, alice, bob, rotate) -> None:
    desk.report(bob, desk.submit(bob, rotate), "cancelled")
    assert desk.beat(alice) == []


@pytest.mark.parametrize("status", ["completed", "failed", "running", None])
def test_a_late_report_is_refused_and_ends_the_telling(desk, alice, bob, running, status) -> None:
    """Rules, *Cancel*: until it reports on it, its 409 counts; C23."""
    desk.report(bob, running, "cancelled")
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, running, status, attempt=1)
    assert desk.beat(alice) == []


def test_the_telling_ends_after_ten_minutes(desk, alice, bob, running) -> None:
    """Rules, *Cancel*: or 10 minutes."""
    desk.report(bob, running, "cancelled")
    desk.wait(599)
    assert desk.beat(alice) == [running.id]
    desk.wait(1)
    assert desk.beat(alice) == []


def test_a_worker_is_told_of_a_task_that_timed_out(desk, alice, bob) -> None:
    """Rules, *Cancel*: the list also names tasks taken from it by loss."""
    job = desk.job(alice, timeout_seconds=5)
    task = desk.submit(bob, job)
    desk.run_one(alice)
    desk.wait(6)
    desk.sweep()
    assert desk.beat(alice) == [task.id]


def test_a_worker_is_told_of_what_it_lost_while_it_was_away(desk, alice, bob, running) -> None:
    desk.wait(61)
    desk.sweep()
    assert desk.beat(alice) == [running.id]


@pytest.mark.parametrize("named", ["alice", None])
def test_a_late_report_on_what_was_requeued_ends_the_telling(desk, alice, bob, named) -> None:
    job = desk.job(alice, on_worker_lost="requeue", timeout_seconds=5)
    task = desk.submit(bob, job)
    desk.run_one(alice)
    desk.wait(6)
    desk.sweep()
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, task, "completed", attempt=1, worker_id=named)
    assert desk.beat(alice) == []


def test_a_late_report_of_one_worker_does_not_speak_for_another(desk, alice, bob, running) -> None:
    other = desk.worker(alice)
    desk.report(bob, running, "cancelled")
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, running, "completed", attempt=1, worker_id=other)
    assert desk.beat(alice) == [running.id]


def test_a_worker_that_claims_the_task_again_is_not_told_to_stop_it(desk, alice, bob) -> None:
    """The notice was of the attempt before; the SDK would stop the new one."""
    job = desk.job(alice, on_worker_lost="requeue", timeout_seconds=5)
    task = desk.submit(bob, job)
    desk.run_one(alice)
    desk.wait(6)
    desk.sweep()
    assert desk.run_one(alice).id == task.id
    assert desk.beat(alice) == []


def test_a_retried_task_that_the_worker_claims_again_is_not_to_be_stopped(
    desk, alice, bob, running
) -> None:
    desk.report(bob, running, "cancelled")
    desk.retry(bob, running)
    desk.run_one(alice)
    assert desk.beat(alice) == []


def test_a_worker_that_cancels_its_own_task_is_not_told_to_stop_it(desk, alice, running) -> None:
    """It named itself in the report, and so it knows."""
    desk.report(alice, running, "cancelled", worker_id="alice")
    assert desk.beat(alice) == []


def test_a_repeat_in_the_workers_own_name_ends_the_telling(desk, alice, running) -> None:
    """Rules, *Cancel*: until it reports on it; a repeat without a name may be the creator's."""
    desk.report(alice, running, "cancelled")
    desk.report(alice, running, "cancelled")
    assert desk.beat(alice) == [running.id]
    desk.report(alice, running, "cancelled", worker_id="alice")
    assert desk.beat(alice) == []


@writes
def notify(tx, *, task) -> None:
    notices.add(tx, worker_id="alice", task_id=task.id)


def test_a_second_notice_renews_the_first_ones_time(desk, alice, bob, running) -> None:
    """Each claim forgets the notice before it; should one be left, it must not age the new one."""
    desk.report(bob, running, "cancelled")
    desk.wait(500)
    desk.queue.run(notify, task=running)
    desk.wait(599)
    assert desk.beat(alice) == [running.id]
    desk.wait(1)
    assert desk.beat(alice) == []
