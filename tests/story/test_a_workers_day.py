"""A worker of four slots through all that may happen to it: every task ends once.

The worker timeout is 2 s, and the server sweeps each half second.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import live_server
import pytest

BASE = live_server.BASE
JOBS = Path(__file__).with_name("story_jobs.py")
OUTAGE_SECONDS = 30
TIMEOUT_SECONDS = 2
PATIENCE_SECONDS = 120
ENDS = ("completed", "failed", "cancelled")


def until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(what)


class Day:
    """A server, a worker of the command line's, and what was seen of each task."""

    def __init__(self, folder):
        self.folder = folder
        self.starts_file = folder / "starts.txt"
        self.starts_file.touch()
        self.server = live_server.Server(
            folder,
            worker_timeout_seconds=TIMEOUT_SECONDS,
            sweeper_interval_seconds=0.5,
            jwt_secret=live_server.SECRET,
        ).until_ready()
        self.client = self.server.client()
        self.tasks = {}
        self.ends = {}
        environment = live_server.environment() | {
            "JOBROOM_URL": self.server.url,
            "JOBROOM_TOKEN": live_server.token_of("worker"),
            "STORY_STARTS": str(self.starts_file),
        }
        command = ["-m", "jobroom.cli.main", "worker", str(JOBS), "--slots", "4"]
        with (folder / "worker.txt").open("wb") as output:
            self.worker = subprocess.Popen(
                [sys.executable, *command, "--isolate", "process"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def told(self):
        return (self.folder / "worker.txt").read_text()

    @property
    def starts(self):
        return Counter(self.starts_file.read_text().split())

    def submit(self, job, name, **payload):
        path = f"{BASE}/rooms/r1/tasks/r1:modifiers:{job}"
        answer = self.client.post(path, json={"payload": {"name": name, **payload}})
        assert answer.status_code == 202, answer.text
        self.tasks[name] = answer.json()["id"]

    def show(self, name):
        return self.client.get(f"{BASE}/tasks/{self.tasks[name]}").json()

    def until_started(self, *names):
        until(lambda: all(self.starts[name] for name in names), f"{names} do not start")

    def until_ended(self, *names):
        for name in names:
            task = until(lambda n=name: self._ended(n), f"{name} does not end: {self.told}")
            self.ends.setdefault(name, task)

    def _ended(self, name):
        task = self.show(name)
        return task if task["status"] in ENDS else None

    def until_told(self, pattern):
        return until(lambda: re.search(pattern, self.told, re.MULTILINE), f"{pattern}: {self.told}")

    def close(self):
        if self.worker.poll() is None:
            os.killpg(self.worker.pid, signal.SIGKILL)
        self.worker.wait()
        self.client.close()
        self.server.kill()


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    found = Day(tmp_path_factory.mktemp("day"))
    try:
        until(lambda: " serves " in found.told or found.worker.poll(), "the worker does not come")
        yield found
    finally:
        found.close()


def test_a_busy_loop_a_crash_and_a_payload_that_cannot_be_read(day):
    """C06: eight seconds of Python, four worker timeouts long, beside a slot that is killed."""
    day.submit("busy", "busy", seconds=4 * TIMEOUT_SECONDS)
    day.submit("dies", "dies")
    day.submit("strict", "unreadable", angle="north")
    names = [f"quick{number}" for number in range(40)]
    for name in names:
        day.submit("nap", name)
    day.until_ended("busy", "dies", "unreadable", *names)
    assert day.ends["busy"]["status"] == "completed"
    assert day.ends["busy"]["result"] == "busy"
    assert day.ends["dies"]["status"] == "failed"
    assert "signal 9" in day.ends["dies"]["error"]
    assert day.ends["unreadable"]["status"] == "failed"
    assert "angle" in day.ends["unreadable"]["error"]
    assert {day.ends[name]["status"] for name in names} == {"completed"}


def test_a_restart_of_the_server_under_load(day):
    names = [f"through{number}" for number in range(200)]
    for name in names:
        day.submit("nap", name, seconds=0.01)
    day.until_started(names[20])
    day.server.kill()
    day.server.start().until_ready()
    day.until_ended(*names)
    assert {day.ends[name]["status"] for name in names} == {"completed"}


def test_an_outage_of_thirty_seconds(day):
    """What ended meanwhile is reported when the server is back, and nobody was lost."""
    day.submit("nap", "outlives", seconds=OUTAGE_SECONDS / 2)
    day.until_started("outlives")
    day.server.kill()
    time.sleep(OUTAGE_SECONDS)
    day.server.start().until_ready()
    day.until_ended("outlives")
    assert (day.ends["outlives"]["status"], day.ends["outlives"]["attempt"]) == ("completed", 1)


def test_a_worker_that_was_frozen_comes_back_as_a_new_one(day):
    """C01 and C10: the task stays as the sweep left it, and the next one is done."""
    day.submit("nap", "frozen", seconds=0.5)
    day.until_started("frozen")
    os.killpg(day.worker.pid, signal.SIGSTOP)
    day.until_ended("frozen")
    os.killpg(day.worker.pid, signal.SIGCONT)
    assert day.ends["frozen"]["status"] == "failed"
    day.submit("nap", "after")
    day.until_ended("after")
    assert day.ends["after"]["status"] == "completed"
    day.until_told("worker.lost")


def test_it_leaves_when_it_is_told_to_and_everything_ended_once(day, tally):
    day.submit("nap", "last", seconds=1.0)
    day.until_started("last")
    day.worker.send_signal(signal.SIGTERM)
    assert day.worker.wait(PATIENCE_SECONDS) == 0
    day.until_ended("last")
    assert day.ends["last"]["status"] == "completed"
    ran = [name for name in day.tasks if name != "unreadable"]
    assert day.starts == dict.fromkeys(ran, 1)
    assert {name: day.show(name)["completed_at"] for name in day.tasks} == {
        name: task["completed_at"] for name, task in day.ends.items()
    }
    assert "Traceback" not in day.told
    statuses = Counter(task["status"] for task in day.ends.values())
    tally(tasks=len(day.tasks), **statuses, outage_seconds=OUTAGE_SECONDS)
    for line in day.told.splitlines():
        if "task.completed" not in line:
            tally(f"    {line}")
