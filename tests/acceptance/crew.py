"""The application behind a real server on 127.0.0.1, and the people, workers and programs on it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager
from typing import Any

import httpx
import live_server
import uvicorn
from pydantic import SecretStr

from jobroom.bootstrap import create_app
from jobroom.client.connection import Connection
from jobroom.client.extension import Extension
from jobroom.client.manager import JobManager
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings

SECOND = 1_000_000
TIMEOUT = 2.0
UPPER_BOUND_SECONDS = 30
ROTATE = "r1:modifiers:Rotate"
ANGLE = {"type": "object", "properties": {"angle": {"type": "number"}}, "required": ["angle"]}
HEAD = textwrap.dedent("""
    import os, signal, sys, time
    from jobroom.client.connection import Connection
    from jobroom.client.extension import Extension
    from jobroom.client.manager import JobManager

    class Rotate(Extension):
        angle: float

        def run(self, vis, **kwargs):
            return work(self)

    def say(text):
        print(text, flush=True)

    def hear():
        return sys.stdin.readline().strip()

    jobs = JobManager(Connection.from_env())
    jobs.register(Rotate, room="r1")
""")


dedented = textwrap.dedent


class Rotate(Extension):
    """A job whose work each test brings along."""

    angle: float

    def run(self, vis, **_kwargs):
        return vis.work(self)


class Vis:
    """A host application as a worker sees it."""

    def __init__(self, jobs, work):
        self.jobs = jobs
        self.work = work


class Person:
    """Somebody with a token who sends requests; every answer must be a good one or a problem."""

    def __init__(self, url, token):
        headers = {"authorization": f"Bearer {token}"}
        transport = httpx.HTTPTransport(verify=False)
        self.http = httpx.Client(
            base_url=f"{url}/v1/joblib", headers=headers, transport=transport, timeout=30
        )

    def send(self, method, path, body=None, **more):
        answer = self.http.request(method, path, json=body, **more)
        assert answer.status_code < 500, answer.text
        assert "Traceback" not in answer.text
        if not answer.is_success and answer.status_code != 304:
            assert answer.headers["content-type"] == "application/problem+json", answer.text
            assert {"type", "title", "status", "detail", "instance"} <= answer.json().keys()
            assert answer.json()["status"] == answer.status_code
        return answer

    def ask(self, method, path, body=None, **more) -> Any:
        """The body of an answer that must be a success."""
        answer = self.send(method, path, body, **more)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def refused(self, method, path, body=None, **more):
        """Status and slug of an answer that must be a refusal."""
        answer = self.send(method, path, body, **more)
        assert not answer.is_success, answer.text
        return answer.status_code, answer.json()["type"].rpartition("/")[2]

    def register(self, name="Rotate", *, room="r1", **more):
        body = {"category": "modifiers", "name": name, **more}
        return self.ask("PUT", f"/rooms/{room}/jobs", body)

    def instance(self):
        """A new instance worker's id."""
        return self.ask("POST", "/workers", {})["id"]

    def submit(self, full_name=ROTATE, **more):
        body = {"payload": {"angle": 90}, **more}
        return self.ask("POST", f"/rooms/r1/tasks/{full_name}", body)["id"]

    def claim(self, worker_id=None, **more):
        """The tasks claimed, perhaps none."""
        body = {**more, **({} if worker_id is None else {"worker_id": worker_id})}
        return self.ask("POST", "/tasks/claim", body)["tasks"]

    def report(self, task_id, status, **more):
        return self.send("PATCH", f"/tasks/{task_id}", {"status": status, **more})

    def show(self, task_id):
        return self.ask("GET", f"/tasks/{task_id}")

    def beat(self, worker_id):
        return self.ask("PATCH", f"/workers/{worker_id}")

    def leave(self, worker_id):
        self.ask("DELETE", f"/workers/{worker_id}")


class Program:
    """A worker program of a few lines in a process of its own, which the test talks to."""

    def __init__(self, url, token, body, *, head=HEAD):
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "ignore::DeprecationWarning",
                "-c",
                head + textwrap.dedent(body),
            ],
            env={**live_server.environment(), "JOBROOM_URL": url, "JOBROOM_TOKEN": token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hear(self):
        """The next line that it prints."""
        return self.process.stdout.readline().strip()

    def say(self, text=""):
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def signal(self, number):
        os.kill(self.process.pid, number)

    def end(self):
        """Wait for its end; exit code, and what it wrote to the error stream."""
        _, errors = self.process.communicate(timeout=UPPER_BOUND_SECONDS)
        return self.process.returncode, errors

    def kill(self):
        self.process.kill()
        self.process.communicate()


class Served:
    """The application of a test, its queue (whose clock the test moves), and who connects to it."""

    def __init__(self, url, queue):
        self.url = url
        self.queue = queue
        self._opened = []

    def person(self, sub, **claims):
        person = Person(self.url, live_server.token_of(sub, **claims))
        self._opened.append(person.http.close)
        return person

    def connect(self, sub="alice", *, transport=None):
        """A manager of the SDK."""
        http = httpx.Client(transport=transport or httpx.HTTPTransport(verify=False))
        jobs = JobManager(Connection(self.url, live_server.token_of(sub), http=http))
        self._opened += [http.close, jobs.close]
        return jobs

    def start(self, body, *, sub="wanda", head=HEAD):
        """A worker program."""
        program = Program(self.url, live_server.token_of(sub), body, head=head)
        self._opened.append(program.kill)
        return program

    def let_pass(self, seconds):
        self.queue.clock_offset += int(seconds * SECOND)

    def lose_workers(self):
        """Let so much time pass that every worker counts as lost, and sweep."""
        self.let_pass(TIMEOUT + 1)
        return self.queue.sweep()

    def close(self):
        for close in reversed(self._opened):
            close()


@contextmanager
def serving(folder, empty_database, **more):
    """A server on a fresh database; nobody sweeps but the test."""
    path = folder / "queue.db"
    shutil.copy(empty_database, path)
    settings = JobLibSettings(
        database_url=f"sqlite:///{path}",
        sqlite_synchronous="NORMAL",
        jwt_secret=SecretStr(live_server.SECRET),
        **{"worker_timeout_seconds": TIMEOUT, "sweeper_interval_seconds": 0, **more},
    )
    with JobQueue.open(settings) as queue:
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(create_app(settings, queue=queue), log_config=None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        served = Served(f"http://127.0.0.1:{listening.getsockname()[1]}", queue)
        try:
            yield served
        finally:
            served.close()
            server.should_exit = True
            thread.join(UPPER_BOUND_SECONDS)
