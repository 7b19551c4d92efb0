"""Sends hostile requests to the application in process, and judges every answer by the contract."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import re
import time
from collections import Counter
from typing import Any, NamedTuple
from urllib.parse import unquote

import hypothesis
from pydantic import SecretStr

from jobroom.bootstrap import create_app
from jobroom.http.openapi import build_openapi
from jobroom.http.problem_table import PROBLEMS
from jobroom.http.routes import ROUTES
from jobroom.settings import JobLibSettings

SECRET = "a secret of the tests, long enough"
BASE = "/v1/joblib"
SUBMIT = f"{BASE}/rooms/r1/tasks/r1:modifiers:Rotate"
PROBLEM = "application/problem+json"
MEMBERS = {"type": str, "title": str, "status": int, "detail": str, "instance": str}

# By hand, about ten minutes: JOBROOM_FUZZ=deep pytest tests/fuzz. Other cases at each run, six
# times as many; JOBROOM_FUZZ_FACTOR=n makes it n times.
IS_DEEP = os.environ.get("JOBROOM_FUZZ") == "deep"
FACTOR = int(os.environ.get("JOBROOM_FUZZ_FACTOR", "6" if IS_DEEP else "1"))

COUNTS: Counter[str] = Counter()
"""How many requests were sent, by what they were about; printed at the end of the run."""

NOTES: list[str] = []
"""Figures beside the counts."""

# What only our own source, our store or Python's words for a crash would bring into an answer.
LEAKS = re.compile(
    r"Traceback|site-packages|jobroom/|sqlalchemy|sqlite3?[.:]|\bSQLITE_|\.py\b|0x[0-9a-f]{6,}"
    r"|\bSELECT .* FROM\b|\bINSERT INTO\b|\bUPDATE \w+ SET\b|\bno such (?:table|column)\b"
    r"|(?:Recursion|Value|Type|Key|Overflow|Unicode\w+|Attribute|Runtime)Error"
)


def _pattern(path: str) -> re.Pattern[str]:
    """The decoded paths of a route; the last step of a worker's may hold slashes."""
    steps = [
        re.escape(step) if not step.startswith("{") else ".+" if ":path" in step else "[^/]+"
        for step in path.split("/")
    ]
    return re.compile("/".join(steps) + r"\Z", re.DOTALL)


OPERATIONS = [(spec, _pattern(spec.path)) for spec in ROUTES]
DOCUMENT = build_openapi(ROUTES)


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def examples(number: int) -> hypothesis.settings:
    """Settings of a property: the same cases at every run, unless the run is a deep one."""
    return hypothesis.settings(
        max_examples=number * FACTOR,
        derandomize=not IS_DEEP,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )


class Target:
    """One application, its loop, and a job ``r1:modifiers:Rotate`` to send things to."""

    def __init__(self, path: Any, **settings: Any) -> None:
        self.path = path
        chosen = {
            "jwt_secret": SecretStr(SECRET),
            "long_poll_max_wait_seconds": 0,
            "sqlite_synchronous": "NORMAL",
            **settings,
        }
        self.app = create_app(JobLibSettings(database_url=f"sqlite:///{path}", **chosen))
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self.app.state.door.close()
        self._runner.close()

    def send(self, topic: str, method: str, path: str | bytes, **more: Any) -> Answer:
        """Send one request and judge its answer; ``path`` is as on the wire, percent-encoded."""
        COUNTS[topic] += 1
        return self._runner.run(self._send(method, path, **more))

    async def _send(
        self,
        method: str,
        path: str | bytes,
        *,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        token: bytes | None = b"",
        body: bytes | list[bytes] = b"",
        query: bytes = b"",
    ) -> Answer:
        parts = body if isinstance(body, list) else [body]
        incoming = [
            {"type": "http.request", "body": part, "more_body": more}
            for part, more in zip(parts, [*[True] * (len(parts) - 1), False], strict=True)
        ]
        raw = path.encode("ascii") if isinstance(path, str) else path
        authorization = [] if token is None else [(b"authorization", b"Bearer " + (token or ADMIN))]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "server": ("jobroom.test", 80),
            "client": ("127.0.0.1", 1),
            "root_path": "",
            "path": unquote(raw.decode("ascii")),
            "raw_path": raw,
            "query_string": query,
            "headers": [*authorization, *headers],
            "state": {},
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return incoming.pop(0) if incoming else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        await asyncio.wait_for(self.app(scope, receive, send), 30)
        answer = _read(sent)
        self._judge(scope, answer)
        return answer

    def _judge(self, scope: Any, answer: Answer) -> None:
        said = f"{scope['method']} {scope['raw_path']!r} -> {answer.status} {answer.body[:400]!r}"
        assert answer.status < 500, said
        assert answer.headers.get("content-length", "0") == str(len(answer.body)), said
        judge_status(scope["method"], scope["path"], answer, said)
        judge(answer, said)
        assert str(self.path) not in answer.body.decode(), said


