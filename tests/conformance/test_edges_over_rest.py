"""The REST door with values at the edge of what a store can hold: the same answer on each."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote
from uuid import uuid4

import httpx
import jwt
import pytest
from pydantic import SecretStr

from jobroom.bootstrap import create_app
from jobroom.service.queue import JobQueue

SECRET = "a secret of the tests, long enough for HS256"
BASE = "/v1/joblib"
JOB = f"{BASE}/rooms/r1/tasks/r1:modifiers:Rotate"
Ask = Callable[..., httpx.Response]


@pytest.fixture
def ask(queue: JobQueue) -> Iterator[Ask]:
    """Send a request as an admin; no answer may be a 5xx, an error is a problem document."""
    settings = queue.settings.model_copy(update={"jwt_secret": SecretStr(SECRET)})
    transport = httpx.ASGITransport(create_app(settings, queue=queue))

    def send(method: str, path: str, body: object = None, **claims: object) -> httpx.Response:
        # Not ``issue_token``, which is more careful than whoever else makes tokens.
        said = {"sub": "alice", "is_admin": True, "exp": int(time.time()) + 3600, **claims}
        token = jwt.encode(said, SECRET, algorithm="HS256")
        headers = {"Authorization": f"Bearer {token}"}
        answer = runner.run(client.request(method, path, json=body, headers=headers))
        assert answer.status_code < 500, answer.text
        if answer.is_error:
            assert answer.headers["content-type"] == "application/problem+json"
        return answer

    with asyncio.Runner() as runner:
        client = httpx.AsyncClient(transport=transport, base_url="http://test")
        send("PUT", f"{BASE}/rooms/r1/jobs", {"category": "modifiers", "name": "Rotate"})
        yield send
        runner.run(client.aclose())


def running(ask: Ask) -> dict:
    """A task that alice's identity worker runs."""
    assert ask("POST", JOB, {}).status_code == 202
    task = ask("POST", f"{BASE}/tasks/claim", {"start": True}).json()["task"]
    assert task["status"] == "running"
    return task


def test_a_nul_in_payload_and_result_is_kept_exactly(ask) -> None:
    """C37; rules, *Text*."""
    task = ask("POST", JOB, {"payload": {"s": "a\0b", "\0": ["\0"]}}).json()
    assert task["payload"] == {"s": "a\0b", "\0": ["\0"]}
    ask("POST", f"{BASE}/tasks/claim", {"start": True})
    path = f"{BASE}/tasks/{task['id']}"
    ask("PATCH", path, {"status": "completed", "result": "\0"})
    got = ask("GET", path).json()
    assert (got["payload"], got["result"]) == ({"s": "a\0b", "\0": ["\0"]}, "\0")
    assert json.loads(ask("GET", f"{path}/result").text) == "\0"


def test_a_nul_in_an_error_and_a_message_becomes_visible(ask) -> None:
    """C37; rules, *Text*: in error and message it becomes U+2400."""
    task = running(ask)
    said = {"status": "failed", "error": "\x1b[1ma\0b", "message": "\0", "attempt": 1}
    for _ in range(2):  # the second is a repeat, and told by the same bytes
        got = ask("PATCH", f"{BASE}/tasks/{task['id']}", said)
        assert got.status_code == 200
        assert (got.json()["error"], got.json()["message"]) == ("\x1b[1ma␀b", "␀")


@pytest.mark.parametrize("member", ["description", "name", "category", "worker_id"])
def test_a_nul_in_a_registration(ask, member) -> None:
    """Rules, *Text*: in names 400; in what is for people it may be refused, or shown."""
    body = {"category": "modifiers", "name": "Other", member: "a\0b"}
    answer = ask("PUT", f"{BASE}/rooms/r1/jobs", body)
    if answer.is_success:
        assert member == "description"
        assert answer.json()["description"] in {"a\0b", "a␀b"}
    else:
        assert answer.status_code in {400, 404, 422}


