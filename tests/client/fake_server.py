"""A small server that follows the contract as far as the SDK sees it, with faults on demand."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

PATIENCE_SECONDS = 10.0
TERMINAL = {"completed", "failed", "cancelled"}
ALLOWED = {
    "running": {"claimed", "running"},
    "completed": {"running"},
    "failed": {"claimed", "running"},
    "cancelled": {"pending", "claimed", "running"},
}


class Problem(Exception):
    def __init__(self, status: int, slug: str, detail: str = "", **extra: Any) -> None:
        super().__init__(slug)
        self.status = status
        self.body = {
            "type": f"/v1/problems/{slug}",
            "title": slug,
            "status": status,
            "detail": detail or f"this is {slug}",
            **extra,
        }


@dataclass
class Seen:
    """One request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Fault:
    """What happens instead of an answer to the next requests that match."""

    method: str
    path: str
    times: int = 1
    status: int | None = None  # None: the connection is cut
    headers: dict[str, str] = field(default_factory=dict)
    text: str = "<html>bad gateway</html>"
    act: bool = False  # the request is carried out all the same, only its answer is lost
    torn: bool = False  # half of the text comes, then the connection is cut

    def matches(self, method: str, path: str) -> bool:
        return self.times > 0 and method == self.method and bool(re.search(self.path, path))


