"""How large a body may be, and that no more of it is read than is needed to refuse it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any

import pytest
from contract_api import Api, Person, refused, taken

MIB = 1024 * 1024
PATH = "/v1/joblib/rooms/r1/tasks/r1:modifiers:Free"
IN_PROCESS = pytest.mark.in_process_only("looks at how much of a body the application asks for")


@pytest.fixture
def free(alice: Person) -> Person:
    """Alice, whose job r1:modifiers:Free takes any payload."""
    alice.register("Free")
    return alice


def _body_of(size: int) -> bytes:
    frame = len(b'{"payload":{"x":""}}')
    return b'{"payload":{"x":"%s"}}' % (b"a" * (size - frame))


def _result_of(size: int) -> bytes:
    frame = len(b'{"status":"completed","result":""}')
    return b'{"status":"completed","result":"%s"}' % (b"a" * (size - frame))


async def _chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 100_000):
        yield body[start : start + 100_000]


def test_a_body_of_exactly_one_mib_is_taken(free: Person) -> None:
    """Acceptance C27; contract: max_body_bytes 1 MiB."""
    task = taken(free.post(PATH, _body_of(MIB)))
    assert len(free.get(f"/tasks/{task['id']}").content) > MIB


def test_a_body_of_one_mib_and_a_byte_is_413_with_the_limit_in_it(free: Person) -> None:
    """Acceptance C27: over the stated limit."""
    problem = refused(free.post(PATH, _body_of(MIB + 1)), "payload-too-large")
    assert str(MIB) in problem["detail"]


@pytest.mark.parametrize(("over", "status"), [(0, 202), (1, 413)])
def test_a_chunked_body_is_measured_as_it_comes(over: int, status: int, free: Person) -> None:
    """Acceptance C27: without Content-Length the limit is the same."""
    headers = {"content-type": "application/json"}
    request = free.send("POST", PATH, content=_chunks(_body_of(MIB + over)), headers=headers)
    answer = free.api.run(request)
    assert "content-length" not in answer.request.headers
    assert answer.status_code == status


@pytest.mark.parametrize(("over", "status"), [(0, 200), (1, 413)])
def test_a_report_may_be_as_large_as_its_own_limit(
    over: int, status: int, make_api: Callable[..., Api]
) -> None:
    """Contract: max_result_bytes is the limit of PATCH /tasks/{id}, max_body_bytes of the rest."""
    limit = 3 * MIB
    person = make_api(max_result_bytes=limit).by("alice")
    person.register("Free")
    person.submit("r1:modifiers:Free")
    task = person.start()
    assert person.patch(f"/tasks/{task['id']}", _result_of(limit + over)).status_code == status
    expected = "running" if over else "completed"
    assert person.show(task)["status"] == expected


class Wire:
    """An ASGI request whose body is given piece by piece, and who looks at how much was read."""

    def __init__(self, api: Api, headers: dict[str, str], pieces: list[bytes]) -> None:
        self._api = api
        self._headers = headers
        self._pieces = pieces
        self.pieces_read = 0
        self.sent: list[MutableMapping[str, Any]] = []

    def ask(self) -> tuple[int, dict[str, Any]]:
        """Send it; the status and the document of the answer."""
        token = self._api.by("alice")._headers["authorization"]
        headers = {"authorization": token, "content-type": "application/json", **self._headers}
        scope = {
            "type": "http",
            "method": "POST",
            "path": PATH,
            "query_string": b"",
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        }
        self._api.run(self._api.app(scope, self._receive, self._send))
        body = b"".join(message.get("body", b"") for message in self.sent)
        return self.sent[0]["status"], json.loads(body)

    async def _receive(self) -> MutableMapping[str, Any]:
        assert self.pieces_read < len(self._pieces), "read on after it knew enough"
        self.pieces_read += 1
        piece = self._pieces[self.pieces_read - 1]
        return {"type": "http.request", "body": piece, "more_body": True}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)


@IN_PROCESS
def test_a_declared_length_over_the_limit_is_413_before_anything_is_read(free: Person) -> None:
    """Contract: "answered 413 before the body is read to the end"."""
    wire = Wire(free.api, {"content-length": str(50 * MIB)}, [])
    status, document = wire.ask()
    assert (status, document["type"]) == (413, "/v1/problems/payload-too-large")
    assert wire.pieces_read == 0


@IN_PROCESS
def test_a_body_without_a_length_is_413_as_soon_as_it_is_over_the_limit(free: Person) -> None:
    """Contract: as above; the piece that goes over the limit is the last one read."""
    wire = Wire(free.api, {}, [b"a" * MIB, b"a"])
    assert wire.ask()[0] == 413
    assert wire.pieces_read == 2


@IN_PROCESS
def test_a_length_that_lies_does_not_get_more_in(free: Person) -> None:
    """A server that trusts the header alone would take any size."""
    wire = Wire(free.api, {"content-length": "10"}, [b"a" * MIB, b"a"])
    assert wire.ask()[0] == 413


@IN_PROCESS
def test_a_client_without_a_token_is_401_before_its_body_is_read(free: Person) -> None:
    """Rules, *Order of checks*: 401 before 413."""
    wire = Wire(free.api, {"authorization": "Bearer no", "content-length": str(50 * MIB)}, [])
    assert wire.ask()[0] == 401
    assert wire.pieces_read == 0


def test_a_list_of_large_tasks_stays_small(free: Person) -> None:
    """Acceptance C27: lists omit payloads; a hundred of 100 KiB are no 10 MB."""
    for _ in range(100):
        free.post(PATH, _body_of(100 * 1024))
    assert len(free.get("/rooms/r1/tasks?limit=100").content) < 100 * 4096


def test_a_list_of_tasks_with_long_errors_stays_under_6_mb(free: Person) -> None:
    """Acceptance C27: 2 MB of error text by hand, a hundred such tasks: the task has 64 KiB."""
    for _ in range(100):
        free.submit("r1:modifiers:Free")
        free.report(free.start(), "failed", error="e" * 2_000_000, message="m" * 100_000)
    page = free.get("/rooms/r1/tasks?limit=100")
    assert len(page.content) < 6_000_000
    item = taken(page)["items"][0]
    assert item["error"].endswith("]")
    assert len(free.show(item)["error"].encode()) > 60_000
