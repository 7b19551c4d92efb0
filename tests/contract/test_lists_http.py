"""Lists: limits, offsets, filters, totals, and cursors that hold while rows come and go."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from contract_api import ANGLE, ROTATE, Api, Json, Person, listed, pointers, q, refused, taken

from jobroom.http import paging
from jobroom.store import lists

TASKS = "/rooms/r1/tasks"
LISTS = [TASKS, f"/rooms/r1/jobs/{ROTATE}/tasks", "/rooms/r1/jobs", "/workers", "/rooms/r1/workers"]


def _submit(person: Person, count: int) -> list[str]:
    return [person.submit()["id"] for _ in range(count)]


def _pages(person: Person, path: str, limit: int) -> list[Json]:
    """All pages of a list, each by the cursor of the one before."""
    mark = "&" if "?" in path else "?"
    pages = [taken(person.get(f"{path}{mark}limit={limit}"))]
    bare = path.partition("?")[0]
    while pages[-1]["next_cursor"] is not None:
        cursor = pages[-1]["next_cursor"]
        pages.append(taken(person.get(f"{bare}?limit={limit}&cursor={cursor}")))
    return pages


def _ids(pages: list[Json]) -> list[str]:
    return [item["id"] for page in pages for item in page["items"]]


@pytest.mark.parametrize(
    "query",
    [
        "limit=-1",
        "limit=501",
        "limit=abc",
        "limit=1e3",
        "limit=1.0",
        "limit=",
        "limit=%201",
        f"limit={2**63}",
        f"limit={10**30}",
        "limit=%D9%A3",
        "limit=1&limit=2",
        "limit=+1",
    ],
)
def test_a_limit_outside_0_to_500_is_422(query: str, wanda: Person) -> None:
    """Acceptance C32; contract, *Lists*: 0..500, outside 422."""
    for path in LISTS:
        problem = refused(wanda.get(f"{path}?{query}"), "validation-error")
        assert pointers(problem) == ["/limit"]


@pytest.mark.parametrize("offset", [str(2**63), "-1", "abc", "1000001", ""])
def test_an_offset_that_cannot_be_is_422(offset: str, wanda: Person) -> None:
    """Acceptance C32: 2^63 must not reach the store."""
    for path in LISTS:
        problem = refused(wanda.get(f"{path}?offset={offset}"), "validation-error")
        assert pointers(problem) == ["/offset"]


@pytest.mark.parametrize("path", LISTS)
def test_limit_0_tells_the_total_alone(path: str, wanda: Person) -> None:
    """Contract, *Lists*: limit 0..500."""
    wanda.submit()
    page = taken(wanda.get(f"{path}?limit=0"))
    assert (page["items"], page["total"], page["limit"], page["next_cursor"]) == ([], 1, 0, None)


@pytest.mark.parametrize("path", LISTS)
def test_a_list_says_which_part_of_it_this_is(path: str, wanda: Person) -> None:
    """Contract, *Lists*: {items, total, limit, offset, next_cursor}; limit is 50 by default."""
    page = taken(wanda.get(path))
    assert (page["limit"], page["offset"], page["total_capped"]) == (50, 0, False)
    page = taken(wanda.get(f"{path}?limit=500&offset=1000000"))
    assert (page["limit"], page["offset"], page["items"]) == (500, 1_000_000, [])


def test_tasks_come_newest_first_by_sequence(wanda: Person) -> None:
    """Rules, *Lists*: newest first, never by a clock: the store's stands still here."""
    wanda.api.let_pass(-60)
    ids = _submit(wanda, 5)
    wanda.api.let_pass(-60)
    ids += _submit(wanda, 5)
    assert listed(wanda.get(TASKS)) == ids[::-1]
    assert listed(wanda.get(f"{TASKS}?limit=3&offset=2")) == ids[::-1][2:5]


