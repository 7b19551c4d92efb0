"""SDK workers as processes of their own, with a log of the tasks that each of them ran."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import live_server

HERE = Path(__file__).parent
LONGEST_SECONDS = 60


def environment():
    ours = live_server.environment()
    ours["PYTHONPATH"] += f":{live_server.ROOT / 'tests'}:{HERE}"
    return ours


class Crew:
    """Starts workers of one job, all with one log."""

    def __init__(self, folder, processes, server, *, job, seconds, **options):
        self.job, self.options = job, options
        self.log = Path(folder) / f"{job}.log"
        self.log.touch()
        self._processes = processes
        self._command = [
            *(sys.executable, HERE / "kill_worker.py", self.log, server.url),
            *(job, json.dumps(options), str(seconds)),
        ]

    def start(self, *, ahead=0):
        process = subprocess.Popen([*self._command, str(ahead)], env=environment())
        self._processes.append(process)
        return process

    def lines(self, kind, pid=None):
        found = [line.split() for line in self.log.read_text().splitlines()]
        return [
            (task_id, int(attempt))
            for word, task_id, attempt, by in found
            if word == kind and pid in (None, int(by))
        ]

    def begun(self):
        return Counter(task_id for task_id, _ in self.lines("begin"))

    def is_busy(self, process):
        """Whether this worker is in the middle of a task."""
        began, ended = (self.lines(kind, process.pid) for kind in ("begin", "end"))
        return len(began) > len(ended)


def until(condition, *, seconds=LONGEST_SECONDS, what="it did not happen"):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def submit(client, job, number):
    path = f"{live_server.BASE}/rooms/r1/tasks/r1:modifiers:{job}"
    ids = []
    for _ in range(number):
        answer = client.post(path, json={})
        assert answer.status_code == 202, answer.text
        ids.append(answer.json()["id"])
    return ids


def register(client, job, **options):
    """Make a job of the SDK's schema known before its workers come."""
    schema = {"type": "object", "title": job, "properties": {}}
    live_server.register(client, name=job, schema=schema, **options)
