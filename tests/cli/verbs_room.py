"""A real server with a real worker for the tests of the verbs, and a terminal to type them in."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar, Literal

import live_server
import pyte
from pydantic import BaseModel, Field

from jobroom import Connection, JobManager, current_task

ROOT = Path(__file__).parents[2]
JOB = "r1:modifiers:Rotate"
NOBODY = "01970000-0000-7000-8000-000000000000"
"""The id of no task."""
ENOUGH_SECONDS = 30
# A new session has no terminal of its own; with one, Ctrl-C reaches what runs in it.
IN_A_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from jobroom.cli.main import app
app()
"""
GATES: dict[str, threading.Event] = {}
"""A task that names a gate is half way until the gate opens."""


def gate(name):
    """The gate of that name, whoever asks for it first."""
    return GATES.setdefault(name, threading.Event())


class Cell(BaseModel):
    a: float = Field(description="Length of the edge.")
    b: float = 1.0


class Rotate(BaseModel):
    category: ClassVar[str] = "modifiers"

    angle: float = Field(description="Degrees.")
    axis: Literal["x", "y", "z"] = "z"
    name: str | None = None
    tags: list[str] = []
    cell: Cell | None = None
    flag: bool = False
    gate: str | None = None
    wrong: str | None = None

    def run(self, vis=None, **more):
        task = current_task()
        if self.gate is not None:
            task.progress(0.5, "half way")
            held = gate(self.gate)
            while not held.wait(0.05) and not task.cancelled:
                pass
        if self.wrong is not None:
            raise ValueError(self.wrong)
        return {"rotated": self.angle, "by": self.name}


class Room:
    """A server, and workers in threads of this process that serve ``r1:modifiers:Rotate``."""

    def __init__(self, folder, *, workers=2):
        self._open = ExitStack()
        started = live_server.Server(folder, jwt_secret=live_server.SECRET, sweeper_enabled=False)
        self.server = self._open.enter_context(started).until_ready()
        self.url = self.server.url
        self.token = live_server.token_of("alice")
        self.http = self._open.enter_context(self.server.client(self.token))
        self._streams = []
        for _ in range(workers):
            connection = self._open.enter_context(Connection(self.url, self.token))
            manager = self._open.enter_context(JobManager(connection))
            manager.register(Rotate, room="r1", description="Rotate the molecule.")
            stream = manager.listen()
            self._streams.append(stream)
            threading.Thread(target=work_on, args=(stream,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for one in GATES.values():
            one.set()
        for stream in self._streams:
            stream.stop()
        self._open.close()

    def submit(self, job=JOB, **payload):
        """Submit a task over plain HTTP; its id."""
        room = job.partition(":")[0]
        path = f"{live_server.BASE}/rooms/{room}/tasks/{job}"
        answer = self.http.post(path, json={"payload": payload})
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    def task(self, task_id):
        return self.http.get(f"{live_server.BASE}/tasks/{task_id}").json()

    def ended(self, task_id):
        """The task when it has ended."""
        headers = {"Prefer": "wait=25"}
        found = self.http.get(f"{live_server.BASE}/tasks/{task_id}", headers=headers).json()
        assert found["completed_at"] is not None, found
        return found

    def running(self, task_id):
        """Wait until the task is half way, before its gate."""
        deadline = time.monotonic() + ENOUGH_SECONDS
        while self.task(task_id)["progress"] != 0.5:
            assert time.monotonic() < deadline, self.task(task_id)
            time.sleep(0.02)
        return task_id

    def unserved(self, name, **more):
        """Register a job that nobody serves; its full name."""
        body = {"category": "modifiers", "name": name, **more}
        answer = self.http.put(f"{live_server.BASE}/rooms/r1/jobs", json=body)
        assert answer.is_success, answer.text
        return answer.json()["full_name"]

    def cancel(self, task_id):
        body = {"status": "cancelled"}
        assert self.http.patch(f"{live_server.BASE}/tasks/{task_id}", json=body).is_success

    def held(self, name):
        """A running task of a new job, held by this test; its id and how to report on it."""
        worker_id = self.http.post(f"{live_server.BASE}/workers", json={}).json()["id"]
        task_id = self.submit(self.unserved(name, worker_id=worker_id))
        body = {"worker_id": worker_id, "start": True}
        claimed = self.http.post(f"{live_server.BASE}/tasks/claim", json=body).json()
        assert claimed["task"]["id"] == task_id

        def report(**changes):
            body = {"attempt": 1, **changes}
            answer = self.http.patch(f"{live_server.BASE}/tasks/{task_id}", json=body)
            assert answer.is_success, answer.text

        return task_id, report

    def environment(self, **more):
        """The environment that a user of this server has."""
        return {
            **live_server.environment(),
            "JOBROOM_URL": self.url,
            "JOBROOM_TOKEN": self.token,
            **more,
        }


def work_on(stream):
    for task in stream:
        task.run(None)


def typed(environment, *words, stdin="", timeout=ENOUGH_SECONDS, cwd=None):
    """Type a command where no terminal is; what it printed and its exit code."""
    return subprocess.run(
        [sys.executable, "-m", "jobroom.cli.main", *words],
        env=environment,
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


class Terminal:
    """``jobroom`` typed in a pseudo-terminal; its screen is what a person sees."""

    def __init__(self, environment, *words, columns=100, rows=24):
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self._fd, theirs = pty.openpty()
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", IN_A_TERMINAL, *words],
            env={"TERM": "xterm-256color", **environment},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.code = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._fd)

    @property
    def screen(self):
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def until(self, pattern):
        """Read until the screen shows it; the screen."""
        deadline = time.monotonic() + ENOUGH_SECONDS
        while re.search(pattern, self.screen, re.MULTILINE) is None:
            assert self._read(deadline), f"ended without {pattern!r}:\n{self.screen}"
        return self.screen

    def press(self, keys):
        os.write(self._fd, keys)

    def end(self):
        """Read to the end; the last screen."""
        deadline = time.monotonic() + ENOUGH_SECONDS
        while self._read(deadline):
            pass
        self.code = self._process.wait(ENOUGH_SECONDS)
        return self.screen

    def _read(self, deadline):
        ready, _, _ = select.select([self._fd], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"nothing more came:\n{self.screen}"
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the other side has closed
            data = b""
        self.raw += data
        self._stream.feed(data)
        return bool(data)
