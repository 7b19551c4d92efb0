"""What has ended is kept for its time, and then removed (contract, *The sweep*, step 6)."""

from __future__ import annotations

import pytest

from jobroom.errors import TaskNotFound

WEEK = 7 * 24 * 3600
DAY = 24 * 3600


def ended(desk, alice, bob, job, status="completed", **new):
    task = desk.submit(bob, job, **new)
    desk.run_one(alice)
    return desk.report(alice, task, status)


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_an_ended_task_is_removed_after_its_retention(desk, alice, bob, rotate, status) -> None:
    task = ended(desk, alice, bob, rotate, status)
    desk.wait(WEEK - 60)
    assert desk.sweep().removed_tasks == 0
    desk.wait(61)
    assert desk.sweep().removed_tasks == 1
    with pytest.raises(TaskNotFound):
        desk.get(bob, task)


def test_a_jobs_own_time_goes_before_the_settings(desk, alice, bob) -> None:
    """Contract, *Jobs*: ``result_ttl_seconds``."""
    job = desk.job(alice, result_ttl_seconds=10)
    task = ended(desk, alice, bob, job)
    desk.wait(11)
    assert desk.sweep().removed_tasks == 1
    with pytest.raises(TaskNotFound):
        desk.get(bob, task)


def test_a_task_that_the_sweep_failed_is_kept_for_its_time_too(desk, alice, bob) -> None:
    job = desk.job(alice, result_ttl_seconds=100)
    desk.submit(bob, job, expires_at=desk.soon(1))
    desk.wait(2)
    report = desk.sweep()
    assert (report.expired_tasks, report.removed_tasks) == (1, 0)
    desk.wait(101)
    assert desk.sweep().removed_tasks == 1


def test_an_unfinished_task_is_never_removed(desk, alice, bob, rotate) -> None:
    task = desk.submit(bob, rotate)
    desk.wait(WEEK * 10)
    desk.sweep()
    assert desk.get(bob, task).status == "pending"


def test_a_task_whose_idempotency_key_lives_is_kept(desk, alice, bob) -> None:
    """Rules, *Idempotency*: retention never removes a task while its key lives."""
    job = desk.job(alice, result_ttl_seconds=10)
    ended(desk, alice, bob, job, idempotency_key="k", fingerprint="f")
    desk.wait(DAY - 60)
    assert desk.sweep().removed_tasks == 0
    assert desk.submitted(bob, job, idempotency_key="k", fingerprint="f").replayed
    desk.wait(61)
    assert desk.sweep().removed_tasks == 1


def test_a_retried_task_is_no_longer_to_be_removed(desk, alice, bob) -> None:
    job = desk.job(alice, result_ttl_seconds=10)
    task = ended(desk, alice, bob, job, "failed")
    desk.retry(bob, task)
    desk.wait(11)
    assert desk.sweep().removed_tasks == 0
    assert desk.get(bob, task).status == "pending"


def test_removal_goes_on_in_bounded_steps(desk, alice, bob, monkeypatch) -> None:
    """Rules, *Sweep*."""
    from jobroom.service import sweeping

    monkeypatch.setattr(desk.queue.database, "batch", 3)
    job = desk.job(alice, result_ttl_seconds=10)
    for status in ("completed", "failed", "cancelled") * 3:
        ended(desk, alice, bob, job, status)
    desk.wait(11)
    assert desk.queue.run(sweeping.remove_old).removed_tasks == 3
    assert desk.sweep().removed_tasks == 6


def test_old_notices_are_forgotten(desk, alice, bob, rotate) -> None:
    """Rules, *Cancel*: after 10 minutes."""
    ended(desk, alice, bob, rotate, "cancelled")
    desk.wait(601)
    desk.sweep()
    assert desk.read("SELECT count(*) FROM notice") == [(0,)]
