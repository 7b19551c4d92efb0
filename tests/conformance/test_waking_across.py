"""Who waits at one queue is woken by what another one does, in this process or in its own."""

from __future__ import annotations

import threading
import time

import pytest
from desk import PATIENCE, Waiter

from jobroom.domain.records import Task


class Ear:
    """Waits for a task to change, as a long-poll does."""

    def __init__(self, desk, task: Task) -> None:
        self.known = {task.id: task.version}
        self.logs: dict[str, tuple[int, int]] = {}
        self.heard: list[Task] = []
        self._told = threading.Event()
        desk.queue.listeners.append(self)
        desk.queue.watch()

    def tell(self, changed: list[Task]) -> None:
        news = [task for task in changed if self.known.get(task.id, task.version) < task.version]
        if news:
            self.heard += news
            self.known.clear()
            self._told.set()

    def wait(self) -> Task:
        assert self._told.wait(PATIENCE)
        return self.heard[0]


@pytest.fixture
def waiter(desk, alice):
    return Waiter(desk, alice).begin()


def test_a_waiting_claim_is_woken_by_a_submission_at_another_queue(
    desk, other, bob, rotate, waiter
) -> None:
    task = other.submit(bob, rotate)
    assert [found.id for found in waiter.answer()] == [task.id]
    assert desk.get(bob, task).status == "claimed"


def test_a_waiting_claim_is_woken_by_another_process(
    desk, bob, rotate, *, waiter, hand, tally, store
) -> None:
    sender = hand()
    began = time.monotonic()
    task = sender.ask("submit", who="bob", job=rotate.full_name)
    assert [found.id for found in waiter.answer()] == [task["id"]]
    tally(
        f"waking {store} | a waiting claim, by another process | within"
        f" {1000 * (time.monotonic() - began):.0f} ms of the request"
    )


def test_a_poll_is_woken_by_another_process(desk, bob, rotate, *, hand, tally, store) -> None:
    task = desk.submit(bob, rotate)
    sender = hand()
    ear = Ear(desk, task)
    began = time.monotonic()
    sender.ask("cancel", who="bob", task_id=task.id)
    assert ear.wait().status == "cancelled"
    tally(
        f"waking {store} | a poll, by another process | within"
        f" {1000 * (time.monotonic() - began):.0f} ms of the request"
    )


def test_a_poll_is_woken_by_a_report_at_another_queue(desk, other, alice, bob, rotate) -> None:
    task = desk.submit(bob, rotate)
    ear = Ear(desk, task)
    other.run_one(alice)
    assert ear.wait().status == "running"
    ear = Ear(desk, desk.get(bob, task))
    other.report(alice, task, "completed", result="1")
    assert (ear.wait().status, ear.heard[0].result) == ("completed", "1")


def test_a_poll_is_woken_by_progress_at_another_queue(desk, other, alice, bob, rotate) -> None:
    """Rules, *ETag*: the wait ends at any change (progress by long-poll)."""
    task = desk.submit(bob, rotate)
    running = desk.run_one(alice)
    ear = Ear(desk, running)
    other.report(alice, task, progress=0.5)
    assert ear.wait().progress == 0.5


def test_many_who_wait_at_two_queues_get_one_task_each(desk, other, alice, bob, rotate) -> None:
    waiting = []
    for at in (desk, other) * 3:
        worker = at.worker(alice)
        at.job(alice, worker_id=worker)
        waiting.append(Waiter(at, alice, worker).begin())
    tasks = [desk.submit(bob, rotate) for _ in range(3)] + [
        other.submit(bob, rotate) for _ in range(3)
    ]
    got = [task.id for each in waiting for task in each.answer()]
    assert sorted(got) == sorted(task.id for task in tasks)


def test_what_becomes_due_wakes_a_claim_wherever_it_was_submitted(
    desk, other, bob, rotate, waiter
) -> None:
    task = other.submit(bob, rotate, run_at=desk.soon(10))
    assert waiter.waits
    desk.wait(10)
    assert [found.id for found in waiter.answer()] == [task.id]


def test_a_job_joined_at_another_queue_counts(desk, other, alice, *, bob, rotate, waiter) -> None:
    job = other.job(bob, "Other")
    task = other.submit(bob, job)
    assert waiter.waits
    other.job(alice, "Other")
    assert [found.id for found in waiter.answer()] == [task.id]


def test_what_is_handed_back_at_another_queue_is_offered(desk, other, alice, bob, rotate) -> None:
    worker = desk.worker(alice)
    desk.job(alice, worker_id=worker)
    task = desk.submit(bob, rotate)
    other.claim_one(alice)
    waiting = Waiter(desk, alice, worker).begin()
    other.report(alice, task, "pending")
    assert [found.id for found in waiting.answer()] == [task.id]


def test_what_a_sweep_elsewhere_gives_back_is_offered(desk, other, alice, bob) -> None:
    job = desk.job(alice, on_worker_lost="requeue")
    worker = desk.worker(bob)
    desk.job(bob, worker_id=worker, on_worker_lost="requeue")
    task = desk.submit(bob, job)
    desk.claim_one(alice)
    waiting = Waiter(desk, bob, worker).begin()
    other.wait(61)
    other.beat(bob, worker)
    other.sweep()
    assert [found.id for found in waiting.answer()] == [task.id]


def test_nobody_is_woken_for_what_somebody_else_has_taken(
    desk, other, alice, *, bob, rotate, waiter
) -> None:
    """The one who waits looks, finds nothing, and waits on."""
    worker = other.worker(alice)
    other.job(alice, "Aside", worker_id=worker)
    aside = other.submit(bob, other.job(bob, "Aside"))
    assert other.claim_one(alice, worker).id == aside.id
    assert waiter.waits
    task = other.submit(bob, rotate)
    assert [found.id for found in waiter.answer()] == [task.id]
