"""The store is away for three times a worker's timeout, and comes back: case C12.

All workers are alive and beat as soon as they are heard; the sweeps after it fail none of them.
"""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from types import SimpleNamespace

import live_server
import pytest
from faultkit import Beating, locked, start_one, status_of, until, until_swept

TIMEOUT = 4
AWAY_SECONDS = 3 * TIMEOUT
WORKERS = 3
SCALED = {
    "worker_timeout_seconds": TIMEOUT,
    "sweeper_interval_seconds": 0.5,
    "sqlite_synchronous": "NORMAL",
    "jwt_secret": live_server.SECRET,
}


def stop(server, _run):
    server.stop()
    time.sleep(AWAY_SECONDS)
    server.start().until_ready()


def kill(server, _run):
    server.kill()
    time.sleep(AWAY_SECONDS)
    server.start().until_ready()


def kill_and_sweep_by_hand(server, run):
    """``jobroom sweep`` is the first after it."""
    server.kill()
    time.sleep(AWAY_SECONDS)
    url = f"sqlite:///{server.folder}/jobroom.db"
    done = run("jobroom", "sweep", folder=server.folder, database_url=url, **SCALED)
    assert done.code == 0
    assert "workers judged: no" in done.output
    server.start().until_ready()


def freeze(server, _run):
    """As a container that is paused, or a laptop that sleeps."""
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(AWAY_SECONDS)
    server.process.send_signal(signal.SIGCONT)


def lock_against_the_hasty(server, _run):
    """Requests and sweeps are refused at once."""
    with locked(server.folder):
        time.sleep(AWAY_SECONDS)


def lock_against_the_patient(server, _run):
    """Requests and sweeps wait all the time, and go through at the end of it."""
    with locked(server.folder):
        time.sleep(AWAY_SECONDS)


OUTAGES = {
    stop: {},
    kill: {},
    kill_and_sweep_by_hand: {},
    freeze: {},
    lock_against_the_hasty: {"database_busy_seconds": 0.2},
    lock_against_the_patient: {"database_busy_seconds": 60},
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory, run):
    """What was seen of each outage; all happen at the same time, each to a server of its own."""
    with ThreadPoolExecutor(len(OUTAGES)) as pool:
        folders = [tmp_path_factory.mktemp("away") for _ in OUTAGES]
        return dict(zip(OUTAGES, pool.map(go_away, OUTAGES, folders, repeat(run)), strict=True))


def go_away(outage, folder, run):
    with (
        live_server.Server(folder, **SCALED, **OUTAGES[outage]) as server,
        server.client() as silent,
        Crew(server.until_ready()) as crew,
    ):
        lost, _ = start_one(silent)
        until_swept(folder)
        outage(server, run)
        until(lambda: status_of(silent, lost) == "failed", what="nobody is judged any more")
        reports = crew.report()
        return SimpleNamespace(reports=reports, beats=crew.beats(), output=server.output)


class Crew:
    """Workers that each run a task and beat."""

    def __init__(self, server):
        self._names = [f"worker-{number}" for number in range(WORKERS)]
        self._clients = [server.client(live_server.token_of(name)) for name in self._names]
        self._tasks = [start_one(client) for client in self._clients]
        self._beating = [
            Beating(client, name, every=TIMEOUT / 10)
            for client, name in zip(self._clients, self._names, strict=True)
        ]

    def __enter__(self):
        for one in self._beating:
            one.__enter__()
        return self

    def __exit__(self, *exc):
        for one in self._beating:
            one.__exit__()
        for client in self._clients:
            client.close()

    def report(self):
        return [
            client.patch(task, json={"status": "completed", "attempt": attempt}).json()["status"]
            for client, (task, attempt) in zip(self._clients, self._tasks, strict=True)
        ]

    def beats(self):
        return {status for one in self._beating for status in one.statuses}


@pytest.mark.parametrize("outage", OUTAGES, ids=lambda outage: outage.__name__)
def test_no_worker_is_lost_by_an_outage_of_the_store(seen, outage):
    """Contract, *Losing a worker*: the first sweep after an outage fails nobody."""
    assert seen[outage].reports == ["completed"] * WORKERS
    assert seen[outage].beats <= {200, 503, None}


@pytest.mark.parametrize("outage", OUTAGES, ids=lambda outage: outage.__name__)
def test_an_outage_of_the_store_leaves_no_trace(seen, outage):
    assert "Traceback" not in seen[outage].output
