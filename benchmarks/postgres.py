"""The queue in PostgreSQL beside raw psycopg, procrastinate and pgqueuer, by 1 and 4 processes.

Run: python benchmarks/postgres.py [--quick] [--json]

All work on one real server, each in a database of its own, with the server's default durability
(fsync, synchronous_commit), through a connection a process. The raw floor is the least that may be
called a queue: a table, an index, an INSERT, and two guarded UPDATEs of which the first skips what
others have locked. *Our statements alone* are ours on our schema, sent by raw psycopg: what lies
between is our Python. The peers do the same by their own calls on their own schema.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import crowd
import postgres_fill
import real_servers
import report
import servers
import venvs
from embedded import OurQueue
from report import Row
from team import Team
from wakeup import Scene

from jobroom.service import reading
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings

PINS = ("procrastinate==3.10.0", "pgqueuer[asyncpg]==1.6.0", "psycopg[binary]>=3.3")
PEERS = ("procrastinate", "pgqueuer")
KINDS = ("raw", "statements", "ours", "http", *PEERS)
OURS = ("statements", "ours", "http")
SAID = {"raw": "raw psycopg", "procrastinate": "procrastinate 3.10", "pgqueuer": "pgqueuer 1.6"}
STEPS = {"submit": ("enqueue", 0.80), "work": ("claim + complete", 0.75)}
PROCESSES = (1, 4)
ROUNDS, CALLS = 9, 300
QUICK_ROUNDS, QUICK_CALLS = 3, 60
SIZES, QUICK_SIZES = (1_000, 1_000_000), (1_000, 100_000)
SLICES, QUICK_SLICES, SLICE = 80, 20, 5
MOST_GROWTH = 1.15
WAKE_ROUNDS, WAKE_SAMPLES = 8, 50
QUICK_WAKE_ROUNDS, QUICK_WAKE_SAMPLES = 2, 15
MOST_WAKE_MILLISECONDS = 3.0


def measure(*, quick: bool = False) -> list[Row]:
    """Throughput, claims by size, and wake-ups across processes."""
    python = venvs.prepare(
        venvs.folder_of("postgresql-peers"), PINS, "procrastinate, pgqueuer, asyncpg, psycopg"
    )
    rows = []
    with real_servers.postgres() as server:
        server.start()
        for processes in PROCESSES:
            rows += _throughput(server, python, processes, quick=quick)
        rows += _by_size(server, quick=quick)
        rows += _wake_ups(server, quick=quick)
    return rows


def _throughput(server: Any, python: Any, processes: int, *, quick: bool) -> list[Row]:
    rounds, calls = (QUICK_ROUNDS, QUICK_CALLS) if quick else (ROUNDS, CALLS)
    found: dict[tuple[str, str], list[float]] = {}
    with _teams(server, python, processes) as teams:
        for team in teams.values():  # statements are prepared, caches are warm
            team.do("submit", 20)
            team.do("work", 20)
        for _ in range(rounds):
            for step in STEPS:
                for kind in random.sample(KINDS, len(KINDS)):
                    rate = teams[kind].do(step, max(20, calls // processes))
                    found.setdefault((kind, step), []).append(rate)
    speeds = {key: statistics.median(rates) for key, rates in found.items()}
    return [row for step in STEPS for row in _rows(step, speeds, processes)]


@contextmanager
def _teams(server: Any, python: Any, processes: int) -> Iterator[dict[str, Team]]:
    """So many processes of each kind, on a database of its own."""
    with ExitStack() as stack:
        teams = {}
        for kind in KINDS:
            url = _create(server, f"{kind}{processes}")
            if kind in OURS:
                real_servers.migrated(url)
            if kind == "http":
                url = stack.enter_context(servers.serve_jobroom(url=url))
            interpreter = {"python": python} if kind in PEERS else {}
            if kind not in OURS:
                with Team("postgres_hands.py", [[kind, url, "0"]], **interpreter) as first:
                    first.do("set_up", 1)
            arguments = [[kind, str(url), str(number)] for number in range(processes)]
            team = stack.enter_context(Team("postgres_hands.py", arguments, **interpreter))
            if kind == "procrastinate":
                team.do("join", 1)
            teams[kind] = team
        yield teams


def _create(server: Any, name: str) -> str:
    server.execute(f"CREATE DATABASE {name}")
    url: str = server.url(name)
    return url


def _rows(step: str, speeds: dict[tuple[str, str], float], processes: int) -> list[Row]:
    said, bar = STEPS[step]
    by = f"{processes} process{'es' if processes > 1 else ''}"
    ours, http, floor = (speeds[kind, step] for kind in ("ours", "http", "raw"))
    what = f"PostgreSQL {said}, {by}"
    rows = [Row(what, ours, floor, SAID["raw"], "tasks/s", ours / floor, bar)]
    for peer in PEERS:
        beside = speeds[peer, step]
        note = f"it is at {beside / floor:.2f} of {SAID['raw']}"
        rows.append(Row(what, ours, beside, SAID[peer], "tasks/s", ours / beside, 1.0, reason=note))
    same = speeds["statements", step]
    note = f"they are at {same / floor:.2f} of {SAID['raw']}"
    rows.append(Row(what, ours, same, "our statements alone", "tasks/s", ours / same, reason=note))
    note = f"{processes} connection{'s' if processes > 1 else ''} to one server process"
    over = f"{what} over HTTP"
    rows.append(Row(over, http, floor, SAID["raw"], "tasks/s", http / floor, reason=note))
    return rows


def _by_size(server: Any, *, quick: bool) -> list[Row]:
    """Ours with many tasks that wait beside ours with few, a few calls each in turn."""
    sizes = QUICK_SIZES if quick else SIZES
    slices = QUICK_SLICES if quick else SLICES
    with ExitStack() as stack:
        hands = {}
        for size in sizes:
            url = real_servers.migrated(_create(server, f"pending{size}"))
            queue = stack.enter_context(JobQueue.open(JobLibSettings(database_url=url)))
            hands[size] = _Hands(queue)
            postgres_fill.fill_job(url, job_seq=hands[size].job_seq, pending=size)
        for number in range(slices):
            for size in random.sample(sizes, len(sizes)):
                hands[size].run(SLICE, counts=number > 1)
    small, large = sizes
    return [
        _row_of_size(step, hands[large].times[step], hands[small].times[step], large)
        for step in hands[large].times
    ]


class _Hands:
    """Ours, each step timed."""

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue
        self._ours = OurQueue(queue.run)
        self.job_seq = self._ours.job_seq
        self.times: dict[str, list[float]] = {}

    def run(self, count: int, *, counts: bool) -> None:
        """So many tasks."""
        for _ in range(count):
            for step, call in (
                ("submit", self._ours.submit),
                ("claim", self._ours.claim),
                ("status", self._status),
                ("complete", self._ours.complete),
            ):
                begun = time.perf_counter()
                call()
                if counts:
                    self.times.setdefault(step, []).append(1e6 * (time.perf_counter() - begun))

    def _status(self) -> None:
        self._queue.run(reading.get_task, caller=self._ours.caller, task_id=self._ours.held.id)


def _row_of_size(step: str, many: list[float], few: list[float], size: int) -> Row:
    ours, beside = statistics.median(many), statistics.median(few)
    return Row(
        f"PostgreSQL {step}, {size:,} pending: latency",
        ours,
        beside,
        "ours with 1,000 pending",
        "us",
        ours / beside,
        MOST_GROWTH,
        at_most=True,
    )


def _wake_ups(server: Any, *, quick: bool) -> list[Row]:
    """A request that waits at one server process for what is done at another."""
    rounds = QUICK_WAKE_ROUNDS if quick else WAKE_ROUNDS
    samples = QUICK_WAKE_SAMPLES if quick else WAKE_SAMPLES
    rows: list[Row] = []
    for what, kind in crowd.KINDS:
        made: Callable[[], crowd.Crowd] = kind
        with ExitStack() as stack:
            url = real_servers.migrated(_create(server, f"wake{len(rows)}"))
            one = stack.enter_context(crowd.serve_ours(url))
            other = stack.enter_context(crowd.serve_ours(url))
            across = Scene(stack, made(), 1, at=other, acting_at=one)
            here_url = real_servers.migrated(_create(server, f"here{len(rows)}"))
            only = stack.enter_context(crowd.serve_ours(here_url))
            here = Scene(stack, made(), 1, at=only, acting_at=only)
            for _ in range(rounds):
                for scene in (across, here):
                    scene.run(samples)
        if not across.times.sent:
            raise SystemExit(f"No {what} waited; the server answered each of them at once.")
        rows.append(
            Row(
                f"PostgreSQL wake-up of a waiting {what} at another process: p50",
                across.times.p50,
                here.times.p50,
                "ours in one process",
                "ms",
                across.times.p50,
                MOST_WAKE_MILLISECONDS,
                at_most=True,
                reason=across.times.note(),
            )
        )
    return rows


if __name__ == "__main__":
    report.command(measure, __doc__)
