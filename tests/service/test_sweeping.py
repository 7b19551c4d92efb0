"""The sweep: each of its steps, what it counts, and that it may be run twice and cut off."""

from __future__ import annotations

import threading

import pytest

from jobroom.domain.records import SweepReport
from jobroom.service import sweeping
from jobroom.service.queue import JobQueue


def test_a_sweep_with_nothing_to_do_counts_nothing(desk) -> None:
    assert desk.sweep() == SweepReport()


def test_a_second_sweep_finds_nothing_left_to_do(desk, alice, bob, rotate) -> None:
    """Contract, *The sweep*: safe to run twice."""
    desk.submit(bob, rotate)
    desk.run_one(alice)
    desk.wait(61)
    assert desk.sweep().failed_tasks == 1
    assert desk.sweep() == SweepReport()


# --- (1) and (2): workers ---------------------------------------------------------------------


def test_lost_workers_are_counted_with_their_tasks(desk, alice, bob) -> None:
    """(1) Lost workers."""
    for n in range(3):
        worker = desk.worker(alice)
        job = desk.job(alice, f"Job{n}", worker_id=worker, on_worker_lost="requeue")
        desk.submit(bob, job)
        desk.claim_one(alice, worker)
    desk.wait(61)
    report = desk.sweep()
    assert (report.lost_workers, report.requeued_tasks, report.failed_tasks) == (3, 3, 0)


def test_a_task_held_by_a_worker_that_does_not_exist_is_freed(desk, alice, bob, rotate) -> None:
    """(2) Tasks held by workers that no longer exist."""
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    desk.write("UPDATE task SET worker_id = 'nobody'")
    assert desk.sweep().failed_tasks == 1
    assert "worker nobody no longer exists" in desk.get(bob, task).error


def test_each_step_deals_with_a_bounded_number_of_rows(desk, alice, bob, monkeypatch) -> None:
    """Rules, *Sweep*: at most 100 rows a step; the sweep goes on until nothing is left."""
    monkeypatch.setattr(desk.queue.database, "batch", 4)
    job = desk.job(alice, on_worker_lost="requeue")
    for _ in range(11):
        desk.submit(bob, job)
    desk.claim(alice, limit=11)
    desk.wait(61)
    first = desk.queue.run(sweeping.lose_workers)
    assert (first.lost_workers, first.requeued_tasks) == (1, 4)
    assert desk.queue.run(sweeping.free_tasks_of_vanished).requeued_tasks == 4
    assert desk.sweep().requeued_tasks == 3
    assert desk.list(bob, statuses=("pending",))[1] == 11


def test_a_sweep_goes_on_after_a_full_step(desk, alice, bob, monkeypatch) -> None:
    monkeypatch.setattr(desk.queue.database, "batch", 2)
    job = desk.job(alice)
    for _ in range(5):
        desk.submit(bob, job, expires_at=desk.soon(1))
    desk.wait(2)
    assert desk.sweep().expired_tasks == 5


def test_a_sweep_that_is_cut_off_keeps_what_it_committed(desk, alice, bob, rotate) -> None:
    """Contract, *The sweep*: safe to be cut off at any point."""
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    desk.wait(61)
    desk.queue.run(sweeping.lose_workers)
    assert desk.get(bob, task).status == "failed"
    assert desk.sweep().hidden_jobs == 1


def test_a_sweep_without_time_does_nothing(desk, alice, bob, rotate) -> None:
    desk.wait(61)
    assert desk.queue.sweep(seconds=0) == SweepReport()
    assert desk.sweep().lost_workers == 1


# --- (3): timeouts and expiry -----------------------------------------------------------------


@pytest.mark.parametrize(("policy", "status"), [("fail", "failed"), ("requeue", "pending")])
def test_a_timeout_ends_that_task_alone_by_the_policy(desk, alice, bob, policy, status) -> None:
    """Contract, *Losing a worker*: a task's own ``timeout_seconds``; the worker stays."""
    job = desk.job(alice, on_worker_lost=policy, timeout_seconds=5)
    task, other = desk.submit(bob, job), desk.submit(bob, job, timeout_seconds=50)
    desk.run_one(alice)
    desk.run_one(alice)
    desk.wait(6)
    report = desk.sweep()
    assert (report.timed_out_tasks, report.lost_workers) == (1, 0)
    assert desk.get(bob, task).status == status
    assert desk.get(bob, other).status == "running"
    assert desk.workers(alice) == ["alice"]


def test_the_error_of_a_timeout_names_it(desk, alice, bob) -> None:
    task = desk.submit(bob, desk.job(alice, timeout_seconds=5))
    desk.run_one(alice)
    desk.wait(6)
    desk.sweep()
    assert desk.get(bob, task).error == (
        "Task timed out while running by worker alice (start 1 of 1, attempt 1)."
    )


