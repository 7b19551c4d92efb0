"""``kill -9`` of the server in the middle of a load, 20 times: issue 3, *Done when*."""

from __future__ import annotations

import random
import time

import live_server
from kill_cycles import ROTATE
from kill_notes import Clients, check_acknowledged, check_exactly_once
from kill_store import Store

KILLS = 20
CLIENTS = 4
SAMPLE = 5
MOST_LOAD_SECONDS = 0.4
SETTINGS = {"sweeper_interval_seconds": 1, "worker_timeout_seconds": 300}


def until_more_is_completed(clients):
    """The load goes on; what was acknowledged until a moment before the kill."""
    before = len(clients.notes().completed)
    deadline = time.monotonic() + 60
    while len(clients.notes().completed) <= before:
        assert time.monotonic() < deadline, "the load stands still"
        time.sleep(0.02)
    time.sleep(random.uniform(0, MOST_LOAD_SECONDS))


def test_what_was_acknowledged_is_there_after_20_kills_of_the_server(
    start, processes, tmp_path, tally
):
    """Every 202 seen is there after the restart, none twice; every report that got 200 stands."""
    server, store = start(**SETTINGS).until_ready(), Store(tmp_path / "jobroom.db")
    with server.client() as client:
        live_server.register(client, **ROTATE)
    clients = Clients(tmp_path, processes, clients=CLIENTS, cycles=0, urls=[server.url])
    checked = 0
    for _ in range(KILLS):
        until_more_is_completed(clients)
        server.kill()
        notes = clients.notes()
        server.start().until_ready()
        check_acknowledged(notes, store.tasks())
        assert store.is_whole()
        checked += len(notes.submitted)
        with server.client() as client:
            for task_id in list(notes.completed)[-SAMPLE:]:
                assert client.get(f"/v1/joblib/tasks/{task_id}").json()["status"] == "completed"
    clients.stop()
    notes = clients.notes()
    check_exactly_once(notes, store.tasks())
    broken = sum(notes.broken.values())
    tally(kills=KILLS, completed_once=len(notes.completed), looked_up=checked, broken=broken)
