"""The Runtime API of one execution environment, where the runtime fetches events and answers."""

from __future__ import annotations

import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

VERSION = "/2018-06-01/runtime"
LARGEST_EVENT = 6 * 1024 * 1024
LARGEST_ANSWER = LARGEST_EVENT + 100
ARN = "arn:aws:lambda:eu-west-1:123456789012:function:jobroom"


class Invocation(NamedTuple):
    """One event for the function."""

    id: str
    event: bytes
    deadline: float  # Unix seconds


class Answer(NamedTuple):
    """What came of it: the function's JSON, or that of an error of this type."""

    payload: bytes
    error: str = ""

    def json(self) -> Any:
        """The function's answer; an error is none."""
        assert not self.error, self
        return json.loads(self.payload)


def failure(kind: str, message: str) -> Answer:
    """An error that the platform tells of, not the function."""
    return Answer(json.dumps({"errorType": kind, "errorMessage": message}).encode(), kind)


class PromptHandler(BaseHTTPRequestHandler):
    """Sends head and body at once: one after the other, the body waits for the head's receipt."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def reply(self, status: int, body: bytes = b"{}", headers: tuple = ()) -> None:
        self.send_response_only(status)
        for name, value in (*headers, ("content-length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class QuietServer(ThreadingHTTPServer):
    """On a free port of loopback; a client that goes away is nothing to tell of."""

    request_queue_size = 128
    daemon_threads = True

    def __init__(self, handler: type[socketserver.BaseRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self.serve_forever, args=[0.05], daemon=True)
        self._thread.start()

    def handle_error(self, *_arguments: object) -> None:
        """Say nothing."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


class RuntimeApi(QuietServer):
    """One invocation at a time. ``changed`` guards the attributes and tells of their changes."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.is_waiting = False  # the runtime has asked for the next event and has none
        self.answer: Answer | None = None
        self.init_error: Answer | None = None
        self._given: Invocation | None = None
        self._is_closed = False
        super().__init__(_Handler)

    def give(self, invocation: Invocation) -> None:
        """Answer the waiting runtime with an event."""
        with self.changed:
            assert self.is_waiting
            self.is_waiting = False
            self.answer = None
            self._given = invocation
            self.changed.notify_all()

    def close(self) -> None:
        """Let the runtime wait no more."""
        with self.changed:
            self._is_closed = True
            self.changed.notify_all()
        super().close()

    def next(self) -> Invocation | None:
        """The runtime asks for an event: the next, or None at the end of the environment."""
        with self.changed:
            self.is_waiting = True
            self._given = None
            self.changed.notify_all()
            self.changed.wait_for(lambda: self._given is not None or self._is_closed)
            return self._given

    def take(self, what: str, id: str, answer: Answer) -> int:
        """The runtime tells what came of it; the status that it is told."""
        with self.changed:
            if what == "init":
                self.init_error = answer
            elif self._given is None or self._given.id != id or self.answer is not None:
                return 400
            else:
                self.answer = answer
            self.changed.notify_all()
        return 413 if answer.error == "Function.ResponseSizeTooLarge" else 202


class _Handler(PromptHandler):
    server: RuntimeApi

    def do_GET(self) -> None:
        if self.path != f"{VERSION}/invocation/next":
            self.reply(404)
        elif (given := self.server.next()) is not None:
            about = (
                ("content-type", "application/json"),
                ("lambda-runtime-aws-request-id", given.id),
                ("lambda-runtime-deadline-ms", str(int(given.deadline * 1000))),
                ("lambda-runtime-invoked-function-arn", ARN),
                ("lambda-runtime-trace-id", "Root=1-0-0;Parent=0;Sampled=0"),
            )
            self.reply(200, given.event, about)

    def do_POST(self) -> None:
        body = self.read_body()
        match self.path.removeprefix(VERSION).split("/")[1:]:
            case ["invocation", id, "response"] if len(body) > LARGEST_ANSWER:
                said = f"Response payload size exceeded maximum allowed payload size: {len(body)}"
                answer = failure("Function.ResponseSizeTooLarge", said)
                self.reply(self.server.take("invocation", id, answer))
            case ["invocation", id, "response"]:
                self.reply(self.server.take("invocation", id, Answer(body)))
            case ["invocation", id, "error"]:
                self.reply(self.server.take("invocation", id, self._error(body)))
            case ["init", "error"]:
                self.reply(self.server.take("init", "", self._error(body)))
            case _:
                self.reply(404)

    def _error(self, body: bytes) -> Answer:
        kind = self.headers.get("lambda-runtime-function-error-type") or "Unhandled"
        return Answer(body, json.loads(body).get("errorType") or kind)
