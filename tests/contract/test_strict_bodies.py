"""What a body may be; what it says is kept to the letter (contract, *Errors*, "Bodies")."""

from __future__ import annotations

import json
from typing import Any

import pytest
from contract_api import PROBLEM, Api, Json, Person, pointers, refused, slug_of, taken

SUBMIT = "/rooms/r1/tasks/r1:modifiers:Free"


@pytest.fixture
def free(alice: Person) -> Person:
    """Alice, whose job r1:modifiers:Free takes any payload."""
    alice.register("Free")
    return alice


REFUSED_TEXTS = {
    "NaN": (b'{"payload":{"angle":NaN}}', ["/payload"]),
    "Infinity": (b'{"payload":{"angle":Infinity}}', ["/payload"]),
    "-Infinity": (b'{"payload":{"angle":-Infinity}}', ["/payload"]),
    "1e400": (b'{"payload":{"angle":1e400}}', ["/payload"]),
    "-1e400": (b'{"payload":{"angle":-1e400}}', ["/payload"]),
    "duplicate member": (b'{"payload":{},"payload":{}}', ["/payload"]),
    "duplicate key inside": (b'{"payload":{"a":1,"a":2}}', ["/payload"]),
    "deep nesting": (b'{"payload":{"a":' + b"[" * 100_000, [""]),
    "deep and closed": (b'{"payload":{"a":' + b"[" * 200 + b"]" * 200 + b"}}", [""]),
    "deep objects": (b'{"a":' * 200 + b"1" + b"}" * 200, [""]),
    "5,000 digits": (b'{"payload":{"a":' + b"9" * 5000 + b"}}", ["/payload"]),
    "lone surrogate": (rb'{"payload":{"a":"\ud800"}}', ["/payload"]),
    "lone low surrogate": (rb'{"payload":{"a":"x\udc00y"}}', ["/payload"]),
    "surrogate in a key": (rb'{"payload":{"\ud800":1}}', ["/payload"]),
    "invalid UTF-8": (b'{"payload":{"a":"\xff"}}', [""]),
    "encoded surrogate": (b'{"payload":{"a":"\xed\xa0\x80"}}', [""]),
    "UTF-16": ('{"payload":{}}'.encode("utf-16"), [""]),
    "byte order mark": (b"\xef\xbb\xbf{}", [""]),
    "array": (b"[]", [""]),
    "null": (b"null", [""]),
    "string": (b'"x"', [""]),
    "number": (b"1", [""]),
    "only space": (b"  \n", [""]),
    "cut off": (b'{"payload":', ["/payload"]),
    "trailing comma": (b'{"payload":{},}', [""]),
    "comment": (b'{/* no */"payload":{}}', [""]),
    "single quotes": (b"{'payload':{}}", [""]),
    "text behind": (b"{} {}", [""]),
    "raw control": (b'{"payload":{"a":"\x01"}}', ["/payload"]),
    "raw NUL": (b'{"payload":{"a":"\x00"}}', ["/payload"]),
    "leading zero": (b'{"payload":{"a":01}}', ["/payload"]),
    "plus": (b'{"payload":{"a":+1}}', ["/payload"]),
}


@pytest.mark.parametrize("case", REFUSED_TEXTS)
def test_a_body_that_is_no_strict_json_object_is_422_naming_the_place(
    case: str, free: Person
) -> None:
    """Acceptance C26; contract, *Errors*: each of these at the submission and at the report."""
    body, expected = REFUSED_TEXTS[case]
    problem = refused(free.post(SUBMIT, body), "validation-error")
    assert pointers(problem) == expected
    assert len(problem["detail"]) < 500
    task = free.submit("r1:modifiers:Free")
    refused(free.patch(f"/tasks/{task['id']}", body), "validation-error")


def test_an_empty_body_is_422_where_one_is_needed(free: Person) -> None:
    """Acceptance C26; contract: a registration and a report need a body."""
    refused(free.put("/rooms/r1/jobs", b""), "validation-error")
    task = free.submit("r1:modifiers:Free")
    refused(free.patch(f"/tasks/{task['id']}", b""), "validation-error")


@pytest.mark.parametrize("path", [SUBMIT, "/tasks/claim", "/workers"])
def test_an_empty_body_is_all_defaults_where_it_is_optional(path: str, free: Person) -> None:
    """Contract: a claim's body is optional (the seed sends none); payload is {} by default."""
    assert free.post(path).is_success


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        "application/vnd.jobroom+json",
    ],
)
def test_a_json_media_type_is_taken(kind: str, free: Person) -> None:
    """Contract, *Errors*, "Bodies"; RFC 6839: +json is JSON."""
    assert free.post(SUBMIT, b"{}", headers={"content-type": kind}).status_code == 202


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "",
    ],
)
def test_another_media_type_is_415(kind: str, free: Person) -> None:
    """Contract, *Errors*: unsupported-media-type."""
    answer = free.post(SUBMIT, b"{}", headers={"content-type": kind})
    refused(answer, "unsupported-media-type")


