"""Two requests about one task at the same moment, each through a server of its own."""

from __future__ import annotations

import racing
from live_server import BASE
from racing import ROUNDS, Request, beat, claim, registration, report, submission


def is_late(answer):
    return (answer.status, answer.body["type"]) == (409, "/v1/problems/invalid-task-transition")


def test_a_cancelled_task_is_never_claimed_and_a_claimed_one_is_never_completed(
    pair, me, outcomes_of
):
    """Rules, *Cancel*: at once from every state; the worker is told, and its report is 409."""
    room, outcomes = "cancel-claim", []
    with (
        pair.line(racing.CREATOR) as creator,
        pair.line(me, 1) as worker,
        racing.Race(pair, racing.CREATOR, me) as race,
    ):
        worker_id = worker.expect(201, *registration(room))["worker_id"]
        for _ in range(ROUNDS):
            task_id = creator.expect(202, *submission(room))["id"]
            cancelled, claimed = race.run(report(task_id, "cancelled"), claim(start=True))
            assert (cancelled.status, cancelled.body["status"]) == (200, "cancelled")
            task = claimed.body["task"]
            race.learn(first_won=task is None)
            stored = pair.task(task_id)
            if task is None:
                assert (stored.status, stored.attempt, stored.version) == ("cancelled", 0, 2)
                assert worker.expect(200, *claim())["task"] is None
                outcomes.append("never claimed")
                continue
            assert (task["id"], task["status"], task["attempt"]) == (task_id, "running", 1)
            assert worker.expect(200, *beat(worker_id))["cancel"] == [task_id]
            assert is_late(worker.send(*report(task_id, "completed", attempt=1)))
            assert pair.task(task_id) == stored
            assert (stored.status, stored.attempt, stored.version) == ("cancelled", 1, 3)
            outcomes.append("claimed, then cancelled")
    expected = ("never claimed", "claimed, then cancelled")
    outcomes_of("cancel || claim", outcomes, expected=expected)


def test_a_cancellation_and_a_completion_have_one_winner(pair, crews, outcomes_of):
    """Contract, *Tasks*: every change is one guarded update."""
    crew = crews.hold("cancel-complete", ROUNDS // 100, tasks=100)
    outcomes = []
    with racing.Race(pair, racing.CREATOR, racing.OWNER) as race:
        for task_id in (task_id for held in crew for task_id in held.task_ids):
            done = report(task_id, "completed", attempt=1, result=[1])
            cancelled, completed = race.run(report(task_id, "cancelled"), done)
            stored = pair.task(task_id)
            assert (stored.attempt, stored.version) == (1, 3)
            won = [a.body["status"] for a in (cancelled, completed) if a.status == 200]
            assert won == [stored.status]
            assert is_late(completed if stored.status == "cancelled" else cancelled)
            assert stored.result == (None if stored.status == "cancelled" else "[1]")
            outcomes.append(stored.status)
            race.learn(first_won=stored.status == "cancelled")
    outcomes_of("cancel || complete", outcomes, expected=("cancelled", "completed"))


def test_of_two_retries_one_is_taken(pair, outcomes_of):
    """Rules, *Retry*: on failed and cancelled; the other one finds it pending."""
    room, outcomes = "retry-retry", []
    with (
        pair.line(racing.CREATOR) as creator,
        racing.Race(pair, racing.CREATOR, racing.CREATOR) as race,
    ):
        creator.expect(201, *registration(room))
        task_id = creator.expect(202, *submission(room))["id"]
        again = Request("POST", f"{BASE}/tasks/{task_id}/retry")
        for _ in range(ROUNDS):
            creator.expect(200, *report(task_id, "cancelled"))
            before = pair.task(task_id)
            first, second = race.run(again, again)
            assert sorted((first.status, second.status)) == [200, 409]
            assert is_late(first if second.status == 200 else second)
            assert pair.task(task_id) == before._replace(
                status="pending", version=before.version + 1
            )
            outcomes.append("first" if first.status == 200 else "second")
            race.learn(first_won=first.status == 200)
    outcomes_of("retry || retry", outcomes, expected=("first", "second"))


def test_one_claim_sent_twice_at_once_gets_one_task(pair, crews, me, outcomes_of):
    """Contract, *Tasks*: repeating the same ``request_id`` gives the same task again."""
    room, outcomes = "claim-claim", []
    with (
        pair.line(me) as worker,
        racing.Race(pair, me, me) as race,
    ):
        worker.expect(201, *registration(room))
        waiting = crews.submit(room, ROUNDS + 1)
        for number in range(ROUNDS):
            wish = claim(start=True, request_id=f"round {number}")
            answers = race.run(wish, wish)
            [task_id] = {task["id"] for answer in answers for task in answer.body["tasks"]}
            assert [len(answer.body["tasks"]) for answer in answers] == [1, 1]
            waiting.remove(task_id)
            stored = pair.task(task_id)
            assert (stored.status, stored.attempt, stored.version) == ("running", 1, 2)
            worker.expect(200, *report(task_id, "completed", attempt=1))
            outcomes.append("one task, answered twice")
        [left] = waiting
        assert worker.expect(200, *claim())["task"]["id"] == left
    outcomes_of("claim || the same claim", outcomes, expected=("one task, answered twice",))


def test_one_submission_sent_twice_at_once_makes_one_task(pair, outcomes_of):
    """C21; rules, *Idempotency*: one is the first, the other gets its task again."""
    room, outcomes = "submit-submit", []
    with (
        pair.line(racing.OWNER) as worker,
        racing.Race(pair, racing.CREATOR, racing.CREATOR) as race,
    ):
        worker.expect(201, *registration(room))
        for number in range(ROUNDS):
            key = {"Idempotency-Key": f"{room} {number}"}
            answers = race.run(*[submission(room, payload={"angle": 90}, headers=key)] * 2)
            assert [answer.status for answer in answers] == [202, 202]
            assert len({answer.body["id"] for answer in answers}) == 1
            assert len({answer.headers["location"] for answer in answers}) == 1
            replayed = ["idempotency-replayed" in answer.headers for answer in answers]
            assert sorted(replayed) == [False, True]
            outcomes.append("first" if replayed[1] else "second")
            race.learn(first_won=replayed[1])
    assert len(pair.tasks_of(room)) == ROUNDS
    outcomes_of("submit || the same submission", outcomes, expected=("first", "second"))


def test_of_two_submissions_that_share_a_key_one_is_refused(pair, outcomes_of):
    """C21; contract, *Tasks*: with another request 422, also where they meet."""
    room, outcomes = "submit-other", []
    with (
        pair.line(racing.OWNER) as worker,
        racing.Race(pair, racing.CREATOR, racing.CREATOR) as race,
    ):
        worker.expect(201, *registration(room))
        for number in range(ROUNDS):
            key = {"Idempotency-Key": f"{room} {number}"}
            answers = race.run(
                *(submission(room, payload={"angle": angle}, headers=key) for angle in (1, 2))
            )
            won = [answer.status for answer in answers].index(202)
            refused = answers[1 - won]
            assert (refused.status, refused.body["type"]) == (
                422,
                "/v1/problems/idempotency-key-reused",
            )
            outcomes.append("second" if won else "first")
            race.learn(first_won=not won)
    assert len(pair.tasks_of(room)) == ROUNDS
    outcomes_of("submit || another with its key", outcomes, expected=("first", "second"))
