"""A server as users start it, and what they say to it: over sockets, from curl, from the SDK."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import live_server
from live_server import BASE, SECRET, token_of

from jobroom.client.connection import Connection
from jobroom.client.manager import JobManager
from jobroom.domain.records import Caller
from jobroom.service import registration, submission
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings

PATIENCE_SECONDS = 30
PROBLEM = "application/problem+json"
ROTATE = "r1:modifiers:Rotate"
SUBMIT = f"{BASE}/rooms/r1/tasks/{ROTATE}"
CLAIM = f"{BASE}/tasks/claim"
ANGLE = {"type": "object", "properties": {"angle": {"type": "number"}}, "required": ["angle"]}
OUTSIDE = ("/healthz", "/readyz", "/metrics", "/openapi")
SHOWN = "\nTraceback (most recent"


@contextmanager
def serving(folder, **settings):
    """A server process of its own; it must never have written a trace into its log."""
    with live_server.Server(folder, **chosen(folder, settings)) as server:
        yield server.until_ready()
        assert server.is_ready()
        assert SHOWN not in server.output
        server.stop()


def chosen(folder, settings):
    """These settings, and those that all these servers have."""
    return {
        "database_url": f"sqlite:///{folder}/queue.db",
        "jwt_secret": SECRET,
        "sqlite_synchronous": "NORMAL",
        "sweeper_interval_seconds": 0,
        **settings,
    }


class Person:
    """Somebody with a token (or ``token=None``: nobody), on one kept connection."""

    def __init__(self, server, sub="alice", *, token="", **claims):
        self.token = token_of(sub, **claims) if token == "" else token
        self.headers = {} if self.token is None else {"authorization": f"Bearer {self.token}"}
        self.sub = sub
        self.server = server
        self.http = httpx.Client(base_url=server.url, headers=self.headers, timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.http.close()

    def ask(self, method, path, body=None, **more):
        """One request; whatever the answer is, it is no fault of ours and no foreign page."""
        if isinstance(body, bytes):
            more = {"content": body, **more}
            more["headers"] = {"content-type": "application/json", **more.get("headers", {})}
        elif body is not None:
            more["json"] = body
        return checked(self.http.request(method, address(path), **more))

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.ask("POST", path, body, **more)

    def put(self, path, body=None, **more):
        return self.ask("PUT", path, body, **more)

    def patch(self, path, body=None, **more):
        return self.ask("PATCH", path, body, **more)

    def delete(self, path, **more):
        return self.ask("DELETE", path, **more)

    def register(self, name="Rotate", *, room="r1", **more):
        body = {"category": "modifiers", "name": name, **more}
        return taken(self.put(f"/rooms/{q(room)}/jobs", body))

    def submit(self, payload=None, *, name="Rotate", room="r1", headers=None, **more):
        body = {"payload": {"angle": 90} if payload is None else payload, **more}
        path = f"/rooms/{room}/tasks/{room}:modifiers:{q(name)}"
        return taken(self.post(path, body, headers=headers or {}))

    def claim(self, **more):
        """The next task, or None."""
        return taken(self.post("/tasks/claim", more))["task"]

    def drain(self):
        """Fail what this worker can claim; the tasks in the order in which they came."""
        found = []
        while claimed := taken(self.post("/tasks/claim", {"limit": 100}))["tasks"]:
            found += claimed
            for task in claimed:
                self.report(task, "failed")
        return found

    def report(self, task, status=None, **more):
        body = {**({} if status is None else {"status": status}), **more}
        return self.patch(f"/tasks/{task['id']}", body)

    def show(self, task):
        return taken(self.get(f"/tasks/{task['id']}"))


def address(path):
    return path if path.startswith(("/v1", *OUTSIDE)) else BASE + path


def q(text):
    """A part of a path, percent-encoded."""
    return quote(text, safe="")


def checked(answer):
    """No 5xx, no trace, and every refusal a problem document."""
    said = f"{answer.request.method} {answer.request.url} {answer.status_code} {answer.text[:300]}"
    assert answer.status_code < 500, said
    if answer.status_code >= 400:
        check_problem(answer.status_code, answer.headers.get("content-type"), answer.text, said)
    return answer


def check_problem(status, content_type, text, said=""):
    """A problem document, whoever received it."""
    assert content_type == PROBLEM, said
    found = json.loads(text)
    assert found["status"] == status, said
    assert found["type"].startswith("/v1/problems/"), said
    assert found["title"], said
    assert found["detail"], said
    assert "Traceback" not in text, said
    return found


def taken(answer):
    """The body of a success."""
    assert answer.is_success, f"{answer.status_code} {answer.text[:500]}"
    return answer.json()


def slug(answer):
    """The kind of problem an answer is, with its status: ``404 task-not-found``."""
    kind = answer.json()["type"].rpartition("/")[2]
    return f"{answer.status_code} {kind}"


@contextmanager
def sdk(server, sub="alice", **claims):
    """The SDK's manager, connected to this server (or to an address)."""
    url = server if isinstance(server, str) else server.url
    with Connection(url, token_of(sub, **claims)) as connection, JobManager(connection) as jobs:
        yield jobs


