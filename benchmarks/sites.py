"""Several queues of different sizes, each a file and a server of its own, asked in turn.

All are alive at once, and each is sent a few requests before the next one is, in another order each
time: the machine's noise hits all of them alike.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fill
import rawhttp
import servers
from fill import Backlog
from report import Row
from servers import Server

SLICE = 5
"""So many requests go to one site before the next one is asked."""


@dataclass(slots=True)
class Cost:
    """Of one kind of request on one site, in microseconds."""

    latencies: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Site:
    """A server on one file, one connection to it, and what each kind of request has cost."""

    server: Server
    backlog: Backlog
    connection: rawhttp.Connection
    costs: dict[str, Cost] = field(default_factory=dict)

    def send(self, kind: str, requests: list[bytes]) -> list[Any]:
        """One request after the other; their answers."""
        latencies, answers = [], []
        cpu = self.server.cpu_seconds
        for data in requests:
            begun = time.perf_counter()
            self.connection.send(data)
            answers.append(self.connection.receive())
            latencies.append((time.perf_counter() - begun) * 1e6)
        cost = self.costs.setdefault(kind, Cost())
        cost.cpu.append((self.server.cpu_seconds - cpu) / len(requests) * 1e6)
        cost.latencies += latencies
        return [answer.document() for answer in answers]


@contextmanager
def serve_all(files: Mapping[str, Backlog]) -> Iterator[dict[str, Site]]:
    """Fill the files one after the other, then serve them all at once."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for number, backlog in enumerate(files.values()):
            fill.fill(folder / f"{number}.db", backlog)
        sites = {}
        for number, (name, backlog) in enumerate(files.items()):
            server = stack.enter_context(servers.serve_jobroom(file=folder / f"{number}.db"))
            connection = stack.enter_context(rawhttp.Connection(server.port))
            sites[name] = Site(server, backlog, connection)
        yield sites


def ask(
    kind: str, requests: Mapping[str, list[bytes]], sites: Mapping[str, Site], *, seconds: float
) -> dict[str, list[Any]]:
    """Send each site its requests, a slice at a time; the answers of each.

    After so many seconds the rest is not sent, but every site has had the same number by then.
    """
    answers: dict[str, list[Any]] = {name: [] for name in sites}
    most = max(len(queued) for queued in requests.values())
    deadline = time.monotonic() + seconds
    for start in range(0, most, SLICE):
        for name in random.sample(list(sites), len(sites)):
            part = requests[name][start : start + SLICE]
            answers[name] += sites[name].send(kind, part)
        if time.monotonic() > deadline:
            break
    return answers


def forget_costs(sites: Mapping[str, Site]) -> None:
    """What was sent so far only warmed up."""
    for site in sites.values():
        site.costs.clear()


_MEASURES: tuple[tuple[str, str, Callable[[Cost], list[float]]], ...] = (
    ("CPU", "us of the server's CPU", lambda cost: cost.cpu),
    ("latency", "us", lambda cost: cost.latencies),
)


def rows(
    what: str, kind: str, large: Site, small: Site, *, against: str, bar: float | None, note: str
) -> list[Row]:
    """The medians of one kind of request on one site beside those of another."""
    found = []
    for name, unit, of in _MEASURES:
        ours = statistics.median(of(large.costs[kind]))
        beside = statistics.median(of(small.costs[kind]))
        label = f"{kind}, {what}: {name}"
        ratio = ours / beside
        found.append(
            Row(label, ours, beside, against, unit, ratio, bar=bar, at_most=True, reason=note)
        )
    return found
