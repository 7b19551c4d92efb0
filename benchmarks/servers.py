"""Servers under load: ours and the floor, each a uvicorn process of its own on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Self

import httpx

from jobroom import tokens

SECRET = "benchmark-secret-of-at-least-32-bytes"  # noqa: S105 - of a server that lives a minute
ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 20
STOP_SECONDS = 20


class Server(str):
    """A server under load: its base URL, and which process answers at which port."""

    __slots__ = ("pid", "port")

    pid: int
    port: int

    def __new__(cls, port: int, pid: int) -> Self:
        """The server at that port of this machine."""
        server = super().__new__(cls, f"http://127.0.0.1:{port}")
        server.pid, server.port = pid, port
        return server

    def __getnewargs__(self) -> tuple[int, int]:  # type: ignore[override]  # of this class, not str
        return self.port, self.pid

    @property
    def cpu_seconds(self) -> float:
        """CPU of all its threads so far, user and system; Linux counts it in nanoseconds."""
        # The clock of another process, as clock_getcpuclockid(3) would name it.
        return time.clock_gettime((~self.pid << 3) | 2)


@contextmanager
def serve(
    target: str,
    environment: Mapping[str, str],
    *,
    ready: str,
    python: str | Path = sys.executable,
    loud: bool = True,
) -> Iterator[Server]:
    """Run an application by uvicorn, once it answers. ``loud``: its errors are shown."""
    port = _free_port()
    command = [str(python), "-m", "uvicorn", target, "--port", str(port)]
    command += ["--log-level", "warning" if loud else "critical", "--no-access-log"]
    command += ["--timeout-keep-alive", "120"]  # connections idle while others are measured
    path = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "joblib")])
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path, **environment},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stderr=None if loud else subprocess.DEVNULL,
    )
    server = Server(port, process.pid)
    try:
        _wait_until_ready(f"{server}{ready}", process)
        yield server
    finally:
        _stop(process)


@contextmanager
def serve_floor() -> Iterator[Server]:
    """The floor: a Starlette handler that does nothing."""
    with serve("noop:app", {}, ready="/") as server:
        yield server


@contextmanager
def serve_jobroom(
    *,
    synchronous: str = "FULL",
    file: Path | None = None,
    url: str | None = None,
    store_connections: int = 8,
) -> Iterator[Server]:
    """Our server on a SQLite file, a new one if none is given; it never sweeps by itself.

    ``url``: on another store instead, by so many connections to it.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "ZNDRAW_JOBLIB_DATABASE_URL": url or f"sqlite:///{file or Path(folder) / 'queue.db'}",
            "ZNDRAW_JOBLIB_DATABASE_CONNECTIONS": str(store_connections),
            "ZNDRAW_JOBLIB_SQLITE_SYNCHRONOUS": synchronous,
            "ZNDRAW_JOBLIB_JWT_SECRET": SECRET,
            "ZNDRAW_JOBLIB_SWEEPER_INTERVAL_SECONDS": "0",
        }
        with serve("app:app", environment, ready="/readyz") as server:
            yield server


@cache
def token(sub: str = "bench") -> str:
    """A token of an admin, good for as long as a benchmark runs."""
    return tokens.issue_token(SECRET, sub=sub, is_admin=True)


def call(url: str, method: str, body: object, token: str) -> None:
    """One JSON request, to set things up."""
    head = {"Authorization": f"Bearer {token}"}
    httpx.request(method, url, json=body, headers=head, timeout=30).raise_for_status()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            httpx.get(url, timeout=1)
        except httpx.TransportError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.05)
        else:
            return


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
