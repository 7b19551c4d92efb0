"""The faults that fuzzing has found, each as a test of its whole kind."""

from __future__ import annotations

import base64
import gc
import json
import tracemalloc
from collections.abc import Callable

import pytest
from fuzz_kit import BASE, DOCUMENT, PROBLEM, SUBMIT, Answer, Target

from jobroom.http import door, paging
from jobroom.http.routes import ROUTES

UUID = "01890a5d-ac96-774b-bcce-b302099a8057"
LARGE = 400_000
OPERATIONS = {
    operation["operationId"]: operation
    for methods in DOCUMENT["paths"].values()
    for operation in methods.values()
}
LINKS = [
    (source, name, link)
    for source, operation in OPERATIONS.items()
    for response in operation["responses"].values()
    for name, link in response.get("links", {}).items()
]


def _slug(answer: Answer) -> str:
    assert answer.headers["content-type"] == PROBLEM, answer.body[:300]
    return str(answer.json()["type"]).rpartition("/")[2]


@pytest.mark.parametrize(
    ("length", "status"),
    [("9" * 5000, 413), ("9" * 20, 413), ("0" * 5000, 201), ("0" * 5000 + "9" * 20, 413)],
)
def test_a_declared_length_of_thousands_of_digits_is_read_and_never_a_500(
    target: Target, length: str, status: int
) -> None:
    """Python reads no number of more than 4,300 digits; a parser of HTTP may let one through."""
    headers = ((b"content-length", length.encode()),)
    answer = target.send("found", "POST", f"{BASE}/workers", body=b"{}", headers=headers)
    assert answer.status == status


PLAIN = [spec for spec in ROUTES if "{" not in spec.path]


@pytest.mark.parametrize("spec", PLAIN, ids=lambda spec: spec.operation_id)
def test_a_line_break_at_the_end_makes_it_another_address(target: Target, spec: object) -> None:
    """A regular expression's ``$`` matches before the last line break: an address is exact."""
    path, method = spec.path, spec.method  # type: ignore[attr-defined]  # a RouteSpec
    answer = target.send("found", method, f"{path}%0A", body=b"{}")
    assert answer.status in ({404, 405} if "/tasks/" in path else {404})


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_a_line_break_makes_a_worker_another_worker(target: Target, method: str) -> None:
    """The worker ``root`` is neither alive nor gone by what was said of ``root\\n``."""
    answer = target.send("found", method, f"{BASE}/workers/root%0A")
    assert _slug(answer) == "worker-not-found"
    assert target.send("found", "PATCH", f"{BASE}/workers/root").status == 200


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE", "POST"])
def test_an_address_without_the_id_it_needs_is_no_address(target: Target, method: str) -> None:
    """Rules, *Order of checks*: unknown route 404."""
    assert _slug(target.send("found", method, f"{BASE}/workers/", body=b"{}")) == "not-found"


@pytest.mark.parametrize("count", [2, 501, 3000])
def test_a_made_up_cursor_that_names_a_status_many_times_is_422(target: Target, count: int) -> None:
    """A list is one search for each status: SQLite takes 500, and we write each of them once."""
    filters = {"status": ["pending"] * count, "job": None, "created_by_id": None}
    text = json.dumps([paging.list_mark("tasks", "r1"), 5, filters]).encode()
    cursor = base64.urlsafe_b64encode(text).rstrip(b"=")
    answer = target.send("found", "GET", f"{BASE}/rooms/r1/tasks", query=b"cursor=" + cursor)
    assert _slug(answer) == "validation-error"


def _json(**members: object) -> bytes:
    return json.dumps(members).encode()


def _named(number: int) -> str:
    return f"{number}" + "x" * LARGE


