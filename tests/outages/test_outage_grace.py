"""A network store is out of reach for three times a worker's timeout, and comes back: case C12.

All workers are alive and beat as soon as they are heard; the sweeps after it fail none of them.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import httpx
import live_server
import pytest
from outage_scene import Scene, sound

BASE = live_server.BASE
TIMEOUT = 4
AWAY_SECONDS = 3 * TIMEOUT
WORKERS = 3
LONGEST_SECONDS = 60


@pytest.fixture(scope="module")
def server(start):
    settings = {"worker_timeout_seconds": TIMEOUT, "sweeper_interval_seconds": 0.5}
    return start(database_busy_seconds=1, **settings).until_ready()


class Worker(Scene):
    """One that runs a task, and beats."""

    def __enter__(self):
        self.task, self.statuses = self.held(start=True), set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat)
        return self

    def __exit__(self, *exc):
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        super().__exit__(*exc)

    def beat(self):
        self._thread.start()
        return self

    def _beat(self):
        while not self._stopped.wait(TIMEOUT / 10):
            try:
                answer = self.client.patch(f"{BASE}/workers/{self.who}")
                self.statuses.add(answer.status_code)
            except httpx.TransportError:
                self.statuses.add(None)

    def status(self):
        answer = self.client.get(f"{BASE}/tasks/{self.task['id']}")
        return answer.json()["status"] if answer.is_success else None


def until(condition, what):
    deadline = time.monotonic() + LONGEST_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def judges(place):
    """Whether a sweep has ended and the next may fail somebody."""
    state = dict(place.read("SELECT name, value FROM queue_state"))
    return "sweep_finished_at" in state and not state.get("judge_again_at")


def test_no_worker_is_lost_by_an_outage_of_the_store(place, server):
    """Contract, *Losing a worker*: the first sweep after an outage fails nobody."""
    until(lambda: judges(place), "no sweep ends and judges")
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(server)).beat() for _ in range(WORKERS)]
        silent = stack.enter_context(Worker(server))
        place.proxy.cut()
        time.sleep(AWAY_SECONDS)
        place.proxy.heal()
        until(lambda: silent.status() == "failed", "nobody is judged any more")
        for worker in workers:
            done = sound(worker.report(worker.task, status="completed"))
            assert (done["status"], done["attempt"]) == ("completed", 1)
            assert worker.statuses == {200, 503}
    assert "Traceback" not in server.output
