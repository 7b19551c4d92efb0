"""Failing with attempts left, and handing back."""

from __future__ import annotations

import pytest

from jobroom.errors import Forbidden, InvalidTaskTransition


def fail(desk, caller, task, **said):
    desk.run_one(caller)
    return desk.report(caller, task, "failed", error="boom", **said)


# --- failing ----------------------------------------------------------------------------------


def test_a_failure_is_final_with_the_default_of_one_attempt(desk, alice, bob, rotate) -> None:
    """Contract, *Failing with attempts left*: as in the seed."""
    ended = fail(desk, alice, desk.submit(bob, rotate))
    assert (ended.status, ended.error) == ("failed", "boom")


def test_a_failure_with_attempts_left_goes_back_to_pending(desk, alice, bob) -> None:
    """Contract: ``error`` kept; the 200 shows ``pending``; nobody holds it."""
    job = desk.job(alice, max_attempts=2)
    task = fail(desk, alice, desk.submit(bob, job))
    assert (task.status, task.error, task.starts) == ("pending", "boom", 1)
    assert (task.worker_id, task.claimed_at, task.started_at) == (None, None, None)


def test_the_last_attempt_that_fails_is_final(desk, alice, bob) -> None:
    """Contract: ``failed`` with ``starts < max_attempts`` goes back, else it is terminal."""
    job = desk.job(alice, max_attempts=3)
    task = desk.submit(bob, job)
    seen = [fail(desk, alice, task).status for _ in range(3)]
    assert seen == ["pending", "pending", "failed"]
    assert desk.get(bob, task).attempt == 3


def test_a_task_of_its_own_max_attempts_goes_by_them(desk, alice, bob) -> None:
    job = desk.job(alice, max_attempts=3)
    assert fail(desk, alice, desk.submit(bob, job, max_attempts=1)).status == "failed"


def test_final_skips_the_rest_of_the_attempts(desk, alice, bob) -> None:
    """Contract: ``final: true``."""
    job = desk.job(alice, max_attempts=3)
    assert fail(desk, alice, desk.submit(bob, job), final=True).status == "failed"


def test_a_failure_from_claimed_uses_up_an_attempt(desk, alice, bob) -> None:
    """With the default of 1 it is terminal, so it counts as a start."""
    job = desk.job(alice, max_attempts=2)
    task = desk.submit(bob, job)
    seen = []
    for _ in range(2):
        desk.claim_one(alice)
        seen.append(desk.report(alice, task, "failed", error="boom").status)
    assert seen == ["pending", "failed"]


def test_a_failed_task_keeps_its_place_among_the_pending(desk, alice, bob) -> None:
    job = desk.job(alice, max_attempts=2)
    first, _ = desk.submit(bob, job), desk.submit(bob, job)
    fail(desk, alice, first)
    assert desk.claim_one(alice).id == first.id


def test_the_delay_doubles_with_each_start(desk, alice, bob) -> None:
    """Contract: claimable after ``retry_delay_seconds`` x 2^(starts-1)."""
    job = desk.job(alice, max_attempts=4, retry_delay_seconds=10)
    task = desk.submit(bob, job)
    for delay in (10, 20, 40):
        assert fail(desk, alice, task).status == "pending"
        desk.wait(delay - 1)
        desk.beat(alice)
        assert desk.claim(alice) == []
        desk.wait(1)


def test_the_delay_is_at_most_an_hour(desk, alice, bob) -> None:
    """Contract: at most 1 h."""
    job = desk.job(alice, max_attempts=40, retry_delay_seconds=3000)
    task = desk.submit(bob, job)
    for _ in range(2):
        after = fail(desk, alice, task)
        desk.wait(3600)
    assert after.run_at is not None
    assert after.run_at <= desk.now()
    assert desk.claim_one(alice).attempt == 3


def test_an_automatic_retry_does_not_outlive_the_expiry(desk, alice, bob) -> None:
    """Rules, *Time fields*: the delay would end after ``expires_at``."""
    job = desk.job(alice, max_attempts=3, retry_delay_seconds=10)
    task = desk.submit(bob, job, expires_at=desk.soon(5))
    assert fail(desk, alice, task).status == "failed"


