"""One submission, however often it is sent (acceptance C21; rules, *Idempotency*)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from contract_api import ROTATE, Api, Json, Person, pointers, refused, taken

PATH = f"/rooms/r1/tasks/{ROTATE}"
DAY = 24 * 3600
ID = "01890a5d-ac96-774b-bcce-b302099a8057"
RIGHT = {"payload": {"angle": 90}}


def _submit(person: Person, key: str | None = "k1", body: object = RIGHT) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return person.post(PATH, body, headers=headers)


def _count(person: Person) -> int:
    found: int = taken(person.get("/rooms/r1/tasks?limit=0"))["total"]
    return found


def test_a_repeat_gives_the_first_answer_again(wanda: Person, alice: Person) -> None:
    """Acceptance C21: one task, the same id and Location, and it is said to be a repeat."""
    first, again = _submit(alice), _submit(alice)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert first.headers["location"] == again.headers["location"]
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert _count(alice) == 1


@pytest.mark.parametrize("how", ["key", "id"])
def test_two_at_once_make_one_task(how: str, api: Api, wanda: Person, alice: Person) -> None:
    """Acceptance C21: the second while the first is in flight; rules: the second waits."""
    more: dict[str, Any] = {"headers": {"idempotency-key": "k"}} if how == "key" else {}
    body = RIGHT if how == "key" else {**RIGHT, "id": ID}
    answers = api.together(*(alice.send("POST", PATH, body, **more) for _ in range(10)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    replayed = [answer.headers.get("idempotency-replayed") for answer in answers]
    assert sorted(replayed, key=str) == [None, *["true"] * 9]
    assert _count(alice) == 1


def test_a_repeat_shows_the_task_as_it_is_now(wanda: Person, alice: Person) -> None:
    """Rules, *Idempotency*: the answer is the task as it is now."""
    _submit(alice)
    wanda.report(wanda.start(), "completed", result=7)
    again = taken(_submit(alice))
    assert (again["status"], again["result"]) == ("completed", 7)


@pytest.mark.parametrize(
    "body",
    [
        {"payload": {"angle": 91}},
        {"payload": {"angle": 90.0}},
        {**RIGHT, "priority": 1},
        {**RIGHT, "id": ID},
    ],
)
def test_another_request_with_the_key_is_422(body: Json, wanda: Person, alice: Person) -> None:
    """Acceptance C21: other payload 422; rules: canonical JSON of the body."""
    _submit(alice)
    refused(_submit(alice, body=body), "idempotency-key-reused")
    assert _count(alice) == 1


def test_another_address_with_the_key_is_422(wanda: Person, alice: Person) -> None:
    """Rules, *Idempotency*: the request is method, path and body."""
    alice.register("Turn")
    _submit(alice)
    headers = {"idempotency-key": "k1"}
    answer = alice.post("/rooms/r1/tasks/r1:modifiers:Turn", RIGHT, headers=headers)
    refused(answer, "idempotency-key-reused")


def test_the_order_of_members_makes_no_other_request(wanda: Person, alice: Person) -> None:
    """Rules, *Idempotency*: canonical JSON."""
    first = _submit(alice, body=b'{"payload":{"angle":90,"b":1},"priority":0}')
    again = _submit(alice, body=b'{ "priority": 0, "payload": {"b":1, "angle":90} }')
    assert taken(first)["id"] == taken(again)["id"]


def test_another_identity_with_the_key_is_separate(
    wanda: Person, alice: Person, bob: Person
) -> None:
    """Acceptance C21: U2's is separate; rules: scope is identity + key."""
    assert taken(_submit(alice))["id"] != taken(_submit(bob))["id"]


def test_another_key_is_another_task(wanda: Person, alice: Person) -> None:
    """Contract, *Tasks*: one key, one task; none, always a new one."""
    ids = {taken(_submit(alice, key))["id"] for key in ("a", "b", "A", None, None)}
    assert len(ids) == 5


