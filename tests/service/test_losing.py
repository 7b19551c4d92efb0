"""Losing a worker: by its heartbeat or by its deletion, and coming back."""

from __future__ import annotations

import pytest

from jobroom.errors import InvalidTaskTransition, WorkerNotFound


def lose(desk):
    desk.wait(61)
    return desk.sweep()


@pytest.fixture
def requeued(desk, alice):
    """A job that requeues what a lost worker held, three times in all."""
    return desk.job(alice, on_worker_lost="requeue")


# --- what becomes of its tasks ----------------------------------------------------------------


def test_a_lost_workers_tasks_fail_and_say_what_happened(desk, alice, bob, rotate) -> None:
    """Contract, *Losing a worker*: what, how often, and who."""
    tasks = [desk.submit(bob, rotate) for _ in range(2)]
    desk.claim_one(alice)
    desk.run_one(alice)
    report = lose(desk)
    assert (report.lost_workers, report.failed_tasks, report.requeued_tasks) == (1, 2, 0)
    claimed, running = (desk.get(bob, task) for task in tasks)
    assert claimed.error == (
        "Worker disconnected: worker alice sent no heartbeat for 60 s (never started, attempt 1)."
    )
    assert running.error == (
        "Worker disconnected: worker alice sent no heartbeat for 60 s (start 1 of 1, attempt 1)."
    )


def test_a_worker_that_beats_in_time_loses_nothing(desk, alice, bob, rotate) -> None:
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    for _ in range(5):
        desk.wait(30)
        desk.beat(alice)
        desk.sweep()
    assert desk.get(bob, task).status == "running"


def test_a_worker_at_its_timeout_is_not_yet_lost(desk, alice, bob, rotate) -> None:
    """Contract: lost when its last heartbeat is *older* than the timeout."""
    desk.submit(bob, rotate)
    task = desk.run_one(alice)
    desk.wait(59.5)
    desk.sweep()
    assert desk.get(bob, task).status == "running"


def test_with_requeue_the_task_goes_back_and_nobody_holds_it(desk, alice, bob, requeued) -> None:
    """Contract: back to ``pending`` if the job says ``requeue``."""
    task = desk.submit(bob, requeued)
    desk.run_one(alice)
    report = lose(desk)
    back = desk.get(bob, task)
    assert (report.requeued_tasks, report.failed_tasks) == (1, 0)
    assert (back.status, back.worker_id, back.starts, back.attempt) == ("pending", None, 1, 1)


def test_a_requeued_task_keeps_its_place(desk, alice, bob, requeued) -> None:
    first, _ = desk.submit(bob, requeued), desk.submit(bob, requeued)
    desk.run_one(alice)
    lose(desk)
    assert desk.claim_one(alice).id == first.id


def test_a_task_lost_at_each_start_fails_after_its_attempts(desk, alice, bob, requeued) -> None:
    """C07: requeue, three starts, the worker dies at every one: not claimed a fourth time."""
    task = desk.submit(bob, requeued)
    for _ in range(3):
        assert desk.run_one(alice).id == task.id
        lose(desk)
    ended = desk.get(bob, task)
    assert ended.status == "failed"
    assert "start 3 of 3, attempt 3" in ended.error
    assert desk.claim(alice) == []


def test_only_what_was_started_is_charged(desk, alice, bob, requeued) -> None:
    """C08: one running task and nine claimed ones: only the first is charged a start."""
    tasks = [desk.submit(bob, requeued) for _ in range(10)]
    desk.run_one(alice)
    desk.claim(alice, limit=9)
    lose(desk)
    assert [desk.get(bob, task).starts for task in tasks] == [1] + [0] * 9


def test_a_requeued_task_does_not_outlive_its_expiry(desk, alice, bob, requeued) -> None:
    """Rules, *Time fields*: an automatic retry does not outlive it."""
    task = desk.submit(bob, requeued, expires_at=desk.soon(30))
    desk.run_one(alice)
    lose(desk)
    assert desk.get(bob, task).status == "failed"


def test_a_running_task_is_not_touched_by_its_expiry(desk, alice, bob, rotate) -> None:
    """Rules, *Time fields*: running is not touched."""
    task = desk.submit(bob, rotate, expires_at=desk.soon(5))
    desk.run_one(alice)
    desk.wait(30)
    desk.sweep()
    assert desk.report(alice, task, "completed").status == "completed"


# --- a report that comes after that -----------------------------------------------------------


