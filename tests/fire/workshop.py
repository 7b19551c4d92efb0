"""SDK workers for tests, in threads of this process or in processes of their own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
import time

import httpx
import live_server

import jobroom
from jobroom.client.connection import Connection
from jobroom.client.extension import Extension
from jobroom.client.manager import JobManager

BASE = live_server.BASE
UPPER_BOUND_SECONDS = 30
DEEP = os.environ.get("JOBROOM_FIRE_DEEP", "") not in {"", "0"}
"""Set JOBROOM_FIRE_DEEP=1 for outages of 30 seconds and a soak of five minutes."""

LOOP = """
for task in jobs.listen(1.0):
    task.run(None)
print("after the loop", flush=True)
"""
HEAD = textwrap.dedent("""
    import os, signal, sys, threading, time
    import httpx
    from jobroom.client.connection import Connection
    from jobroom.client.extension import Extension
    from jobroom.client.manager import JobManager
    from jobroom.client.task import current_task
    ROOM = os.environ["ROOM"]
    class Work(Extension):
        number: int = 0
        def run(self, vis, **kwargs):
            return work(self)
    def work(self):
        return self.number
    def tell(word):
        print(word, flush=True)
    def hear():
        return sys.stdin.readline()
    http = httpx.Client(verify=False)
    connection = Connection(os.environ["JOBROOM_URL"], os.environ["JOBROOM_TOKEN"], http=http)
    jobs = JobManager(connection)
    jobs.register(Work, room=ROOM, on_worker_lost=os.environ["ON_WORKER_LOST"])
""")


class Work(Extension):
    number: int = 0

    def run(self, vis, **kwargs):
        return vis.work(self)


def until(look, seconds=UPPER_BOUND_SECONDS):
    """Look until there is something, and return it."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return found


class Workshop:
    """One room of a server, and the workers that reach it through a proxy."""

    def __init__(self, server, proxy, room):
        self.server = server
        self.proxy = proxy
        self.room = room
        self.job = f"{room}:modifiers:Work"
        self.direct = server.client()
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._stack.close()
        self.direct.close()

    def connect(self, token=None, *, url=None):
        """A connection through the proxy, closed at the test's end."""
        token = live_server.token_of("w") if token is None else token
        # Nothing is encrypted here, and reading the root certificates takes longer than a test.
        http = httpx.Client(verify=False)  # noqa: S501
        self._stack.callback(http.close)
        return Connection(url or self.proxy.url, token, http=http)

    def hire(self, work=lambda one: one.number, *, api=None, **options):
        """Start a worker in a thread of this process."""
        worker = Worker(self, work, api or self.connect(), options)
        self._stack.callback(worker.dismiss)
        worker.begin()
        return worker

    def run(self, body=LOOP, *, on_worker_lost="fail", url=None, token=None, **environment):
        """Start a program that works, in a process of its own."""
        program = Program(
            HEAD + textwrap.dedent(body),
            {
                "JOBROOM_URL": url or self.proxy.url,
                "JOBROOM_TOKEN": token or live_server.token_of("w"),
                "ROOM": self.room,
                "ON_WORKER_LOST": on_worker_lost,
                **environment,
            },
        )
        self._stack.callback(program.end)
        return program

    def submit(self, number=0):
        """Submit a task past the proxy; the job is registered when a worker is there."""
        path = f"{BASE}/rooms/{self.room}/tasks/{self.job}"
        answer = until(lambda: self._accepted(path, {"payload": {"number": number}}))
        return answer["id"]

    def _accepted(self, path, body):
        answer = self.direct.post(path, json=body)
        return answer.json() if answer.status_code == 202 else None

    def task(self, task_id):
        """The task as the store has it."""
        answer = self.direct.get(f"{BASE}/tasks/{task_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def tasks(self):
        """All tasks of the room."""
        found, cursor = [], None
        while True:
            parameters = {"limit": 500} | ({"cursor": cursor} if cursor else {})
            path = f"{BASE}/rooms/{self.room}/tasks"
            answer = self.direct.get(path, params=parameters)
            found += answer.json()["items"]
            cursor = answer.json()["next_cursor"]
            if cursor is None:
                return found

    def workers(self):
        """The workers that serve the room."""
        return self.direct.get(f"{BASE}/rooms/{self.room}/workers").json()["items"]

    def until_status(self, task_id, *statuses, seconds=UPPER_BOUND_SECONDS):
        """Wait until the task is in one of these states, and return it."""

        def look():
            task = self.task(task_id)
            return task if task["status"] in statuses else None

        return until(look, seconds)


class Worker(threading.Thread):
    """Works until it is dismissed; ``error`` is what ended its loop."""

    def __init__(self, workshop, work, api, options):
        super().__init__(daemon=True)
        self.work = work
        self.api = api
        self.jobs = JobManager(api)
        self.error = None
        self.runs = []
        self._workshop = workshop
        self._options = options
        self.stream = None

    def begin(self):
        self.jobs.register(Work, room=self._workshop.room, **self._options)
        self.stream = self.jobs.listen(1.0)
        self.start()

    def run(self):
        try:
            for task in self.stream:
                self.runs.append(task.id)
                task.run(self)
        except Exception as error:  # noqa: BLE001  # the test looks at it
            self.error = error

    def dismiss(self):
        if self.stream is not None:
            self.stream.stop()
            self._workshop.proxy.reset_all()  # or the claim would be waited for
        self.jobs.close()
        if self.ident is not None:
            self.join(UPPER_BOUND_SECONDS)
        assert not self.is_alive()


class Program:
    """A worker program in a process of its own, with its output in this one's hands."""

    def __init__(self, text, environment):
        kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text],
            env={
                **kept,
                "PYTHONPATH": os.path.dirname(os.path.dirname(jobroom.__file__)),  # noqa: PTH120
                **environment,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out, self.err = [], []
        self._readers = [
            threading.Thread(target=self._read, args=(pipe, lines), daemon=True)
            for pipe, lines in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, pipe, lines):
        for line in pipe:
            lines.append(line.rstrip("\n"))

    def say(self, word):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def until_told(self, word):
        return until(lambda: self._told(word))

    def _told(self, word):
        assert word in self.out or self.process.poll() is None, self.err
        return word in self.out

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=UPPER_BOUND_SECONDS):
        """Its exit code, and all that it said."""
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(UPPER_BOUND_SECONDS)
        return code

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()
