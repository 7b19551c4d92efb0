"""Drives the application, and holds every answer to the route table and the models."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import contract_door
import httpx
from pydantic import BaseModel
from starlette.applications import Starlette

from jobroom import tokens, wire
from jobroom.http.problem_table import PROBLEMS
from jobroom.http.routes import ROUTES
from jobroom.http.routespec import RouteSpec, is_media_types

SECRET = "a secret of the tests, long enough"
BASE = "/v1/joblib"
ROTATE = "r1:modifiers:Rotate"
ANGLE = {"type": "object", "properties": {"angle": {"type": "number"}}, "required": ["angle"]}
OUTSIDE = ("/healthz", "/readyz", "/metrics", "/openapi", "/docs")
PROBLEM = "application/problem+json"
SECOND = 1_000_000

# What any route may answer without listing it.
EVERYWHERE = {
    "unauthorized",
    "method-not-allowed",
    "not-found",
    "validation-error",
    "payload-too-large",
    "unsupported-media-type",
    "store-unavailable",
    "internal-error",
}

Json = dict[str, Any]
T = TypeVar("T")


class Api:
    """The application under test; ``by`` gives somebody who sends requests to it.

    It may be anywhere: ``http`` reaches it, ``tell`` says to it what shall be changed inside.
    """

    def __init__(
        self,
        runner: asyncio.Runner,
        http: httpx.AsyncClient,
        tell: Callable[[Json], None],
        app: Starlette | None = None,
    ) -> None:
        self._runner = runner
        self._http = http
        self._tell = tell
        self._app = app
        self._inside: Json = dict(contract_door.UNTOUCHED)

    @property
    def app(self) -> Starlette:
        """The application itself, where it is in this process."""
        assert self._app is not None, "mark the test in_process_only, with the reason"
        return self._app

    def by(
        self, identity: str, *, is_admin: bool = False, rooms: Iterable[str] | None = None
    ) -> Person:
        """Somebody with a token."""
        token = tokens.issue_token(SECRET, sub=identity, is_admin=is_admin, rooms=rooms)
        return Person(self, {"authorization": f"Bearer {token}"})

    @property
    def nobody(self) -> Person:
        """Somebody without a token."""
        return Person(self, {})

    def let_pass(self, seconds: float) -> None:
        """Move the store's clock."""
        offset = (self._inside["clock_offset"] or 0) + int(seconds * SECOND)
        self._change(clock_offset=offset)

    def set_constant(self, name: str, value: object) -> None:
        """Change a constant by its full name, until the test ends."""
        self._change(constants={**self._inside["constants"], name: value})

    def miss(self, module: str) -> None:
        """Let a module be missing, as where an extra is not installed."""
        self._change(missing=[module])

    def fail_with(self, error: str) -> None:
        """Let every use of the store fail with this error."""
        self._change(failing=error)

    def sweep(self) -> Json:
        """Sweep now; the counts."""
        return taken(self.by("root", is_admin=True).post("/sweep"))

    def _change(self, **wanted: Any) -> None:
        self._inside.update(wanted)
        self._tell(self._inside)

    def run(self, awaitable: Awaitable[T]) -> T:
        """Run something on the loop of this application."""

        async def waited() -> T:
            return await awaitable

        return self._runner.run(waited())

    def together(self, *requests: Awaitable[httpx.Response]) -> list[httpx.Response]:
        """Send requests at the same time; their answers in the same order."""

        async def gathered() -> list[httpx.Response]:
            return list(await asyncio.gather(*requests))

        return self._runner.run(gathered())

    async def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send one request and hold its answer to the contract."""
        answer = await self._http.request(method, path, **more)
        if method != "HEAD":
            check_answer(answer)
        return answer


class Person:
    """Somebody who sends requests; paths below the prefix may leave it out."""

    def __init__(self, api: Api, headers: Mapping[str, str]) -> None:
        self.api = api
        self._headers = dict(headers)

    async def send(
        self, method: str, path: str, body: object = None, **more: Any
    ) -> httpx.Response:
        """Send a request, to be awaited; ``body`` is JSON, or bytes as they are."""
        headers = self._headers | {k.lower(): v for k, v in more.pop("headers", {}).items()}
        if isinstance(body, bytes):
            more["content"] = body
            headers.setdefault("content-type", "application/json")
        elif body is not None:
            more["json"] = body
        if not path.startswith(("/v1", "/mount", *OUTSIDE)):
            path = BASE + path
        return await self.api.send(method, path, headers=headers, **more)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.api.run(self.send("GET", path, **more))

    def delete(self, path: str, **more: Any) -> httpx.Response:
        return self.api.run(self.send("DELETE", path, **more))

    def put(self, path: str, body: object = None, **more: Any) -> httpx.Response:
        return self.api.run(self.send("PUT", path, body, **more))

    def post(self, path: str, body: object = None, **more: Any) -> httpx.Response:
        return self.api.run(self.send("POST", path, body, **more))

    def patch(self, path: str, body: object = None, **more: Any) -> httpx.Response:
        return self.api.run(self.send("PATCH", path, body, **more))

    def register(self, name: str = "Rotate", room: str = "r1", **more: Any) -> Json:
        """Register a job, which must succeed."""
        body = {"category": "modifiers", "name": name, **more}
        return taken(self.put(f"/rooms/{q(room)}/jobs", body))

    def submit(
        self,
        full_name: str = ROTATE,
        payload: Json | None = None,
        *,
        room: str = "r1",
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Json:
        """Submit a task, which must succeed."""
        body = {"payload": {"angle": 90} if payload is None else payload, **more}
        path = f"/rooms/{q(room)}/tasks/{q(full_name)}"
        return taken(self.post(path, body, headers=headers or {}))

    def claim(self, **more: Any) -> Json:
        """Claim a task, which must be there."""
        found: Json | None = taken(self.post("/tasks/claim", more))["task"]
        assert found is not None, "nothing was claimable"
        return found

    def start(self) -> Json:
        """Claim a task and start it."""
        return self.claim(start=True)

    def report(self, task: Json, status: str | None = None, **more: Any) -> httpx.Response:
        """Report on a task; the answer is the test's to judge."""
        body = {**({} if status is None else {"status": status}), **more}
        return self.patch(f"/tasks/{task['id']}", body)

    def show(self, task: Json) -> Json:
        """Read a task."""
        return taken(self.get(f"/tasks/{task['id']}"))


