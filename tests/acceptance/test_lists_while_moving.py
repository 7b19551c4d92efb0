"""Pages, limits, order and turns at a real server: acceptance cases C31, C32 and C33."""

from __future__ import annotations

import itertools
import random
import sqlite3

import pytest
from live_stage import (
    ROTATE,
    Person,
    beside,
    serving,
    slug,
    submit_many,
    taken,
)

SECOND = 1_000_000
rooms = (f"room{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("lists")) as started:
        yield started


@pytest.fixture(scope="module")
def queue(server):
    """The same file, for what must happen in one tick of the clock, or never happens."""
    with beside(server.folder) as opened:
        yield opened


@pytest.fixture
def alice(server):
    with Person(server, "alice") as person:
        yield person


@pytest.fixture
def admin(server):
    with Person(server, "root", is_admin=True) as person:
        yield person


@pytest.fixture
def room(alice):
    """A room of its own with the job Rotate."""
    name = next(rooms)
    alice.register(room=name)
    return name


def pages(person, path, **query):
    """Each page of a list, by the cursor of the one before; the caller may act between two."""
    cursor = {}
    while True:
        page = taken(person.get(path, params={**query, **cursor}))
        yield page["items"]
        if page["next_cursor"] is None:
            return
        cursor = {"cursor": page["next_cursor"]}


def remove(server, ids):
    """As retention does: the rows are gone."""
    with sqlite3.connect(server.folder / "queue.db", timeout=30) as store:
        store.executemany("DELETE FROM task WHERE id = ?", [(one,) for one in ids])
    store.close()


@pytest.mark.parametrize("limit", [10, 7, 1])
def test_a_hundred_tasks_of_one_tick_are_each_seen_once(server, queue, alice, room, limit):
    """Acceptance C31: single submits, equal created_at; 30 come and 10 go while pages are read."""
    full_name = f"{room}:modifiers:Rotate"
    ids = submit_many(queue, 100, room=room, full_name=full_name, payload='{"angle": 1}')
    chance = random.Random(31)
    gone, come, seen = [], [], []
    for items in pages(alice, f"/rooms/{room}/tasks", limit=limit):
        seen += [item["id"] for item in items]
        if len(come) < 30:
            come += [alice.submit(room=room)["id"] for _ in range(4)]
        if len(gone) < 10:
            gone.append(chance.choice([one for one in ids if one not in gone]))
            remove(server, gone[-1:])
    assert len(seen) == len(set(seen))
    assert set(ids) - set(gone) <= set(seen)
    assert set(seen) <= set(ids)  # newest first: what came later stands before the first page
    ticks = {alice.show({"id": one})["created_at"] for one in set(ids) - set(gone)}
    assert len(ticks) == 1
    # The claims come in the order of submission, though the clock cannot tell it.
    left = [one for one in [*ids, *come] if one not in gone]
    assert [task["id"] for task in alice.drain()] == left


@pytest.mark.parametrize(
    "query",
    [
        {"status": "pending"},
        {"created_by_id": "alice"},
        {"created_by_id": "alice", "status": "pending,running"},
        {"created_by_id": "alice", "status": "running"},
        {"job": ROTATE},
        {"job": ROTATE, "created_by_id": "alice", "status": "pending"},
    ],
)
def test_pages_of_every_filter_hold_while_tasks_come_go_and_move(server, queue, alice, room, query):
    """Acceptance C31, its kind: whichever index the list goes by."""
    full_name = f"{room}:modifiers:Rotate"
    query = {**query, **({"job": full_name} if "job" in query else {})}
    ids = submit_many(queue, 40, room=room, full_name=full_name)
    submit_many(queue, 10, sub="bob", room=room, full_name=full_name)
    if query.get("status") == "running":
        for _ in ids:
            alice.claim(start=True)
    seen = []
    for number, items in enumerate(pages(alice, f"/rooms/{room}/tasks", limit=6, **query)):
        seen += [item["id"] for item in items if item["created_by_id"] == "alice"]
        submit_many(queue, 2, room=room, full_name=full_name)
        remove(server, ids[number : number + 1])
    assert len(seen) == len(set(seen))
    assert set(ids[8:]) <= set(seen)
    assert seen == sorted(seen, key=ids.index, reverse=True)
    alice.drain()


FIGURES = ["-1", "501", "abc", "1e3", str(2**63), str(2**64), "", " 1", "1 ", "+1", "0x10", "1.0",
           "٣", "NaN", "1" * 5000, "%00", "1,2", "null", "true"]  # fmt: skip
CURSORS = ["garbage", "", "=", "AAAA", "W10", "bnVsbA", "WyJ0YXNrcyIsMSx7fV0", "%00", "é",
           "eyJhIjoxfQ==", "W1siYSJdXQ", "9" * 3000, "../../etc/passwd"]  # fmt: skip


def test_no_figure_in_any_list_is_a_fault(server, admin):
    """Acceptance C32: 422 or as documented, at every list there is, for limit, offset, cursor."""
    admin.register()
    task_id = admin.submit()["id"]
    document = taken(admin.get("/openapi.json"))
    lists_there = [
        path.format(room_id="r1", full_name=ROTATE, task_id=task_id)
        for path, operations in document["paths"].items()
        if {one["name"] for one in operations.get("get", {}).get("parameters", [])} >= {"cursor"}
    ]
    assert len(lists_there) == 8
    for path in lists_there:
        for name, text in (
            *(("limit", figure) for figure in FIGURES),
            *(("offset", figure) for figure in FIGURES if figure != "501"),
            *(("cursor", cursor) for cursor in CURSORS),
        ):
            answer = admin.get(f"{path}?{name}={text}")
            assert slug(answer) == "422 validation-error", (path, name, text)
            assert [fault["pointer"] for fault in answer.json()["errors"]] == [f"/{name}"]
        assert taken(admin.get(f"{path}?limit=0"))["items"] == []
        assert taken(admin.get(f"{path}?limit=500"))["limit"] == 500
        # The list of rooms walks over what it passes by, and so says where that ends.
        furthest = 10_000 if path.endswith("/rooms") else 1_000_000
        assert taken(admin.get(f"{path}?offset={furthest}"))["items"] == []


def test_figures_in_bodies_are_no_fault_either(alice):
    """Acceptance C32, its kind: integers past what SQLite holds, wherever a body has a number."""
    alice.register()
    task = alice.submit()
    for figure in ("9223372036854775807", "9223372036854775808", "1e30", "-1e30", "1" * 400):
        for method, path, members in (
            ("POST", "/rooms/r1/tasks/" + ROTATE, ("priority", "max_attempts", "timeout_seconds")),
            ("POST", "/tasks/claim", ("limit",)),
            ("PATCH", f"/tasks/{task['id']}", ("attempt", "progress")),
            (
                "PUT",
                "/rooms/r1/jobs",
                ("max_attempts", "retry_delay_seconds", "timeout_seconds", "result_ttl_seconds"),
            ),
        ):
            for member in members:
                frame = '"category":"modifiers","name":"Rotate",' if method == "PUT" else ""
                body = f'{{{frame}"{member}":{figure}}}'.encode()
                answer = alice.ask(method, path, body)
                # An attempt may be any number: then it is not this one.
                assert answer.status_code in {200, 202, 403, 409, 422}, (member, figure)
                if member != "attempt":
                    assert answer.status_code == 422, (member, figure, answer.text)


@pytest.fixture
def judge(server):
    """An admin who serves nothing yet."""
    with Person(server, "judge", is_admin=True) as person:
        yield person


def test_a_task_of_another_room_is_claimed_within_two_claims_of_10000(server, queue, judge):
    """Acceptance C33: room A 10,000 tasks, then room B 1, a fair job of @global, one worker."""
    judge.register("Fair", room="@global", order="fair")
    name = "@global:modifiers:Fair"
    submit_many(queue, 10_000, sub="a", room="rA", full_name=name)
    served = [judge.claim() for _ in range(50)]
    assert {task["room_id"] for task in served} == {"rA"}
    made = taken(judge.post(f"/rooms/rB/tasks/{name}"))
    assert made["id"] in [judge.claim()["id"] for _ in range(2)]
    # The clean-up is a part of the case: rooms that drain start anew from where the job stands.
    with sqlite3.connect(server.folder / "queue.db", timeout=30) as store:
        store.execute("DELETE FROM task WHERE room_id = 'rA'")
    store.close()
    again = taken(judge.post(f"/rooms/rA/tasks/{name}"))
    assert judge.claim()["id"] == again["id"]
