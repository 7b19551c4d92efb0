"""Schedules over HTTP: what is answered, what is refused, and how a name travels."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
from contract_api import ANGLE, ROTATE, Api, Json, Person, listed, pointers, q, refused, taken

from jobroom.settings import JobLibSettings

HOUR = 3600
DAILY = {"name": "nightly", "job": ROTATE, "payload": {"angle": 90}, "cron": "0 3 * * *"}
HOURLY = {"name": "hourly", "job": ROTATE, "payload": {"angle": 1.0}, "every_seconds": HOUR}
ADDRESS = "/rooms/r1/schedules"


def put(person: Person, body: Json, **more: object) -> Json:
    return taken(person.put(ADDRESS, {**body, **more}))


@pytest.fixture
def alice(wanda: Person) -> Person:
    """Somebody who puts schedules for a job that wanda serves."""
    return wanda.api.by("alice")


def test_a_new_schedule_is_201_and_the_same_again_200(alice: Person) -> None:
    made = alice.put(ADDRESS, DAILY)
    assert made.status_code == 201
    again = alice.put(ADDRESS, DAILY)
    assert (again.status_code, again.json()) == (200, made.json())
    changed = alice.put(ADDRESS, {**DAILY, "cron": "0 4 * * *"})
    assert changed.status_code == 200
    assert changed.json()["next_at"] != made.json()["next_at"]
    assert changed.json()["id"] == made.json()["id"]


def test_the_answer_says_all_that_was_said_and_the_next_five_times(alice: Person) -> None:
    said = {
        **DAILY,
        "timezone": "Europe/Berlin",
        "catch_up": "skip",
        "paused": False,
        "start_at": "2090-01-01T00:00:00.000000Z",
        "end_at": "2091-01-01T00:00:00.000000Z",
        "priority": 5,
        "max_attempts": 2,
        "timeout_seconds": 30.5,
    }
    found = put(alice, said)
    assert {name: found[name] for name in said} == said
    assert found["upcoming"] == [f"2090-01-0{day}T02:00:00.000000Z" for day in range(1, 6)]
    assert found["next_at"] == found["upcoming"][0]
    assert taken(alice.get(f"{ADDRESS}/nightly")) == found


def test_a_due_schedule_is_fired_by_a_sweep_and_tells_its_task(alice: Person) -> None:
    put(alice, HOURLY)
    alice.api.let_pass(HOUR + 60)
    assert alice.api.sweep()["fired_schedules"] == 1
    assert alice.api.sweep()["fired_schedules"] == 0
    found = taken(alice.get(f"{ADDRESS}/hourly"))
    [task] = taken(alice.get("/rooms/r1/tasks?created_by_id=alice"))["items"]
    assert (task["id"], task["key"]) == (found["last_task_id"], "hourly")
    assert task["payload"] == {"angle": 1.0}
    assert found["last_at"] == task["created_at"]
    assert found["last_error"] is None


def test_a_paused_schedule_tells_no_next_time(alice: Person) -> None:
    found = put(alice, HOURLY, paused=True)
    assert (found["next_at"], found["upcoming"]) == (None, [])
    alice.api.let_pass(2 * HOUR)
    assert alice.api.sweep()["fired_schedules"] == 0
    assert put(alice, HOURLY, paused=False)["next_at"] is not None
    assert alice.api.sweep()["fired_schedules"] == 1


def test_what_no_longer_fits_may_be_paused_and_not_resumed(wanda: Person, alice: Person) -> None:
    put(alice, DAILY)
    text = {"type": "object", "properties": {"angle": {"type": "string"}}}
    wanda.register(schema=text, replace=True)
    assert put(alice, DAILY, paused=True)["paused"] is True
    refused(alice.put(ADDRESS, DAILY), "payload-invalid")


def test_a_payload_that_no_longer_fits_is_told(alice: Person) -> None:
    put(alice, HOURLY)
    alice.api.by("wanda").register(schema={**ANGLE, "required": ["axis"]}, replace=True)
    alice.api.let_pass(HOUR + 60)
    assert alice.api.sweep()["fired_schedules"] == 0
    assert "does not fit" in taken(alice.get(f"{ADDRESS}/hourly"))["last_error"]


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"cron": "61 * * * *"}, "/cron"),
        ({"cron": "* * * *"}, "/cron"),
        ({"cron": "0 0 31 2 *"}, "/cron"),
        ({"cron": None}, ""),
        ({"every_seconds": 60}, ""),
        ({"cron": None, "every_seconds": 0.5}, "/every_seconds"),
        ({"timezone": "Mars/Olympus"}, "/timezone"),
        ({"catch_up": "some"}, "/catch_up"),
        ({"start_at": "tomorrow"}, "/start_at"),
        ({"end_at": "1990-01-01T00:00:00Z"}, "/end_at"),
        ({"name": "a/b"}, "/name"),
        ({"name": ""}, "/name"),
        ({"job": None}, "/job"),
    ],
)
def test_what_cannot_be_is_422_with_its_place(wrong: Json, place: str, alice: Person) -> None:
    problem = refused(alice.put(ADDRESS, {**DAILY, **wrong}), "validation-error")
    assert pointers(problem) == [place]


def test_a_payload_is_checked_when_it_is_put(alice: Person) -> None:
    problem = refused(alice.put(ADDRESS, {**DAILY, "payload": {}}), "payload-invalid")
    assert pointers(problem) == ["/payload"]
    large = {"angle": 1, "much": "x" * 70_000}
    refused(alice.put(ADDRESS, {**DAILY, "payload": large}), "payload-too-large")


def test_others_may_look_but_neither_change_nor_remove(alice: Person, bob: Person) -> None:
    put(alice, DAILY)
    assert listed(bob.get(ADDRESS), "name") == ["nightly"]
    refused(bob.put(ADDRESS, DAILY), "forbidden")
    refused(bob.delete(f"{ADDRESS}/nightly"), "forbidden")
    admin = alice.api.by("root", is_admin=True)
    assert put(admin, DAILY, priority=1)["created_by_id"] == "alice"
    assert admin.delete(f"{ADDRESS}/nightly").status_code == 204
    refused(admin.delete(f"{ADDRESS}/nightly"), "not-found")


def test_a_room_that_is_not_seen_is_404(alice: Person) -> None:
    """Rules, *Who sees what*; it binds admins too."""
    put(alice, DAILY)
    fenced = alice.api.by("alice", is_admin=True, rooms=["r2"])
    refused(fenced.put(ADDRESS, DAILY), "not-found")
    refused(fenced.get(ADDRESS), "not-found")
    refused(fenced.get(f"{ADDRESS}/nightly"), "not-found")
    refused(fenced.delete(f"{ADDRESS}/nightly"), "not-found")


def test_global_schedules_are_an_admins(alice: Person) -> None:
    admin = alice.api.by("root", is_admin=True)
    admin.register("Align", room="@global")
    body = {"name": "all", "job": "@global:modifiers:Align", "every_seconds": HOUR}
    refused(alice.put("/rooms/@global/schedules", body), "forbidden")
    assert admin.put("/rooms/@global/schedules", body).status_code == 201
    assert listed(admin.get("/rooms/@global/schedules"), "name") == ["all"]
    assert alice.put(ADDRESS, body).status_code == 201


@pytest.mark.path_as_sent("an HTTP API of API Gateway decodes paths, a function URL not")
@pytest.mark.parametrize("name", ["plain", "with space", "ünïcode ✓", "a%2Fb", "?&#=+", "..."])
def test_a_name_travels_percent_encoded(name: str, alice: Person) -> None:
    """Contract, *Jobs*: whatever is accepted round-trips through every route."""
    put(alice, DAILY, name=name)
    assert taken(alice.get(f"{ADDRESS}/{q(name)}"))["name"] == name
    assert listed(alice.get(ADDRESS), "name") == [name]
    assert alice.delete(f"{ADDRESS}/{q(name)}").status_code == 204


def test_a_list_comes_in_parts_by_name_with_short_payloads(alice: Person) -> None:
    for name in ("c", "a", "b"):
        put(alice, DAILY, name=name)
    put(alice, DAILY, name="b", payload={"angle": 1, "much": "x" * 5000})
    page = taken(alice.get(f"{ADDRESS}?limit=2"))
    assert [item["name"] for item in page["items"]] == ["a", "b"]
    assert (page["total"], page["items"][1]["payload"]) == (3, None)
    assert page["items"][1]["payload_bytes"] > 5000
    rest = taken(alice.get(f"{ADDRESS}?limit=2&cursor={page['next_cursor']}"))
    assert ([item["name"] for item in rest["items"]], rest["next_cursor"]) == (["c"], None)
    assert taken(alice.get(f"{ADDRESS}/b"))["payload"]["angle"] == 1


@pytest.mark.in_process_only("a server with a setting of its own takes seconds to start")
def test_an_answer_that_must_be_short_leaves_the_payload_out(make_api: Callable[..., Api]) -> None:
    api = make_api()
    api.by("wanda").register(schema=ANGLE)
    put(api.by("alice"), DAILY, payload={"angle": 1, "much": "x" * 65_400})
    small = make_api(max_answer_bytes=64 * 1024).by("alice")
    shown = taken(small.get(f"{ADDRESS}/nightly"))
    assert (shown["payload"], shown["payload_bytes"] > 65_400) == (None, True)


def test_a_server_without_a_calendar_says_what_it_needs(alice: Person) -> None:
    alice.api.miss("apscheduler.triggers.cron")
    assert "APScheduler" in refused(alice.put(ADDRESS, DAILY), "not-found")["detail"]
    assert put(alice, HOURLY)["next_at"] is not None


def test_numbers_of_a_payload_come_back_and_go_out_as_they_were_sent(alice: Person) -> None:
    alice.api.by("wanda").register("Exact")
    body = (
        b'{"name": "exact", "job": "r1:modifiers:Exact", "every_seconds": 3600,'
        b' "payload": {"large": 123456789012345678901234567890, "one": 1.0}}'
    )
    assert (
        b'{"large": 123456789012345678901234567890, "one": 1.0}' in alice.put(ADDRESS, body).content
    )
    alice.api.let_pass(HOUR + 60)
    alice.api.sweep()
    assert b"123456789012345678901234567890" in alice.get("/rooms/r1/tasks").content


@pytest.mark.parametrize(
    "how",
    ["next_at = 'soon'", "end_at = x'ff'", "created_at = 'once'", "every_seconds = 'often'"],
)
def test_a_damaged_row_is_shown_with_what_to_do_and_hides_nobody(
    how: str, alice: Person, settings: JobLibSettings
) -> None:
    put(alice, HOURLY)
    put(alice, DAILY)
    path = settings.database_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f"UPDATE schedule SET {how} WHERE name = 'hourly'")  # noqa: S608 - our own
    found = taken(alice.get(f"{ADDRESS}/hourly"))
    assert found["last_error"].endswith("; put it again.")
    items = taken(alice.get(ADDRESS))["items"]
    assert [item["last_error"] for item in items] == [found["last_error"], None]
    assert put(alice, HOURLY)["last_error"] is None
    assert len(taken(alice.get(f"{ADDRESS}/hourly"))["upcoming"]) == 5
