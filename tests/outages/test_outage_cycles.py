"""8 clients at 2 servers on one store, and the store's faults over them: number 10 of the ten.

Each round brings all of them: the store is killed and started again, suspended for 2 s, its
answers are lost at random after it has done what was asked, its writes hang for 2 s while its reads
do not, its network is slow, and PostgreSQL's sessions are ended each second. To spare time the
clients go on for one round; ``JOBROOM_OUTAGES_CYCLES`` is the number of cycles that each of them
does at least, 200 being the real size (1,600 tasks), and then programs with our SDK do so too.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import live_server
import outage_cycles
import pytest
from outage_weather import Weather

from kill_cycles import ROTATE  # isort: skip - found by what outage_cycles says
import kill_notes  # isort: skip

CLIENTS = 8
CYCLES = int(os.environ.get("JOBROOM_OUTAGES_CYCLES", "1"))
KINDS = ["plain", "sdk"] if CYCLES > 1 else ["plain"]
LONGEST_SECONDS = 1200
SETTINGS = {
    "sweeper_interval_seconds": 5,
    "worker_timeout_seconds": 300,
    "database_busy_seconds": 5,
}


class Notes(kill_notes.Notes):
    """With the requests that were told to come again."""

    def __init__(self, paths):
        self.unavailable = 0
        super().__init__(paths)

    def _add(self, kind, what, more=None):
        if kind == "unavailable":
            self.unavailable += 1
        else:
            super()._add(kind, what, more)


@pytest.fixture
def clients(place, start, processes, tmp_path, monkeypatch):
    """Start clients of a kind at two servers; they go on until they are stopped."""
    monkeypatch.setattr(kill_notes, "PROGRAM", Path(outage_cycles.__file__))
    monkeypatch.setattr(kill_notes, "Notes", Notes)

    def started(kind):
        servers = [start(**SETTINGS) for _ in range(2)]
        for server in servers:
            server.until_ready()
        with servers[0].client() as client:
            live_server.register(client, **ROTATE)
        urls = [server.url for server in servers]
        return servers, kill_notes.Clients(tmp_path, processes, kind=kind, cycles=0, urls=urls)

    return started


def until_completed(clients, number):
    deadline = time.monotonic() + LONGEST_SECONDS
    while len(clients.notes().completed) < number:
        assert time.monotonic() < deadline, "the load stands still"
        assert all(process.poll() is None for process in clients.processes), "a client gave up"
        time.sleep(0.2)


def check_exactly_once(notes, rows):
    """Each submission is one task, claimed, started and completed once, by one client.

    A row's version counts its writes. Where an answer was lost between the store and our server,
    a report of ``running`` is written once more, as when a client repeats it.
    """
    assert notes.odd == []
    assert notes.empty == []
    assert notes.submitted.keys() == rows.keys() == notes.completed.keys()
    assert set(notes.claims.values()) == {1}
    assert sorted(notes.submitted.values()) == sorted(
        kill_notes.kill_store.payload_of(row)["nonce"] for row in rows.values()
    )
    for task_id, row in rows.items():
        assert (row.status, row.attempt, row.starts, row.error) == ("completed", 1, 1, None)
        assert kill_notes.kill_store.result_of(row) == notes.completed[task_id]
        assert row.version >= 4
    return sum(
        max(0, row.version - 4 - notes.running_again[task_id]) for task_id, row in rows.items()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_task_is_completed_once_whatever_becomes_of_the_store(place, clients, tally, kind):
    """Issue 3, *Done when*: exactly once; clients see 2xx or 503; no restart of ours."""
    began, before = time.monotonic(), place.tasks().keys()
    servers, load = clients(kind)
    until_completed(load, CLIENTS)
    with Weather(place, lambda: len(load.notes().completed)) as weather:
        weather.until_round(1, seconds=LONGEST_SECONDS)
        until_completed(load, CLIENTS * CYCLES)
    load.stop()
    notes = load.notes()
    rows = {key: row for key, row in place.tasks().items() if key not in before}
    repeated = check_exactly_once(notes, rows)
    for server in servers:
        assert server.process.poll() is None
        assert "Traceback" not in server.output
        server.stop()
    tally(
        completed_once=len(notes.completed),
        answers_503=notes.unavailable,
        connections_broken=sum(notes.broken.values()),
        **weather.counts,
        starts_written_again=repeated,
        seconds=round(time.monotonic() - began, 1),
    )
