"""Wake-up: from the request that has news to the answer of the request that waits for it.

Run: python benchmarks/wakeup.py [--quick]

Two clocks per sample, both of the client's. *Sent*: from before the bytes of the submission (or the
report) are sent to the waiter's whole answer; everything is in it, the write to the disk too.
*Acknowledged*: from the whole answer to the submission; below zero where the waiter hears first.
The client is one thread with blocking sockets and epoll; the floor, a bare Starlette application
whose one request answers another, is measured by the same client and so contains its cost.
"""

from __future__ import annotations

import random
import select
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import crowd
import report
from crowd import ClaimCrowd, Crowd, FloorCrowd
from rawhttp import Answer, Connection
from report import Row
from servers import Server

MANY = 1000
QUICK_MANY = 100
ROUNDS, SAMPLES = 8, 50
QUICK_ROUNDS, QUICK_SAMPLES = 2, 15
UNCOUNTED = 3  # at the head of each round
POLL_SECONDS = 2.0
MOST_MILLISECONDS = 1.0
MOST_TIMES = 1.3


class Times(NamedTuple):
    """Milliseconds of many samples."""

    sent: list[float]
    acknowledged: list[float]

    @property
    def p50(self) -> float:
        """The median from the moment of sending."""
        return statistics.median(self.sent)

    @property
    def p99(self) -> float:
        """One in a hundred took longer, from the moment of sending."""
        return sorted(self.sent)[int(len(self.sent) * 0.99)]

    def note(self) -> str:
        """What else was seen, in one line."""
        after = statistics.median(self.acknowledged)
        return f"p99 {self.p99:.2f} ms; from the acknowledgement p50 {after:.2f} ms"


class Scene:
    """One server with waiting requests, and another (or the same) at which things happen."""

    def __init__(
        self, stack: ExitStack, waiters: Crowd, count: int, *, at: Server, acting_at: Server
    ) -> None:
        self._waiters = waiters
        self._acting_port = acting_at.port
        self._epoll = stack.enter_context(select.epoll())
        self._by_fd: dict[int, Connection] = {}
        self.times = Times([], [])
        with Connection(self._acting_port) as acting:
            waiters.prepare(acting, count)
            for _ in range(count):
                waiter = stack.enter_context(Connection(at.port))
                self._by_fd[waiter.fileno()] = waiter
                self._epoll.register(waiter, select.EPOLLIN)
                waiters.arm(waiter, acting)

    def run(self, samples: int) -> None:
        """One round, on a fresh connection: servers hang up on idle ones."""
        with Connection(self._acting_port) as acting:
            self._epoll.register(acting, select.EPOLLIN)
            for number in range(UNCOUNTED + samples):
                # Until the waiter waits again, and out of step with whatever ticks.
                time.sleep(random.uniform(0.005, 0.015))
                self._sample(acting, counts=number >= UNCOUNTED)
            self._epoll.unregister(acting)

    def _sample(self, acting: Connection, *, counts: bool) -> None:
        trigger = self._waiters.trigger()
        woken = acknowledged = 0.0
        found: tuple[Connection, Answer] | None = None
        sent = time.perf_counter()
        acting.send(trigger)
        while found is None or not acknowledged:
            events = self._epoll.poll(10)
            if not events:
                raise SystemExit("Nobody was woken within 10 s.")
            for descriptor, _ in events:
                if descriptor == acting.fileno():
                    acting.receive().document()
                    acknowledged = time.perf_counter()
                else:
                    waiter = self._by_fd[descriptor]
                    found = waiter, waiter.receive()
                    woken = time.perf_counter()
        waiter, answer = found
        self._waiters.tidy(waiter, answer, acting)
        if counts and answer.waited:
            self.times.sent.append(1000 * (woken - sent))
            self.times.acknowledged.append(1000 * (woken - acknowledged))


