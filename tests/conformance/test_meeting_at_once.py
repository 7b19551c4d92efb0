"""Requests that meet: two queues on one store, several threads at each, started together."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from desk import Desk

from jobroom.domain.records import Caller
from jobroom.errors import IdempotencyKeyReused, JobroomError, TaskExists

PATIENCE = 30


@pytest.fixture
def meet(desk: Desk, other: Desk) -> Callable[..., list[Any]]:
    """Run calls at the same moment, in turns at one queue and the other; results or refusals."""

    def at_once(*calls: Callable[[Desk], Any]) -> list[Any]:
        together = threading.Barrier(len(calls), timeout=PATIENCE)

        def act(number: int, call: Callable[[Desk], Any]) -> Any:
            together.wait()
            try:
                return call((desk, other)[number % 2])
            except JobroomError as error:
                return error.slug

        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(act, range(len(calls)), calls))

    return at_once


def test_a_key_that_comes_eight_times_at_once_makes_one_task(desk, bob, rotate, meet) -> None:
    """C21: one task; the others are told that it is a repeat."""
    for key in ("a", "b", "c"):
        said = {"idempotency_key": key, "fingerprint": "f"}
        made = meet(*[lambda at, said=said: at.submitted(bob, rotate, **said)] * 8)
        assert len({each.view.task.id for each in made}) == 1
        assert sorted(each.replayed for each in made) == [False] + [True] * 7
    assert desk.list(bob)[1] == 3


def test_a_key_that_comes_with_two_requests_at_once_makes_one_task(desk, bob, rotate, meet) -> None:
    """C21: the other payload is refused."""
    calls = [
        lambda at, n=n: at.submitted(bob, rotate, idempotency_key="k", fingerprint=f"f{n % 2}")
        for n in range(8)
    ]
    made = meet(*calls)
    assert made.count(IdempotencyKeyReused.slug) == 4
    assert len({each.view.task.id for each in made if not isinstance(each, str)}) == 1
    assert desk.list(bob)[1] == 1


def test_an_id_that_comes_eight_times_at_once_makes_one_task(
    desk, alice, bob, rotate, meet
) -> None:
    said = {"id": str(uuid4()), "fingerprint": "f"}
    calls = [
        lambda at, n=n: at.submitted(alice if n >= 6 else bob, rotate, **said) for n in range(8)
    ]
    made = meet(*calls)
    winners = [each for each in made if not isinstance(each, str) and not each.replayed]
    assert len(winners) == 1
    [[kept], total] = desk.list(bob)
    assert total == 1
    assert made.count(TaskExists.slug) == (2 if kept.task.created_by_id == "bob" else 6)


def test_a_new_job_that_is_registered_by_twenty_at_once_is_made_once(desk, alice, meet) -> None:
    """C15: one 201, nineteen 200."""
    made = meet(*[lambda at, n=n: at.register(Caller(f"w{n}")) for n in range(20)])
    assert sorted(each.created for each in made) == [False] * 19 + [True]
    assert len(desk.show(alice, "r1:modifiers:Rotate").workers) == 20


def test_one_identity_that_registers_everywhere_at_once_is_one_worker(desk, alice, meet) -> None:
    """C13."""
    meet(*[lambda at, n=n: at.register(alice, f"Job{n % 4}") for n in range(16)])
    assert desk.workers(alice) == ["alice"]
    assert len(desk.listed(alice)) == 4


def test_of_two_last_words_one_is_heard(desk, alice, *, bob, rotate, meet, tally, store) -> None:
    """C03: completed and cancelled at the same moment: one wins, the other gets 409."""
    won = Counter()
    for _ in range(25):
        task = desk.submit(bob, rotate)
        desk.run_one(alice)
        said = meet(
            lambda at, task=task: at.report(alice, task, "completed", result="1").status,
            lambda at, task=task: at.report(bob, task, "cancelled").status,
        )
        [loser] = [each for each in said if each == "invalid-task-transition"]
        [winner] = [each for each in said if each != loser]
        kept = desk.get(bob, task)
        assert (kept.status, kept.result) == (winner, "1" if winner == "completed" else None)
        won[winner] += 1
    tally(f"{store}: completed || cancelled | 25 rounds | {dict(won)}")


def test_a_report_and_a_sweep_that_meet_agree(desk, alice, bob, rotate, meet) -> None:
    """C03: never completed with an error text, and the sweep counts what it did."""
    for _ in range(10):
        task = desk.submit(bob, rotate)
        desk.run_one(alice)
        desk.write("UPDATE worker SET last_heartbeat = last_heartbeat - 61000000")
        said, swept = meet(
            lambda at, task=task: at.report(alice, task, "completed", result="1").status,
            lambda at: at.sweep().failed_tasks,
        )
        kept = desk.get(bob, task)
        if said == "completed":
            assert (kept.status, kept.error, swept) == ("completed", None, 0)
        else:
            assert (said, kept.status, swept) == ("invalid-task-transition", "failed", 1)


def test_a_claim_that_is_repeated_while_it_runs_gets_one_task(
    desk, alice, bob, rotate, meet
) -> None:
    """Contract, *Tasks*: the same ``request_id`` gives the same task again."""
    for number in range(5):
        for _ in range(4):
            desk.submit(bob, rotate)
        got = meet(*[lambda at, n=number: at.claim(alice, request_id=f"x{n}")] * 4)
        assert len({task.id for tasks in got for task in tasks}) == 1
        assert desk.list(bob, statuses=("claimed",))[1] == number + 1


def test_a_lost_worker_that_comes_back_in_the_middle_of_the_sweep(desk, alice, bob, meet) -> None:
    """Rules, *Alive*: it either lives and keeps its task, or was lost and is told."""
    job = desk.job(alice, on_worker_lost="requeue", max_attempts=50)
    for _ in range(10):
        worker = desk.worker(alice)
        desk.job(alice, worker_id=worker, on_worker_lost="requeue", max_attempts=50)
        task = desk.submit(bob, job)
        assert desk.run_one(alice, worker).id == task.id
        desk.write("UPDATE worker SET last_heartbeat = last_heartbeat - 61000000")
        beat, _ = meet(
            lambda at, worker=worker: at.beat(alice, worker), lambda at: at.sweep().requeued_tasks
        )
        kept = desk.get(bob, task)
        if beat == "worker-not-found":
            assert kept.status == "pending"
        elif kept.status == "running":
            desk.report(alice, task, "completed")
        else:  # it beat, and was lost at the next step all the same: then it is told
            assert task.id in beat or task.id in desk.beat(alice, worker)
        if kept.status == "pending":
            desk.report(bob, task, "cancelled")


def test_a_room_that_submits_by_many_at_once_has_no_turn_twice(desk, alice, bob, meet) -> None:
    """Rules, *Claim*: ``next = turn + 1``, whoever else submits at that moment."""
    job = desk.job(alice, claim_order="fair")
    meet(*[lambda at: [at.submit(bob, job) for _ in range(5)]] * 6)
    turns = [turn for (turn,) in desk.read("SELECT turn FROM task ORDER BY seq")]
    assert len(set(turns)) == 30
    assert max(turns) - min(turns) == 29


def test_a_room_that_comes_late_is_served_within_two_claims(desk, admin, bob, meet) -> None:
    """C33: fair turns, though five rooms submit at once at two queues."""
    job = desk.job(admin, room_id="@global", claim_order="fair")
    rooms = [f"crowd{number}" for number in range(4)]
    meet(
        *[
            lambda at, room=room: [at.submit(bob, job, room_id=room) for _ in range(6)]
            for room in rooms
        ]
    )
    for room in rooms:
        turns = [
            turn
            for (turn,) in desk.read(
                f"SELECT turn FROM task WHERE room_id = '{room}' ORDER BY seq"  # noqa: S608
            )
        ]
        assert turns == sorted(set(turns))
    late = desk.submit(bob, job, room_id="late")
    served = [desk.claim_one(admin) for _ in range(6)]
    assert late.id in [task.id for task in served]
    # From then on each room has its turn before any has two.
    rest = [desk.claim_one(admin).room_id for _ in range(12)]
    for start in range(0, 12, 4):
        assert len(set(rest[start : start + 4])) >= 3


def test_a_crowd_that_does_everything_at_once_ends_with_each_task_ended_once(
    desk, alice, *, bob, meet, tally, store
) -> None:
    """No deadlock is told to anybody, no answer is lost, no task is left behind."""
    job = desk.job(alice, on_worker_lost="requeue", max_attempts=100)
    ended: list[str] = []

    def work(at: Desk, number: int) -> int:
        worker = at.worker(alice)
        at.job(alice, worker_id=worker, on_worker_lost="requeue", max_attempts=100)
        done = 0
        while done < 12:
            for task in at.claim(alice, worker, start=True, limit=random.choice((1, 1, 3))):
                status = random.choice(("completed", "completed", "failed", "pending"))
                at.report(alice, task, status, attempt=task.attempt, final=status == "failed")
                if status != "pending":
                    ended.append(task.id)
            at.beat(alice, worker)
            done += 1
        at.leave(alice, worker)
        return done

    def submit(at: Desk) -> list[str]:
        return [at.submit(bob, job).id for _ in range(12)]

    def sweep(at: Desk) -> int:
        return sum(at.sweep().lost_workers for _ in range(2))

    calls = [lambda at, n=n: work(at, n) for n in range(4)]
    said = meet(*calls, submit, submit, sweep, sweep)
    assert said[:4] == [12] * 4, said
    assert said[6:] == [0, 0], said
    desk.job(alice, on_worker_lost="requeue", max_attempts=100)
    while tasks := desk.claim(alice, start=True, limit=10):
        for task in tasks:
            desk.report(alice, task, "completed")
            ended.append(task.id)
    assert Counter(ended) == Counter([*said[4], *said[5]])
    tally(f"{store}: 4 workers, 2 submitters, 2 sweepers at once | 24 tasks, each ended once")
