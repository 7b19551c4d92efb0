"""No answer is longer than it may be, and nothing is lost by that (contract C27, on Lambda too)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import httpx
import pytest
from contract_api import Api, Json, Person, refused, taken

from jobroom.settings import ON_LAMBDA, JobLibSettings

KIB = 1024
MOST = 64 * KIB
GATEWAY = 6_000_000
FREE = "r1:modifiers:Free"
RESULT = "".join(f"{n:09}," for n in range(20_000))


class Room:
    """A room whose job takes anything, reached by a door with a limit and by one without."""

    def __init__(self, make_api: Callable[..., Api], settings: JobLibSettings) -> None:
        self.wide = make_api().by("alice")
        self.narrow = make_api(max_answer_bytes=MOST).by("alice")
        self.wide.register("Free")
        self._path = settings.database_url.removeprefix("sqlite:///")

    def submit(self, size: int = 100, **more: Any) -> Json:
        """A task whose payload has about so many bytes; no limit is in the way."""
        return self.wide.submit(FREE, {"x": "a" * size}, **more)

    def completed(self, result: str = RESULT) -> Json:
        """A task with this result."""
        task = self.submit()
        taken(self.wide.report(self.wide.start(), "completed", result=result))
        return task

    def write(self, *statements: str) -> None:
        """Write to the tables, which is faster than many requests."""
        with closing(sqlite3.connect(self._path)) as file, file:
            for each in statements:
                file.execute(each)

    def read(self, query: str) -> list[tuple[Any, ...]]:
        """Look into the tables."""
        with closing(sqlite3.connect(self._path)) as file:
            return file.execute(query).fetchall()


@pytest.fixture
def room(make_api: Callable[..., Api], settings: JobLibSettings) -> Room:
    """Room r1."""
    return Room(make_api, settings)


def _short(answer: httpx.Response, most: int = MOST) -> Json:
    """The body of a success that is short enough."""
    assert len(answer.content) <= most
    return taken(answer)


# --- claims -----------------------------------------------------------------------------------


def test_claims_bring_as_many_tasks_as_fit_and_all_of_them_in_the_end(room: Room) -> None:
    """Contract, *Claim*: each once; a claim takes nothing that its answer cannot carry."""
    ids = [room.submit(size)["id"] for size in (6000, 10, 2000, 6000, 10, 10, 10, 6000)]
    seen: list[str] = []
    while found := _short(room.narrow.post("/tasks/claim", {"limit": 100}))["tasks"]:
        seen += [task["id"] for task in found]
        assert all(task["payload"] for task in found)
    assert seen == ids


def test_claims_at_the_same_time_lose_nothing(room: Room) -> None:
    """The same, asked for at once: every task in one answer, none held by who was not told."""
    ids = [room.submit(6000 if n % 3 else 10)["id"] for n in range(12)]
    asks = [
        room.narrow.send("POST", "/tasks/claim", {"limit": 100}, headers={"prefer": "wait=1"})
        for _ in range(12)
    ]
    answers = room.narrow.api.together(*asks)
    seen = [task["id"] for answer in answers for task in _short(answer)["tasks"]]
    assert len(seen) == len(set(seen))
    left = room.read("SELECT id FROM task WHERE status = 'pending'")
    assert sorted([*seen, *(row[0] for row in left)]) == sorted(ids)


@pytest.mark.parametrize("wait", [{}, {"prefer": "wait=5"}], ids=["at once", "waiting"])
def test_a_task_that_no_answer_can_carry_is_named_and_stays_pending(
    room: Room, wait: dict[str, str]
) -> None:
    """Never a false null: it was submitted through another door, and that one brings it."""
    task = room.submit(MOST)
    answer = room.narrow.post("/tasks/claim", {"limit": 5}, headers=wait)
    problem = refused(answer, "answer-too-large")
    assert task["id"] in problem["detail"]
    assert str(MOST + len('{"x":""}')) in problem["detail"]
    assert room.wide.claim()["id"] == task["id"]


def test_a_retried_task_with_long_texts_is_claimed_with_their_beginnings(room: Room) -> None:
    """An error may be six times as long in JSON as it is; the payload is whole."""
    room.submit(5000, max_attempts=2)
    task = room.wide.start()
    long = "\x01" * MOST
    taken(room.wide.report(task, "failed", error=long, message=long))
    claimed = _short(room.narrow.post("/tasks/claim"))["task"]
    assert (claimed["id"], claimed["payload"]) == (task["id"], {"x": "a" * 5000})
    assert claimed["error"].endswith(f"[cut from {MOST} bytes]")


# --- reports, and single tasks ----------------------------------------------------------------


def test_a_report_is_taken_whose_answer_leaves_the_result_out(room: Room) -> None:
    """The result is where it always is; its size is told, as in lists."""
    room.submit(5000)
    task = room.narrow.start()
    done = _short(room.narrow.report(task, "completed", result=RESULT))
    assert (done["status"], done["result"]) == ("completed", None)
    assert done["result_bytes"] == len(RESULT) + 2
    assert done["payload"] == {"x": "a" * 5000}
    assert room.wide.show(task)["result"] == RESULT


def test_a_report_brings_the_next_task_beside_a_large_result(room: Room) -> None:
    """Contract: claim_next; what the worker needs of the next task is there."""
    room.submit()
    following = room.submit(10_000)
    task = room.narrow.start()
    said = {"result": RESULT, "claim_next": True, "attempt": task["attempt"]}
    for _ in range(2):  # the second repeats it
        answer = _short(room.narrow.report(task, "completed", **said))
        assert answer["next_task"]["id"] == following["id"]
        assert answer["next_task"]["payload"] == {"x": "a" * 10_000}


def test_a_report_leaves_a_next_task_that_does_not_fit_to_a_claim(room: Room) -> None:
    """The report is taken all the same, and the claim says why it brings nothing."""
    room.submit()
    following = room.submit(MOST)
    task = room.narrow.start()
    answer = _short(room.narrow.report(task, "completed", result=1, claim_next=True))
    assert (answer["status"], answer["next_task"]) == ("completed", None)
    refused(room.narrow.post("/tasks/claim"), "answer-too-large")
    assert room.wide.claim()["id"] == following["id"]


def test_a_task_is_shown_without_what_is_too_long(room: Room) -> None:
    """First without the result, which has an address of its own; then without the payload."""
    small, large = room.completed(), room.submit(MOST)
    shown = _short(room.narrow.get(f"/tasks/{small['id']}"))
    assert (shown["result"], shown["payload"]) == (None, small["payload"])
    shown = _short(room.narrow.get(f"/tasks/{large['id']}"))
    assert (shown["payload"], shown["payload_bytes"]) == (None, MOST + len('{"x":""}'))


def test_a_retry_is_answered_without_what_is_too_long(room: Room) -> None:
    """As every answer with a task in it."""
    room.submit(MOST)
    task = room.wide.start()
    taken(room.wide.report(task, "failed", error="\x01" * MOST, message="\x02" * MOST))
    again = _short(room.narrow.post(f"/tasks/{task['id']}/retry"))
    assert (again["status"], again["payload"]) == ("pending", None)


def test_a_short_answer_has_everything(room: Room) -> None:
    """What fits is as it is without a limit."""
    task = room.completed("short")
    assert _short(room.narrow.get(f"/tasks/{task['id']}")) == room.wide.show(task)


# --- submissions ------------------------------------------------------------------------------


def test_a_payload_that_no_claim_here_could_bring_is_413_before_it_is_taken(room: Room) -> None:
    """Issue 5: refused before anything is taken."""
    body = {"payload": {"x": "a" * MOST}}
    refused(room.narrow.post(f"/rooms/r1/tasks/{FREE}", body), "payload-too-large")
    bulk = {"tasks": [{"job": FREE}, {"job": FREE, **body}]}
    refused(room.narrow.post("/rooms/r1/tasks", bulk), "payload-too-large")
    assert room.read("SELECT count(*) FROM task") == [(0,)]


def test_every_payload_that_is_taken_can_be_claimed(room: Room) -> None:
    """The two limits are one: tried where it lies, byte by byte."""
    low, high = 0, MOST
    while high - low > 1:
        size = (low + high) // 2
        body = {"payload": {"x": "a" * size}}
        if room.narrow.post(f"/rooms/r1/tasks/{FREE}", body).is_success:
            low = size
            assert _short(room.narrow.post("/tasks/claim"))["task"]["payload"] == body["payload"]
        else:
            high = size
    assert 5000 < low < MOST // 2


def test_more_tasks_than_an_answer_can_name_are_413_before_they_are_taken(room: Room) -> None:
    """Issue 5, as above."""
    bulk = {"tasks": [{"job": FREE}] * 500}
    refused(room.narrow.post("/rooms/r1/tasks", bulk), "payload-too-large")
    assert room.read("SELECT count(*) FROM task") == [(0,)]


def test_the_tasks_of_one_request_are_answered_without_what_is_too_long(room: Room) -> None:
    """Each with its id, in order; also when the request is repeated, and the tasks have ended."""
    first = {"job": FREE, "key": "first", "payload": {"x": "a" * 6000}}
    rest = [{"job": FREE, "payload": {"x": "a" * 6000}, "depends_on": ["first"]}] * 25
    key = {"idempotency-key": "once"}
    bulk = {"tasks": [first, *rest]}
    items = _short(room.narrow.post("/rooms/r1/tasks", bulk, headers=key))["items"]
    assert len(items) == 26
    assert items[0]["payload"] is None
    room.write(
        "UPDATE task SET status = 'failed', completed_at = created_at,"  # noqa: S608 - our own
        f" error = hex(zeroblob({MOST // 2})), message = hex(zeroblob({MOST // 2}))"
    )
    again = _short(room.narrow.post("/rooms/r1/tasks", bulk, headers=key))["items"]
    assert [item["id"] for item in again] == [item["id"] for item in items]


def test_a_thousand_tasks_are_answered_on_lambda(make_api: Callable[..., Api]) -> None:
    """The largest request there is, each task waiting for twenty others, under that limit."""
    most = ON_LAMBDA["max_answer_bytes"]
    person = make_api(max_answer_bytes=most, max_body_bytes=4 * KIB * KIB).by("alice")
    person.register("Free" * 15)
    job = "r1:modifiers:" + "Free" * 15
    firsts = [{"job": job, "key": f"{n:0100}"} for n in range(20)]
    needs = [first["key"] for first in firsts]
    rest = [{"job": job, "payload": {"x": "a" * 900}, "depends_on": needs}] * 980
    answer = person.post("/rooms/r1/tasks", {"tasks": [*firsts, *rest]})
    assert len(_short(answer, most)["items"]) == 1000


def test_a_schema_that_no_answer_could_carry_is_413_and_the_job_unknown(room: Room) -> None:
    """Issue 5, as above."""
    schema = {"type": "object", "description": "x" * MOST}
    body = {"category": "modifiers", "name": "Vast", "schema": schema}
    refused(room.narrow.put("/rooms/r1/jobs", body), "payload-too-large")
    refused(room.wide.get("/rooms/r1/jobs/r1:modifiers:Vast"), "job-not-found")


# --- lists ------------------------------------------------------------------------------------


def _pages(person: Person, path: str, most: int) -> list[Json]:
    pages = [_short(person.get(f"{path}?limit=500"), most)]
    while (cursor := pages[-1]["next_cursor"]) is not None:
        pages.append(_short(person.get(f"{path}?limit=500&cursor={cursor}"), most))
    return pages


def _many(room: Room, count: int, *, text: str) -> None:
    """So many failed tasks, each with 64 KiB of error and of message, and 4 KiB of the others."""
    room.submit(4000)
    columns = [row[1] for row in room.read("PRAGMA table_info(task)")]
    told = {
        "seq": "seq + n",
        "id": "substr(id, 1, 24) || printf('%012d', n)",
        "status": "'failed'",
        "completed_at": "created_at",
        "error": text,
        "message": text,
        "result": "payload",
    }
    shown = ", ".join(told.get(name, name) for name in columns)
    room.write(
        f"INSERT INTO task ({', '.join(columns)}) WITH RECURSIVE i(n) AS"  # noqa: S608 - our own names
        f" (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < {count - 1})"
        f" SELECT {shown} FROM task CROSS JOIN i"
    )


PLAIN = f"hex(zeroblob({32 * KIB}))"
ESCAPED = f"replace(hex(zeroblob({32 * KIB})), '0', char(1))"


@pytest.mark.parametrize("text", [PLAIN, ESCAPED], ids=["plain", "six bytes each"])
def test_a_page_of_500_tasks_with_long_texts_stays_under_6_mb_without_any_setting(
    room: Room, text: str
) -> None:
    """Contract C27: lists page by bytes; the pages have all of them, in order, once."""
    _many(room, 500, text=text)
    pages = _pages(room.wide, "/rooms/r1/tasks", GATEWAY)
    ids = [item["id"] for page in pages for item in page["items"]]
    seqs = room.read("SELECT id FROM task ORDER BY seq DESC")
    assert ids == [row[0] for row in seqs]
    failed = pages[0]["items"][0]
    assert failed["error"].endswith("… [cut from 65536 bytes]")
    assert len(failed["error"].encode()) <= KIB
    assert failed["message"].endswith("… [cut from 65536 bytes]")


@pytest.mark.parametrize("path", ["/rooms/r1/tasks", f"/rooms/r1/jobs/{FREE}/tasks"])
def test_a_list_of_tasks_pages_by_bytes(room: Room, path: str) -> None:
    """Under a limit that no three of them fit into."""
    _many(room, 20, text=ESCAPED)
    pages = _pages(room.narrow, path, MOST)
    ids = [item["id"] for page in pages for item in page["items"]]
    assert ids == [row[0] for row in room.read("SELECT id FROM task ORDER BY seq DESC")]
    assert {page["total"] for page in pages} == {20}
    assert {page["limit"] for page in pages} == {500}


def test_a_page_by_offset_that_ends_early_says_where_to_go_on(room: Room) -> None:
    """The next page begins behind the last task shown, not behind the last asked for."""
    _many(room, 20, text=ESCAPED)
    ids = [row[0] for row in room.read("SELECT id FROM task ORDER BY seq DESC")]
    page = _short(room.narrow.get("/rooms/r1/tasks?limit=10&offset=3"))
    count = len(page["items"])
    assert 0 < count < 10
    cursor = page["next_cursor"]
    following = _short(room.narrow.get(f"/rooms/r1/tasks?limit=1&cursor={cursor}"))["items"]
    assert [item["id"] for item in following] == [ids[3 + count]]


def test_a_node_with_more_edges_than_a_page_has_room_for_does_not_end_the_graph(
    room: Room,
) -> None:
    body = [{"job": FREE, "key": f"{n}"} for n in range(600)]
    body.append({"job": FREE, "depends_on": [f"{n}" for n in range(600)]})
    items = taken(room.wide.post("/rooms/r1/tasks", {"tasks": body}))["items"]
    pages = _pages(room.narrow, f"/tasks/{items[-1]['id']}/graph", MOST)
    assert len({node["id"] for page in pages for node in page["items"]}) == 601
    shown = sum(len(page["edges"]) for page in pages)
    assert 0 < shown < 600
    assert shown + sum(page.get("edges_left_out", 0) for page in pages) == 600


def test_a_graph_pages_by_bytes(room: Room) -> None:
    """All nodes and edges, each once."""
    tasks: list[Json] = [{"job": FREE, "key": "0"}]
    tasks += [{"job": FREE, "key": str(n), "depends_on": ["0", str(n - 1)]} for n in range(2, 150)]
    tasks.insert(1, {"job": FREE, "key": "1", "depends_on": ["0"]})
    items = taken(room.wide.post("/rooms/r1/tasks", {"tasks": tasks}))["items"]
    pages = _pages(room.narrow, f"/tasks/{items[0]['id']}/graph", MOST)
    assert len(pages) > 1
    nodes = [node["id"] for page in pages for node in page["items"]]
    assert sorted(nodes) == sorted(item["id"] for item in items)
    edges = [(edge["from"], edge["to"]) for page in pages for edge in page["edges"]]
    assert len(edges) == len(set(edges)) == 1 + 2 * 148
    assert all(
        {edge["to"] for edge in page["edges"]} <= {node["id"] for node in page["items"]}
        for page in pages
    )


def test_jobs_and_workers_page_by_bytes(room: Room) -> None:
    """A job with thousands of workers is shown with some of them, and their number."""
    [(seq,)] = room.read("SELECT seq FROM job")
    count = "WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 3000)"
    room.write(
        "INSERT INTO worker (id, identity, kind, state, created_at, last_heartbeat)"  # noqa: S608
        f" {count} SELECT printf('w%039d', n), 'alice', 'instance', 'active', created_at,"
        " last_heartbeat FROM worker CROSS JOIN i WHERE id = 'alice'",
        f"INSERT INTO worker_job_link (worker_id, job_seq) SELECT id, {seq} FROM worker"  # noqa: S608
        " WHERE id <> 'alice'",
    )
    [job] = _short(room.narrow.get("/rooms/r1/jobs"))["items"]
    assert (job["alive_workers"], len(job["workers"])) == (3001, 10)
    shown = _short(room.narrow.get(f"/rooms/r1/jobs/{FREE}"))
    assert (shown["alive_workers"], len(shown["workers"])) == (3001, 1000)
    again = _short(room.narrow.put("/rooms/r1/jobs", {"category": "modifiers", "name": "Free"}))
    assert again["alive_workers"] == 3001
    for path in ("/workers", "/rooms/r1/workers"):
        ids = [item["id"] for page in _pages(room.narrow, path, MOST) for item in page["items"]]
        assert len(ids) == len(set(ids)) == 3001


def test_a_heartbeat_names_as_many_tasks_to_stop_as_fit(room: Room) -> None:
    """Those that are left come when the first have been reported on."""
    room.submit()
    task = room.wide.start()
    room.write(
        "INSERT INTO notice (worker_id, task_id, created_at) WITH RECURSIVE i(n) AS"  # noqa: S608
        " (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 3000) SELECT 'alice',"
        f" substr(id, 1, 24) || printf('%012d', n), started_at FROM task, i WHERE id='{task['id']}'"
    )
    cancel = _short(room.narrow.patch("/workers/alice"))["cancel"]
    assert 1000 < len(cancel) < 3000
    assert len(taken(room.wide.patch("/workers/alice"))["cancel"]) == 3000


# --- results in parts -------------------------------------------------------------------------

STORED = json.dumps(RESULT).encode()


@pytest.fixture
def result(room: Room) -> tuple[Person, str]:
    """Who asks, with the limit, and the address of a result that is longer."""
    return room.narrow, f"/tasks/{room.completed()['id']}/result"


def test_a_result_over_the_limit_is_refused_with_the_way_to_have_it(
    result: tuple[Person, str],
) -> None:
    """A problem document that says how."""
    person, path = result
    problem = refused(person.get(path), "answer-too-large")
    assert f"Range: bytes=0-{MOST - 1}" in problem["detail"]
    assert str(len(STORED)) in problem["detail"]


def test_a_result_over_the_limit_is_had_in_parts(result: tuple[Person, str]) -> None:
    """RFC 9110, 14: each part says where it lies, and has the same tag."""
    person, path = result
    parts, tags = b"", set()
    while len(parts) < len(STORED):
        answer = person.get(path, headers={"range": f"bytes={len(parts)}-"})
        assert answer.status_code == 206
        assert len(answer.content) <= MOST
        last = len(parts) + len(answer.content) - 1
        assert answer.headers["content-range"] == f"bytes {len(parts)}-{last}/{len(STORED)}"
        parts += answer.content
        tags.add(answer.headers["etag"])
    assert parts == STORED
    assert len(tags) == 1


SIZE = len(STORED)


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        ("BYTES= 5-9", 5, 10),
        (f"bytes={SIZE - 1}-", SIZE - 1, SIZE),
        (f"bytes={SIZE - 1}-{10**17}", SIZE - 1, SIZE),
        ("bytes=-1", SIZE - 1, SIZE),
        (f"bytes=-{SIZE + 5}", 0, MOST),
        (f"bytes=0-{SIZE}", 0, MOST),
    ],
)
def test_a_single_range_of_bytes_is_understood(
    result: tuple[Person, str], asked: str, first: int, end: int
) -> None:
    """RFC 9110, 14.1.2; one over the limit is answered with its beginning (15.3.7)."""
    person, path = result
    answer = person.get(path, headers={"range": asked})
    assert answer.status_code == 206
    assert answer.content == STORED[first:end]
    assert answer.headers["content-range"] == f"bytes {first}-{end - 1}/{SIZE}"


@pytest.mark.parametrize(
    "asked",
    ["", "bytes", "bytes=", "bytes=-", "bytes=9-5", "bytes=0-1,4-5", "items=0-1", "bytes=x-"],
)
def test_what_is_no_single_range_is_ignored(room: Room, asked: str) -> None:
    """RFC 9110, 14.2: a server may ignore the header, and must where it cannot be read."""
    task = room.completed("abc")
    answer = room.narrow.get(f"/tasks/{task['id']}/result", headers={"range": asked})
    assert (answer.status_code, answer.content) == (200, b'"abc"')
    assert answer.headers["accept-ranges"] == "bytes"


def test_a_known_result_is_304_whatever_part_of_it_is_asked_for(room: Room) -> None:
    """RFC 9110, 13.2.2: If-None-Match is looked at before Range."""
    path = f"/tasks/{room.completed('abc')['id']}/result"
    tag = room.narrow.get(path).headers["etag"]
    for part in ({}, {"range": "bytes=0-1"}):
        answer = room.narrow.get(path, headers={"if-none-match": tag, **part})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)


@pytest.mark.parametrize("asked", ["bytes=5-", "bytes=5-9", "bytes=-0", f"bytes={10**17}-"])
def test_a_range_behind_the_end_is_416_with_the_length(room: Room, asked: str) -> None:
    """RFC 9110, 15.5.17."""
    task = room.completed("abc")
    answer = room.narrow.get(f"/tasks/{task['id']}/result", headers={"range": asked})
    refused(answer, "range-not-satisfiable")
    assert answer.headers["content-range"] == "bytes */5"


def test_a_part_is_of_the_same_result_or_the_whole_comes(room: Room) -> None:
    """RFC 9110, 13.1.5: If-Range compares strongly; the tag is that of the task's version."""
    task = room.completed("abc")
    path = f"/tasks/{task['id']}/result"
    tag = room.narrow.get(path).headers["etag"]
    assert room.narrow.get(f"/tasks/{task['id']}").headers["etag"] == f"W/{tag}"
    for known, status in ((tag, 206), (f"W/{tag}", 200), ('"0"', 200), ("yesterday", 200)):
        headers = {"range": "bytes=0-1", "if-range": known}
        assert room.narrow.get(path, headers=headers).status_code == status


def test_a_head_request_for_a_result_has_no_parts(room: Room) -> None:
    """RFC 9110, 14.2: Range is for GET alone."""
    task = room.completed("abc")
    request = room.narrow.send(
        "HEAD", f"/tasks/{task['id']}/result", headers={"range": "bytes=0-1"}
    )
    answer = room.narrow.api.run(request)
    assert (answer.status_code, answer.headers["content-length"]) == (200, "5")


def test_the_limit_on_lambda_leaves_room_for_its_encoding() -> None:
    """A body in base64, in an event of 6 MiB in all with its headers."""
    assert ON_LAMBDA["max_answer_bytes"] * 4 / 3 < 6 * KIB * KIB - 64 * KIB
