"""The overview: rooms with their counts, what goes on in one, and why a task is not running."""

from __future__ import annotations

from typing import Any

import pytest
from contract_api import ANGLE, Api, Json, Person, listed, pointers, refused, taken

SMALLEST = 64 * 1024
"""Bytes: what a server may be told to send at most."""


def test_the_list_of_rooms_counts_what_they_have(wanda: Person, alice: Person) -> None:
    for _ in range(3):
        alice.submit()
    wanda.start()
    page = taken(alice.get("/rooms"))
    assert page == {
        "items": [
            {
                "room_id": "r1",
                "jobs": 1,
                "alive_workers": 1,
                "blocked": 0,
                "pending": 2,
                "claimed": 0,
                "running": 1,
                "failed": 0,
                "capped": [],
            }
        ],
        "total": 1,
        "limit": 50,
        "offset": 0,
        "next_cursor": None,
        "total_capped": False,
    }


def test_rooms_are_turned_page_by_page(alice: Person) -> None:
    """Contract, *Lists*: {items, total, limit, offset, next_cursor}."""
    rooms = [f"r{n}" for n in range(5)]
    for room in rooms:
        alice.register(room=room)
    found, cursor, pages = [], "", 0
    while cursor is not None:
        page = taken(alice.get(f"/rooms?limit=2{cursor and f'&cursor={cursor}'}"))
        found += [item["room_id"] for item in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1
        assert page["total"] == 5
    assert (found, pages) == (rooms, 3)
    assert listed(alice.get("/rooms?limit=2&offset=3"), "room_id") == ["r3", "r4"]
    assert taken(alice.get("/rooms?limit=0"))["items"] == []


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=501", "/limit"),
        ("limit=x", "/limit"),
        ("offset=-1", "/offset"),
        ("offset=10001", "/offset"),
        ("cursor=x", "/cursor"),
        ("cursor=abc&offset=1", "/cursor"),
    ],
)
def test_a_part_of_the_rooms_that_cannot_be_is_422(query: str, pointer: str, alice: Person) -> None:
    """Contract, *Lists*; a list of rooms is walked, so its offset ends at 10,000."""
    assert pointers(refused(alice.get(f"/rooms?{query}"), "validation-error")) == [pointer]


def test_a_cursor_of_another_list_is_422(wanda: Person) -> None:
    """Rules, *Lists*."""
    for n in range(2):
        wanda.register(f"N{n}")
    cursor = taken(wanda.get("/rooms/r1/jobs?limit=1"))["next_cursor"]
    refused(wanda.get(f"/rooms?cursor={cursor}"), "validation-error")


def test_rooms_outside_the_token_are_not_listed(api: Api, wanda: Person) -> None:
    """Rules, *Who sees what*: the token's rooms bind admins too, @global is seen by all."""
    wanda.register(room="r2")
    api.by("root", is_admin=True).register("Align", room="@global")
    for is_admin in (False, True):
        fenced = api.by("fenced", rooms=["r2", "r3"], is_admin=is_admin)
        assert listed(fenced.get("/rooms"), "room_id") == ["@global", "r2"]
    assert listed(wanda.get("/rooms"), "room_id") == ["@global", "r1", "r2"]


def test_what_was_submitted_in_global_is_counted_for_admins_alone(api: Api, alice: Person) -> None:
    """Rules, *Who sees what*: its task list needs admin."""
    root = api.by("root", is_admin=True)
    root.register("Align", room="@global")
    root.submit("@global:modifiers:Align", {}, room="@global")

    def counted(by: Person) -> tuple[Any, Any]:
        [room] = taken(by.get("/rooms"))["items"]
        return room["jobs"], room["pending"]

    assert (counted(root), counted(alice)) == ((1, 1), (1, None))
    assert taken(root.get("/rooms/@global/stats"))["tasks"]["pending"] == 1
    refused(alice.get("/rooms/@global/stats"), "forbidden")


def _worked(wanda: Person, alice: Person) -> None:
    """A room with a task that ended well, one that ended badly, and one that waits."""
    for status in ("completed", "failed"):
        alice.submit()
        task = wanda.start()
        said: Json = {"result": 1} if status == "completed" else {"error": "no"}
        taken(wanda.report(task, status, **said))
    alice.submit()


