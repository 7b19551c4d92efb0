"""Retrying by hand: a failed or cancelled task begins again."""

from __future__ import annotations

import pytest

from jobroom.errors import Forbidden, InvalidTaskTransition
from jobroom.service import retrying


@pytest.fixture
def failed(desk, alice, bob):
    """A task of bob's that used up its two attempts."""
    job = desk.job(alice, max_attempts=2)
    task = desk.submit(bob, job)
    for _ in range(2):
        desk.run_one(alice)
        desk.report(alice, task, "failed", error="boom", progress=0.5, message="half")
    assert desk.get(bob, task).status == "failed"
    return task


def test_a_failed_task_is_pending_again(desk, bob, failed) -> None:
    """Contract, *Tasks*: ``POST /tasks/{id}/retry``."""
    task = desk.retry(bob, failed)
    assert task.status == "pending"
    gone = (task.completed_at, task.started_at, task.worker_id, task.error, task.progress)
    assert gone == (None,) * 5


def test_a_cancelled_task_is_pending_again(desk, alice, bob, rotate) -> None:
    """Rules, *Retry*: on failed and cancelled."""
    task = desk.submit(bob, rotate)
    desk.report(bob, task, "cancelled")
    assert desk.retry(bob, task).status == "pending"
    assert desk.claim_one(alice).id == task.id


def test_starts_begin_again_and_attempt_goes_on(desk, alice, bob, failed) -> None:
    """Rules, *Retry*: ``starts`` back to 0, ``attempt`` goes on."""
    task = desk.retry(bob, failed)
    assert (task.starts, task.attempt) == (0, 2)
    again = desk.run_one(alice)
    assert (again.starts, again.attempt) == (1, 3)


def test_a_retried_task_has_all_its_attempts_again(desk, alice, bob, failed) -> None:
    desk.retry(bob, failed)
    desk.run_one(alice)
    assert desk.report(alice, failed, "failed", error="boom").status == "pending"


@pytest.mark.parametrize("state", ["pending", "claimed", "running", "completed"])
def test_only_a_failed_or_cancelled_task_is_retried(desk, alice, bob, rotate, state) -> None:
    """Rules, *Retry*: completed 409."""
    task = desk.submit(bob, rotate)
    if state != "pending":
        desk.claim_one(alice, start=state != "claimed")
    if state == "completed":
        desk.report(alice, task, "completed")
    with pytest.raises(InvalidTaskTransition, match=f"is {state}"):
        desk.retry(bob, task)


def test_the_holder_may_not_retry(desk, alice, failed) -> None:
    """Contract, *Tasks*: creator or admin."""
    with pytest.raises(Forbidden):
        desk.retry(alice, failed)


def test_an_admin_may_retry(desk, admin, failed) -> None:
    assert desk.retry(admin, failed).status == "pending"


def test_a_past_expiry_is_cleared(desk, alice, bob, rotate) -> None:
    """Rules, *Time fields*: manual retry clears a past one."""
    task = desk.submit(bob, rotate, expires_at=desk.soon(5))
    desk.wait(6)
    desk.sweep()
    assert desk.retry(bob, task).expires_at is None
    assert desk.claim_one(alice).id == task.id


def test_an_expiry_that_lies_ahead_is_kept(desk, bob, rotate) -> None:
    task = desk.submit(bob, rotate, expires_at=desk.soon(50))
    desk.report(bob, task, "cancelled")
    assert desk.retry(bob, task).expires_at == task.expires_at
    desk.wait(51)
    desk.sweep()
    assert desk.get(bob, task).status == "failed"


def test_a_task_whose_time_lies_ahead_waits_for_it(desk, alice, bob, rotate) -> None:
    task = desk.submit(bob, rotate, run_at=desk.soon(50))
    desk.report(bob, task, "cancelled")
    desk.retry(bob, task)
    assert desk.claim(alice) == []
    desk.wait(50)
    assert desk.claim_one(alice).id == task.id


def test_a_retried_task_has_its_old_place(desk, alice, bob, failed, rotate) -> None:
    desk.submit(bob, rotate)
    desk.retry(bob, failed)
    assert desk.claim_one(alice).id == failed.id


def test_a_dry_run_shows_the_task_and_changes_nothing(desk, bob, failed) -> None:
    """Rules, *Retry*: ``?dry_run=true`` lists first."""
    before = desk.get(bob, failed)
    plan = desk.queue.run(retrying.plan_retry, caller=bob, task_id=failed.id)
    assert plan == retrying.RetryPlan([failed.id], hidden=0)
    assert desk.get(bob, failed) == before


def test_a_dry_run_is_refused_as_the_retry_would_be(desk, alice, bob, rotate, failed) -> None:
    with pytest.raises(Forbidden):
        desk.queue.run(retrying.plan_retry, caller=alice, task_id=failed.id)
    pending = desk.submit(bob, rotate)
    with pytest.raises(InvalidTaskTransition):
        desk.queue.run(retrying.plan_retry, caller=bob, task_id=pending.id)
