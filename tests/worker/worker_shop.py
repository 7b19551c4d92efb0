"""A real server with real ``jobroom worker`` processes that a test starts, stops and kills."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
import time

import live_server

BASE = live_server.BASE
SOON = 60
TIMEOUT_SECONDS = 2

LAUNCHER = """
import sys
import typer
from jobroom.cli.worker import worker
app = typer.Typer()
app.command()(worker)
app(sys.argv[1:])
"""

_numbers = itertools.count(1)


class Shop:
    """One server; each test works in a room of its own."""

    def __init__(self, folder, **settings):
        settings = {
            "jwt_secret": live_server.SECRET,
            "worker_timeout_seconds": TIMEOUT_SECONDS,
            "sweeper_interval_seconds": 0.2,
            "sqlite_synchronous": "NORMAL",
            **settings,
        }
        self.server = live_server.Server(folder, **settings).until_ready()
        self.http = self.server.client()

    def close(self):
        self.http.close()
        self.server.kill()


class Room:
    """A room of the shop's, and the workers that serve it; all are killed at the end."""

    def __init__(self, shop, folder):
        self.shop = shop
        self.http = shop.http
        self.folder = folder
        self.name = f"room{next(_numbers)}"
        self.started = []

    def worker(self, source, *options, url=None, jobs=1):
        """Start a worker for the source of a module, and wait until its jobs are registered."""
        made = self.start(self.written(source), *options, url=url)
        until(lambda: made.has_ended or "serves" in made.output)
        assert not made.has_ended, made.output
        assert jobs is None or self.http.get(f"{BASE}/rooms/{self.name}/jobs").json()["total"]
        return made

    def program(self, source):
        """Start a program of its own, and wait until it has registered something."""
        made = self.start(self.written(source), command=())
        jobs = f"{BASE}/rooms/{self.name}/jobs"
        until(lambda: made.has_ended or self.http.get(jobs).json()["total"])
        assert not made.has_ended, made.output
        return made

    def written(self, source):
        module = self.folder / f"jobs{next(_numbers)}.py"
        module.write_text(HEAD + textwrap.dedent(source))
        return module

    def start(self, module, *options, url=None, command=("-c", LAUNCHER)):
        made = Worker(self, module, options, url or self.shop.server.url, command)
        self.started.append(made)
        return made

    def submit(self, job, **payload):
        return self.post(job, payload=payload).json()["id"]

    def post(self, job, **body):
        name = f"{self.name}:modifiers:{job}"
        return self.http.post(f"{BASE}/rooms/{self.name}/tasks/{name}", json=body)

    def task(self, task_id):
        return self.http.get(f"{BASE}/tasks/{task_id}").json()

    def log(self, task_id):
        return self.http.get(f"{BASE}/tasks/{task_id}/log").json()["text"]

    def until_status(self, task_id, *statuses):
        def look():
            task = self.task(task_id)
            return task if task["status"] in statuses else None

        return until(look, lambda: [self.task(task_id), *(one.output for one in self.started)])

    def until_completed(self, *task_ids):
        return [self.until_status(one, "completed")["result"] for one in task_ids]

    def cancel(self, task_id):
        answer = self.http.patch(f"{BASE}/tasks/{task_id}", json={"status": "cancelled"})
        assert answer.is_success, answer.text

    def workers(self):
        items = self.http.get(f"{BASE}/rooms/{self.name}/workers").json()["items"]
        return {one["id"] for one in items if one["alive"]}

    def close(self):
        for one in self.started:
            one.kill()


class Worker:
    """A ``jobroom worker`` in a process of its own, its output in a file."""

    def __init__(self, room, module, options, url, launched):
        self.room = room
        self._output = module.with_suffix(".txt")
        token = live_server.token_of("w", is_admin=True)
        command = [sys.executable, *launched, str(module), "--room", room.name, *options]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=room.folder,
                env={
                    **live_server.environment(),
                    "JOBROOM_URL": url,
                    "JOBROOM_TOKEN": token,
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def output(self):
        return self._output.read_text()

    @property
    def id(self):
        return re.search(r"^Worker (\S+)", self.output, re.MULTILINE)[1]

    @property
    def has_ended(self):
        return self.process.poll() is not None

    def lines(self, word):
        return [line for line in self.output.splitlines() if word in line]

    def until_told(self, word, times=1):
        return until(lambda: len(self.lines(word)) >= times, lambda: self.output)

    def send(self, number):
        self.process.send_signal(number)

    def wait(self):
        return self.process.wait(SOON)

    def kill(self):
        if not self.has_ended:
            os.kill(self.process.pid, signal.SIGCONT)
            self.process.kill()
        self.process.wait()


# Sources of modules, for Room.worker

ADD = """
    @job
    def add(a: int, b: int = 1) -> int:
        return a + b
"""
SPIN = """
    @job
    def spin(seconds: float, name: str = "spinning") -> str:
        began(name)
        busy(seconds)
        return "spun"
"""
HEAD = """\
import asyncio
import pathlib
import time

from jobroom.client.task import current_task
from jobroom.worker.functions import job


def began(name):
    pathlib.Path(name).touch()


def busy(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


"""


def until(question, why=lambda: "asked in vain", seconds=SOON):
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, why()
        time.sleep(0.02)
    return answer


def spinning(room, name="spinning"):
    """Wait until a task has said that it began."""
    until((room.folder / name).exists)
