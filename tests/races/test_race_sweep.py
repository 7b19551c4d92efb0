"""A sweep against the worker that it is about to lose, and against another sweep."""

from __future__ import annotations

import pytest
import racing
from racing import NEW_WORKER, ROUNDS, SWEEP, beat, registration, report, submission, taken

POLICIES = {"fail": ("failed", "failed_tasks"), "requeue": ("pending", "requeued_tasks")}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_completion_and_a_sweep_of_its_worker_have_one_winner(
    pair, crews, me, outcomes_of, policy
):
    """C03; contract, *Tasks*: the loser of a race gets 409. Workers of both kinds in turn."""
    outcomes = []
    crew = crews.hold(f"instance-{policy}", ROUNDS // 2, on_worker_lost=policy)
    with (
        pair.line(me, 1) as worker,
        racing.Race(pair, racing.OWNER, racing.ADMIN) as by_instance,
        racing.Race(pair, me, racing.ADMIN) as by_identity,
    ):
        room = f"identity-{policy}"
        policies = {"on_worker_lost": policy, "max_attempts": 1000 if policy == "requeue" else 1}
        worker.expect(201, *registration(room, **policies))
        crews.submit(room, ROUNDS // 2)
        for lost in crew:
            outcomes.append(_complete_and_sweep(pair, by_instance, lost, policy))
            # What was lost in an earlier round may come again, at its next attempt.
            task = worker.expect(200, *racing.claim(start=True))["task"]
            held = racing.Held(me, [task["id"]])
            outcomes.append(_complete_and_sweep(pair, by_identity, held, policy))
    outcomes_of(f"completed || sweep ({policy})", outcomes, expected=("completed", "swept"))


def _complete_and_sweep(pair, race, held, policy):
    [task_id] = held.task_ids
    before = pair.task(task_id)
    pair.make_stale([held.worker_id])
    done = report(task_id, "completed", attempt=before.attempt, result={"sum": 1})
    answer, swept = race.run(done, SWEEP)
    race.learn(first_won=answer.status == 200)
    stored = pair.task(task_id)
    # One change in the round: nothing was written after the end.
    assert (stored.version, stored.attempt) == (before.version + 1, before.attempt)
    status, counted = POLICIES[policy]
    if answer.status == 200:
        assert (stored.status, stored.error, stored.result) == ("completed", None, '{"sum": 1}')
        assert set(taken(swept)) <= {"lost_workers"}
        return "completed"
    assert (answer.status, answer.body["type"][-23:]) == (409, "invalid-task-transition")
    assert (stored.status, stored.result) == (status, None)
    assert (stored.error is not None) is (policy == "fail")
    assert "Worker disconnected" in (stored.error or "Worker disconnected")
    assert taken(swept) == {"lost_workers": 1, counted: 1}
    return "swept"


def test_a_task_is_cancelled_or_lost_and_never_both_at_once(pair, crews, outcomes_of):
    """Rules, *Cancel*: at once from every state that has not ended; what has ended stays."""
    outcomes = []
    with racing.Race(pair, racing.CREATOR, racing.ADMIN) as race:
        for policy, held in crews_of_both_policies(crews, "cancelled-or-lost"):
            pair.make_stale([held.worker_id])
            answer, swept = race.run(report(*held.task_ids, "cancelled"), SWEEP)
            outcomes.append(_cancelled_or_lost(pair, *held.task_ids, answer, swept, policy))
            race.learn(first_won=outcomes[-1] == "cancelled")
    outcomes_of("cancel || sweep", outcomes, expected=("cancelled", "lost", "lost, then cancelled"))


def _cancelled_or_lost(pair, task_id, answer, swept, policy):
    stored = pair.task(task_id)
    if not set(taken(swept)) - {"lost_workers"}:
        assert (answer.status, stored[:3]) == (200, ("cancelled", 1, 3))
        return "cancelled"
    assert taken(swept) == {"lost_workers": 1, POLICIES[policy][1]: 1}
    if policy == "fail":
        assert (answer.status, stored[:3]) == (409, ("failed", 1, 3))
        return "lost"
    assert (answer.status, stored[:3]) == (200, ("cancelled", 1, 4))
    return "lost, then cancelled"


def crews_of_both_policies(crews, room, **more):
    """Workers for all rounds, half of them of a job that fails what is lost; (policy, worker)."""
    return [
        (policy, held)
        for policy in POLICIES
        for held in crews.hold(f"{room}-{policy}", ROUNDS // 2, on_worker_lost=policy, **more)
    ]


def test_a_beating_worker_keeps_all_its_tasks_or_loses_all(pair, crews, outcomes_of):
    """Rules, *Alive*: alive again with its next heartbeat, or swept before it: 404."""
    outcomes = []
    with racing.Race(pair, racing.OWNER, racing.ADMIN) as race:
        for policy, held in crews_of_both_policies(crews, "beating-or-gone", tasks=3, start=False):
            pair.make_stale([held.worker_id])
            answer, swept = race.run(beat(held.worker_id), SWEEP)
            outcomes.append(_kept_or_lost(pair, held, answer, swept, policy))
            race.learn(first_won=answer.status == 200)
    outcomes_of("heartbeat || sweep", outcomes, expected=("alive", "gone"))


def _kept_or_lost(pair, held, answer, swept, policy):
    stored = [pair.task(task_id) for task_id in held.task_ids]
    known = pair.rows("SELECT state FROM worker WHERE id = ?", held.worker_id)
    if answer.status == 200:
        assert answer.body["cancel"] == []
        assert (known, taken(swept)) == ([("active",)], {})
        assert {(task.status, task.version, task.worker_id) for task in stored} == {
            ("claimed", 2, held.worker_id)
        }
        return "alive"
    status, counted = POLICIES[policy]
    assert (answer.status, answer.body["type"][-16:]) == (404, "worker-not-found")
    assert (known, taken(swept)) == ([], {"lost_workers": 1, counted: 3})
    assert {(task.status, task.version) for task in stored} == {(status, 3)}
    return "gone"


def test_a_claiming_worker_gets_its_task_or_is_gone_and_the_task_waits(pair, outcomes_of):
    """Contract, *Workers*: a claim counts as a heartbeat, unless the sweep was first."""
    room, outcomes = "claiming-or-gone", []
    with (
        pair.line(racing.CREATOR) as creator,
        pair.line(racing.OWNER, 1) as owner,
        racing.Race(pair, racing.OWNER, racing.ADMIN) as race,
    ):
        task_id = None
        for _ in range(ROUNDS):
            worker_id = owner.expect(201, *NEW_WORKER)["id"]
            assert owner.send(*registration(room, worker_id=worker_id)).status in (200, 201)
            task_id = task_id or creator.expect(202, *submission(room))["id"]
            pair.make_stale([worker_id])
            answer, swept = race.run(racing.claim(worker_id, start=True), SWEEP)
            race.learn(first_won=answer.status == 200)
            stored = pair.task(task_id)
            if answer.status == 200:
                assert answer.body["task"]["id"] == task_id
                assert (taken(swept), stored[:3]) == ({}, ("running", 1, 2))
                assert owner.expect(200, *beat(worker_id))["cancel"] == []
                owner.expect(200, *report(task_id, "completed", attempt=1))
                owner.expect(204, "DELETE", beat(worker_id).path)
                task_id = None
                outcomes.append("claimed")
            else:
                assert (answer.status, answer.body["type"][-16:]) == (404, "worker-not-found")
                assert (taken(swept), stored[:3]) == ({"lost_workers": 1}, ("pending", 0, 1))
                outcomes.append("gone")
    outcomes_of("claim || sweep", outcomes, expected=("claimed", "gone"))


def test_an_identity_worker_keeps_all_or_wakes_and_is_told_of_all(pair, me, outcomes_of):
    """Contract, *Losing a worker*: its next heartbeat wakes it; rules, *Cancel*: it is told."""
    room, outcomes = "waking", []
    with (
        pair.line(racing.CREATOR) as creator,
        pair.line(me, 1) as worker,
        racing.Race(pair, me, racing.ADMIN) as race,
    ):
        worker.expect(201, *registration(room, on_worker_lost="requeue", max_attempts=1000))
        held = {}
        for _ in range(2):
            creator.expect(202, *submission(room))
        for _ in range(ROUNDS):
            # Both are pending, or its own from the last round.
            claimed = worker.expect(200, *racing.claim(limit=2, start=True))["tasks"]
            held = {task["id"]: task["attempt"] for task in claimed} or held
            pair.make_stale([me])
            answer, swept = race.run(beat(me), SWEEP)
            assert answer.status == 200
            outcomes.append(_woken_or_kept(pair, held, answer, swept))
            race.learn(first_won=outcomes[-1] == "alive")
    outcomes_of("heartbeat of an identity worker || sweep", outcomes, expected=("alive", "woken"))


def _woken_or_kept(pair, held, answer, swept):
    stored = {task_id: pair.task(task_id) for task_id in held}
    assert {task_id: task.attempt for task_id, task in stored.items()} == held
    status = {task.status for task in stored.values()}
    assert pair.rows("SELECT state FROM worker WHERE id = ?", answer.body["id"]) == [("active",)]
    if not taken(swept):
        assert (status, answer.body["cancel"]) == ({"running"}, [])
        return "alive"
    assert taken(swept) == {"lost_workers": 1, "requeued_tasks": 2}
    assert status == {"pending"}
    assert sorted(answer.body["cancel"]) == sorted(held)
    return "woken"


def test_two_sweeps_at_one_instant_take_a_worker_once(pair, crews, me, outcomes_of):
    """C04, small: the counts add up, each task failed once, its worker is told once."""
    room, outcomes = "two-sweeps", []
    with (
        pair.line(me, 1) as worker,
        racing.Race(pair, racing.ADMIN, racing.ADMIN) as race,
    ):
        worker.expect(201, *registration(room))
        crews.submit(room, ROUNDS * 2)
        for _ in range(ROUNDS):
            # The worker that was lost in the last round wakes with its claim.
            claimed = worker.expect(200, *racing.claim(limit=2, start=True))["tasks"]
            pair.make_stale([me])
            first, second = race.run(SWEEP, SWEEP)
            assert taken(first, second) == {"lost_workers": 1, "failed_tasks": 2}
            assert [pair.task(task["id"])[:3] for task in claimed] == [("failed", 1, 3)] * 2
            outcomes.append("first" if taken(first) else "second")
            race.learn(first_won=bool(taken(first)))
    assert {task[:3] for task in pair.tasks_of(room)} == {("failed", 1, 3)}
    assert pair.rows("SELECT count(*) FROM notice WHERE worker_id = ?", me) == [(ROUNDS * 2,)]
    outcomes_of("sweep || sweep, 1 worker", outcomes, expected=("first", "second"))