class FakeServer:
    """State, faults and everything that was asked, behind one condition."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.workers: dict[str, dict[str, Any]] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.tasks: dict[str, dict[str, Any]] = {}
        self.replays: dict[tuple[str, str], dict[str, Any]] = {}
        self.seen: list[Seen] = []
        self.faults: list[Fault] = []
        self.timeout_seconds: float | None = 60.0
        self.holds_claims = True
        self.takes_logs = True
        self.max_result_bytes = 16 * 1024 * 1024
        self.away = False
        self.refused_tokens: set[str] = set()
        self.on_request: Callable[[Seen], None] = lambda _seen: None
        self._http: ThreadingHTTPServer | None = None

    # What tests do

    @property
    def url(self) -> str:
        assert self._http is not None
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def fail_next(self, method: str, path: str, **how: Any) -> None:
        with self.changed:
            self.faults.append(Fault(method, path, **how))

    def add_task(self, job_name: str, payload: Any = None, **more: Any) -> dict[str, Any]:
        with self.changed:
            task = {
                "id": str(uuid.uuid4()),
                "job_name": job_name,
                "status": "pending",
                "room_id": job_name.partition(":")[0],
                "payload": payload or {},
                "created_at": "2026-01-01T00:00:00.000001Z",
                "worker_id": None,
                "attempt": 0,
                "error": None,
                "result": None,
                "reports": [],
                "starts": 0,
                **more,
            }
            self.tasks[task["id"]] = task
            self.changed.notify_all()
            return task

    def forget_worker(self, worker_id: str) -> None:
        with self.changed:
            del self.workers[worker_id]
            self._settle(worker_id)
            self.changed.notify_all()

    def calm(self) -> None:
        """End faults, hooks and claims that are held open, so that everybody can leave at once."""
        with self.changed:
            self.away = self.holds_claims = False
            self.refused_tokens.clear()
            self.faults.clear()
            self.on_request = lambda _seen: None
            self.changed.notify_all()

    def until(self, question: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
        with self.changed:
            assert self.changed.wait_for(question, seconds), f"asked in vain; seen: {self.seen}"
            return question()

    def asked(self, method: str, path: str) -> list[Seen]:
        with self.changed:
            return [one for one in self.seen if one.method == method and re.search(path, one.path)]

    # The contract

    def answer(self, seen: Seen) -> tuple[Any, ...]:  # noqa: C901, PLR0911, PLR0912  # routes
        bearer = seen.headers.get("authorization", "").removeprefix("Bearer ")
        if not bearer or bearer in self.refused_tokens:
            raise Problem(401, "unauthorized", "The token has expired.")
        segments = [unquote(part) for part in seen.path.split("?")[0].split("/")[1:]]
        body = seen.body or {}
        match (seen.method, *segments[2:]):
            case ("POST", "workers"):
                return 201, self._make_worker(body)
            case ("PATCH", "workers", worker_id):
                return 200, self._beat(worker_id)
            case ("DELETE", "workers", worker_id):
                self._worker(worker_id)
                self.forget_worker(worker_id)
                return 204, None
            case ("PUT", "rooms", room, "jobs"):
                return self._register(room, body, admin=bearer == "admin")
            case ("GET", "rooms", room, "jobs", name):
                if name not in self.jobs:
                    raise Problem(404, "job-not-found")
                return 200, self.jobs[name]
            case ("POST", "rooms", room, "tasks", name):
                return 202, self._submit(room, name, body, seen)
            case ("POST", "tasks", "claim"):
                return 200, self._claim(body, seen)
            case ("GET", "tasks", task_id):
                return 200, self._task(task_id)
            case ("PATCH", "tasks", task_id):
                return 200, self._report(task_id, body)
            case ("POST", "sweep"):
                if bearer != "admin":
                    raise Problem(403, "forbidden")
                return 200, {"judged": True, "lost_workers": 1}
            case ("GET",) if segments == ["v1", "me"]:
                return 200, {"id": bearer, "is_admin": bearer == "admin", "rooms": None}
        raise Problem(404, "not-found")

    def _make_worker(self, body: dict[str, Any]) -> dict[str, Any]:
        worker_id = str(uuid.uuid4())
        self.workers[worker_id] = {"jobs": set(), "cancel": [], "name": body.get("name")}
        return self._worker_body(worker_id)

    def _worker_body(self, worker_id: str) -> dict[str, Any]:
        body = {
            "id": worker_id,
            "last_heartbeat": "2026-01-01T00:00:00.000001Z",
            "cancel": self.workers[worker_id]["cancel"],
        }
        if self.timeout_seconds is not None:
            body["timeout_seconds"] = self.timeout_seconds
        return body

    def _worker(self, worker_id: str) -> dict[str, Any]:
        if worker_id not in self.workers:
            raise Problem(404, "worker-not-found")
        return self.workers[worker_id]

    def _beat(self, worker_id: str) -> dict[str, Any]:
        self._worker(worker_id)
        return self._worker_body(worker_id)

    def _register(self, room: str, body: dict[str, Any], *, admin: bool) -> tuple[int, Any]:
        if room == "@global" and not admin:
            raise Problem(403, "forbidden", "Registering for @global needs an admin.")
        name = f"{room}:{body['category']}:{body['name']}"
        worker = self._worker(body["worker_id"])
        known = self.jobs.get(name)
        differs = known is not None and known["schema"] != body["schema"]
        if differs and not body.get("replace"):
            raise Problem(409, "schema-conflict", "The schema differs at /properties.")
        version = 1 if known is None else known["schema_version"] + differs
        worker["jobs"].add(name)
        self.jobs[name] = {**body, "full_name": name, "schema_version": version}
        return (201 if known is None else 200), self.jobs[name]

    def _submit(self, room: str, name: str, body: dict[str, Any], seen: Seen) -> dict[str, Any]:
        if name not in self.jobs:
            raise Problem(404, "job-not-found")
        if not isinstance(body.get("payload"), dict):
            raise Problem(
                422,
                "payload-invalid",
                "It does not fit.",
                errors=[{"pointer": "/payload", "message": "no object"}],
            )
        key = (seen.path, seen.headers.get("idempotency-key", uuid.uuid4().hex))
        if key not in self.replays:
            self.replays[key] = self.add_task(name, body["payload"], room_id=room, sent=body)
        return self.replays[key]

    def _claim(self, body: dict[str, Any], seen: Seen) -> dict[str, Any]:
        wait = float(seen.headers.get("prefer", "wait=0").removeprefix("wait="))
        give_up_at = time.monotonic() + (wait if self.holds_claims else 0.0)
        while True:
            worker = self._worker(body["worker_id"])
            task = self._take(worker, body)
            left = give_up_at - time.monotonic()
            if task is not None or left <= 0 or not self.holds_claims:
                return {"task": task, "tasks": [task] if task else []}
            self.changed.wait(left)

    def _take(self, worker: dict[str, Any], body: dict[str, Any]) -> dict[str, Any] | None:
        for task in self.tasks.values():
            again = task.get("request_id") == body["request_id"] and task["status"] == "claimed"
            if again:
                return task
        for task in self.tasks.values():
            if task["status"] == "pending" and task["job_name"] in worker["jobs"]:
                task |= {
                    "status": "claimed",
                    "worker_id": body["worker_id"],
                    "attempt": task["attempt"] + 1,
                    "request_id": body["request_id"],
                }
                self.changed.notify_all()
                return task
        return None

    def _task(self, task_id: str) -> dict[str, Any]:
        if task_id not in self.tasks:
            raise Problem(404, "task-not-found")
        return self.tasks[task_id]

    def _report(self, task_id: str, body: dict[str, Any]) -> dict[str, Any]:
        task = self._task(task_id)
        if len(json.dumps(body.get("result"))) > self.max_result_bytes:
            raise Problem(413, "payload-too-large", f"At most {self.max_result_bytes} bytes.")
        if "log" in body and not self.takes_logs:
            fault = {"pointer": "/log", "message": "There is no such field."}
            raise Problem(422, "validation-error", errors=[fault])
        stale = body.get("attempt", task["attempt"]) != task["attempt"]
        if stale or body.get("worker_id", task["worker_id"]) != task["worker_id"]:
            raise Problem(409, "invalid-task-transition", "Another attempt holds it.")
        repeated = task["status"] in TERMINAL and task["reports"][-1:] == [body]
        if "status" in body and not repeated:
            self._move(task, body)
        task["reports"].append(body)
        task |= {
            key: body[key] for key in ("error", "result", "progress", "message") if key in body
        }
        self.changed.notify_all()
        return task

    def _move(self, task: dict[str, Any], body: dict[str, Any]) -> None:
        status, policy = body["status"], self.jobs.get(task["job_name"], {})
        allowed = ALLOWED.get(status, {"claimed"})
        if status == "pending" and policy.get("on_worker_lost") == "requeue":
            allowed = {"claimed", "running"}
        if task["status"] not in allowed:
            raise Problem(409, "invalid-task-transition", f"It is {task['status']}.")
        task["status"] = status

    def _settle(self, worker_id: str) -> None:
        for task in self.tasks.values():
            if task["worker_id"] == worker_id and task["status"] in {"claimed", "running"}:
                requeue = self.jobs[task["job_name"]].get("on_worker_lost") == "requeue"
                task |= {
                    "status": "pending" if requeue else "failed",
                    "error": "Worker disconnected",
                }

    # The wire

    @contextmanager
    def running(self) -> Iterator[FakeServer]:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._http.daemon_threads = True
        thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        try:
            yield self
        finally:
            self.calm()
            self._http.shutdown()
            self._http.server_close()
            thread.join(PATIENCE_SECONDS)

    def fault_for(self, seen: Seen) -> Fault | None:
        for fault in self.faults:
            if fault.matches(seen.method, seen.path):
                fault.times -= 1
                return fault
        return Fault(seen.method, seen.path) if self.away else None


def _handler_for(server: FakeServer) -> type[BaseHTTPRequestHandler]:  # noqa: C901  # one class
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: two would wait for each other

        def log_message(self, *_: Any) -> None:
            pass

        def handle_any(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            text = self.rfile.read(length)
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen = Seen(self.command, self.path, headers, json.loads(text) if text else None)
            server.on_request(seen)
            with server.changed:
                server.seen.append(seen)
                server.changed.notify_all()
                fault = server.fault_for(seen)
                status, body, *more = (
                    self.outcome_of(seen) if fault is None or fault.act else (0, None)
                )
                data = b"" if body is None else json.dumps(body, default=list).encode()
            if fault is None:
                self.reply(
                    status,
                    data,
                    "application/json" if status < 400 else "application/problem+json",
                    more[0] if more else {},
                )
            elif fault.status is None:
                self.cut()
            elif fault.torn:
                length = {"Content-Length": str(2 * len(fault.text))}
                self.reply(fault.status, fault.text.encode(), "application/json", length)
                self.cut()
            else:
                self.reply(fault.status, fault.text.encode(), "text/html", fault.headers)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def outcome_of(self, seen: Seen) -> tuple[Any, ...]:
            try:
                return server.answer(seen)
            except Problem as problem:
                return problem.status, problem.body

        def reply(self, status: int, data: bytes, kind: str, headers: dict[str, str]) -> None:
            try:
                self.send_response(status)
                for name, value in {"Content-Type": kind, **headers}.items():
                    self.send_header(name, value)
                if status != 204 and "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(b"" if status == 204 else data)
            except OSError:
                self.close_connection = True

        def cut(self) -> None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    return Handler