def test_a_timeout_counts_from_the_start(desk, alice, bob) -> None:
    """Contract: from ``started_at``."""
    task = desk.submit(bob, desk.job(alice, timeout_seconds=10))
    desk.claim_one(alice)
    desk.wait(8)
    desk.report(alice, task, "running")
    desk.wait(8)
    assert desk.sweep().timed_out_tasks == 0
    desk.wait(3)
    assert desk.sweep().timed_out_tasks == 1


def test_a_timeout_counts_from_the_claim_if_it_never_started(desk, alice, bob) -> None:
    """Contract: from ``claimed_at`` if never started."""
    task = desk.submit(bob, desk.job(alice, timeout_seconds=5))
    desk.claim_one(alice)
    desk.wait(6)
    assert desk.sweep().timed_out_tasks == 1
    assert "timed out while claimed" in desk.get(bob, task).error


def test_a_claim_timeout_frees_what_was_never_started(desk, alice, bob) -> None:
    """C11: the reply of a claim was lost; ``claim_timeout_seconds`` brings the task back."""
    job = desk.job(alice, on_worker_lost="requeue", claim_timeout_seconds=5)
    task = desk.submit(bob, job)
    desk.claim_one(alice)
    desk.wait(6)
    desk.beat(alice)
    desk.sweep()
    assert desk.get(bob, task).status == "pending"
    desk.run_one(alice)
    desk.wait(6)
    desk.sweep()
    assert desk.get(bob, task).status == "running"


def test_what_a_beating_worker_claimed_waits_for_its_start(desk, alice, bob, rotate) -> None:
    """Rules, *Claim*: nothing held by a beating worker expires for want of a start."""
    task = desk.submit(bob, rotate, expires_at=desk.soon(10))
    desk.claim_one(alice)
    for _ in range(13):  # ten minutes and more: the longest of all spans but retention
        desk.wait(50)
        desk.beat(alice)
        desk.sweep()
    assert desk.report(alice, task, "running").status == "running"


@pytest.mark.parametrize("delay", [None, 3, 99])
def test_a_task_that_nobody_started_in_time_expires(desk, bob, rotate, delay) -> None:
    """(3), rules, *Time fields*: not started by ``expires_at`` = failed "expired"."""
    run_at = None if delay is None else desk.soon(delay)
    task = desk.submit(bob, rotate, run_at=run_at, expires_at=desk.soon(5))
    assert desk.sweep().expired_tasks == 0
    desk.wait(6)
    assert desk.sweep().expired_tasks == 1
    ended = desk.get(bob, task)
    assert ended.status == "failed"
    assert "expired" in ended.error


# --- (4): orphan jobs -------------------------------------------------------------------------


def test_an_orphan_job_is_hidden(desk, alice, bob, rotate) -> None:
    """(4) No live worker and no unfinished task."""
    desk.wait(61)
    assert desk.sweep().hidden_jobs == 1
    assert desk.listed(bob) == []


@pytest.mark.parametrize("state", ["pending", "delayed"])
def test_a_job_with_an_unfinished_task_is_not_hidden(desk, alice, bob, rotate, state) -> None:
    desk.submit(bob, rotate, run_at=desk.soon(999) if state == "delayed" else None)
    desk.wait(61)
    assert desk.sweep().hidden_jobs == 0
    assert desk.listed(bob) == [rotate.full_name]


def test_a_job_is_hidden_with_the_last_task_that_its_lost_worker_held(
    desk, alice, bob, rotate
) -> None:
    desk.submit(bob, rotate)
    desk.run_one(alice)
    desk.wait(61)
    report = desk.sweep()
    assert (report.lost_workers, report.failed_tasks, report.hidden_jobs) == (1, 1, 1)


def test_a_lost_workers_job_remembers_when_it_was_seen(desk, alice, bob) -> None:
    worker = desk.worker(alice)
    job = desk.job(alice, worker_id=worker)
    seen = desk.now()
    desk.beat(alice, worker)
    desk.wait(61)
    desk.sweep()
    view = desk.show(bob, job.full_name)
    assert view.last_seen is not None
    assert seen <= view.last_seen <= seen + 5_000_000


# --- two at once ------------------------------------------------------------------------------


def test_two_sweeps_at_once_deal_with_each_task_once(desk, alice, bob, settings) -> None:
    """C04: fifty stale workers with two running tasks each; the counts add up to a hundred."""
    job = desk.job(alice)
    for _ in range(50):
        worker = desk.worker(alice)
        desk.job(alice, worker_id=worker)
        desk.submit(bob, job)
        desk.submit(bob, job)
        assert len(desk.claim(alice, worker, limit=2, start=True)) == 2
    desk.wait(61)
    reports: list[SweepReport] = []
    at_once = threading.Barrier(2)

    def sweep(queue: JobQueue) -> None:
        at_once.wait(10)
        reports.append(queue.sweep())

    with JobQueue.open(settings, clock_offset=desk.queue.clock_offset) as other:
        threads = [threading.Thread(target=sweep, args=(queue,)) for queue in (desk.queue, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(reports) == 2
    assert sum(report.failed_tasks for report in reports) == 100
    assert sum(report.lost_workers for report in reports) == 51
    assert desk.list(bob, statuses=("failed",))[1] == 100
