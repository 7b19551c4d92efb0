"""What stands before a function: real HTTP becomes an event of that gateway's kind, and back."""

from __future__ import annotations

import base64
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Self

import lambda_events as events
from environments import Function, Throttled, TooLarge
from runtime_api import Answer, PromptHandler, QuietServer

MEGABYTE = 1_000_000
HOP_BY_HOP = {"connection", "expect", "keep-alive", "te", "transfer-encoding", "upgrade"}
TEXT = ("text/", "application/json", "application/javascript", "application/xml")
Pairs = list[tuple[str, str]]
NO_BODY = (204, 304)


class Manners(NamedTuple):
    """How a kind of gateway says that the function gave no answer."""

    failed: tuple[int, bytes]
    timed_out: tuple[int, bytes]
    throttled: tuple[int, bytes]
    seconds: float  # that it waits
    largest_body: int


UNAVAILABLE = (503, b'{"message":"Service Unavailable"}')
TOO_LARGE = (413, b'{"message":"Request Entity Too Large"}')
BALANCER = Manners(
    failed=(502, b"<h1>502 Bad Gateway</h1>"),
    timed_out=(504, b"<h1>504 Gateway Time-out</h1>"),
    throttled=(502, b"<h1>502 Bad Gateway</h1>"),
    seconds=60.0,
    largest_body=MEGABYTE,
)
MANNERS: dict[Callable[..., Any], Manners] = {
    events.http_api: Manners(
        failed=(500, b'{"message":"Internal Server Error"}'),
        timed_out=UNAVAILABLE,
        throttled=UNAVAILABLE,
        seconds=30.0,
        largest_body=10 * MEGABYTE,
    ),
    events.rest_api: Manners(
        failed=(502, b'{"message": "Internal server error"}'),
        timed_out=(504, b'{"message": "Endpoint request timed out"}'),
        throttled=(500, b'{"message": "Internal server error"}'),
        seconds=29.0,
        largest_body=10 * MEGABYTE,
    ),
    events.function_url: Manners(
        failed=(502, b"Internal Server Error"),
        timed_out=(504, b"Gateway Timeout"),
        throttled=(429, b'{"Reason":"ReservedFunctionConcurrentInvocationLimitExceeded"}'),
        seconds=900.0,
        largest_body=6 * 1024 * 1024,
    ),
    events.load_balancer: BALANCER,
    events.load_balancer_of_lists: BALANCER,
}


class Gateway:
    """A gateway on a port of loopback. ``kind`` is one of ``lambda_events``' makers of events.

    ``stage`` names one that is not the default: it is the first part of each path. ``claims`` are
    what an authorizer has found in the token.
    """

    def __init__(
        self,
        function: Function,
        *,
        kind: Callable[..., Any] = events.http_api,
        stage: str = "",
        seconds: float | None = None,
        claims: dict[str, Any] | None = None,
    ) -> None:
        self.function = function
        self.kind = kind
        self.stage = stage
        self.claims = claims
        self.manners = MANNERS[kind]
        self.seconds = self.manners.seconds if seconds is None else seconds
        self.statuses: Counter[int] = Counter()
        self.slowest = 0.0  # seconds until an answer
        self._lock = threading.Lock()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no more requests."""
        self._server.close()

    def answer(self, method: str, target: str, headers: Pairs, body: bytes) -> events.Answer:
        """What the client gets."""
        began = time.monotonic()
        answer = self._answer(method, target, headers, body)
        with self._lock:
            self.statuses[answer.status] += 1
            self.slowest = max(self.slowest, time.monotonic() - began)
        return answer

    def _answer(self, method: str, target: str, headers: Pairs, body: bytes) -> events.Answer:
        lead = f"/{self.stage}" if self.stage else ""
        if not target.startswith(lead):
            return _said(404, b'{"message":"Not Found"}')
        event = self._event(method, target.removeprefix(lead) or "/", headers, body)
        try:
            answer = self.function.invoke(event).result(self.seconds)
        except Throttled:
            return _said(*self.manners.throttled)
        except TooLarge:
            return _said(*TOO_LARGE)
        except TimeoutError:  # the function goes on: nobody tells it
            return _said(*self.manners.timed_out)
        return self._read(event, answer)

    def _read(self, event: dict[str, Any], answer: Answer) -> events.Answer:
        if not answer.error:
            # Else, or without the gateway's form, it is an answer of the gateway's own.
            with suppress(AssertionError, KeyError, TypeError, ValueError):
                return events.read(event, answer.json())
        return _said(*self.manners.failed)

    def _event(self, method: str, target: str, headers: Pairs, body: bytes) -> dict[str, Any]:
        changes: dict[str, Any] = {"stage": self.stage} if self.stage else {}
        kept = [(name, value) for name, value in headers if name not in HOP_BY_HOP]
        kept += [
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-port", "443"),
            ("x-forwarded-proto", "https"),
        ]
        kinds = [value for name, value in headers if name == "content-type"]
        event: dict[str, Any] = self.kind(method, target, kept, body, **changes)
        if body and not any(kind.startswith(TEXT) or "+json" in kind for kind in kinds):
            event |= {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
        if self.claims is not None:
            event["requestContext"]["authorizer"] = {"jwt": {"claims": self.claims, "scopes": None}}
        return event


def _said(status: int, body: bytes) -> events.Answer:
    kind = "text/html" if body.startswith(b"<") else "application/json"
    return events.Answer(status, [("content-type", kind)], body)


class _Server(QuietServer):
    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        super().__init__(_Handler)


class _Handler(PromptHandler):
    server: _Server

    def __getattr__(self, name: str) -> Any:
        """Whatever the method, it is forwarded."""
        if name.startswith("do_"):
            return self._forward
        raise AttributeError(name)

    def _forward(self) -> None:
        if int(self.headers.get("content-length") or 0) > self.server.gateway.manners.largest_body:
            self.close_connection = True  # the body is never read
            answer = _said(*TOO_LARGE)
        else:
            headers = [(name.lower(), value) for name, value in self.headers.items()]
            body = self.read_body()
            answer = self.server.gateway.answer(self.command, self.path, headers, body)
        self._tell(answer)

    def _tell(self, answer: events.Answer) -> None:
        has_body = self.command != "HEAD" and answer.status not in NO_BODY
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name not in HOP_BY_HOP and (name != "content-length" or self.command == "HEAD"):
                self.send_header(name, value)
        if has_body:
            self.send_header("content-length", str(len(answer.body)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        if has_body:
            self.wfile.write(answer.body)

    def read_body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return super().read_body()
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(parts)
