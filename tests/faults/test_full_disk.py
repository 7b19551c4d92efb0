"""A disk that fills up while the server runs: case C38."""

from __future__ import annotations

import errno
import signal
import sqlite3
import subprocess
import time
from contextlib import closing, contextmanager

import httpx
import live_server
from faultkit import (
    BASE,
    Load,
    check_problem,
    check_whole,
    limit_files,
    log_of,
    rows_of,
    until,
)

FRAME = 4096 + 24  # a page in the write-ahead log
QUIET = {"sweeper_interval_seconds": 0, "sqlite_synchronous": "NORMAL"}
VERDICT_SECONDS = 1.0


def status_of(client, path):
    return client.get(path).status_code


def check_load_through_a_full_disk(server, fill, free, tally):
    """Work goes on, the disk is full, it has room again; what was acknowledged is there."""
    with Load(server) as load, httpx.Client(base_url=server.url, timeout=60) as probe:
        load.until(lambda: len(load.completed) > 20, "the load does not get going")
        fill()
        # Of whichever kind: all that work may be asking for the same thing again and again.
        load.until(lambda: load.refusals > 5, "the disk does not fill up")
        load.until(lambda: status_of(probe, "/readyz") == 503, "a full disk is called ready")
        assert status_of(probe, "/healthz") == 200
        with server.client() as reader:
            for path in (f"{BASE}/rooms/r1/tasks", f"{BASE}/tasks/{min(load.submitted)}"):
                assert reader.get(path).status_code == 200
        free()
        before = len(load.completed)
        load.until(lambda: len(load.completed) > before + 20, "work does not go on")
        load.until(lambda: status_of(probe, "/readyz") == 200, "it does not get ready again")
    assert server.stop() == -signal.SIGTERM  # which uvicorn sends itself, when all is closed
    assert "Traceback" not in server.output
    check_kept(server.folder, load)
    tally(**{f"{kind}_{status}": n for (kind, status), n in sorted(load.answers.items())})


def check_kept(folder, load):
    """Nothing acknowledged is lost, nothing refused is there, nothing is half there."""
    check_whole(folder)
    rows = rows_of(folder)
    assert load.submitted <= rows.keys()
    assert load.refused.isdisjoint(rows)
    for task_id in load.completed:
        assert rows[task_id] == ("completed", f'"{task_id}"')


def test_a_load_goes_through_a_full_disk(start, tally):
    """No file may grow: neither the log nor, when it is written back, the database."""
    server = start(**QUIET).until_ready()
    check_load_through_a_full_disk(
        server, lambda: limit_files(server, 16 * 1024), lambda: limit_files(server), tally
    )


def test_a_load_goes_through_a_full_file_system(start, tmp_path, tally):
    """The same where there is no space left at all; without the right to mount, by the limit."""
    with small_disk(tmp_path / "disk") as folder:
        server = start(folder, **QUIET).until_ready()
        if folder.is_mount():
            filler = folder / "filler"
            fill, free = (lambda: fill_up(filler)), filler.unlink
        else:
            fill, free = (lambda: limit_files(server, 32 * 1024)), (lambda: limit_files(server))
        check_load_through_a_full_disk(server, fill, free, tally)


def fill_up(filler):
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(64 * 1024)):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017 - the end of every disk


@contextmanager
def small_disk(folder):
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield folder
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_the_first_look_at_a_disk_too_full_for_a_request_is_not_ready(start, tmp_path):
    """A probe of one page would still fit, as often as there are pages left."""
    server = start(**QUIET).until_ready()
    with server.client() as client:
        live_server.register(client)
        for _ in range(3):
            live_server.submit(client)
        for pages in (1, 5):
            limit_files(server, log_of(tmp_path) + pages * FRAME)
            check_problem(client.post(live_server.JOB, json={}))
            time.sleep(VERDICT_SECONDS)
            check_problem(client.get("/readyz"))
            limit_files(server)
            until(lambda: status_of(client, "/readyz") == 200)
            live_server.submit(client)


def test_looking_whether_it_is_ready_does_not_make_the_database_grow(start, tmp_path):
    server = start(**QUIET).until_ready()
    with server.client() as client:
        live_server.register(client)
        sizes = set()
        for _ in range(2):
            time.sleep(VERDICT_SECONDS)
            assert status_of(client, "/readyz") == 200
            sizes.add(pages_of(tmp_path))
    assert len(sizes) == 1


def pages_of(folder):
    with closing(sqlite3.connect(folder / "jobroom.db")) as opened:
        return opened.execute("PRAGMA page_count").fetchone()[0]


def test_sweeps_fail_on_a_full_disk_and_go_on_after_it(start):
    """The sweeper says so, and finds the lost worker when there is room again."""
    server = start(sweeper_interval_seconds=0.2, worker_timeout_seconds=1).until_ready()
    with server.client() as client:
        live_server.register(client)
        task_id = live_server.submit(client)
        assert client.post(f"{BASE}/tasks/claim").json()["task"]["id"] == task_id
        limit_files(server, 16 * 1024)
        until(lambda: "sweep.failed" in server.output)
        assert client.get(f"{BASE}/tasks/{task_id}").json()["status"] == "claimed"
        limit_files(server)
        until(lambda: client.get(f"{BASE}/tasks/{task_id}").json()["status"] == "failed")
    assert "Traceback" not in server.output


def test_waiting_requests_outlive_a_full_disk(start):
    """A claim and a status that wait when the disk fills up are served when there is room."""
    server = start(**QUIET).until_ready()
    with server.client() as client, server.client(live_server.token_of("v")) as other:
        live_server.register(client)
        live_server.register(other)
        limit_files(server, 16 * 1024)
        until(lambda: client.post(live_server.JOB, json={}).status_code == 503)
        answer = client.post(f"{BASE}/tasks/claim", headers={"prefer": "wait=1"})
        assert answer.status_code in (200, 503)
        limit_files(server)
        task_id = live_server.submit(client)
        assert other.post(f"{BASE}/tasks/claim").json()["task"]["id"] == task_id