def until(happened, what="it"):
    """Wait for something that must happen."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := happened()):
        assert time.monotonic() < deadline, f"{what} never happened"
        time.sleep(0.01)
    return found


@contextmanager
def beside(folder):
    """The same file, opened by this process: for what no client could do."""
    settings = JobLibSettings(
        database_url=f"sqlite:///{folder}/queue.db", sqlite_synchronous="NORMAL"
    )
    with JobQueue.open(settings) as queue:
        yield queue


def submit_many(queue, count, *, sub="alice", room="r1", full_name=ROTATE, **new):
    """So many single submissions in one transaction, so in one tick of the store's clock."""

    def submit(tx):
        job = registration.find_job.rule(tx, caller=caller, room_id=room, full_name=full_name)
        return [
            submission.submit_task.rule(
                tx, caller=caller, room_id=room, job=job, new=submission.NewTask(**new)
            ).view.task.id
            for _ in range(count)
        ]

    caller = Caller(sub, is_admin=True)
    return queue.run(submit)


def raw_request(person, method, path, *, headers=(), body=b""):
    """The bytes of a request as no client library would send it."""
    lines = [f"{method} {address(path)} HTTP/1.1", "host: jobroom.test"]
    lines += [f"{name}: {value}" for name, value in {**person.headers, **dict(headers)}.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def connect(server):
    """A connection of one's own."""
    found = socket.create_connection(("127.0.0.1", server.port))
    found.settimeout(PATIENCE_SECONDS)
    return found


def read_answer(connection):
    """Status, headers and body of the next answer on a connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        assert part, f"closed after {data!r}"
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    return int(first.split()[1]), headers, body.decode()


def curl(folder, person, requests):
    """Send many requests by one real curl; status, content type and body of each.

    A request is (method, address as it goes on the wire, JSON text or None).
    """
    folder = Path(folder)
    blocks = []
    for number, (method, path, body) in enumerate(requests):
        lines = [
            f'url = "{_config(person.server.url + path)}"',
            f'request = "{method}"',
            f'output = "{folder}/{number}.txt"',
            f'header = "Authorization: Bearer {person.token}"',
            r'write-out = "%{http_code} %{content_type}\n"',
            "path-as-is",
            "globoff",
            "silent",
            "show-error",
        ]
        if body is not None:
            lines += [
                'header = "Content-Type: application/json"',
                f'data-binary = "{_config(body)}"',
            ]
        blocks.append("\n".join(lines))
        (folder / f"{number}.txt").write_text("")
    done = subprocess.run(
        ["curl", "--disable", "--noproxy", "*", "--config", "-"],
        input="\nnext\n".join(blocks).encode(),
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode == 0, done.stderr.decode()
    answers = []
    for number, line in enumerate(done.stdout.decode().splitlines()):
        status, _, kind = line.partition(" ")
        answers.append((int(status), kind, (folder / f"{number}.txt").read_text()))
    assert len(answers) == len(requests)
    return answers


def _config(text):
    return text.replace("\\", "\\\\").replace('"', '\\"')
