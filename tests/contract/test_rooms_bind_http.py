"""What a token of some rooms is given, and is not told of others (security, *Threats*)."""

from __future__ import annotations

from typing import Any

import pytest
from contract_api import Api, Json, Person, refused, taken

PATH = "/rooms/r1/tasks/r1:modifiers:J"
ID = "01890a5d-ac96-774b-bcce-b302099a8057"
OTHER_ID = "01890a5d-ac96-774b-bcce-b302099a8058"


@pytest.fixture
def worker(api: Api) -> Person:
    """A worker by a token of all rooms, which has registered a job of r1, r2 and ``@global``."""
    api.by("w", is_admin=True).register("J", room="@global")
    person = api.by("w")
    person.register("J", room="r1")
    person.register("J", room="r2")
    return person


def submit(person: Person, room: str, of: str | None = None, **more: Any) -> Json:
    """A task of the job of a room, or of another one that the room sees."""
    return person.submit(f"{of or room}:modifiers:J", {}, room=room, **more)


def test_a_token_claims_tasks_of_its_rooms_alone(api: Api, worker: Person, alice: Person) -> None:
    """However it asks: many at once, started, waiting, or with an earlier request id."""
    secret = submit(alice, "r1", priority=5)
    submit(alice, "r2", "@global", priority=5)
    own = submit(alice, "r2")
    narrow = api.by("w", rooms=["r2"])
    nothing = {"task": None, "tasks": []}
    assert taken(api.by("w", rooms=[]).post("/tasks/claim", {"limit": 9})) == nothing
    got = taken(narrow.post("/tasks/claim", {"limit": 9, "start": True, "request_id": "q"}))
    assert [task["id"] for task in got["tasks"]] == [own["id"]]
    prefer = {"prefer": "wait=1"}
    assert taken(narrow.post("/tasks/claim", {}, headers=prefer)) == nothing
    assert alice.show(secret)["attempt"] == 0
    assert taken(worker.post("/tasks/claim", {"limit": 9}))["tasks"][0]["id"] == secret["id"]


def test_the_next_task_of_a_report_is_of_the_tokens_rooms(
    api: Api, worker: Person, alice: Person
) -> None:
    narrow = api.by("w", rooms=["r2"])
    submit(alice, "r2")
    submit(alice, "r1", priority=5)
    done = taken(narrow.report(narrow.start(), "completed", claim_next=True))
    assert done["next_task"] is None


def test_a_repeat_by_another_token_shows_nothing_of_other_rooms(
    api: Api, worker: Person, alice: Person
) -> None:
    task = submit(alice, "r1")
    asked = {"request_id": "q"}
    assert api.by("w", rooms=["r1"]).claim(**asked)["id"] == task["id"]
    narrow = taken(api.by("w", rooms=["r2"]).post("/tasks/claim", asked))
    assert narrow == {"task": None, "tasks": []}
    assert worker.claim(**asked)["id"] == task["id"]


def test_workers_are_counted_as_far_as_the_token_sees(
    api: Api, worker: Person, alice: Person
) -> None:
    """Of the jobs it sees those of @global are; of the tasks what its rooms have."""
    for room in ("r1", "r1", "r2"):
        submit(alice, room)
    assert len(taken(worker.post("/tasks/claim", {"limit": 9}))["tasks"]) == 3
    counts = {}
    for rooms in (["r1"], ["r2"], ["r3"], None):
        for path in ("/workers", f"/rooms/{rooms[0] if rooms else 'r1'}/workers"):
            [found] = taken(api.by("w", rooms=rooms).get(path))["items"]
            counts[str(rooms), path] = (found["job_count"], found["running_tasks"])
    assert list(counts.values()) == [(2, 2), (2, 2), (2, 1), (2, 1), (1, 0), (1, 0), (3, 3), (3, 3)]
    [found] = taken(api.by("stranger", rooms=[]).get("/rooms/@global/workers"))["items"]
    assert (found["job_count"], found["running_tasks"]) == (1, 0)


def test_why_does_not_tell_who_is_busy_in_another_room(
    api: Api, worker: Person, alice: Person
) -> None:
    submit(alice, "r1")
    task = submit(alice, "r2")
    path = f"/tasks/{task['id']}/why"
    narrow = api.by("bob", rooms=["r2"])
    alive = "1 of 1 workers for r2:modifiers:J is alive"
    idle = taken(narrow.get(path))["reason"]
    assert idle == f"pending: 1st in line; {alive}, 0 busy in rooms of this token"
    api.by("w", rooms=["r1"]).start()
    assert taken(narrow.get(path))["reason"] == idle
    assert taken(alice.get(path))["reason"] == f"pending: 1st in line; {alive}, and busy"
    submit(alice, "r2", priority=1)
    worker.start()
    assert "1 busy in rooms of this token" in taken(narrow.get(path))["reason"]


