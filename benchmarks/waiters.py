"""What it costs to do nothing: idle CPU and memory of requests that wait.

Run: python benchmarks/waiters.py [--quick]
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import NamedTuple

import crowd
import report
from crowd import Crowd
from rawhttp import Connection
from report import Row
from servers import Server

WAITERS = 1000
QUICK_WAITERS = 200
SECONDS = 40.0  # the claims' workers are kept alive every 20 s: two such rounds are in it
QUICK_SECONDS = 3.0
WARM = 20
MOST_CPU_PERCENT = 1.0
MOST_KILOBYTES = 20.0


class Cost(NamedTuple):
    """Of a server that holds waiting requests and is asked for nothing else."""

    cpu_percent: float
    kilobytes_each: float
    busiest_percent: float  # in one second


def measure(*, quick: bool = False) -> list[Row]:
    """CPU and memory beside the floor's, for waiting claims and for waiting status polls."""
    count = QUICK_WAITERS if quick else WAITERS
    seconds = QUICK_SECONDS if quick else SECONDS
    floor = _cost_of(crowd.serve_floor(), crowd.FloorCrowd(), count, seconds)
    rows = []
    for what, kind in crowd.KINDS:
        with tempfile.TemporaryDirectory() as folder:
            database = Path(folder) / "queue.db"
            waiters = kind()
            # Made by another process: what preparing leaves behind is not the waiters' memory.
            with crowd.serve_ours(database) as server, Connection(server.port) as acting:
                waiters.prepare(acting, count + WARM)
            ours = _cost_of(crowd.serve_ours(database), waiters, count, seconds)
        rows += _rows(f"{count:,} waiting {what}s", ours, floor, seconds)
    return rows


def _rows(what: str, ours: Cost, floor: Cost, seconds: float) -> list[Row]:
    against = "bare Starlette holding as many"
    return [
        Row(
            f"{what}: idle CPU",
            ours.cpu_percent,
            floor.cpu_percent,
            against,
            "% of a core",
            ours.cpu_percent,
            MOST_CPU_PERCENT,
            at_most=True,
            reason=f"over {seconds:.0f} s; {ours.busiest_percent:.1f} % in the busiest second",
        ),
        Row(
            f"{what}: memory each",
            ours.kilobytes_each,
            floor.kilobytes_each,
            against,
            "kB of RSS",
            ours.kilobytes_each,
            MOST_KILOBYTES,
            at_most=True,
            reason="connection and request included, as in the floor",
        ),
    ]


def _cost_of(
    serving: AbstractContextManager[Server], waiters: Crowd, count: int, seconds: float
) -> Cost:
    with ExitStack() as stack:
        server = stack.enter_context(serving)
        _wait_and_leave(server, waiters)
        before = _resident_bytes(server.pid)
        acting = stack.enter_context(Connection(server.port))
        for _ in range(count):
            waiters.arm(stack.enter_context(Connection(server.port)), acting)
        time.sleep(2)
        held = _resident_bytes(server.pid) - before
        used, since = server.cpu_seconds, time.monotonic()
        busiest = 0.0
        while time.monotonic() < since + seconds:
            before_second = server.cpu_seconds
            time.sleep(1)
            busiest = max(busiest, server.cpu_seconds - before_second)
        share = (server.cpu_seconds - used) / (time.monotonic() - since)
    return Cost(100 * share, held / count / 1000, 100 * busiest)


def _wait_and_leave(server: Server, waiters: Crowd) -> None:
    """A few waiters that hang up: what the first ones bring into memory is no later one's cost."""
    with ExitStack() as stack:
        acting = stack.enter_context(Connection(server.port))
        for _ in range(WARM):
            waiters.arm(stack.enter_context(Connection(server.port)), acting)
        time.sleep(0.5)
    time.sleep(0.5)


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    report.command(measure, __doc__)