def test_each_task_is_seen_once_while_tasks_come_and_go(wanda: Person) -> None:
    """Acceptance C31: the first hundred exactly once, while 30 come and 10 go."""
    wanda.register("Short", result_ttl_seconds=1)
    first = [wanda.submit("r1:modifiers:Short", {})["id"] for _ in range(10)] + _submit(wanda, 90)
    page = taken(wanda.get(f"{TASKS}?limit=10"))
    seen = [item["id"] for item in page["items"]]
    for round_ in range(3):
        _submit(wanda, 10)
        if round_ == 1:
            for task in first[:10]:
                wanda.patch(f"/tasks/{task}", {"status": "cancelled"})
            wanda.api.let_pass(5)
            assert wanda.api.sweep()["removed_tasks"] == 10
        page = taken(wanda.get(f"{TASKS}?limit=10&cursor={page['next_cursor']}"))
        seen += [item["id"] for item in page["items"]]
    while page["next_cursor"]:
        page = taken(wanda.get(f"{TASKS}?limit=10&cursor={page['next_cursor']}"))
        seen += [item["id"] for item in page["items"]]
    assert seen == first[:9:-1]


def test_a_cursor_holds_when_the_item_it_names_is_gone(wanda: Person) -> None:
    """Contract, *Lists*: the cursor is stable while rows go."""
    wanda.register("Short", result_ttl_seconds=1)
    old = wanda.submit()["id"]
    gone = wanda.submit("r1:modifiers:Short", {})
    page = taken(wanda.get(f"{TASKS}?limit=1"))
    assert page["items"][0]["id"] == gone["id"]
    wanda.report(gone, "cancelled")
    wanda.api.let_pass(5)
    wanda.api.sweep()
    assert listed(wanda.get(f"{TASKS}?cursor={page['next_cursor']}")) == [old]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_last_page_has_no_cursor(count: int, wanda: Person) -> None:
    """Contract, *Lists*: next_cursor is null where nothing follows, also when the page is full."""
    ids = _submit(wanda, count)
    pages = _pages(wanda, TASKS, 2)
    assert _ids(pages) == ids[::-1]
    assert len(pages) == (count + 1) // 2


def test_a_cursor_carries_its_filters(wanda: Person, bob: Person) -> None:
    """Rules, *Lists*: what it carries need not be sent again."""
    wanda.register("Turn")
    ids = []
    for _ in range(4):
        ids.append(wanda.submit()["id"])
        bob.submit()
        cancelled = wanda.submit()
        wanda.report(cancelled, "cancelled")
        wanda.submit("r1:modifiers:Turn", {})
    path = f"{TASKS}?status=pending&created_by_id=wanda&job={ROTATE}"
    pages = _pages(wanda, path, 3)
    assert _ids(pages) == ids[::-1]
    assert {page["total"] for page in pages} == {4}


def test_a_cursor_beside_the_filters_it_carries_is_fine(wanda: Person) -> None:
    """A client that always sends its filters is no error."""
    ids = _submit(wanda, 2)
    path = f"{TASKS}?status=pending,failed&limit=1"
    cursor = taken(wanda.get(path))["next_cursor"]
    assert listed(wanda.get(f"{path}&cursor={cursor}")) == [ids[0]]


@pytest.mark.parametrize("more", ["status=failed", "created_by_id=bob", "job=r1:modifiers:Turn"])
def test_a_cursor_beside_other_filters_is_422(more: str, wanda: Person) -> None:
    """Rules, *Lists*: a page of another list would be a silent lie."""
    wanda.register("Turn")
    _submit(wanda, 2)
    cursor = taken(wanda.get(f"{TASKS}?status=pending&limit=1"))["next_cursor"]
    answer = wanda.get(f"{TASKS}?cursor={cursor}&{more}")
    assert pointers(refused(answer, "validation-error")) == ["/cursor"]


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_beside_an_offset_is_422(path: str, wanda: Person) -> None:
    """Rules, *Lists*: cursor and offset together: 422, however good each is."""
    _submit(wanda, 2)
    wanda.register("Turn")
    worker_id = taken(wanda.post("/workers"))["id"]
    wanda.register(schema=ANGLE, worker_id=worker_id)
    cursor = taken(wanda.get(f"{path}?limit=1"))["next_cursor"]
    assert wanda.get(f"{path}?cursor={cursor}").status_code == 200
    answer = wanda.get(f"{path}?cursor={cursor}&offset=0")
    assert pointers(refused(answer, "validation-error")) == ["/cursor"]