@pytest.mark.parametrize(
    "schema",
    [
        {"title": "a\0b"},
        {"properties": {"a\0b": {"const": "\0"}}},
        {"default": 2**70, "maximum": 1e308},
        {"properties": {"名前": {"enum": ["é", "e\u0301"]}}},
    ],
)
def test_a_schema_comes_back_and_equals_itself(ask, schema) -> None:
    body = {"category": "modifiers", "name": "Schemed", "schema": schema}
    first, again = (ask("PUT", f"{BASE}/rooms/r1/jobs", body) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["schema"] == schema


NUL_PATHS = [
    ("GET", "/tasks/a%00b"),
    ("GET", "/rooms/a%00b/jobs"),
    ("GET", "/rooms/a%00b/tasks"),
    ("GET", "/rooms/r1/jobs/r1:modifiers:a%00b"),
    ("POST", "/rooms/r1/tasks/r1:modifiers:a%00b"),
    ("GET", "/rooms/r1/tasks?created_by_id=a%00b"),
    ("GET", "/rooms/r1/tasks?job=r1:modifiers:a%00b"),
    ("GET", "/rooms/r1/tasks?status=a%00b"),
    ("GET", "/rooms/r1/tasks?cursor=a%00b"),
    ("PATCH", "/workers/a%00b"),
    ("DELETE", "/workers/a%00b"),
    ("GET", "/rooms/a%00b/workers"),
    ("GET", "/problems/a%00b"),
]


@pytest.mark.parametrize(("method", "path"), NUL_PATHS)
def test_a_nul_in_an_address(ask, method, path) -> None:
    """No store is asked for what none can hold."""
    body = {} if method == "POST" else None
    answer = ask(method, BASE + path, body)
    assert answer.status_code in {200, 400, 404, 422}
    if answer.status_code == 200:
        assert answer.json()["items"] == []


@pytest.mark.parametrize("sub", ["a\0b", "\0", "a\nb", "🧬" * 400, " ", "a/b:c@d"])
def test_an_identity_of_odd_characters_gets_one_answer(ask, sub) -> None:
    """Either it is refused, or it can do all that others can."""
    made = ask("POST", f"{BASE}/workers", {}, sub=sub)
    if made.status_code == 401:
        return
    assert made.status_code == 201
    assert ask("POST", JOB, {}, sub=sub).json()["created_by_id"] == sub
    wanted = quote(sub, safe="")
    listed = ask("GET", f"{BASE}/rooms/r1/tasks?created_by_id={wanted}", sub=sub).json()
    assert listed["total"] == 1
    register = {"category": "modifiers", "name": "Rotate"}
    assert ask("PUT", f"{BASE}/rooms/r1/jobs", register, sub=sub).status_code == 200
    assert ask("POST", f"{BASE}/tasks/claim", {}, sub=sub).json()["task"] is not None


@pytest.mark.parametrize("member", ["request_id", "worker_id"])
@pytest.mark.parametrize("value", ["a\0b", "🧬" * 255, "é\u2028", "' OR 1=1 --", "x" * 256])
def test_a_claim_with_odd_texts(ask, member, value) -> None:
    answer = ask("POST", f"{BASE}/tasks/claim", {member: value})
    assert answer.status_code in {200, 404, 422}


EDGES = [0, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64]


@pytest.mark.parametrize("number", [*EDGES, 10**400, 1.0, 1e308])
@pytest.mark.parametrize("member", ["priority", "max_attempts", "timeout_seconds"])
def test_a_number_at_the_edge_in_a_submission(ask, member, number) -> None:
    answer = ask("POST", JOB, {member: number})
    assert answer.status_code in {202, 422}
    if answer.status_code == 202 and member != "timeout_seconds":
        assert ask("GET", f"{BASE}/tasks/{answer.json()['id']}").json()[member] == number


@pytest.mark.parametrize("number", EDGES)
def test_a_number_at_the_edge_in_a_report(ask, number) -> None:
    task = running(ask)
    answer = ask("PATCH", f"{BASE}/tasks/{task['id']}", {"attempt": number, "progress": 1})
    assert answer.status_code in {409, 422}


@pytest.mark.parametrize("number", EDGES)
@pytest.mark.parametrize("name", ["limit", "offset"])
def test_a_number_at_the_edge_of_a_page(ask, name, number) -> None:
    """C32."""
    for path in ("/rooms/r1/tasks", "/rooms/r1/jobs", "/workers"):
        assert ask("GET", f"{BASE}{path}?{name}={number}").status_code in {200, 422}


@pytest.mark.parametrize(
    "moment",
    ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"],
)
@pytest.mark.parametrize("member", ["run_at", "expires_at"])
def test_a_time_at_the_edge(ask, member, moment) -> None:
    answer = ask("POST", JOB, {member: moment})
    assert answer.status_code in {202, 422}
    ask("POST", f"{BASE}/tasks/claim", {})
    assert ask("POST", f"{BASE}/sweep").status_code == 200


def test_an_id_in_any_spelling_is_one_task(ask) -> None:
    """C25."""
    chosen = uuid4()
    spellings = [str(chosen), str(chosen).upper(), chosen.hex, f"{{{chosen}}}", chosen.urn]
    assert ask("POST", JOB, {"id": spellings[1]}).json()["id"] == str(chosen)
    for spelling in spellings:
        path = f"{BASE}/tasks/{quote(spelling, safe='')}"
        assert ask("GET", path).json()["id"] == str(chosen)
