"""Servers under load: ours and the floor, each a uvicorn process of its own on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

SECRET = "benchmark-secret-of-at-least-32-bytes"  # noqa: S105 - of a server that lives a minute
ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def serve(target: str, environment: dict[str, str], *, ready: str) -> Iterator[str]:
    """Run an application by uvicorn; its base URL, once it answers."""
    port = _free_port()
    command = [sys.executable, "-m", "uvicorn", target, "--port", str(port)]
    command += ["--log-level", "warning", "--no-access-log"]
    path = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "joblib")])
    process = subprocess.Popen(
        command, env={**os.environ, **environment, "PYTHONPATH": path}, cwd=ROOT
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_ready(f"{url}{ready}")
        yield url
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def serve_floor() -> Iterator[str]:
    """The floor: a Starlette handler that does nothing."""
    with serve("noop:app", {}, ready="/") as url:
        yield url


@contextmanager
def serve_jobroom(*, synchronous: str = "FULL") -> Iterator[str]:
    """Our server on a new SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "ZNDRAW_JOBLIB_DATABASE_URL": f"sqlite:///{folder}/queue.db",
            "ZNDRAW_JOBLIB_SQLITE_SYNCHRONOUS": synchronous,
            "ZNDRAW_JOBLIB_JWT_SECRET": SECRET,
            "ZNDRAW_JOBLIB_SWEEPER_INTERVAL_SECONDS": "0",
        }
        with serve("app:app", environment, ready="/readyz") as url:
            yield url


def call(url: str, method: str, body: object, token: str) -> None:
    """One JSON request, to set things up."""
    head = {"Authorization": f"Bearer {token}"}
    httpx.request(method, url, json=body, headers=head, timeout=30).raise_for_status()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            httpx.get(url, timeout=1)
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