MARKS = {
    "tasks": paging.list_mark("tasks", "r1"),
    "jobs": paging.list_mark("jobs", "r1"),
    "workers": paging.list_mark("workers", ""),
}


def _made_up(value: Any) -> str:
    """What has the shape of a cursor, with the mark of a list where it names one."""
    if isinstance(value, list) and value and value[0] in MARKS:
        value = [MARKS[value[0]], *value[1:]]
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


FILTERS: Json = {"status": [], "job": None, "created_by_id": None}
GARBAGE = [
    "garbage",
    "",
    "=",
    "é",
    "%00",
    "W10",
    base64.b64encode(b"\xff\xfe").decode(),
    base64.b64encode(b"[" * 5000).decode(),
    base64.b64encode(b"9" * 5000).decode(),
    *map(
        _made_up,
        [
            None,
            {},
            [],
            5,
            "text",
            [1, {}],
            [1, []],
            [1, None],
            ["tasks", 1],
            ["tasks", 1, {}],
            ["tasks", 1, []],
            ["tasks", "x", FILTERS],
            ["tasks", True, FILTERS],
            ["tasks", 1.0, FILTERS],
            ["tasks", -1, FILTERS],
            ["tasks", 2**63, FILTERS],
            ["tasks", 10**30, FILTERS],
            ["tasks", 1, {**FILTERS, "status": "pending"}],
            ["tasks", 1, {**FILTERS, "status": ["done"]}],
            ["tasks", 1, {**FILTERS, "status": [[]]}],
            ["tasks", 1, {**FILTERS, "job": 5}],
            ["tasks", 1, {**FILTERS, "created_by_id": []}],
            ["tasks", 1, {**FILTERS, "created_by_id": "\ud800"}],
            ["tasks", 1, {**FILTERS, "room": "r2"}],
            ["jobs", "x", {}],
            ["jobs", 2**63, {}],
            ["jobs", 1, FILTERS],
            ["workers", 1, {}],
            ["workers", "\ud800", {}],
            ["workers", None, {}],
        ],
    ),
]


@pytest.mark.parametrize("cursor", GARBAGE)
def test_a_cursor_that_no_list_gave_is_422(cursor: str, wanda: Person) -> None:
    """Acceptance C32: garbage, and garbage in the shape of a cursor."""
    for path in LISTS:
        answer = wanda.get(f"{path}?cursor={q(cursor)}")
        assert pointers(refused(answer, "validation-error")) == ["/cursor"]


def test_a_cursor_of_another_list_is_422(wanda: Person) -> None:
    """Acceptance C32, its kind: a cursor goes back to the list that gave it."""
    _submit(wanda, 2)
    wanda.register("Turn")
    wanda.post("/workers")
    kinds = {"tasks": TASKS, "jobs": "/rooms/r1/jobs", "workers": "/workers"}
    cursors = {kind: taken(wanda.get(f"{p}?limit=1"))["next_cursor"] for kind, p in kinds.items()}
    assert None not in cursors.values()
    for kind, path in kinds.items():
        for other in cursors.keys() - {kind}:
            refused(wanda.get(f"{path}?cursor={cursors[other]}"), "validation-error")


