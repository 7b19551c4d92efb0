"""Servers as a user starts them: ``uvicorn app:app`` in a process of its own, to be killed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import httpx

from jobroom import tokens

ROOT = Path(__file__).parents[1]
SECRET = "a shared secret of more than 32 bytes"
START_SECONDS = 120
BASE = "/v1/joblib"
JOB = f"{BASE}/rooms/r1/tasks/r1:modifiers:Rotate"


class Server:
    """One ``uvicorn`` on a port that stays its own over restarts; its output is kept in a file.

    ``prefix`` is a command to run it under; ``extra`` is environment beside our settings.
    """

    def __init__(self, folder, *, app="app:app", port=None, prefix=(), extra=None, **settings):
        self.folder = Path(folder)
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._output = self.folder / f"server-{self.port}.txt"
        self._command = [*prefix, sys.executable, "-m", "uvicorn", app, "--port", str(self.port)]
        self._environment = {**environment(**settings), **(extra or {})}
        self.start()

    def start(self):
        """Start it (again); does not wait."""
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.kill()

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
            if self.is_ready():
                return self
            time.sleep(0.02)
        raise AssertionError(f"not ready: {self.output}")

    def is_ready(self):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def client(self, token=None):
        """An HTTP client with a token: the given, or an admin's of the shared secret."""
        token = token or token_of("w", is_admin=True)
        headers = {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30)

    def stop(self):
        """Ask it to end, as an operator does, and wait for that; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(START_SECONDS)

    def kill(self):
        """End it with SIGKILL, in the middle of whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def token_of(sub, **claims):
    """A token of the shared secret."""
    return tokens.issue_token(SECRET, sub=sub, **claims)


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


def register(client, **more):
    """Register ``r1:modifiers:Rotate`` for the identity worker, or for ``worker_id``."""
    body = {"category": "modifiers", "name": "Rotate", **more}
    answer = client.put(f"{BASE}/rooms/r1/jobs", json=body)
    assert answer.is_success, answer.text
    return answer.json()


def submit(client, **body):
    answer = client.post(JOB, json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]