@pytest.mark.parametrize(("seconds", "is_new"), [(DAY - 1, False), (DAY, True)])
def test_a_key_lives_24_hours_by_the_stores_clock(
    seconds: int, is_new: bool, api: Api, wanda: Person, alice: Person
) -> None:
    """Acceptance C21: after TTL new."""
    first = taken(_submit(alice))
    api.let_pass(seconds)
    again = _submit(alice)
    assert (taken(again)["id"] != first["id"]) == is_new
    assert ("idempotency-replayed" not in again.headers) == is_new


def test_another_request_may_take_a_key_that_has_died(
    api: Api, wanda: Person, alice: Person
) -> None:
    """Acceptance C21: after 24 hours the key is free."""
    _submit(alice)
    api.let_pass(DAY)
    assert _submit(alice, body={"payload": {"angle": 1}}).status_code == 202
    assert taken(_submit(alice, body={"payload": {"angle": 1}}))["payload"] == {"angle": 1}
    assert _count(alice) == 2


def test_retention_spares_a_task_while_its_key_lives(api: Api, alice: Person) -> None:
    """Rules, *Idempotency*: retention never removes a task while its key lives."""
    alice.register("Short", result_ttl_seconds=1)
    path = "/rooms/r1/tasks/r1:modifiers:Short"
    task = taken(alice.post(path, headers={"idempotency-key": "k"}))
    alice.report(task, "cancelled")
    for hours, total in ((23, 1), (2, 0)):
        api.let_pass(hours * 3600)
        api.sweep()
        assert _count(alice) == total


def test_a_refused_request_is_not_remembered(wanda: Person, alice: Person) -> None:
    """Rules, *Idempotency*: only 2xx is remembered."""
    refused(_submit(alice, body={"payload": {"angle": "wide"}}), "payload-invalid")
    assert _submit(alice).status_code == 202


@pytest.mark.parametrize(("key", "is_good"), [("k" * 255, True), ("k" * 256, False), ("", False)])
def test_a_key_has_1_to_255_characters(
    key: str, is_good: bool, wanda: Person, alice: Person
) -> None:
    """Contract, *Tasks*: text up to 255."""
    answer = _submit(alice, key)
    if is_good:
        assert taken(answer)["status"] == "pending"
    else:
        refused(answer, "validation-error")


def test_an_id_of_the_clients_choice_makes_a_repeat_safe(wanda: Person, alice: Person) -> None:
    """Rules, *Idempotency*: same id, identity and request = replay."""
    body = {**RIGHT, "id": ID.upper()}
    first, again = _submit(alice, None, body), _submit(alice, None, body)
    assert taken(first)["id"] == taken(again)["id"] == ID
    assert again.headers["idempotency-replayed"] == "true"


def test_a_taken_id_is_409_for_another_request_or_identity(
    wanda: Person, alice: Person, bob: Person
) -> None:
    """Rules, *Idempotency*: else 409 task-exists."""
    body = {**RIGHT, "id": ID}
    _submit(alice, None, body)
    refused(_submit(alice, None, {**body, "priority": 1}), "task-exists")
    refused(_submit(bob, None, body), "task-exists")
    assert _count(alice) == 1


def test_an_id_that_is_no_uuid_is_422_at_its_place(wanda: Person, alice: Person) -> None:
    """Contract, *Tasks*: id is a UUID."""
    problem = refused(_submit(alice, None, {**RIGHT, "id": "mine"}), "validation-error")
    assert pointers(problem) == ["/id"]


def test_a_repeat_is_not_judged_by_a_newer_schema(wanda: Person, alice: Person) -> None:
    """Rules, *Idempotency*: the first answer again, though the job's schema was replaced since."""
    first = _submit(alice)
    wanda.register(schema={"required": ["axis"]}, replace=True)
    again = _submit(alice)
    assert taken(again)["id"] == taken(first)["id"]
    assert again.headers["idempotency-replayed"] == "true"
    refused(_submit(alice, "k2"), "payload-invalid")
    refused(_submit(alice, body={"payload": {"angle": 1}}), "idempotency-key-reused")
