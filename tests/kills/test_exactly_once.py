"""8 processes, each submitting, claiming, starting and completing: C34, and number 10 of the ten.

200 cycles a process, 1,600 tasks, is the real size, and what the plain client runs at servers that
live. To spare time, ``JOBROOM_KILLS_CYCLES`` (50) is the number of cycles a process while a
server is killed, and ``JOBROOM_KILLS_SDK_CYCLES`` (15) the one with our SDK; 200 for both is the
whole.
"""

from __future__ import annotations

import os
import threading
import time

import live_server
import pytest
from kill_cycles import ROTATE
from kill_notes import Clients, check_exactly_once
from kill_store import Store

CLIENTS = 8
CYCLES = 200
KILLED_CYCLES = int(os.environ.get("JOBROOM_KILLS_CYCLES", "50"))
SDK_CYCLES = int(os.environ.get("JOBROOM_KILLS_SDK_CYCLES", "15"))
KILL_EVERY_SECONDS = 2.0
# A worker that is away with its server must not be lost: that would be another test.
SETTINGS = {"sweeper_interval_seconds": 1, "worker_timeout_seconds": 300}


class Killer(threading.Thread):
    """Kills a server every two seconds and starts it again at once.

    Where a start takes almost so long, the server lives half as long at least: else nothing would
    ever be done.
    """

    def __init__(self, server):
        super().__init__(daemon=True)
        self._server, self._stopped, self.kills = server, threading.Event(), 0

    def run(self):
        wait = KILL_EVERY_SECONDS
        while not self._stopped.wait(wait):
            self._server.kill()
            killed_at = time.monotonic()
            self._server.start()
            while not (self._stopped.is_set() or self._server.is_ready()):
                time.sleep(0.02)
            self.kills += 1
            took = time.monotonic() - killed_at
            wait = max(KILL_EVERY_SECONDS - took, took / 2)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self._stopped.set()
        self.join()


def begin(place, number):
    servers = [place.start(**SETTINGS) for _ in range(number)]
    for server in servers:
        server.until_ready()
    with servers[0].client() as client:
        live_server.register(client, **ROTATE)
    return servers


def check(clients, folder, cycles, *, tally, began, **more):
    notes, store = clients.notes(), Store(folder / "jobroom.db")
    check_exactly_once(notes, store.tasks(), cycles=CLIENTS * cycles)
    assert store.is_whole()
    tally(
        completed_once=len(notes.completed),
        false_empty=len(notes.empty),
        answers_5xx=len(notes.odd),
        connections_broken=sum(notes.broken.values()),
        seconds=round(time.monotonic() - began, 1),
        **more,
    )


@pytest.mark.parametrize("kind", ["plain", "sdk"])
@pytest.mark.parametrize("servers", [1, 2], ids=["one server", "two servers"])
def test_every_task_is_completed_exactly_once(place, tally, servers, kind):
    """C34: no error of a locked database, no 5xx, no false empty claim."""
    running, began = begin(place, servers), time.monotonic()
    cycles = CYCLES if kind == "plain" else SDK_CYCLES
    urls = [server.url for server in running]
    clients = Clients(place.folder, place.processes, kind=kind, cycles=cycles, urls=urls)
    clients.wait()
    assert clients.notes().broken == {}
    check(clients, place.folder, cycles, tally=tally, began=began)


@pytest.mark.parametrize("kind", ["plain", "sdk"])
@pytest.mark.parametrize("servers", [1, 2], ids=["the only server", "one of two servers"])
def test_a_server_that_is_killed_every_2_s_changes_nothing(place, tally, servers, kind):
    """While it is away connections break; there is no 5xx, nothing twice, nothing lost."""
    running, began = begin(place, servers), time.monotonic()
    cycles = KILLED_CYCLES if kind == "plain" else SDK_CYCLES
    urls = [server.url for server in running]
    with Killer(running[0]) as killer:
        clients = Clients(place.folder, place.processes, kind=kind, cycles=cycles, urls=urls)
        clients.wait()
    check(clients, place.folder, cycles, tally=tally, began=began, kills=killer.kills)
    assert killer.kills >= 1
