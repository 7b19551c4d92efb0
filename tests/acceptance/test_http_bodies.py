"""Hostile and large bodies at a real server: acceptance cases C26, C27 and C37."""

from __future__ import annotations

import json
import sqlite3

import pytest
from lambda_stage import DOORS, EVENT_MIB, Deployed, serving_on
from live_stage import (
    CLAIM,
    PROBLEM,
    ROTATE,
    SUBMIT,
    Person,
    connect,
    raw_request,
    read_answer,
    sdk,
    slug,
    taken,
)

from jobroom.client.extension import Extension

MIB = 1024 * 1024
BODY_LIMIT = MIB
RESULT_LIMIT = 16 * MIB

AS_WRITTEN = [
    b'{"payload":{"angle":NaN}}',
    b'{"payload":{"angle":Infinity}}',
    b'{"payload":{"angle":-Infinity}}',
    b'{"payload":{"angle":1e400}}',
    b'{"payload":{"angle":1},"payload":{"angle":2}}',
    b'{"payload":{"angle":1,"angle":2}}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"payload":{"angle":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    b'{"payload":{"angle":' + b"9" * 5000 + b"}}",
    rb'{"payload":{"angle":1,"a":"\ud800"}}',
    b'{"payload":{"angle":1,"a":"\xff"}}',
    b'\xef\xbb\xbf{"payload":{"angle":1}}',
    b"[]",
    b"null",
    b'"x"',
]
"""Wherever these stand in a body; an empty body is all defaults where a body is optional."""


@pytest.fixture(scope="module", params=DOORS)
def server(request, tmp_path_factory):
    with serving_on(request.param, request, tmp_path_factory.mktemp("bodies")) as started:
        yield started


@pytest.fixture
def alice(server):
    with Person(server, "alice") as person:
        person.register()
        person.drain()
        yield person


@pytest.fixture
def running(alice):
    alice.submit()
    return alice.claim(start=True)


def with_body(alice, task):
    """Every request that has a body."""
    worker = taken(alice.post("/workers", {}))
    return [
        ("PUT", "/rooms/r1/jobs"),
        ("POST", SUBMIT),
        ("POST", CLAIM),
        ("POST", "/workers"),
        ("PATCH", f"/tasks/{task['id']}"),
        ("PATCH", f"/workers/{worker['id']}"),
    ]


def test_no_hostile_body_is_taken_by_any_route(alice, running):
    """Acceptance C26: each 400/422 naming the place, at every route that reads a body."""
    before = alice.show(running)
    for method, path in with_body(alice, running):
        for body in AS_WRITTEN:
            answer = alice.ask(method, path, body)
            if method == "PATCH" and "/workers/" in path and answer.is_success:
                continue  # a heartbeat has no body: what comes with it is not read
            assert slug(answer) == "422 validation-error", (path, body[:40])
            places = [fault["pointer"] for fault in answer.json()["errors"]]
            assert places
            assert all(place == "" or place.startswith("/") for place in places)
    assert alice.show(running) == before
    assert taken(alice.get("/rooms/r1/tasks?status=pending"))["total"] == 0


def test_an_empty_body_is_refused_where_a_body_is_needed(alice, running):
    """Acceptance C26: an empty body at a registration and at a report."""
    for method, path in (("PUT", "/rooms/r1/jobs"), ("PATCH", f"/tasks/{running['id']}")):
        assert slug(alice.ask(method, path, b"")) == "422 validation-error"


def nested(depth, inner=b"1"):
    return b"[" * depth + inner + b"]" * depth


ODD = {
    "a number of 30 digits": b"123456789012345678901234567890",
    "a tiny number": b"5e-400",
    "minus zero": b"-0.0",
    "nesting that is allowed": nested(90),
    "an escaped surrogate pair": rb'"\ud83d\ude00"',
    "a key that is empty": b'{"":1}',
    "a key like a prototype": b'{"__proto__":{"a":1},"constructor":1}',
    "line separators": '"\u2028\u2029"'.encode(),
    "a noncharacter": rb'"\uffff\ufdd0"',
}


@pytest.mark.parametrize("case", ODD)
def test_what_was_accepted_can_be_read_by_everybody(alice, case):
    """Acceptance C26, its kind: never accepted, and then a fault on GET, claim or list."""
    text = b'{"angle":1,"x":' + ODD[case] + b"}"
    made = taken(alice.post(SUBMIT, b'{"payload":' + text + b"}"))
    answers = [
        alice.get(f"/tasks/{made['id']}"),
        alice.get("/rooms/r1/tasks?limit=1"),
        alice.post(CLAIM, {"start": True}),
        alice.patch(f"/tasks/{made['id']}", b'{"status":"completed","result":' + ODD[case] + b"}"),
    ]
    for answer in answers:
        assert b'"payload":' + text in answer.content
    assert alice.get(f"/tasks/{made['id']}/result").content == ODD[case]


def of_size(size):
    frame = len(b'{"payload":{"angle":1,"x":""}}')
    return b'{"payload":{"angle":1,"x":"%s"}}' % (b"a" * (size - frame))


@pytest.mark.parametrize("mib", [1.0, 1.1, 5.9, 6.1, 50.0])
def test_a_payload_is_taken_up_to_the_limit_and_413_beyond(server, alice, mib):
    """Acceptance C27: 1 MiB, 5.9 MiB, 6.1 MiB, 50 MiB; the limit stands in the problem."""
    headers = {"content-type": "application/json", "expect": "100-continue"}
    answer = alice.http.post(SUBMIT, content=of_size(int(mib * MIB)), headers=headers)
    if isinstance(server, Deployed) and mib > EVENT_MIB:
        assert answer.status_code == 413  # in the gateway's words: the function never hears of it
    elif mib <= 1:
        assert answer.status_code == 202
    else:
        assert slug(answer) == "413 payload-too-large"
        assert str(BODY_LIMIT) in answer.json()["detail"]
    assert alice.get("/healthz").is_success


ROUTES_AND_LIMITS = {
    "register": ("PUT", "/rooms/r1/jobs", BODY_LIMIT),
    "submit": ("POST", SUBMIT, BODY_LIMIT),
    "claim": ("POST", CLAIM, BODY_LIMIT),
    "worker": ("POST", "/workers", BODY_LIMIT),
    "report": ("PATCH", "/tasks/01890a5d-ac96-774b-bcce-b302099a8057", RESULT_LIMIT),
}


# A gateway reads a body to its end before it asks anybody.
@pytest.mark.parametrize("server", ["uvicorn"], indirect=True)
@pytest.mark.parametrize("name", ROUTES_AND_LIMITS)
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_413_comes_before_the_body_has_come(alice, name, framing):
    """Acceptance C27: before reading it all, by Content-Length and by chunks, at every route."""
    method, path, limit = ROUTES_AND_LIMITS[name]
    headers = {"content-type": "application/json"}
    if framing == "length":
        headers["content-length"] = str(limit + 1)
        sent = b"{"
    else:
        headers["transfer-encoding"] = "chunked"
        sent = b"%x\r\n%b\r\n" % (limit + 1, b" " * (limit + 1))
    with connect(alice.server) as connection:
        connection.sendall(raw_request(alice, method, path, headers=headers))
        connection.sendall(sent)
        # The body has no end, and never will have one: whoever waits for it hangs here.
        status, fields, text = read_answer(connection)
    assert (status, fields["content-type"]) == (413, PROBLEM)
    assert str(limit) in json.loads(text)["detail"]


class Break(Extension):
    """Fails with as much text as it is told to, or returns as much."""

    kind: str

    def run(self, vis, **kwargs):
        if self.kind == "raise":
            raise RuntimeError("é" * (10 * MIB))
        return "r" * (20 * MIB)


def run_one(server, kind):
    with sdk(server, "breaker") as jobs:
        jobs.register(Break, room="r1")
        made = jobs.submit(Break(kind=kind))
        next(jobs.listen(1.0)).run(None)
        return jobs.wait(made["id"], timeout=0)


def test_20_mb_of_error_text_by_the_sdk_are_cut_with_a_mark(server):
    """Acceptance C27: the report arrives, cut; the beginning of the error is kept."""
    task = run_one(server, "raise")
    assert task["status"] == "failed"
    assert task["error"].startswith("RuntimeError: éé")
    assert "cut" in task["error"][-60:]
    assert len(task["error"].encode()) <= 64 * 1024


def test_a_result_of_20_mb_by_the_sdk_fails_with_what_to_know(server):
    """Contract, *Errors*: the SDK turns a 413 on its report into ``failed: result too large``."""
    task = run_one(server, "return")
    assert (task["status"], task["result"]) == ("failed", None)
    assert "result too large" in task["error"].lower()


def test_a_list_of_100_tasks_with_all_that_fits_stays_under_6_mb(alice):
    """Acceptance C27: 100 tasks with large payloads and 2 MB of error, or a 1 MB result."""
    large = of_size(MIB // 2)
    for ended in ({"status": "failed", "error": "e" * 2_000_000}, {"result": "r" * 1_000_000}):
        alice.post(SUBMIT, large)
        taken(alice.report(alice.claim(start=True), **{"status": "completed", **ended}))
    add_copies(alice.server.folder / "queue.db", of_newest=2, count=49)
    page = alice.get("/rooms/r1/tasks?limit=100")
    items = taken(page)["items"]
    assert len(items) == 100
    assert len(page.content) < 6_000_000
    assert {item["payload"] for item in items} == {None}
    assert {item["payload_bytes"] for item in items} == {len(large) - len('{"payload":}')}
    completed, failed = (
        [item for item in items if item["status"] == status] for status in ("completed", "failed")
    )
    assert {(item["result"], item["result_bytes"]) for item in completed} == {(None, 1_000_002)}
    assert {"cut" in item["error"][-60:] for item in failed} == {True}
    # The whole is there for who asks for the task itself.
    assert len(alice.get(f"/tasks/{completed[-1]['id']}/result").content) == 1_000_002
    assert 60_000 < len(alice.show(failed[-1])["error"].encode()) <= 64 * 1024


def add_copies(path, *, of_newest, count):
    """So many copies of each of the newest tasks, under other ids."""
    with sqlite3.connect(path) as store:
        names = [row[1] for row in store.execute("PRAGMA table_info(task)") if row[1] != "seq"]
        columns = ", ".join(names)
        new_id = "printf('01890a5d-ac96-774b-bcce-%012x', seq * 1000 + n)"
        store.execute(
            f"INSERT INTO task ({columns})"  # noqa: S608 - names of columns
            " WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < ?)"
            f" SELECT {columns.replace('id,', new_id + ',', 1)} FROM count CROSS JOIN"
            " (SELECT * FROM task ORDER BY seq DESC LIMIT ?)",
            (count, of_newest),
        )
    store.close()


CONTROL = [*range(0x20), *range(0x7F, 0xA0)]
ALL_CONTROL = "".join(map(chr, CONTROL))


def test_nul_in_a_payload_comes_back_byte_for_byte(alice):
    """Acceptance C37: stored and returned byte-exact, by every answer that shows it."""
    text = rb'{"angle":1,"s":"a\u0000b"}'
    made = alice.post(SUBMIT, b'{"payload":' + text + b"}")
    task_id = made.json()["id"]
    for answer in (
        made,
        alice.get(f"/tasks/{task_id}"),
        alice.get("/rooms/r1/tasks?limit=1"),
        alice.post(CLAIM, {"start": True}),
    ):
        assert b'"payload":' + text in answer.content
        assert "a\0b" in answer.text.encode().decode("unicode_escape")


def test_an_error_with_nul_and_colours_is_kept_as_documented(alice, running):
    """Acceptance C37: NUL is U+2400 in error and message (rules, *Text*), ANSI codes stay."""
    text = "a\0b\x1b[31mred\x1b[0m"
    taken(alice.report(running, "failed", error=text, message=text))
    shown = alice.show(running)
    assert shown["error"] == shown["message"] == "a\u2400b\x1b[31mred\x1b[0m"


def test_every_control_character_has_one_answer_everywhere(alice, running):
    """Acceptance C37, its kind: C0 and C1 in keys, values, results, errors, names and labels."""
    kept = {"angle": 1, ALL_CONTROL: ALL_CONTROL}
    assert alice.show(alice.submit(kept))["payload"] == kept
    taken(alice.report(running, progress=0.5, message=ALL_CONTROL))
    assert alice.show(running)["message"] == ALL_CONTROL.replace("\0", "\u2400")
    done = taken(alice.report(running, "completed", result=kept))
    assert done["result"] == kept
    assert json.loads(alice.get(f"/tasks/{running['id']}/result").content) == kept
    for letter in ALL_CONTROL:
        name = f"a{letter}b"
        body = {"category": "modifiers", "name": name}
        assert slug(alice.put("/rooms/r1/jobs", body)) == "422 validation-error"
        # Labels and descriptions are kept or refused, and what was kept is shown as it was sent.
        worker = alice.post("/workers", {"name": name})
        assert worker.status_code in {201, 422}, letter
        described = alice.put(
            "/rooms/r1/jobs", {"category": "modifiers", "name": "Rotate", "description": name}
        )
        assert described.status_code in {200, 422}, letter
        if described.is_success:
            shown = taken(alice.get(f"/rooms/r1/jobs/{ROTATE}"))
            assert shown["description"] in {name, name.replace("\0", "\u2400")}