def test_a_made_up_cursor_that_is_right_is_taken(wanda: Person) -> None:
    """What is refused above is refused for what it says, and not for its mark."""
    first, _ = _submit(wanda, 2)
    cursor = _made_up(["tasks", 2, FILTERS])
    assert listed(wanda.get(f"{TASKS}?cursor={cursor}")) == [first]


def test_a_cursor_of_the_same_list_elsewhere_is_422(wanda: Person) -> None:
    """Rules, *Lists*: another room's, another graph's, or that of all rooms together."""
    rooms = ("r1", "r2")
    wanda.register(room="r2")
    graphs = []
    for room in rooms:
        rotate = f"{room}:modifiers:Rotate"
        first = wanda.submit(rotate, room=room)
        wanda.submit(rotate, room=room, depends_on=[first["id"]])
        graphs.append(f"/tasks/{first['id']}/graph")
        wanda.register("Turn", room=room, worker_id=taken(wanda.post("/workers"))["id"])
        for name in ("a", "b"):
            body = {"name": name, "job": rotate, "payload": {"angle": 1}, "every_seconds": 60}
            taken(wanda.put(f"/rooms/{room}/schedules", body))
    families = [
        *([f"/rooms/{room}/{of}" for room in rooms] for of in ("tasks", "jobs", "schedules")),
        graphs,
        ["/workers", "/rooms/r1/workers", "/rooms/r2/workers"],
    ]
    for family in families:
        for path in family:
            cursor = taken(wanda.get(f"{path}?limit=1"))["next_cursor"]
            for other in family:
                answer = wanda.get(f"{other}?cursor={cursor}")
                if other == path:
                    taken(answer)
                else:
                    assert pointers(refused(answer, "validation-error")) == ["/cursor"]


def test_a_graphs_cursor_goes_with_any_spelling_of_its_task(wanda: Person) -> None:
    first = wanda.submit()
    wanda.submit(depends_on=[first["id"]])
    cursor = taken(wanda.get(f"/tasks/{first['id']}/graph?limit=1"))["next_cursor"]
    taken(wanda.get(f"/tasks/{first['id'].upper()}/graph?cursor={cursor}"))


def test_a_cursor_of_a_jobs_tasks_goes_on_in_the_rooms_list_too(wanda: Person) -> None:
    """Rules, *Lists*: it carries its filters, of which the job is one."""
    first, _ = _submit(wanda, 2)
    cursor = taken(wanda.get(f"/rooms/r1/jobs/{ROTATE}/tasks?limit=1"))["next_cursor"]
    assert listed(wanda.get(f"{TASKS}?cursor={cursor}")) == [first]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("status=pending", {"pending"}),
        ("status=pending&status=failed", {"pending", "failed"}),
        ("status=pending,failed", {"pending", "failed"}),
        ("status=pending,failed&status=running,pending", {"pending", "failed", "running"}),
        ("status=blocked", set()),
        ("", {"pending", "failed", "running", "claimed", "completed", "cancelled"}),
    ],
)
def test_statuses_may_be_repeated_or_listed_with_commas(
    query: str, expected: set[str], staged: dict[str, str], api: Api
) -> None:
    """Contract, *Lists*: ?status=."""
    for path in (TASKS, f"/rooms/r1/jobs/{ROTATE}/tasks"):
        page = taken(api.by("alice").get(f"{path}?{query}"))
        assert {item["status"] for item in page["items"]} == expected
        assert page["total"] == len(expected)


@pytest.mark.parametrize("status", ["done", "", "pending,", "PENDING", "pending failed"])
def test_a_status_that_is_none_is_422(status: str, wanda: Person) -> None:
    """Contract, *Lists*; the message lists those that there are."""
    problem = refused(wanda.get(f"{TASKS}?status={q(status)}"), "validation-error")
    assert pointers(problem) == ["/status"]
    assert "cancelled" in problem["detail"]