def q(text: str) -> str:
    """A part of a path, percent-encoded."""
    return quote(text, safe="")


def taken(answer: httpx.Response) -> Json:
    """The body of an answer that must be a success."""
    assert answer.is_success, f"{answer.status_code} {answer.text[:500]}"
    found: Json = answer.json()
    return found


def refused(answer: httpx.Response, slug: str) -> Json:
    """The problem document of an answer that must be this refusal."""
    assert slug_of(answer) == slug, f"{answer.status_code} {answer.text[:500]}"
    assert answer.status_code == PROBLEMS[slug].status
    found: Json = answer.json()
    return found


def slug_of(answer: httpx.Response) -> str | None:
    """The kind of problem that an answer is; None if it is none."""
    if answer.headers.get("content-type") != PROBLEM:
        return None
    return str(answer.json()["type"]).rpartition("/")[2]


def pointers(problem: Json) -> list[str]:
    """Where a problem document says the faults are."""
    return [fault["pointer"] for fault in problem.get("errors", ())]


def listed(answer: httpx.Response, member: str = "id") -> list[Any]:
    """One member of each item of a page."""
    return [item[member] for item in taken(answer)["items"]]


def _pattern(spec: RouteSpec) -> re.Pattern[str]:
    steps = [
        step if not step.startswith("{") else ".+" if step.endswith(":path}") else "[^/]+"
        for step in spec.path.split("/")
    ]
    return re.compile("/".join(steps))


PATTERNS = [(_pattern(spec), spec) for spec in ROUTES]


def spec_of(method: str, path: str) -> RouteSpec | None:
    """The route that a request belongs to; None for an unknown address or method."""
    here = [spec for pattern, spec in PATTERNS if pattern.fullmatch(path)]
    if not here:
        return None
    same_path = [spec for spec in here if spec.path == here[0].path]
    return next((spec for spec in same_path if spec.method == method), None)


def check_answer(answer: httpx.Response) -> None:
    """Whatever the test is about: a documented status, in its documented shape."""
    path = answer.request.url.path.removeprefix("/mount")
    spec = spec_of(answer.request.method, path)
    said = f"{answer.request.method} {path} {answer.status_code} {answer.text[:300]}"
    slug = slug_of(answer)
    if slug is not None:
        check_problem(answer, said)
        assert spec is None or slug in EVERYWHERE.union(spec.problems), f"{slug}: {said}"
        return
    assert answer.is_success or answer.status_code == 304, f"no problem document: {said}"
    if spec is None:
        return
    assert answer.status_code in spec.answers, f"undocumented status: {said}"
    model = spec.answers[answer.status_code]
    if model is None:
        assert answer.content == b"", said
    elif not is_media_types(model):
        assert answer.headers["content-type"] == "application/json"
        check_body(json.loads(answer.content), getattr(wire, model))


def check_problem(answer: httpx.Response, said: str) -> None:
    """The shape of every error (RFC 9457)."""
    found = answer.json()
    kind = PROBLEMS[found["type"].removeprefix("/v1/problems/")]
    assert found["type"].startswith("/v1/problems/"), said
    assert (found["status"], found["title"]) == (answer.status_code, kind.title), said
    assert kind.status == answer.status_code, said
    assert found["detail"], said
    assert found["instance"], said
    assert "Traceback" not in answer.text, said
    for fault in found.get("errors", []):
        assert fault["message"], said
        assert fault["pointer"] == "" or fault["pointer"].startswith("/"), said


def check_body(body: object, model: type[BaseModel]) -> None:
    """The body is what the model says: nothing missing, nothing of another type, nothing more."""
    known = model.model_validate(body).model_dump(mode="json", by_alias=True)
    _check_no_more(body, known, model.__name__)


def _check_no_more(body: object, known: object, place: str) -> None:
    if isinstance(body, dict) and isinstance(known, dict):
        assert body.keys() <= known.keys(), f"{place}: {sorted(body.keys() - known.keys())}"
        for name, value in body.items():
            _check_no_more(value, known[name], f"{place}/{name}")
    elif isinstance(body, list) and isinstance(known, list):
        for value, other in zip(body, known, strict=True):
            _check_no_more(value, other, f"{place}/*")
