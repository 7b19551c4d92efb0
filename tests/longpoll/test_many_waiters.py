"""Many long-polls at a real server: acceptance cases C29 and C30, *Waiting holds no thread*."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import httpx
import pytest
import uvicorn
from pydantic import SecretStr

from jobroom import create_app, tokens
from jobroom.domain.records import Caller
from jobroom.service import registration

SECRET = "a shared secret of more than 32 bytes"
HEADERS = {"authorization": f"Bearer {tokens.issue_token(SECRET, sub='w', is_admin=True)}"}
JOB = "/v1/joblib/rooms/r1/tasks/r1:modifiers:Rotate"
PATIENCE_SECONDS = 60


class Server:
    """A server with real sockets in this process, so that its tables can be looked at."""

    def __init__(self, settings):
        self.app = create_app(settings.model_copy(update={"jwt_secret": SecretStr(SECRET)}))
        self.door = self.app.state.door
        config = uvicorn.Config(
            self.app, port=0, lifespan="off", log_config=None, timeout_keep_alive=60
        )
        self._uvicorn = uvicorn.Server(config)
        self._socket = config.bind_socket()
        self.address = self._socket.getsockname()
        sockets = [self._socket]
        self._thread = threading.Thread(target=self._uvicorn.run, kwargs={"sockets": sockets})

    def __enter__(self):
        self._thread.start()
        host, port = self.address
        self.http = httpx.Client(base_url=f"http://{host}:{port}", headers=HEADERS, timeout=30)
        until(lambda: self._uvicorn.started)
        spec = registration.JobSpec("modifiers", "Rotate")
        self.door.queue.run(
            registration.register_job, caller=Caller("w", is_admin=True), room_id="r1", spec=spec
        )
        return self

    def __exit__(self, *exc):
        self.http.close()
        self._uvicorn.should_exit = True
        self._thread.join()
        self._socket.close()
        self.door.close()

    def open_request(self, method, path, wait):
        """A raw connection with a request on it."""
        connection = socket.create_connection(self.address)
        lines = [f"{method} {path} HTTP/1.1", "host: test", "content-length: 0"]
        lines += [f"{name}: {value}" for name, value in HEADERS.items()]
        lines += [f"prefer: wait={wait}", "", ""]
        connection.sendall("\r\n".join(lines).encode())
        return connection

    @property
    def watched(self):
        return sum(len(waiting) for waiting in self.door.watch._waiting.values())

    @property
    def parked(self):
        return sum(len(works) for works in self.door.queue.waiting._by_worker.values())


def until(happened):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


@pytest.fixture(scope="module")
def server(tmp_path_factory, empty_database):
    from jobroom import JobLibSettings

    path = tmp_path_factory.mktemp("many") / "queue.db"
    path.write_bytes(empty_database.read_bytes())
    settings = JobLibSettings(database_url=f"sqlite:///{path}", sqlite_synchronous="NORMAL")
    with Server(settings) as started:
        yield started


@pytest.fixture
def connections():
    with contextlib.ExitStack() as stack:
        yield stack


def body_of(connection):
    """The status and the JSON of the one answer on a raw connection."""
    connection.settimeout(PATIENCE_SECONDS)
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, rest = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    while len(rest) < int(fields[b"content-length"]):
        rest += connection.recv(65536)
    return int(head.split()[1]), json.loads(rest)


def test_300_who_wait_slow_nobody_and_hold_no_thread(server, connections):
    """C29: meanwhile POST, claim, heartbeat and /healthz are quick; contract: no thread."""
    http = server.http
    tasks = [http.post(JOB, json={}).json()["id"] for _ in range(10)]
    before = threading.active_count()
    waiting = [
        connections.enter_context(
            server.open_request("GET", f"/v1/joblib/tasks/{tasks[number % 10]}", 120)
        )
        for number in range(300)
    ]
    until(lambda: server.watched == 300)
    threads = threading.active_count() - before
    for method, path in (
        ("POST", JOB),
        ("POST", "/v1/joblib/tasks/claim"),
        ("PATCH", "/v1/joblib/workers/w"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", f"/v1/joblib/tasks/{tasks[9]}"),
    ):
        quickest = min(timed(http, method, path) for _ in range(3))
        assert quickest < 0.5, path
    assert threads <= 3  # the queue's own, started by the first who needs them
    for task_id in tasks:
        http.patch(f"/v1/joblib/tasks/{task_id}", json={"status": "cancelled"})
    answers = [body_of(connection) for connection in waiting]
    assert {(status, task["status"]) for status, task in answers} == {(200, "cancelled")}


def timed(http, method, path):
    started = time.monotonic()
    assert http.request(method, path).is_success
    return time.monotonic() - started


def test_500_clients_that_are_gone_leave_nothing_behind(server, connections):
    """C30: the waits end, the tables are empty, and no task is lost to any of them."""
    http = server.http
    while (task := http.post("/v1/joblib/tasks/claim").json()["task"]) is not None:
        http.patch(f"/v1/joblib/tasks/{task['id']}", json={"status": "failed"})
    later = http.post(JOB, json={"run_at": "2100-01-01T00:00:00Z"}).json()["id"]
    for _ in range(250):
        for method, name in (("GET", later), ("POST", "claim")):
            request = server.open_request(method, f"/v1/joblib/tasks/{name}", 60)
            connections.enter_context(request)
    until(lambda: (server.watched, server.parked) == (250, 250))
    connections.close()
    until(lambda: (server.watched, server.parked, server.door.waiters) == (0, 0, 0))
    assert server.door.watch.known == {}
    task_id = http.post(JOB, json={}).json()["id"]
    got = http.post("/v1/joblib/tasks/claim").json()["task"]
    assert (got["id"], got["attempt"]) == (task_id, 1)
    http.patch(f"/v1/joblib/tasks/{task_id}", json={"status": "failed"})


def test_nobody_looks_when_nobody_waits(server):
    """C30: no growth of queries; the looking thread ends with the last wait."""
    until(lambda: "jobroom-watcher" not in {thread.name for thread in threading.enumerate()})
    task_id = server.http.post(JOB, json={}).json()["id"]
    with server.open_request("GET", f"/v1/joblib/tasks/{task_id}", 60):
        until(lambda: "jobroom-watcher" in {thread.name for thread in threading.enumerate()})
    until(lambda: "jobroom-watcher" not in {thread.name for thread in threading.enumerate()})


def test_a_client_killed_with_its_claim_on_the_wire_loses_no_task(server, connections):
    """Rules, *Claim*: one that went away is skipped, at a real connection."""
    while server.http.post("/v1/joblib/tasks/claim").json()["task"] is not None:
        pass
    with server.open_request("POST", "/v1/joblib/tasks/claim", 60):
        until(lambda: server.parked == 1)
    stays = connections.enter_context(server.open_request("POST", "/v1/joblib/tasks/claim", 60))
    until(lambda: server.parked == 1)
    task_id = server.http.post(JOB, json={}).json()["id"]
    status, answer = body_of(stays)
    assert (status, answer["task"]["id"]) == (200, task_id)
