"""Between two calls the platform freezes the process: its connections may be gone at the thaw."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import lambda_events as events
import pytest
from lambda_function import BASE, ROTATE, SECRET, Function, bearer
from proxies import Proxy

from jobroom.domain.records import Caller
from jobroom.service import reporting
from jobroom.service.queue import JobQueue

ROOT = Path(__file__).parents[2]
ALICE = Caller("w", is_admin=True)


@pytest.fixture(params=["libsql", "postgresql"])
def place(request, stores, tmp_path):
    """A store across a network: its URL, its server, and how that is spoken to."""
    url = stores.fresh(request.param, tmp_path)
    server = stores.sqld if request.param == "libsql" else stores.postgres
    yield url, server, "http" if request.param == "libsql" else "postgresql"
    stores.release(url)


@pytest.fixture
def proxy(place):
    _url, server, protocol = place
    with Proxy(server.port, protocol=protocol) as made:
        yield made


@pytest.fixture
def function(settings, place, proxy):
    with Function(settings, database_url=proxy.in_front_of(place[0])) as made:
        made.register()
        yield made


def lose_connections(proxy):
    """As a load balancer, a gateway of the network or the server does with the silent."""
    proxy.cut()
    proxy.heal()


def test_connections_that_were_lost_in_the_freeze_are_no_503(function, proxy):
    task = function.submit()
    for number in range(3):
        lose_connections(proxy)
        shown = function.send("GET", f"/tasks/{task['id']}")
        assert shown.status == 200, shown
        lose_connections(proxy)
        made = function.send("POST", f"/rooms/r1/tasks/{ROTATE}", {"payload": {"n": number}})
        assert made.status == 202, made
        lose_connections(proxy)
        assert function.sweep({}, events.Context(50))["finished"] is True
    listed = function.send("GET", "/rooms/r1/tasks").json()
    assert listed["total"] == 4, "no submission was lost, none was doubled"


def test_a_wait_after_the_thaw_hears_of_others_again(function, proxy, place, settings):
    """The connection by which it was told is gone, too."""
    task = function.submit()
    wait = [("prefer", "wait=1")]
    assert function.send("GET", f"/tasks/{task['id']}", headers=wait).status == 200
    lose_connections(proxy)
    changes = settings.model_copy(update={"database_url": place[0]})
    with JobQueue.open(changes) as elsewhere:
        cancelled = reporting.Report(status=reporting.TaskStatus.CANCELLED)
        timer = threading.Timer(
            0.5,
            lambda: elsewhere.run(
                reporting.report, caller=ALICE, task_id=task["id"], report=cancelled
            ),
        )
        timer.start()
        wait = [("prefer", "wait=25")]
        answer = function.send("GET", f"/tasks/{task['id']}", headers=wait)
        timer.join()
    assert answer.json()["status"] == "cancelled"


class Environment:
    """A function that really is another process, and is really frozen."""

    def __init__(self, url):
        given = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT), str(ROOT / "joblib"), str(Path(__file__).parent)]
            ),
            "ZNDRAW_JOBLIB_DATABASE_URL": url,
            "ZNDRAW_JOBLIB_JWT_SECRET": SECRET,
        }
        script = Path(__file__).parent / "lambda_child.py"
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", str(script)],
            env=given,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.thaw()
        self.process.stdin.close()
        try:
            assert self.process.wait(30) == 0, "nothing was left to warn of at its end"
        finally:
            self.process.kill()
            self.process.stdout.close()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self.process.pid}/stat")
        end = time.monotonic() + 30
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < end, "it does not stop"
            time.sleep(0.001)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def ask(self, event, call="handler", seconds=28.0):
        line = json.dumps({"call": call, "event": event, "seconds": seconds})
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("answer:"):
                return json.loads(line.removeprefix("answer:"))
        raise AssertionError("the environment ended")

    def send(self, method, path, body=None, headers=()):
        content = b"" if body is None else json.dumps(body).encode()
        asked = [*bearer(), ("content-type", "application/json"), *headers]
        event = events.http_api(method, BASE + path, asked, content)
        return events.read(event, self.ask(event))


@pytest.fixture
def environment(place):
    with Environment(place[0]) as made:
        yield made


def end_connections(place):
    """The server gives up those that have been silent for too long."""
    url, server, protocol = place
    if protocol == "postgresql":
        assert server.terminate_backends(url.rpartition("/")[2].partition("?")[0]) >= 1
    else:
        server.restart()


def test_a_frozen_environment_thaws_into_service(environment, place):
    """Stopped right after a wait, when its looking thread may be in the middle of anything."""
    registered = environment.send(
        "PUT", "/rooms/r1/jobs", {"category": "modifiers", "name": "Rotate"}
    )
    assert registered.status == 201
    made = environment.send("POST", f"/rooms/r1/tasks/{ROTATE}", {}).json()
    for number in range(3):
        waited = environment.send("GET", f"/tasks/{made['id']}", headers=[("prefer", "wait=1")])
        assert waited.header("preference-applied") == "wait=1"
        environment.freeze()
        end_connections(place)
        environment.thaw()
        again = environment.send("POST", f"/rooms/r1/tasks/{ROTATE}", {"payload": {"n": number}})
        assert again.status == 202, again
        environment.freeze()
        end_connections(place)
        environment.thaw()
        assert environment.ask(events.SCHEDULED)["finished"] is True
    listed = environment.send("GET", "/rooms/r1/tasks").json()
    assert listed["total"] == 4, "no submission was lost, none was doubled"
