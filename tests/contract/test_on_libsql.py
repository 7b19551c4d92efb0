"""A handful of the contract on a libSQL server, the store of a function, through each door."""

from __future__ import annotations

import pytest
from contract_api import ROTATE, Api, Person, refused, taken

pytestmark = [
    pytest.mark.parametrize("store", ["libsql"], indirect=True),
    pytest.mark.only_on("libsql"),
]
SUBMIT = f"/rooms/r1/tasks/{ROTATE}"
ANGLE_90 = {"payload": {"angle": 90}}


def test_a_task_lives_from_its_submission_to_its_result(alice: Person, wanda: Person) -> None:
    """Contract, *Tasks*, *Claim*, *Reports*: each step is there for whoever asks next."""
    task = alice.submit()
    assert wanda.claim()["id"] == task["id"]
    taken(wanda.report(task, "running", progress=0.5, message="half"))
    tag = alice.get(f"/tasks/{task['id']}").headers["etag"]
    assert alice.get(f"/tasks/{task['id']}", headers={"if-none-match": tag}).status_code == 304
    taken(wanda.report(task, "completed", result={"x": "é\x00"}))
    assert taken(alice.get(f"/tasks/{task['id']}/result")) == {"x": "é\x00"}
    refused(wanda.report(task, "failed"), "invalid-task-transition")


def test_repeats_at_once_are_one_task(api: Api, alice: Person, wanda: Person) -> None:
    """Rules, *Idempotency*: while the first is in flight the second waits, wherever it came in."""
    key = {"idempotency-key": "k1"}
    requests = (alice.send("POST", SUBMIT, ANGLE_90, headers=key) for _ in range(4))
    answers = api.together(*requests)
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert wanda.claim()["id"] == answers[0].json()["id"]
    assert taken(wanda.post("/tasks/claim"))["task"] is None


def test_a_wait_ends_with_the_report_that_came_in_elsewhere(
    api: Api, alice: Person, wanda: Person
) -> None:
    """Contract, *Tasks*: the long-poll of a task; on AWS Lambda in another environment."""
    alice.submit()
    task = wanda.start()
    polled, reported = api.together(
        alice.send("GET", f"/tasks/{task['id']}", headers={"prefer": "wait=20"}),
        wanda.send("PATCH", f"/tasks/{task['id']}", {"status": "completed", "result": 42}),
    )
    assert taken(reported)["status"] == "completed"
    assert (taken(polled)["status"], polled.json()["result"]) == ("completed", 42)


def test_a_sweep_takes_what_a_lost_worker_held(api: Api, alice: Person, wanda: Person) -> None:
    """Contract, *Losing a worker*."""
    alice.submit()
    task = wanda.start()
    api.let_pass(61)
    assert api.sweep()["failed_tasks"] == 1
    assert alice.show(task)["status"] == "failed"
