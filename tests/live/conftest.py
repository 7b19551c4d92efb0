"""Servers as a user starts them: ``uvicorn app:app`` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from jobroom import tokens

ROOT = Path(__file__).parents[2]
SECRET = "a shared secret of more than 32 bytes"
START_SECONDS = 30
BASE = "/v1/joblib"
JOB = f"{BASE}/rooms/r1/tasks/r1:modifiers:Rotate"


class Server:
    """One ``uvicorn`` process on a free port; what it prints is kept in a file."""

    def __init__(self, folder, *, app="app:app", **settings):
        self.folder = Path(folder)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._output = self.folder / f"server-{self.port}.txt"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", app, "--port", str(self.port)],
                cwd=self.folder,
                env=environment(**settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def output(self):
        return self._output.read_text()

    @property
    def token(self):
        """The token that the server has printed."""
        (token,) = re.findall(r"^ +(ey\S+)$", self.output, re.MULTILINE)
        return token

    def until_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.output
            if self._is_ready():
                return self
            time.sleep(0.02)
        raise AssertionError(f"not ready: {self.output}")

    def _is_ready(self):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def client(self, token=None):
        """An HTTP client with a token: the given, or one of the shared secret."""
        token = token or tokens.issue_token(SECRET, sub="w", is_admin=True)
        headers = {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30)

    def stop(self):
        """Ask it to end, as an operator does, and wait for that; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(START_SECONDS)


def environment(**settings):
    """The environment without anybody's own settings, and with these."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ZNDRAW_JOBLIB_", "AWS_", "UVICORN_", "JOBROOM_"))
    }
    ours = {f"ZNDRAW_JOBLIB_{name.upper()}": str(value) for name, value in settings.items()}
    return {**kept, **ours, "PYTHONPATH": os.pathsep.join((str(ROOT / "joblib"), str(ROOT)))}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def register(client):
    """Register ``r1:modifiers:Rotate`` for the identity worker."""
    body = {"category": "modifiers", "name": "Rotate"}
    answer = client.put(f"{BASE}/rooms/r1/jobs", json=body)
    assert answer.is_success, answer.text


def submit(client):
    answer = client.post(JOB, json={})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Start a server, by default with the shared secret; it is killed at the module's end."""
    with ExitStack() as stack:

        def started(folder=None, *, ready=True, secret=SECRET, **settings):
            folder = folder or tmp_path_factory.mktemp("live")
            if secret is not None:
                settings["jwt_secret"] = secret
            server = stack.enter_context(Server(folder, **settings))
            return server.until_ready() if ready else server

        yield started


@pytest.fixture(scope="session")
def work():
    """What the tests do with a client: register, submit."""
    return Work


class Work:
    register = staticmethod(register)
    submit = staticmethod(submit)
    environment = staticmethod(environment)
    SECRET = SECRET
    BASE = BASE
