"""Claims that wait: who is served, in which order, and by what (rules, *Claim*)."""

from __future__ import annotations

import pytest
from desk import Waiter

from jobroom.errors import WorkerNotFound
from jobroom.service import claiming


@pytest.fixture
def waiter(desk, alice):
    def _waiter(caller=alice, worker_id=None, **kwargs):
        return Waiter(desk, caller, worker_id, **kwargs).begin()

    return _waiter


def test_a_waiting_claim_is_served_by_the_submission_itself(desk, alice, bob, rotate, waiter):
    """Rules, *Claim*: the hand-off is the claim itself."""
    waiting = waiter()
    task = desk.submit(bob, rotate)
    [claimed] = waiting.answer()
    assert (claimed.id, claimed.status, claimed.worker_id) == (task.id, "claimed", "alice")


def test_a_claim_that_finds_something_does_not_wait(desk, alice, bob, rotate):
    task = desk.submit(bob, rotate)
    assert desk.claim_one(alice, wait=True).id == task.id


def test_waiting_claims_are_served_first_come_first_served(desk, alice, bob, rotate, waiter):
    """Rules, *Claim*."""
    workers = [desk.worker(alice) for _ in range(3)]
    for worker in workers:
        desk.job(alice, worker_id=worker)
    waiting = [waiter(worker_id=worker) for worker in workers]
    tasks = [desk.submit(bob, rotate) for _ in range(2)]
    assert [one.answer()[0].id for one in waiting[:2]] == [task.id for task in tasks]
    assert waiting[2].waits


def test_a_claim_that_went_away_is_skipped(desk, alice, bob, rotate, waiter):
    """Rules, *Claim*: one that went away is skipped."""
    gone, stays = waiter(), waiter()
    assert desk.queue.waiting.withdraw(gone.work)
    task = desk.submit(bob, rotate)
    assert [found.id for found in stays.answer()] == [task.id]
    assert gone.waits


def test_a_claim_that_was_served_cannot_be_withdrawn(desk, bob, rotate, waiter):
    waiting = waiter()
    desk.submit(bob, rotate)
    waiting.answer()
    assert not desk.queue.waiting.withdraw(waiting.work)


def test_a_task_of_another_job_serves_nobody(desk, alice, bob, rotate, waiter):
    other = desk.job(bob, "Other")
    waiting = waiter()
    desk.submit(bob, other)
    assert waiting.waits


def test_a_waiting_claim_takes_what_is_there_and_does_not_fill_up(desk, bob, rotate, waiter):
    """Rules, *Claim*: ``limit`` returns what is there."""
    waiting = waiter(limit=5)
    desk.submit(bob, rotate)
    assert len(waiting.answer()) == 1


def test_a_waiting_claim_starts_the_task_if_it_asked_to(desk, bob, rotate, waiter):
    waiting = waiter(start=True)
    desk.submit(bob, rotate)
    assert waiting.answer()[0].status == "running"


def test_a_job_that_the_worker_joins_while_it_waits_counts(desk, alice, bob, waiter):
    job = desk.job(bob, "Other")
    waiting = waiter()
    desk.job(alice, "Other")
    task = desk.submit(bob, job)
    assert [found.id for found in waiting.answer()] == [task.id]


def test_joining_a_job_with_a_backlog_serves_at_once(desk, alice, bob, waiter):
    job = desk.job(bob, "Other")
    task = desk.submit(bob, job)
    waiting = waiter()
    desk.job(alice, "Other")
    assert [found.id for found in waiting.answer()] == [task.id]


def test_what_is_handed_back_goes_to_who_waits(desk, alice, bob, rotate, waiter):
    worker = desk.worker(alice)
    desk.job(alice, worker_id=worker)
    task = desk.submit(bob, rotate)
    desk.claim_one(alice)
    waiting = waiter(worker_id=worker)
    desk.report(alice, task, "pending")
    assert [found.id for found in waiting.answer()] == [task.id]


def test_what_is_retried_goes_to_who_waits(desk, alice, bob, rotate, waiter):
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    desk.report(alice, task, "failed")
    waiting = waiter()
    desk.retry(bob, task)
    assert [found.id for found in waiting.answer()] == [task.id]


def test_what_fails_with_attempts_left_goes_to_who_waits(desk, alice, bob, waiter):
    job = desk.job(alice, max_attempts=2)
    task = desk.submit(bob, job)
    desk.run_one(alice)
    waiting = waiter()
    desk.report(alice, task, "failed", error="boom")
    assert [found.attempt for found in waiting.answer()] == [2]


def test_what_a_lost_worker_held_goes_to_who_waits(desk, alice, bob, waiter):
    job = desk.job(alice, on_worker_lost="requeue")
    worker = desk.worker(alice)
    desk.job(alice, worker_id=worker, on_worker_lost="requeue")
    task = desk.submit(bob, job)
    desk.run_one(alice, worker)
    waiting = waiter()
    desk.wait(61)
    desk.beat(alice)
    desk.sweep()
    assert [found.id for found in waiting.answer()] == [task.id]


def test_what_becomes_due_is_offered_to_who_waits(desk, alice, bob, rotate, waiter):
    """Rules, *Time fields*: the time itself wakes nobody; the queue looks, and offers."""
    task = desk.submit(bob, rotate, run_at=desk.soon(10))
    waiting = waiter()
    desk.wait(10)
    assert [found.id for found in waiting.answer()] == [task.id]


def test_an_identity_worker_that_was_swept_while_it_waits_is_served(
    desk, alice, bob, rotate, waiter
):
    """Contract, *Losing a worker*: its claim wakes it; the one that waits is such a claim."""
    waiting = waiter()
    desk.wait(61)
    desk.sweep()
    task = desk.submit(bob, rotate)
    assert [found.id for found in waiting.answer()] == [task.id]


def test_a_worker_that_was_deleted_while_it_waits_is_told(desk, alice, bob, rotate, waiter):
    worker = desk.worker(alice)
    desk.job(alice, worker_id=worker)
    waiting = waiter(worker_id=worker)
    desk.leave(alice, worker)
    task = desk.submit(bob, rotate)
    with pytest.raises(WorkerNotFound):
        waiting.answer()
    assert desk.get(bob, task).status == "pending"


def test_a_waiting_claim_that_is_repeated_gets_one_task(desk, alice, bob, rotate, waiter):
    """Contract, *Tasks*: the same ``request_id``, while the first still seems to wait."""
    first, again = waiter(request_id="x"), waiter(request_id="x")
    task = desk.submit(bob, rotate)
    desk.submit(bob, rotate)
    assert [found.id for found in first.answer()] == [task.id]
    assert [found.id for found in again.answer()] == [task.id]
    assert desk.list(bob, statuses=("claimed",))[1] == 1


def test_serving_a_waiting_claim_is_a_heartbeat(desk, alice, bob, rotate, waiter):
    waiting = waiter()
    desk.wait(50)
    desk.submit(bob, rotate)
    waiting.answer()
    desk.wait(50)
    assert desk.sweep().lost_workers == 0


def test_a_claim_that_left_before_it_came_to_the_writer_is_not_kept(desk, alice, rotate):
    early = Waiter(desk, alice)
    assert not desk.queue.waiting.withdraw(early.work)
    desk.queue.post(claiming.claim_tasks, early.work)
    assert early.answer() == []
    assert not desk.queue.waiting