def test_a_body_without_a_media_type_is_json(free: Person) -> None:
    """A client that says nothing of the type means JSON: there is nothing else here."""
    request = free.send("POST", SUBMIT, content=b'{"payload":{"a":1}}')
    assert taken(free.api.run(request))["payload"] == {"a": 1}


def test_unknown_members_are_ignored(free: Person) -> None:
    """Contract: additions never break a client, so an older server takes a newer client's."""
    assert free.submit("r1:modifiers:Free", {"a": 1}, colour="blue")["payload"] == {"a": 1}


def test_null_is_the_same_as_absent(free: Person) -> None:
    """The seed's clients send null for what they do not set."""
    members = (
        "payload",
        "priority",
        "run_at",
        "expires_at",
        "max_attempts",
        "id",
        "depends_on",
        "parent",
        "timeout_seconds",
    )
    task = taken(free.post(SUBMIT, dict.fromkeys(members)))
    assert (task["payload"], task["priority"], task["max_attempts"]) == ({}, 0, 1)
    assert free.put(
        "/rooms/r1/jobs",
        {
            "category": "modifiers",
            "name": "N",
            "schema": None,
            "worker_id": None,
            "max_attempts": None,
        },
    ).is_success
    assert free.post("/tasks/claim", {"worker_id": None, "limit": None}).is_success


WRONG_SUBMISSIONS: list[tuple[Json, list[str]]] = [
    ({"payload": []}, ["/payload"]),
    ({"payload": "x"}, ["/payload"]),
    ({"priority": "high"}, ["/priority"]),
    ({"priority": "1"}, ["/priority"]),
    ({"priority": True}, ["/priority"]),
    ({"priority": 1.5}, ["/priority"]),
    ({"priority": 2**31}, ["/priority"]),
    ({"priority": 10**400}, ["/priority"]),
    ({"priority": 1e300}, ["/priority"]),
    ({"run_at": "2030-01-31T12:00:00"}, ["/run_at"]),
    ({"run_at": "tomorrow"}, ["/run_at"]),
    ({"run_at": 1_900_000_000}, ["/run_at"]),
    ({"expires_at": "2030-13-31T12:00:00Z"}, ["/expires_at"]),
    ({"max_attempts": 0}, ["/max_attempts"]),
    ({"timeout_seconds": 0}, ["/timeout_seconds"]),
    ({"timeout_seconds": "5"}, ["/timeout_seconds"]),
    ({"id": "not-a-uuid"}, ["/id"]),
    ({"id": 5}, ["/id"]),
    ({"depends_on": ["not-a-uuid"]}, ["/depends_on/0"]),
    ({"depends_on": [{"id": 5}]}, ["/depends_on/0/id"]),
    ({"depends_on": "x"}, ["/depends_on"]),
    ({"parent": "not-a-uuid"}, ["/parent"]),
    ({"priority": "x", "max_attempts": "y"}, ["/priority", "/max_attempts"]),
]


@pytest.mark.parametrize(("body", "places"), WRONG_SUBMISSIONS)
def test_a_member_of_the_wrong_type_is_422_with_its_pointer(
    body: Json, places: list[str], free: Person
) -> None:
    """Contract, *Errors*; rules, *Time fields* (no offset: 422)."""
    assert pointers(refused(free.post(SUBMIT, body), "validation-error")) == places


WRONG_REPORTS: list[tuple[Json, list[str]]] = [
    ({"status": "done"}, ["/status"]),
    ({"status": 1}, ["/status"]),
    ({"status": "RUNNING"}, ["/status"]),
    ({"progress": 1.1}, ["/progress"]),
    ({"progress": -0.1}, ["/progress"]),
    ({"progress": "half"}, ["/progress"]),
    ({"attempt": "1"}, ["/attempt"]),
    ({"attempt": -1}, ["/attempt"]),
    ({"error": 5, "status": "failed"}, ["/error"]),
    ({"message": ["x"]}, ["/message"]),
    ({"claim_next": "yes", "status": "failed"}, ["/claim_next"]),
    ({"final": 1, "status": "failed"}, ["/final"]),
    ({"worker_id": ""}, ["/worker_id"]),
    ({"status": "failed", "result": 1}, ["/result"]),
    ({"status": "completed", "error": "x"}, ["/error"]),
    ({"status": "running", "claim_next": True}, ["/claim_next"]),
]


@pytest.mark.parametrize(("body", "places"), WRONG_REPORTS)
def test_a_report_that_makes_no_sense_is_422_with_its_pointer(
    body: Json, places: list[str], free: Person
) -> None:
    """Contract, *Tasks*; rules, *Reports* (result only with completed)."""
    free.submit("r1:modifiers:Free")
    task = free.start()
    assert pointers(refused(free.report(task, **body), "validation-error")) == places
    assert free.show(task)["status"] == "running"


