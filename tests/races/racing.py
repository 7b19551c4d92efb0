"""Races: requests through two servers on one file, started together, a few milliseconds apart."""

from __future__ import annotations

import json
import random
import re
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from itertools import count
from typing import NamedTuple

import live_server
from live_server import BASE

ROUNDS = 300
SECOND = 1_000_000
WORKER_TIMEOUT_SECONDS = 3600
# The sweep of the servers themselves is off, and with it the grace after an outage.
SETTINGS = {
    "jwt_secret": live_server.SECRET,
    "worker_timeout_seconds": WORKER_TIMEOUT_SECONDS,
    "sweeper_interval_seconds": 0,
    "sqlite_synchronous": "NORMAL",
}
# A connection may be idle while other racers run, and must not be closed just as it is used.
KEPT_OPEN = {"UVICORN_TIMEOUT_KEEP_ALIVE": "600"}
PATIENCE_SECONDS = 60
CREATOR, OWNER, ADMIN = "creator", "owner", "root"
JITTER_SECONDS = 0.002
NUDGE_SECONDS = 0.0003
WIDEST_LEAD_SECONDS = 0.03


class Request(NamedTuple):
    method: str
    path: str
    body: dict | None = None
    headers: dict | None = None


class Answer(NamedTuple):
    status: int
    body: dict | None
    headers: dict


class Line:
    """A connection to one server, kept open. Each answer must be in the contract's shape."""

    def __init__(self, server, sub):
        self._connection = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
        token = live_server.token_of(sub, is_admin=sub == ADMIN)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def send(self, method, path, body=None, headers=None):
        text = None if body is None else json.dumps(body)
        self._connection.request(method, path, text, {**self._headers, **(headers or {})})
        response = self._connection.getresponse()
        raw = response.read()
        known = {name.lower(): value for name, value in response.getheaders()}
        answer = Answer(response.status, json.loads(raw) if raw else None, known)
        assert answer.status < 500, answer
        if answer.status >= 400:
            assert known["content-type"] == "application/problem+json", answer
            assert {"type", "title", "status", "detail"} <= set(answer.body), answer
        return answer

    def expect(self, status, *request):
        answer = self.send(*request)
        assert answer.status == status, answer
        return answer.body

    def close(self):
        self._connection.close()