def measure(*, quick: bool = False) -> list[Row]:
    """All wake-ups, in turn, beside the floor and beside a client that polls."""
    many = QUICK_MANY if quick else MANY
    rounds, samples = (QUICK_ROUNDS, QUICK_SAMPLES) if quick else (ROUNDS, SAMPLES)
    polled = _polling_client()
    rows = []
    for what, kind in crowd.KINDS:
        with ExitStack() as stack:
            scenes = _scenes(stack, kind, many)
            for _ in range(rounds):
                for scene in scenes.values():
                    scene.run(samples)
        times = {name: scene.times for name, scene in scenes.items()}
        rows += _rows(f"wake-up of a waiting {what}", times, many, polled)
    return rows


def _scenes(stack: ExitStack, kind: Callable[[], Crowd], many: int) -> dict[str, Scene]:
    scenes = {}
    for count in (1, many):
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(crowd.serve_ours(folder / "queue.db"))
        scenes[f"ours {count}"] = Scene(stack, kind(), count, at=ours, acting_at=ours)
        floor = stack.enter_context(crowd.serve_floor())
        scenes[f"floor {count}"] = Scene(stack, FloorCrowd(), count, at=floor, acting_at=floor)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        one = stack.enter_context(crowd.serve_ours(folder / "queue.db"))
        other = stack.enter_context(crowd.serve_ours(folder / "queue.db"))
        scenes[f"across {count}"] = Scene(stack, kind(), count, at=other, acting_at=one)
    return scenes


def _rows(what: str, times: dict[str, Times], many: int, polled: float) -> list[Row]:
    one, crowded = times["ours 1"], times[f"ours {many}"]
    floor, floor_crowded = times["floor 1"], times[f"floor {many}"]
    rows = [
        Row(
            f"{what}, 1 waiter: p50",
            one.p50,
            floor.p50,
            f"bare Starlette hand-off, p99 {floor.p99:.2f}",
            "ms",
            one.p50,
            MOST_MILLISECONDS,
            at_most=True,
            reason=one.note(),
        ),
        Row(
            f"{what}, {many:,} waiters: p50",
            crowded.p50,
            one.p50,
            "ours with 1 waiter",
            "ms",
            crowded.p50 / one.p50,
            MOST_TIMES,
            at_most=True,
            reason=crowded.note(),
        ),
        Row(
            f"{what}, {many:,} waiters: p50",
            crowded.p50,
            floor_crowded.p50,
            f"bare Starlette hand-off, p99 {floor_crowded.p99:.2f}",
            "ms",
            crowded.p50 / floor_crowded.p50,
        ),
    ]
    rows += _rows_across(what, times, many)
    beside = f"a client that polls every {POLL_SECONDS:g} s"
    rows.append(Row(what, one.p50, polled, beside, "ms", polled / one.p50))
    return rows


def _rows_across(what: str, times: dict[str, Times], many: int) -> list[Row]:
    rows = []
    for count, bar in ((1, MOST_MILLISECONDS), (many, None)):
        here, across = times[f"ours {count}"], times[f"across {count}"]
        rows.append(
            Row(
                f"{what}, {count:,} at another process on the file: p50",
                across.p50,
                here.p50,
                "ours in one process; the ratio is ms above it",
                "ms",
                across.p50 - here.p50,
                bar,
                at_most=True,
                reason=across.note(),
            )
        )
    return rows


def _polling_client() -> float:
    """Median milliseconds until a claim that is repeated every 2 s has a task, in any phase."""
    found = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        server = stack.enter_context(crowd.serve_ours(Path(folder) / "queue.db"))
        acting = stack.enter_context(Connection(server.port))
        phases = [phase / 10 + 0.05 for phase in range(10)]
        jobs = [ClaimCrowd(f"Job{number}") for number in range(len(phases))]
        for job in jobs:
            job.prepare(acting, 1)
        assert not any(job.poll(acting) for job in jobs)
        start = time.perf_counter()
        submitted = []
        for job, phase in zip(jobs, phases, strict=True):
            time.sleep(max(0.0, start + phase * POLL_SECONDS - time.perf_counter()))
            submitted.append(time.perf_counter())
            acting.call(job.trigger())
        time.sleep(max(0.0, start + POLL_SECONDS - time.perf_counter()))
        for job, since in zip(jobs, submitted, strict=True):
            assert job.poll(acting)
            found.append(1000 * (time.perf_counter() - since))
    return statistics.median(found)


if __name__ == "__main__":
    report.command(measure, __doc__)
