"""Another process keeps the file to itself, or reads it for a very long time: case C38."""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import live_server
import pytest
from faultkit import BASE, check_problem, check_whole, locked, log_of, until

PATIENCE = {"database_busy_seconds": 0.25, "sweeper_interval_seconds": 0}
PAYLOAD = {"text": "x" * 900_000}
KEPT_LOG = 16 * 1024 * 1024


def test_a_lock_longer_than_the_patience_is_a_503_and_passes(start, tmp_path):
    """Writes are refused after ``database_busy_seconds``, reads go on; nothing has to restart."""
    server = start(**PATIENCE).until_ready()
    with server.client() as client:
        live_server.register(client)
        held = live_server.submit(client)
        attempt = client.post(f"{BASE}/tasks/claim", json={"start": True}).json()["task"]["attempt"]
        report = {"status": "completed", "attempt": attempt}
        with locked(tmp_path):
            for method, path, body in (
                ("POST", live_server.JOB, {}),
                ("POST", f"{BASE}/tasks/claim", {}),
                ("PATCH", f"{BASE}/tasks/{held}", report),
                ("PATCH", f"{BASE}/workers/w", {}),
                ("POST", f"{BASE}/sweep", {}),
            ):
                began = time.monotonic()
                check_problem(client.request(method, path, json=body))
                assert 0.2 < time.monotonic() - began < 30
            check_problem(client.get("/readyz"))
            for path in ("/healthz", f"{BASE}/tasks/{held}", f"{BASE}/rooms/r1/jobs"):
                assert client.get(path).status_code == 200
        until(lambda: client.get("/readyz").status_code == 200)
        assert client.patch(f"{BASE}/tasks/{held}", json=report).json()["status"] == "completed"
        live_server.submit(client)
        total = client.get(f"{BASE}/rooms/r1/tasks").json()["total"]
    assert total == 2
    assert "Traceback" not in server.output


def test_a_lock_shorter_than_the_patience_is_waited_for(start, tmp_path):
    server = start(database_busy_seconds=60).until_ready()
    with server.client() as client:
        live_server.register(client)
        with ThreadPoolExecutor(5) as pool:
            with locked(tmp_path):
                pending = [pool.submit(live_server.submit, client) for _ in range(5)]
                time.sleep(0.5)
                assert not any(one.done() for one in pending)
            assert len({one.result() for one in pending}) == 5


def test_a_server_starts_while_another_process_writes(start, tmp_path):
    """A lock is no reason to refuse: whoever writes proves that it can be done."""
    start(**PATIENCE).until_ready().stop()
    with locked(tmp_path):
        server = start(**PATIENCE)
        until(lambda: "Application startup complete" in server.output)
        with server.client() as client:
            check_problem(client.get("/readyz"))
    server.until_ready()


def test_a_command_that_finds_the_file_locked_says_what_to_check(run, tmp_path):
    settings = {"database_url": f"sqlite:///{tmp_path}/jobroom.db", "database_busy_seconds": 0.2}
    assert run("jobroom", "db", "upgrade", folder=tmp_path, **settings).code == 0
    with locked(tmp_path):
        done = run("jobroom", "sweep", folder=tmp_path, **settings)
    assert done.code == 1
    assert "no other process keeps it busy" in done.output
    assert "Traceback" not in done.output


@pytest.fixture
def reading(tmp_path):
    """Read the file, as a backup does, for the time of a ``with``."""

    @contextmanager
    def read():
        with closing(sqlite3.connect(tmp_path / "jobroom.db", isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM task").fetchone()
            yield
            other.execute("COMMIT")

    return read


def test_a_log_that_a_long_reader_made_grow_is_given_back(start, tmp_path, reading, tally):
    """Nothing can be written back under a reader; when it has gone the log is cut."""
    server = start(sweeper_interval_seconds=0, sqlite_synchronous="NORMAL").until_ready()
    with server.client() as client:
        live_server.register(client)
        with reading():
            for _ in range(25):
                live_server.submit(client, payload=PAYLOAD)
            grown = log_of(tmp_path)
            assert grown > KEPT_LOG
        sizes = []
        for _ in range(25):
            live_server.submit(client, payload=PAYLOAD)
            sizes.append(log_of(tmp_path))
    tally(grown=grown, after=sizes[-1])
    assert max(sizes[5:]) <= KEPT_LOG
    server.stop()
    check_whole(tmp_path)
    assert not (tmp_path / "jobroom.db-wal").exists()