def test_a_list_may_be_of_one_creator(wanda: Person, bob: Person) -> None:
    """Contract, *Lists*: ?created_by_id=, and who is not there has none."""
    wanda.submit()
    theirs = bob.submit()["id"]
    assert listed(bob.get(f"{TASKS}?created_by_id=bob")) == [theirs]
    assert listed(bob.get(f"{TASKS}?created_by_id=b%00b")) == []


def test_a_list_may_be_of_one_job(wanda: Person) -> None:
    """Contract, *Lists*: ?job=, the same as the job's own list."""
    wanda.register("Turn")
    wanda.submit()
    turn = wanda.submit("r1:modifiers:Turn", {})["id"]
    assert listed(wanda.get(f"{TASKS}?job=r1:modifiers:Turn")) == [turn]
    assert listed(wanda.get("/rooms/r1/jobs/r1:modifiers:Turn/tasks")) == [turn]


def test_a_list_shows_the_place_in_the_queue(wanda: Person) -> None:
    """Contract, *Tasks*: queue_position is filled by GET and by lists, and null elsewhere."""
    submitted = [wanda.submit() for _ in range(3)]
    assert [task["queue_position"] for task in submitted] == [None, None, None]
    assert listed(wanda.get(TASKS), "queue_position") == [3, 2, 1]
    assert wanda.show(submitted[1])["queue_position"] == 2
    assert wanda.claim()["queue_position"] is None


@pytest.mark.parametrize(("count", "total", "capped"), [(4, 4, False), (5, 5, False), (6, 5, True)])
def test_a_total_is_exact_up_to_the_limit_of_counting(
    count: int, total: int, capped: bool, wanda: Person
) -> None:
    """Contract, *Lists*: exact to 10,000 (here 5), then that number with total_capped."""
    wanda.api.set_constant("jobroom.store.lists.COUNT_LIMIT", 5)
    wanda.api.set_constant("jobroom.http.paging.COUNT_LIMIT", 5)
    _submit(wanda, count)
    page = taken(wanda.get(f"{TASKS}?limit=2"))
    assert (page["total"], page["total_capped"]) == (total, capped)


def test_totals_are_counted_to_ten_thousand() -> None:
    """Contract, *Lists*: the number."""
    assert lists.COUNT_LIMIT == 10_000


@pytest.mark.parametrize("limit", [1, 2, 3, 500])
def test_jobs_are_paged_by_cursor(limit: int, admin: Person) -> None:
    """Contract, *Jobs*: a page of the room's and the @global ones, each once."""
    names = [f"n{number}" for number in range(5)]
    for number, name in enumerate(names):
        admin.register(name, room="@global" if number % 2 else "r1")
        admin.register(name, room="r2")
    pages = _pages(admin, "/rooms/r1/jobs", limit)
    assert [item["name"] for page in pages for item in page["items"]] == names
    assert {page["total"] for page in pages} == {5}


@pytest.mark.parametrize("limit", [1, 2, 3, 500])
@pytest.mark.parametrize("path", ["/workers", "/rooms/r1/workers"])
def test_workers_are_paged_by_cursor(path: str, limit: int, wanda: Person) -> None:
    """Contract, *Workers*: each once, new ones between the pages or not."""
    made = [taken(wanda.post("/workers"))["id"] for _ in range(4)]
    for worker_id in made:
        wanda.register(schema=None, replace=True, worker_id=worker_id)
    pages = _pages(wanda, path, limit)
    assert sorted(_ids(pages)) == sorted(["wanda", *made])
    assert {page["total"] for page in pages} == {5}


@pytest.mark.parametrize("path", LISTS)
def test_jobs_and_workers_take_an_offset_too(path: str, wanda: Person) -> None:
    """Contract, *Lists*: limit and offset, as in 0.1.7."""
    wanda.submit()
    assert listed(wanda.get(f"{path}?offset=1")) == []
    assert taken(wanda.get(f"{path}?offset=1"))["total"] == 1