def test_an_automatic_retry_before_the_expiry_goes_back(desk, alice, bob) -> None:
    job = desk.job(alice, max_attempts=3, retry_delay_seconds=10)
    task = desk.submit(bob, job, expires_at=desk.soon(50))
    assert fail(desk, alice, task).status == "pending"
    desk.wait(51)
    assert desk.claim(alice) == []
    assert "expired" in desk.get(bob, task).error


def test_a_failure_without_an_error_past_its_expiry_may_be_repeated(desk, alice, bob) -> None:
    job = desk.job(alice, max_attempts=3, retry_delay_seconds=10)
    task = desk.submit(bob, job, expires_at=desk.soon(5))
    desk.run_one(alice)
    first = desk.report(alice, task, "failed", attempt=1)
    assert (first.status, first.error) == ("failed", None)
    assert desk.report(alice, task, "failed", attempt=1) == first


def test_success_after_a_failure_clears_the_error(desk, alice, bob) -> None:
    job = desk.job(alice, max_attempts=2)
    task = desk.submit(bob, job)
    fail(desk, alice, task)
    desk.run_one(alice)
    ended = desk.report(alice, task, "completed")
    assert (ended.status, ended.error) == ("completed", None)


# --- handing back -----------------------------------------------------------------------------


def test_a_claimed_task_is_handed_back_and_nothing_is_charged(desk, alice, bob, rotate) -> None:
    """Contract, *Handing back*: claimed -> pending at once, its place kept."""
    first, _ = desk.submit(bob, rotate), desk.submit(bob, rotate)
    desk.claim_one(alice)
    back = desk.report(alice, first, "pending")
    assert (back.status, back.starts, back.idle_claims) == ("pending", 0, 0)
    assert (back.worker_id, back.claimed_at) == (None, None)
    assert desk.claim_one(alice).id == first.id


def test_handing_back_does_not_count_as_an_idle_claim(desk, alice, bob, rotate) -> None:
    task = desk.submit(bob, rotate)
    for _ in range(15):
        desk.claim_one(alice)
        desk.report(alice, task, "pending")
    assert desk.get(bob, task).status == "pending"


def test_a_running_task_is_handed_back_only_if_its_job_requeues(desk, alice, bob, rotate) -> None:
    """Contract, *Handing back*: running -> pending only if the job says requeue."""
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    with pytest.raises(InvalidTaskTransition, match="does not requeue"):
        desk.report(alice, task, "pending")
    assert desk.get(bob, task).status == "running"


def test_a_running_task_that_is_handed_back_is_charged(desk, alice, bob) -> None:
    job = desk.job(alice, on_worker_lost="requeue", max_attempts=2)
    task = desk.submit(bob, job)
    desk.run_one(alice)
    assert desk.report(alice, task, "pending").starts == 1
    desk.run_one(alice)
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, task, "pending")


def test_only_the_holder_hands_back(desk, alice, bob, rotate) -> None:
    task = desk.submit(bob, rotate)
    desk.claim_one(alice)
    with pytest.raises(Forbidden):
        desk.report(bob, task, "pending")
    assert desk.get(bob, task).status == "claimed"


def test_an_admin_hands_back_for_a_worker(desk, alice, bob, admin, rotate) -> None:
    task = desk.submit(bob, rotate)
    desk.claim_one(alice)
    assert desk.report(admin, task, "pending").status == "pending"


def test_a_task_that_was_handed_back_expires_in_its_time(desk, alice, bob, rotate) -> None:
    task = desk.submit(bob, rotate, expires_at=desk.soon(50))
    desk.claim_one(alice)
    desk.report(alice, task, "pending")
    desk.wait(51)
    desk.sweep()
    assert "expired" in desk.get(bob, task).error


@pytest.mark.parametrize("status", ["failed", "pending"])
@pytest.mark.parametrize("start", [True, False])
def test_progress_and_message_beside_what_goes_back_are_kept(
    desk, alice, bob, *, status, start
) -> None:
    job = desk.job(alice, on_worker_lost="requeue", max_attempts=3)
    task = desk.submit(bob, job)
    desk.claim_one(alice, start=start)
    back = desk.report(alice, task, status, progress=0.5, message="at step 5")
    assert (back.status, back.progress, back.message) == ("pending", 0.5, "at step 5")
