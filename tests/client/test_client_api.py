"""Each call of the SDK is one request of the contract."""

from __future__ import annotations

import json

import httpx
import pytest

from jobroom.client.api import Api
from jobroom.client.transport import ONCE

BASE = "/v1/joblib"
CALLS = [
    ("me", (), {}, "GET", "/v1/me", None),
    ("create_worker", (), {}, "POST", f"{BASE}/workers", {}),
    ("create_worker", (), {"name": "n"}, "POST", f"{BASE}/workers", {"name": "n"}),
    ("beat", ("w/1",), {}, "PATCH", f"{BASE}/workers/w%2F1", None),
    ("delete_worker", ("w",), {}, "DELETE", f"{BASE}/workers/w", None),
    ("register", ("@global", {"a": 1}), {}, "PUT", f"{BASE}/rooms/%40global/jobs", {"a": 1}),
    ("jobs", ("r",), {}, "GET", f"{BASE}/rooms/r/jobs", None),
    ("job", ("r", "r:c:n"), {}, "GET", f"{BASE}/rooms/r/jobs/r%3Ac%3An", None),
    ("submit", ("r", "r:c:n", {}), {}, "POST", f"{BASE}/rooms/r/tasks/r%3Ac%3An", {}),
    ("task", ("t",), {}, "GET", f"{BASE}/tasks/t", None),
    ("report", ("t", {"progress": 1}), {}, "PATCH", f"{BASE}/tasks/t", {"progress": 1}),
    ("submit_all", ("r", [{}]), {}, "POST", f"{BASE}/rooms/r/tasks", {"tasks": [{}]}),
    ("retry", ("t",), {}, "POST", f"{BASE}/tasks/t/retry", None),
    ("graph", ("t",), {}, "GET", f"{BASE}/tasks/t/graph?limit=500", None),
    ("sweep", (), {}, "POST", f"{BASE}/sweep", None),
]


MEMBERS = ("id", "full_name", "status", "task", "items")


class Recorder:
    """An ``ApiManager`` that remembers what is sent."""

    base_url = "http://queue.example"

    def __init__(self, answer=None):
        self.requests = []
        self.result = answer or httpx.Response(200, json=dict.fromkeys(MEMBERS))
        self.http = httpx.Client(transport=httpx.MockTransport(self.answer))

    def get_headers(self):
        return {"Authorization": "Bearer t"}

    def answer(self, request):
        self.requests.append(request)
        return self.result


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0])
def test_a_call_is_one_request(call):
    name, args, more, method, path, body = call
    recorder = Recorder()
    getattr(Api(recorder), name)(*args, **more)
    (request,) = recorder.requests
    assert (request.method, request.url.raw_path.decode()) == (method, path)
    assert (json.loads(request.content) if request.content else None) == body
    assert request.headers["authorization"] == "Bearer t"
    assert ("idempotency-key" in request.headers) == name.startswith("submit")


def test_a_wait_is_a_preference_and_makes_room_in_the_timeout():
    recorder = Recorder()
    Api(recorder).claim("w", request_id="r", wait=30, patience=ONCE)
    Api(recorder).claim("w", request_id="r", wait=0, patience=ONCE)
    first, second = recorder.requests
    assert first.headers["prefer"] == "wait=30"
    assert first.extensions["timeout"]["read"] > 30 + 5
    assert "prefer" not in second.headers


def test_an_answer_without_a_body_is_nothing():
    Api(Recorder(httpx.Response(204))).delete_worker("w")