EXACT = {
    "30 digits": "123456789012345678901234567890",
    "int64 and more": "[9223372036854775807,18446744073709551616,-9223372036854775809]",
    "1.0": "1.0",
    "1e22": "1e22",
    "0.1": "0.1",
    "-0.0": "-0.0",
    "many digits": "3.14159265358979323846264338327950288",
    "tiny": "5e-400",
    "NUL": r'"a\u0000b"',
    "a pair of surrogates": r'"\ud83d\ude00"',
    "raw characters": '"é 名 😀 \u2028"',
    "escapes": r'"\/ \u00e9 \b"',
    "spaces": '{ "b" : 1,\n "a" : [ ] }',
    "null": "[null]",
}


@pytest.mark.parametrize("case", EXACT)
def test_a_payload_comes_back_character_by_character(case: str, free: Person) -> None:
    """Contract, *Errors*, "Numbers come back exactly as sent"; rules, *Text*; acceptance C37."""
    text = f'{{"x": {EXACT[case]}}}'
    sent = free.post(SUBMIT, f'{{"payload": {text} }}'.encode())
    shown = free.get(f"/tasks/{taken(sent)['id']}")
    claimed = free.post("/tasks/claim")
    listed = free.get("/rooms/r1/tasks")
    for answer in (sent, shown, claimed, listed):
        assert f'"payload":{text},' in answer.text


@pytest.mark.parametrize("case", EXACT)
def test_a_result_comes_back_character_by_character(case: str, free: Person) -> None:
    """Contract, *Tasks*: the result as it was stored; rules, *Text*."""
    free.submit("r1:modifiers:Free")
    task = free.start()
    body = f'{{"result": {EXACT[case]} , "status":"completed"}}'.encode()
    reported = free.patch(f"/tasks/{task['id']}", body)
    assert f'"result":{EXACT[case]},' in reported.text
    assert free.get(f"/tasks/{task['id']}/result").text == EXACT[case]


@pytest.mark.parametrize("member", ["error", "message"])
def test_nul_in_a_text_becomes_its_visible_symbol(member: str, free: Person) -> None:
    """Rules, *Text*; acceptance C37: NUL is U+2400; other control characters stay."""
    free.submit("r1:modifiers:Free")
    task = free.start()
    report: dict[str, Any] = {member: "a\x00b\x1b[31m"}
    free.report(task, "failed", **report)
    assert free.show(task)[member] == "a\u2400b\x1b[31m"


@pytest.mark.parametrize("member", ["error", "message"])
def test_a_text_over_64_kib_is_cut_with_a_mark(member: str, free: Person) -> None:
    """Contract, *Errors*: "Error texts are cut at 64 KiB with a mark"; acceptance C27 (2 MB)."""
    free.submit("r1:modifiers:Free")
    task = free.start()
    report: dict[str, Any] = {member: "é" * 1_000_000}
    taken(free.report(task, "failed", **report))
    kept = free.show(task)[member]
    assert len(kept.encode()) <= 64 * 1024
    assert kept.endswith("… [cut from 2000000 bytes]")


@pytest.mark.parametrize("path", ["/rooms/r1/tasks", "/rooms/r1/jobs/r1:modifiers:Free/tasks"])
def test_a_list_leaves_out_what_is_over_4_kib_and_tells_its_size(path: str, free: Person) -> None:
    """Contract, *Lists*: null, with payload_bytes and result_bytes; the task itself has all."""
    small = {"x": "a" * (4096 - len('{"x":""}'))}
    large = {"x": "é" * 2048}
    for payload in (small, large):
        body = json.dumps({"payload": payload}, ensure_ascii=False, separators=(",", ":"))
        free.post(SUBMIT, body.encode())
        free.report(free.start(), "completed", result=payload)
    second, first = taken(free.get(path))["items"]
    assert (first["payload"], first.get("payload_bytes")) == (small, None)
    assert (first["result"], first.get("result_bytes")) == (small, None)
    assert (second["payload"], second["payload_bytes"]) == (None, 4096 + len('{"x":""}'))
    assert (second["result"], second["result_bytes"]) == (None, 4096 + len('{"x":""}'))
    assert free.show(second)["payload"] == large


def test_no_refusal_repeats_the_secret_of_a_body(api: Api, free: Person) -> None:
    """No payload in a message: a wrong type is named, not shown."""
    answer = free.post(SUBMIT, {"priority": "hunter2", "payload": {"password": "hunter3"}})
    assert answer.headers["content-type"] == PROBLEM
    assert slug_of(answer) == "validation-error"
    assert "hunter" not in answer.text