class Pair:
    """Two servers on one file, and the file itself for what a test must set or see in it."""

    def __init__(self, folder, servers):
        self.servers = servers
        self.folder = folder
        self._heard = [0 for _ in servers]
        self._database = sqlite3.connect(
            folder / "jobroom.db",
            timeout=PATIENCE_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._database.close()

    def rows(self, query, *values):
        return self._database.execute(query, values).fetchall()

    def make_stale(self, worker_ids):
        """Move the last heartbeats back, so that no round has to wait for a worker timeout."""
        back = 2 * WORKER_TIMEOUT_SECONDS * SECOND
        self._database.executemany(
            "UPDATE worker SET last_heartbeat = last_heartbeat - ? WHERE id = ?",
            [(back, worker_id) for worker_id in worker_ids],
        )

    @property
    def environment(self):
        """What another process needs to open the same file with the same settings."""
        return live_server.environment(**SETTINGS)

    def task(self, task_id):
        """A task as the file has it; its version tells how often it was written."""
        [row] = self.rows(
            "SELECT status, attempt, version, error, result, worker_id FROM task WHERE id = ?",
            task_id,
        )
        return StoredTask(*row)

    def tasks_of(self, room):
        rows = self.rows(
            "SELECT status, attempt, version, error, result, worker_id FROM task"
            " WHERE room_id = ? ORDER BY seq",
            room,
        )
        return [StoredTask(*row) for row in rows]

    def complaints(self):
        """What the servers have said since last asked that tells of an error or a warning."""
        said = [server.output for server in self.servers]
        new = "".join(text[start:] for text, start in zip(said, self._heard, strict=True))
        self._heard = [len(text) for text in said]
        return re.findall(r"^.*(?:ERROR|WARNING|Traceback|store\.).*$", new, re.MULTILINE)

    def line(self, sub, side=0):
        return closing(Line(self.servers[side], sub))


class StoredTask(NamedTuple):
    status: str
    attempt: int
    version: int
    error: str | None
    result: str | None
    worker_id: str | None


class Race:
    """Racers, each a thread with connections of its own; they change sides with each round.

    After a barrier each waits for a random moment. The first one's lead is moved towards the
    point where it wins as often as it loses, which is where the requests really meet.
    """

    def __init__(self, pair, *subs):
        self._lead = 0.0
        self._rounds = count()
        self._barrier = threading.Barrier(len(subs), timeout=PATIENCE_SECONDS)
        self._stack = ExitStack()
        self._pool = self._stack.enter_context(ThreadPoolExecutor(len(subs)))
        self._lines = [
            [self._stack.enter_context(pair.line(sub, side)) for side in (0, 1)] for sub in subs
        ]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._stack.close()

    def run(self, *requests):
        """One round; the answers, in the order of the requests."""
        number = next(self._rounds)
        running = [
            self._pool.submit(
                self._start, self._lines[racer][(number + racer) % 2], request, self._delay(racer)
            )
            for racer, request in enumerate(requests)
        ]
        return [racer.result(PATIENCE_SECONDS) for racer in running]

    def learn(self, *, first_won):
        lead = self._lead + (-NUDGE_SECONDS if first_won else NUDGE_SECONDS)
        self._lead = max(-WIDEST_LEAD_SECONDS, min(lead, WIDEST_LEAD_SECONDS))

    def _delay(self, racer):
        behind = -self._lead if racer == 0 else self._lead
        return max(0.0, behind) + random.uniform(0, JITTER_SECONDS)

    def _start(self, line, request, delay):
        self._barrier.wait()
        time.sleep(delay)
        return line.send(*request)


class Held(NamedTuple):
    """A worker and the tasks that it holds."""

    worker_id: str
    task_ids: list[str]


class Crews:
    """Workers that hold tasks, made by several threads through both servers."""

    THREADS = 6

    def __init__(self, pair):
        self._pair = pair
        self._stack = ExitStack()
        self._pool = self._stack.enter_context(ThreadPoolExecutor(self.THREADS))
        self._own = threading.local()
        self._sides = count()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._stack.close()

    def hold(self, room, workers, *, tasks=1, start=True, **job):
        """So many new workers of one job, each holding so many tasks, not stale yet."""
        return list(self._pool.map(lambda _: self._one(room, tasks, start, job), range(workers)))

    def submit(self, room, number):
        """So many tasks of a registered job; their ids."""

        def one(_):
            return self._line(CREATOR).expect(202, *submission(room))["id"]

        return list(self._pool.map(one, range(number)))

    def _one(self, room, tasks, start, job):
        worker = self._line(OWNER)
        worker_id = worker.expect(201, *NEW_WORKER)["id"]
        answer = worker.send(*registration(room, worker_id=worker_id, **job))
        assert answer.status in (200, 201), answer
        for _ in range(tasks):
            self._line(CREATOR).expect(202, *submission(room))
        wish = {"worker_id": worker_id, "limit": tasks, "start": start}
        held = worker.expect(200, "POST", f"{BASE}/tasks/claim", wish)["tasks"]
        assert len(held) == tasks
        return Held(worker_id, [task["id"] for task in held])

    def _line(self, sub):
        lines = self._own.__dict__
        if sub not in lines:
            side = lines.setdefault("side", next(self._sides) % 2)
            lines[sub] = self._stack.enter_context(self._pair.line(sub, side))
        return lines[sub]


def registration(room, *, name="Job", **more):
    body = {"category": "modifiers", "name": name, **more}
    return Request("PUT", f"{BASE}/rooms/{room}/jobs", body)


def submission(room, *, name="Job", headers=None, **body):
    path = f"{BASE}/rooms/{room}/tasks/{room}:modifiers:{name}"
    return Request("POST", path, body, headers)


def report(task_id, status=None, **more):
    body = more if status is None else {"status": status, **more}
    return Request("PATCH", f"{BASE}/tasks/{task_id}", body)


def claim(worker_id=None, **more):
    body = more if worker_id is None else {"worker_id": worker_id, **more}
    return Request("POST", f"{BASE}/tasks/claim", body)


def beat(worker_id):
    return Request("PATCH", f"{BASE}/workers/{worker_id}")


NEW_WORKER = Request("POST", f"{BASE}/workers")
SWEEP = Request("POST", f"{BASE}/sweep")
COUNTED = ("lost_workers", "requeued_tasks", "failed_tasks", "timed_out_tasks", "expired_tasks")


def taken(*answers):
    """What sweeps have done to workers and tasks, added up by kind; what is 0 left out."""
    counts = {name: sum(answer.body[name] for answer in answers) for name in COUNTED}
    return {name: number for name, number in counts.items() if number}