Request = tuple[str, str, bytes]
# Whatever is refused, and the registration that is not: by the number of the request.
LARGE_REQUESTS: dict[str, Callable[[int], Request]] = {
    "of an unknown job": lambda n: ("POST", f"{SUBMIT}X", _json(payload={"a": _named(n)})),
    "that does not fit the schema": lambda n: (
        "POST",
        SUBMIT,
        _json(payload={"a": _named(n), "angle": "wide"}),
    ),
    "with a wrong member": lambda n: (
        "POST",
        SUBMIT,
        _json(payload={"a": _named(n)}, priority="x"),
    ),
    "of an unknown task": lambda n: ("PATCH", f"{BASE}/tasks/{UUID}", _json(result=_named(n))),
    "with a long name": lambda n: (
        "PUT",
        f"{BASE}/rooms/r1/jobs",
        _json(category="modifiers", name=_named(n)),
    ),
    "with a long category": lambda n: (
        "PUT",
        f"{BASE}/rooms/r1/jobs",
        _json(category=_named(n), name="x"),
    ),
    "in a long room": lambda n: ("GET", f"{BASE}/rooms/{_named(n)}/jobs", b""),
    "of a long worker": lambda n: ("POST", f"{BASE}/tasks/claim", _json(worker_id=_named(n))),
    "of a long request": lambda n: ("POST", f"{BASE}/tasks/claim", _json(request_id=_named(n))),
    "in a reserved room": lambda n: (
        "PUT",
        f"{BASE}/rooms/@local/jobs",
        _json(category="modifiers", name="x", schema={"title": _named(n)}),
    ),
    "with a bad schema": lambda n: (
        "PUT",
        f"{BASE}/rooms/r1/jobs",
        _json(category="modifiers", name="x", schema={"type": _named(n)}),
    ),
    "with another schema": lambda n: (
        "PUT",
        f"{BASE}/rooms/r1/jobs",
        _json(category="modifiers", name="Rotate", schema={"title": _named(n)}),
    ),
    "that is no JSON": lambda n: ("POST", SUBMIT, _json(payload={"a": _named(n)})[:-1]),
}


@pytest.mark.parametrize("kind", LARGE_REQUESTS)
def test_a_large_refused_request_is_let_go_of_at_once(target: Target, kind: str) -> None:
    """Neither remembered nor left to the collector: the server looks for cycles but rarely.

    An error holds the frames of its trace, they hold the body, and whatever holds the error in
    one of those frames closes the ring; so does a function inside a function that calls itself.
    """
    count = 10

    def send(first: int) -> None:
        for number in range(first, first + count):
            method, path, body = LARGE_REQUESTS[kind](number)
            answer = target.send("found", method, path, body=body)
            assert answer.status >= 400

    send(0)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        send(count)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < 3 * LARGE, f"{kept:,} bytes are kept of {count} requests"


@pytest.mark.parametrize(
    ("source", "name", "link"), LINKS, ids=[f"{source}-{name}" for source, name, _ in LINKS]
)
def test_a_link_of_the_document_leads_to_an_operation(
    source: str, name: str, link: dict[str, object]
) -> None:
    """OpenAPI 3.1, *Link Object*: the operation is there, and has the parameters that are given."""
    goal = OPERATIONS[str(link["operationId"])]
    given = link["parameters"]
    assert isinstance(given, dict)
    assert given.keys() <= {parameter["name"] for parameter in goal["parameters"]}
    own = {parameter["name"] for parameter in OPERATIONS[source]["parameters"]}
    for expression in given.values():
        place, _, rest = expression.partition(".")
        assert place == "$response" or rest.partition(".")[2] in own, expression


def test_every_route_that_answers_json_says_that_it_may_be_406(target: Target) -> None:
    """RFC 9110, 12.5.1: what any route may answer is in the document."""
    for spec in ROUTES:
        assert ("406" in OPERATIONS[spec.operation_id]["responses"]) == spec.answers_json
    answer = target.send("found", "GET", "/v1/me", headers=((b"accept", b"text/html"),))
    assert _slug(answer) == "not-acceptable"


def test_jobs_are_remembered_by_weight_too(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema may be as large as a body: thousands of them are gigabytes."""
    monkeypatch.setattr(door, "REMEMBERED_CHARACTERS", 3 * LARGE)
    for number in range(10):
        body = _json(category="modifiers", name=f"Heavy{number}", schema={"title": "x" * LARGE})
        made = target.send("found", "PUT", f"{BASE}/rooms/r1/jobs", body=body)
        assert made.status == 201
        address = f"{BASE}/rooms/r1/tasks/r1:modifiers:Heavy{number}"
        assert target.send("found", "POST", address).status == 202
        kept = target.app.state.door.jobs.values()
        assert sum(len(job.schema) for job in kept) <= 3 * LARGE