def test_a_dry_run_of_a_retry_counts_what_it_may_not_name(
    api: Api, worker: Person, alice: Person
) -> None:
    """As the graph does: ``hidden``."""
    carol = api.by("carol", rooms=["r1"])
    first = submit(carol, "r1")
    second = submit(carol, "r1", depends_on=[first["id"]])
    unseen = submit(alice, "r2", depends_on=[first["id"]])
    taken(worker.report(worker.start(), "failed"))
    path = f"/tasks/{first['id']}/retry?dry_run=true"
    plan = taken(carol.post(path))
    assert plan == {"tasks": [first["id"], second["id"]], "hidden": 1}
    refused(carol.get(f"/tasks/{unseen['id']}"), "task-not-found")
    root = api.by("root", is_admin=True)
    assert set(taken(root.post(path))["tasks"]) == {first["id"], second["id"], unseen["id"]}
    taken(carol.post(path.removesuffix("?dry_run=true")))
    assert alice.show(unseen)["status"] == "blocked"


def test_a_refused_retry_does_not_name_a_cause_out_of_sight(
    api: Api, worker: Person, alice: Person
) -> None:
    carol = api.by("carol", rooms=["r1"])
    cause = submit(alice, "r2")
    middle = submit(alice, "r1", depends_on=[cause["id"]])
    last = submit(carol, "r1", depends_on=[middle["id"]])
    taken(worker.report(worker.start(), "failed"))
    for query in ("", "?dry_run=true"):
        answer = carol.post(f"/tasks/{last['id']}/retry{query}")
        detail = refused(answer, "invalid-task-transition")["detail"]
        assert cause["id"] not in detail
        assert f"dependency {middle['id']} failed because of a task" in detail
    root = api.by("root", is_admin=True)
    answer = root.post(f"/tasks/{last['id']}/retry")
    assert cause["id"] in refused(answer, "invalid-task-transition")["detail"]


def test_a_key_that_comes_with_an_id_known_already_is_remembered(
    worker: Person, alice: Person
) -> None:
    """Rules, *Idempotency*: what was answered 2xx is remembered."""
    key = {"idempotency-key": "k"}
    taken(alice.post(PATH, {"id": ID}))
    again = alice.post(PATH, {"id": ID}, headers=key)
    assert (taken(again)["id"], again.headers["idempotency-replayed"]) == (ID, "true")
    refused(alice.post(PATH, {"id": OTHER_ID}, headers=key), "idempotency-key-reused")
    refused(alice.post(PATH, {}, headers=key), "idempotency-key-reused")
    assert taken(alice.post(PATH, {"id": ID}, headers=key))["id"] == ID


def test_such_a_key_of_many_tasks_is_remembered(worker: Person, alice: Person) -> None:
    path, key = "/rooms/r1/tasks", {"idempotency-key": "k"}
    body = {"tasks": [{"job": "r1:modifiers:J"}, {"job": "r1:modifiers:J", "id": ID}]}
    other = {"tasks": [{"job": "r1:modifiers:J", "id": OTHER_ID}]}
    made = taken(alice.post(path, body))
    for headers in (key, key, {}, {"idempotency-key": "l"}):
        again = alice.post(path, body, headers=headers)
        assert [task["id"] for task in taken(again)["items"]] == [
            task["id"] for task in made["items"]
        ]
        assert again.headers["idempotency-replayed"] == "true"
    refused(alice.post(path, other, headers=key), "idempotency-key-reused")
    refused(alice.post(PATH, {}, headers=key), "idempotency-key-reused")


@pytest.mark.parametrize("many", [False, True])
def test_such_a_key_is_remembered_where_a_newer_schema_would_refuse(
    many: bool, worker: Person, alice: Person
) -> None:
    key, one = {"idempotency-key": "k"}, {"id": ID}
    path = "/rooms/r1/tasks" if many else PATH
    body = {"tasks": [{"job": "r1:modifiers:J", **one}]} if many else one
    taken(alice.post(path, body))
    worker.register("J", room="r1", schema={"required": ["axis"]}, replace=True)
    assert alice.post(path, body, headers=key).headers["idempotency-replayed"] == "true"
    answer = alice.post(PATH, {"payload": {"axis": 1}}, headers=key)
    refused(answer, "idempotency-key-reused")