def test_the_stats_of_a_room_count_by_job_and_status(
    api: Api, wanda: Person, alice: Person
) -> None:
    _worked(wanda, alice)
    api.let_pass(40)
    found = taken(alice.get("/rooms/r1/stats"))
    counts = {
        "blocked": 0,
        "pending": 1,
        "claimed": 0,
        "running": 0,
        "completed": 1,
        "failed": 1,
        "cancelled": 0,
    }
    assert found["oldest_pending_seconds"] == pytest.approx(40, abs=15)
    assert found["tasks"] == counts
    assert (found["job_count"], found["alive_workers"], found["capped"]) == (1, 1, [])
    [job] = found["jobs"]
    assert (job["full_name"], job["tasks"]) == ("r1:modifiers:Rotate", counts)
    assert (job["alive_workers"], job["capped"]) == (1, [])
    assert (found["jobs_left_out"], found["counted_to"]) == (False, 10_000)


def test_a_count_that_reaches_its_limit_says_so(api: Api, wanda: Person, alice: Person) -> None:
    """Contract, *Lists*: a total is exact to its limit, then it is capped, and says so."""
    for name in ("http.overview", "service.overview", "store.room_jobs"):
        api.set_constant(f"jobroom.{name}.COUNT_LIMIT", 2)
    api.set_constant("jobroom.service.overview.MOST_COUNTED", 1)
    for _ in range(3):
        alice.submit()
    found = taken(alice.get("/rooms/r1/stats"))
    assert (found["tasks"]["pending"], found["capped"]) == (2, ["pending"])
    assert (found["jobs"][0]["tasks"]["pending"], found["jobs"][0]["capped"]) == (2, ["pending"])
    for room in ("r2", "r3"):
        wanda.register(room=room)
    page = taken(alice.get("/rooms"))
    assert (page["items"][0]["pending"], page["items"][0]["capped"]) == (1, ["pending"])
    assert (page["total"], page["total_capped"]) == (2, True)


def test_a_room_without_anything_has_stats_of_zeros(alice: Person) -> None:
    found = taken(alice.get("/rooms/nowhere/stats"))
    assert (set(found["tasks"].values()), found["jobs"]) == ({0}, [])
    assert found["oldest_pending_seconds"] is None


def test_jobs_that_an_answer_has_no_room_for_are_left_out(make_api: Any) -> None:
    """Contract C27: no answer is longer than a server may send."""
    api = make_api(max_answer_bytes=SMALLEST)
    wanda = api.by("wanda")
    for n in range(200):
        wanda.register(f"{n:03}" + "n" * 200)
    found = taken(wanda.get("/rooms/r1/stats"))
    assert found["jobs_left_out"]
    assert 0 < len(found["jobs"]) < 200


def test_why_a_task_is_not_running_is_one_sentence(api: Api, wanda: Person, alice: Person) -> None:
    first = alice.submit()
    second = alice.submit(depends_on=[first["id"]])
    api.let_pass(250)
    said = taken(alice.get(f"/tasks/{first['id']}/why"))
    assert said["status"] == "pending"
    assert said["reason"] == (
        "pending: 1st in line; 0 of 1 workers for r1:modifiers:Rotate are alive,"
        " the last was seen 4 min ago; start one"
    )
    said = taken(alice.get(f"/tasks/{second['id']}/why"))
    assert said["reason"] == (
        f"blocked: waits for task {first['id']} (r1:modifiers:Rotate, pending)"
    )


def test_a_task_out_of_sight_is_not_explained(api: Api, wanda: Person, alice: Person) -> None:
    """Rules, *Who sees what*: but its creator always reads his task."""
    wanda.register("Hidden", room="r2", schema=ANGLE)
    task = alice.submit("r2:modifiers:Hidden", room="r2")
    address = f"/tasks/{task['id']}/why"
    refused(api.by("fenced", rooms=["r1"]).get(address), "task-not-found")
    taken(api.by("alice", rooms=["r1"]).get(address))
