"""Entity tags of tasks, and the id by which a problem is found in the server's log."""

from __future__ import annotations

import re

import pytest
from contract_api import Api, Person, refused, taken
from rest_table import UUID


def _tag(person: Person, path: str) -> int:
    """The version in a task's entity tag."""
    tag = person.get(path).headers["etag"]
    found = re.fullmatch(r'W/"(\d+)"', tag)
    assert found is not None, tag
    return int(found[1])


def test_the_tag_rises_with_each_write_of_the_task(wanda: Person, alice: Person) -> None:
    """Rules, *ETag*: weak, the row's version."""
    task = alice.submit()
    path = f"/tasks/{task['id']}"
    tags = [_tag(alice, path)]
    wanda.claim()
    tags.append(_tag(alice, path))
    for report in ({"status": "running"}, {"progress": 0.5}, {"status": "completed"}):
        taken(wanda.patch(path, report))
        tags.append(_tag(alice, path))
    assert tags == sorted(set(tags))


def test_the_place_in_the_queue_is_outside_the_tag(wanda: Person, alice: Person) -> None:
    """Rules, *ETag*: queue_position outside it."""
    alice.submit()
    task = alice.submit()
    before = _tag(alice, f"/tasks/{task['id']}")
    wanda.claim()
    assert alice.show(task)["queue_position"] == 1
    assert _tag(alice, f"/tasks/{task['id']}") == before


@pytest.mark.parametrize("known", ['W/"1"', '"1"', '"x", W/"1"', "*", 'W/"7",W/"1"'])
def test_a_known_tag_is_304_without_a_body(known: str, wanda: Person, alice: Person) -> None:
    """Contract, *Tasks*: If-None-Match; RFC 9110, 13.1.2: weak comparison, lists, a star."""
    task = alice.submit()
    answer = alice.get(f"/tasks/{task['id']}", headers={"if-none-match": known})
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == 'W/"1"'


@pytest.mark.parametrize("known", ['W/"2"', '"11"', "1", "", "garbage"])
def test_another_tag_is_200(known: str, wanda: Person, alice: Person) -> None:
    """Contract, *Tasks*: what the client knows is old, or no tag at all."""
    task = alice.submit()
    answer = alice.get(f"/tasks/{task['id']}", headers={"if-none-match": known})
    assert taken(answer)["id"] == task["id"]


def test_a_known_tag_of_a_hidden_task_is_404(wanda: Person, alice: Person, api: Api) -> None:
    """Acceptance C24: 304 would tell that it exists."""
    task = alice.submit()
    fenced = api.by("fenced", rooms=["r2"])
    answer = fenced.get(f"/tasks/{task['id']}", headers={"if-none-match": "*"})
    refused(answer, "task-not-found")


@pytest.mark.parametrize("sent", ["abc-123", "0190163d-8694-739b-aea5-966c26f8ad91"])
def test_a_problem_bears_the_request_id_that_was_sent(sent: str, alice: Person) -> None:
    """Contract, *Errors*: instance is the request's id."""
    answer = alice.get("/tasks/x", headers={"x-request-id": sent})
    assert refused(answer, "task-not-found")["instance"] == sent


@pytest.mark.parametrize("sent", ["", "x" * 256, "a\tb", None])
def test_a_problem_without_a_fit_request_id_gets_one_of_its_own(
    sent: str | None, alice: Person
) -> None:
    """Contract, *Errors*: no header of a client is repeated unread."""
    headers = {} if sent is None else {"x-request-id": sent}
    problems = [refused(alice.get("/tasks/x", headers=headers), "task-not-found") for _ in "ab"]
    first, second = (problem["instance"] for problem in problems)
    # AWS Lambda gives each request an id that has none; the others are our own.
    assert re.fullmatch(f"{'(urn:uuid:)?' if sent is None else 'urn:uuid:'}{UUID}", first)
    assert first != second
