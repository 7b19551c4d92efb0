"""Tools of the tests of storage faults: a full disk, a locked file, a load and what it was told."""

from __future__ import annotations

import resource
import sqlite3
import sys
import threading
import time
import uuid
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import live_server

BASE = live_server.BASE
BOUNDED = (sys.executable, str(Path(__file__).parent / "bounded.py"))
LONGEST_SECONDS = 60
UNAVAILABLE = 503


def until(condition, *, seconds=LONGEST_SECONDS, what="it did not happen"):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(what)


def limit_files(server, largest=resource.RLIM_INFINITY):
    """From now on no file of the server grows beyond so many bytes: its disk is full."""
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))


def until_swept(folder):
    """Sweeps end and judge: the first judges at once, and a grace is given once (contract)."""
    query = (
        "SELECT sum(name = 'sweep_finished_at') - sum(name = 'judge_again_at' AND value > 0)"
        " FROM queue_state"
    )
    with closing(sqlite3.connect(Path(folder) / "jobroom.db", timeout=LONGEST_SECONDS)) as opened:
        until(lambda: opened.execute(query).fetchone()[0] == 1, what="no sweep ends and judges")


def log_of(folder):
    """The size of the write-ahead log."""
    return (Path(folder) / "jobroom.db-wal").stat().st_size


@contextmanager
def locked(folder):
    """Another process (this one) holds the write lock."""
    with closing(sqlite3.connect(Path(folder) / "jobroom.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def check_problem(answer):
    """A 503 as the contract has it: a problem that says when to come again, and no trace."""
    assert answer.status_code == UNAVAILABLE, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "/v1/problems/store-unavailable"
    assert int(answer.headers["retry-after"]) > 0
    assert "Traceback" not in answer.text
    assert "sqlite" not in answer.text.lower()


def check_whole(folder):
    """The file is as SQLite, and its keys, want it."""
    with closing(sqlite3.connect(Path(folder) / "jobroom.db")) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert opened.execute("PRAGMA foreign_key_check").fetchall() == []


def rows_of(folder):
    """Status and result of each task, by its id."""
    with closing(sqlite3.connect(Path(folder) / "jobroom.db")) as opened:
        found = opened.execute("SELECT id, status, result FROM task").fetchall()
    assert len({row[0] for row in found}) == len(found)
    return {row[0]: row[1:] for row in found}


class Beating:
    """Heartbeats of a worker as the SDK sends them: one that fails is sent again soon."""

    def __init__(self, client, worker_id, *, every):
        self.statuses = []
        self._address = f"{BASE}/workers/{worker_id}"
        self._client = client
        self._every = every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self._stopped.set()
        self._thread.join()

    def _run(self):
        while not self._stopped.wait(self._every):
            try:
                self.statuses.append(self._client.patch(self._address).status_code)
            except httpx.TransportError:
                self.statuses.append(None)


def start_one(client):
    """A task that the client's identity worker runs: its address, and the attempt."""
    live_server.register(client)
    live_server.submit(client)
    task = client.post(f"{BASE}/tasks/claim", json={"start": True}).json()["task"]
    return f"{BASE}/tasks/{task['id']}", task["attempt"]


def status_of(client, task):
    """The status of a task, None while nobody answers."""
    try:
        answer = client.get(task)
    except httpx.TransportError:
        return None
    return answer.json()["status"] if answer.is_success else None


class Load:
    """Threads that submit, claim and complete; every answer is 2xx or a proper 503, or it stops.

    ``submitted`` and ``completed`` are what was acknowledged, ``refused`` the ids of submissions
    that were not.
    """

    def __init__(self, server, threads=3):
        self.answers = Counter()
        self.submitted, self.completed, self.refused = set(), {}, set()
        self.faults = []
        self._server = server
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(f"worker-{number}",))
            for number in range(threads)
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc):
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    @property
    def refusals(self):
        """How many requests of any kind were told to come again."""
        return sum(self.answers[kind, 503] for kind in ("submit", "claim", "report"))

    def until(self, condition, what):
        until(lambda: self.faults or condition(), what=what)
        assert not self.faults, self.faults[0]

    def _run(self, name):
        token = live_server.token_of(name)
        try:
            with self._server.client(token) as client:
                live_server.register(client)
                while not self._stopped.is_set():
                    self._cycle(client)
        except Exception as fault:  # noqa: BLE001 - told by ``until``, on the test's thread
            self.faults.append(fault)

    def _cycle(self, client):
        """Submit one, then claim one and complete it; each step until it is taken."""
        wanted = str(uuid.uuid4())
        if self._ask(client, "POST", live_server.JOB, json={"id": wanted}) is None:
            self.refused.add(wanted)
        else:
            self.submitted.add(wanted)
        claimed = self._ask(client, "POST", f"{BASE}/tasks/claim", json={"start": True})
        if claimed is None or claimed["task"] is None:
            return
        task_id = claimed["task"]["id"]
        report = {"status": "completed", "attempt": claimed["task"]["attempt"], "result": task_id}
        while not self._stopped.is_set():
            if self._ask(client, "PATCH", f"{BASE}/tasks/{task_id}", json=report) is not None:
                self.completed[task_id] = task_id
                return

    def _ask(self, client, method, path, **body):
        answer = client.request(method, path, **body)
        kind = {"POST": "submit", "PATCH": "report"}[method]
        kind = "claim" if path.endswith("/claim") else kind
        self.answers[kind, answer.status_code] += 1
        if answer.is_success:
            return answer.json()
        check_problem(answer)
        time.sleep(0.02)  # a client that is told to come again does not storm
        return None
