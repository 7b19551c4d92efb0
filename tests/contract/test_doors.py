"""The doors of this suite: each is the one that it is called, and keeps nothing of a test."""

from __future__ import annotations

from contract_api import SECRET, Api, refused, taken
from contract_doors import Doors
from pydantic import SecretStr

from jobroom.settings import JobLibSettings


def test_each_door_is_the_one_that_it_is_called(door: str, api: Api) -> None:
    """uvicorn says so in each answer; AWS Lambda gives ids to requests that have none."""
    answer = api.nobody.get("/nope")
    assert answer.headers.get("server") == ("uvicorn" if door == "uvicorn" else None)
    instance = refused(answer, "not-found")["instance"]
    assert instance.startswith("urn:uuid:") == (door != "lambda")


def test_what_a_test_changes_inside_ends_with_it(
    door: str, doors: Doors, settings: JobLibSettings
) -> None:
    """The clock, the constants, what is missing and what fails; and its settings."""
    chosen = settings.model_copy(update={"jwt_secret": SecretStr(SECRET)})
    narrow = chosen.model_copy(update={"max_body_bytes": 1024})
    with doors.open(door, narrow) as api:
        person = api.by("alice")
        person.register("Late")
        api.let_pass(3600)
        api.set_constant("jobroom.store.lists.COUNT_LIMIT", 0)
        late = person.submit("r1:modifiers:Late", {})
        refused(person.post("/workers", b" " * 1025), "payload-too-large")
        api.fail_with("StoreUnavailable")
        refused(person.get("/workers"), "store-unavailable")
    with doors.open(door, chosen) as api:
        person = api.by("alice")
        early = person.submit("r1:modifiers:Late", {})
        assert early["created_at"] < late["created_at"]
        assert taken(person.get("/rooms/r1/tasks"))["total"] == 2
        assert person.post("/workers", b"{}" + b" " * 1025).status_code == 201


def test_two_applications_are_two_however_they_are_reached(
    door: str, doors: Doors, settings: JobLibSettings
) -> None:
    """On one store: what one is told changes nothing in the other."""
    chosen = settings.model_copy(update={"jwt_secret": SecretStr(SECRET)})
    with doors.open(door, chosen) as one, doors.open(door, chosen) as other:
        one.by("alice").register("Shared")
        one.fail_with("StoreUnavailable")
        refused(one.by("alice").get("/workers"), "store-unavailable")
        assert taken(other.by("alice").get("/workers"))["total"] == 1