def _read(sent: list[Any]) -> Answer:
    """What a server would put on the wire, if the messages keep to ASGI and to HTTP."""
    start, *bodies = sent
    assert start["type"] == "http.response.start"
    assert [part.get("more_body", False) for part in bodies] == [True] * (len(bodies) - 1) + [False]
    for name, value in start["headers"]:
        assert name == name.lower(), name
        assert not set(value) & set(b"\r\n\0"), (name, value)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], headers, b"".join(part.get("body", b"") for part in bodies))


def judge(answer: Answer, said: str) -> None:
    """Every error is a whole problem document, and no answer tells what only we should know."""
    if answer.status == 401:
        assert answer.headers.get("www-authenticate") == "Bearer", said
    if answer.status < 400:
        return
    assert answer.headers["content-type"] == PROBLEM, said
    text = answer.body.decode("utf-8")
    found = json.loads(text, parse_constant=None)
    for member, kind in MEMBERS.items():
        assert type(found[member]) is kind, said
        assert found[member], said
    slug = found["type"].removeprefix("/v1/problems/")
    assert (PROBLEMS[slug].status, found["status"]) == (answer.status, answer.status), said
    assert found["instance"].isascii(), said
    assert len(found["detail"]) < 2000, said
    for fault in found.get("errors", ()):
        assert fault["message"], said
        assert re.fullmatch(r"(?:/(?:[^~/]|~[01])*)*", fault["pointer"], re.DOTALL), said
    assert not LEAKS.search(text), said


def judge_status(method: str, path: str, answer: Answer, said: str) -> None:
    """The document names the status under that operation, or there is no such operation."""
    fitting = [spec for spec, pattern in OPERATIONS if pattern.match(path)]
    # The router takes the first path that fits, with all its methods.
    here = [spec for spec in fitting if spec.path == fitting[0].path]
    if not here and path not in {"/docs", "/openapi.json"}:
        assert answer.status == 404, said
        return
    spec = next((spec for spec in here if spec.method == method.replace("HEAD", "GET")), None)
    if spec is None:
        allowed = {405} | ({200, 406} if not here else set())
        assert answer.status in allowed, said
        return
    operation = DOCUMENT["paths"][spec.plain_path][spec.method.lower()]
    assert str(answer.status) in operation["responses"], said


def sign(header: bytes | str, claims: bytes | str, secret: str = SECRET) -> bytes:
    """A token of any header and claims, whether JSON or not, with a good signature (HS256)."""
    texts = [part.encode() if isinstance(part, str) else part for part in (header, claims)]
    signed = b".".join(b64(text) for text in texts)
    return signed + b"." + b64(hmac.new(secret.encode(), signed, hashlib.sha256).digest())


def b64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def token_of(sub: str, *, hours: float = 8, **claims: Any) -> bytes:
    """A token as the server would make it."""
    return sign(
        '{"alg":"HS256"}', json.dumps({"sub": sub, "exp": time.time() + hours * 3600, **claims})
    )


ADMIN = token_of("root", is_admin=True)