@pytest.mark.parametrize("attempt", [1, None])
@pytest.mark.parametrize("status", ["completed", "failed", "running", None])
def test_a_report_after_the_loss_is_late(desk, alice, bob, *, rotate, status, attempt) -> None:
    """Contract, *Losing a worker*, C01: 409; one terminal state, never rewritten."""
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    lose(desk)
    lost = desk.get(bob, task)
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, task, status, attempt=attempt)
    assert desk.get(bob, task) == lost


@pytest.mark.parametrize("policy", ["fail", "requeue"])
@pytest.mark.parametrize("attempt", [1, None])
def test_a_report_of_a_swept_instance_worker_is_late(desk, alice, bob, policy, attempt) -> None:
    """C01, C02: the worker's row is gone, and with it who it was: late, not forbidden."""
    worker = desk.worker(alice)
    job = desk.job(alice, worker_id=worker, on_worker_lost=policy)
    task = desk.submit(bob, job)
    desk.run_one(alice, worker)
    lose(desk)
    lost = desk.get(bob, task)
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, task, "completed", attempt=attempt, worker_id=worker)
    assert desk.get(bob, task) == lost


def test_a_report_on_what_was_requeued_and_not_claimed_again_is_late(
    desk, alice, bob, requeued
) -> None:
    task = desk.submit(bob, requeued)
    desk.run_one(alice)
    lose(desk)
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, task, "completed", attempt=1)
    assert desk.get(bob, task).status == "pending"


# --- deletion ---------------------------------------------------------------------------------


def test_deleting_a_worker_fails_its_tasks_by_the_policy(desk, alice, bob, rotate) -> None:
    """Contract, *Workers*: its unfinished tasks fail or are requeued by the job's policy."""
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    desk.leave(alice)
    ended = desk.get(bob, task)
    assert ended.status == "failed"
    assert "Worker disconnected: worker alice was deleted" in ended.error


def test_deleting_a_worker_requeues_its_tasks_by_the_policy(desk, alice, bob, requeued) -> None:
    task = desk.submit(bob, requeued)
    desk.run_one(alice)
    desk.leave(alice)
    assert desk.get(bob, task).status == "pending"


def test_deleting_a_worker_that_holds_very_many_tasks_frees_them_all(desk, alice, bob) -> None:
    job = desk.job(alice, on_worker_lost="requeue")
    desk.submit_many(bob, job, 230)
    assert len(desk.claim(alice, limit=230)) == 230
    desk.leave(alice)
    assert desk.list(bob, statuses=("pending",))[1] == 230


# --- coming back ------------------------------------------------------------------------------


def test_a_lost_instance_worker_must_register_again(desk, alice) -> None:
    """Contract, *Workers*: 404 ``worker-not-found`` (swept: register again); C10."""
    worker = desk.worker(alice)
    lose(desk)
    for act in (desk.beat, desk.claim):
        with pytest.raises(WorkerNotFound):
            act(alice, worker)


@pytest.mark.parametrize("way", ["claim", "beat"])
def test_a_lost_identity_worker_wakes_with_the_jobs_it_had(desk, alice, bob, rotate, way) -> None:
    """Contract, *Losing a worker*: its links sleep; the next claim or heartbeat wakes it."""
    lose(desk)
    assert desk.listed(bob) == []
    assert desk.workers(alice) == []
    getattr(desk, way)(alice)
    assert desk.listed(bob) == [rotate.full_name]
    task = desk.submit(bob, rotate)
    assert desk.claim_one(alice).id == task.id


def test_a_registration_wakes_a_lost_identity_worker(desk, alice, bob, rotate) -> None:
    lose(desk)
    desk.job(alice, "Other")
    assert desk.listed(bob) == [rotate.full_name, "r1:modifiers:Other"]


def test_after_its_owner_deleted_it_a_claim_without_body_is_not_found(
    desk, alice, bob, rotate
) -> None:
    """Contract, *Losing a worker*: after a ``DELETE`` by its owner."""
    desk.leave(alice)
    with pytest.raises(WorkerNotFound):
        desk.claim(alice)
    with pytest.raises(WorkerNotFound):
        desk.beat(alice)
    assert desk.listed(bob) == []


def test_a_registration_brings_a_deleted_identity_worker_back(desk, alice, bob, rotate) -> None:
    desk.job(alice, "Other")
    desk.leave(alice)
    assert desk.register(alice).created
    task = desk.submit(bob, rotate)
    assert desk.claim_one(alice).id == task.id


def test_a_deleted_identity_worker_comes_back_without_its_old_jobs(
    desk, alice, bob, rotate
) -> None:
    desk.leave(alice)
    desk.job(alice, "Other")
    desk.submit(bob, rotate)
    assert desk.claim(alice) == []
