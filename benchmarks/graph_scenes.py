"""The situations in which a graph queue is measured, ours, a floor and a peer by the same code.

Needs the standard library alone: the peer runs it in an environment of its own.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import graph_filling
from graph_filling import Rows, Source

T = TypeVar("T")
PARAMETERS = {"angle": 90, "axis": "z", "note": "x" * 100}
ENDLESS = 600.0
FAN_ADDED = 200
"""So many of the jobs in the middle of a fan are added one by one, to be measured."""


class Queue(Protocol):
    """What is measured: a graph queue in a SQLite file, and what its file looks like."""

    path: Path
    tables: Mapping[str, Rows]
    """What is written for one job, by table."""

    def prepare(self, job_id: str, depends_on: Sequence[str]) -> Any:
        """What ``add`` takes; made before the clock starts."""

    def add(self, job: Any) -> None:
        """``add_job``."""

    def take(self) -> str | None:
        """``get_job``: the id of the job, None where there is none just now."""

    def end(self, job_id: str, *, ok: bool) -> None:
        """``update_job_status`` with SUCCESS or ERROR."""

    def number(self, job_id: str) -> int:
        """The place of a job in the order in which they were added."""

    def failed(self) -> int:
        """How many jobs have failed."""

    def close(self) -> None:
        """Let go of the file."""


class Cost(NamedTuple):
    """What a call has cost, in microseconds, and of how many calls that is the mean."""

    calls: int
    wall: float
    cpu: float


def median(costs: Sequence[Cost]) -> Cost:
    """Of several rounds; ``calls`` of the shortest one."""
    wall = statistics.median(cost.wall for cost in costs)
    cpu = statistics.median(cost.cpu for cost in costs)
    return Cost(min(cost.calls for cost in costs), wall, cpu)


def new_id() -> str:
    """What pyantz gives a job that was given none."""
    return str(uuid.uuid4())


def timed(call: Callable[[T], object], items: Sequence[T], seconds: float = ENDLESS) -> Cost:
    """Call it with each of the items; after so many seconds the rest is left out."""
    done = 0
    cpu, begun = time.process_time(), time.perf_counter()
    deadline = begun + seconds
    for item in items:
        call(item)
        done += 1
        if time.perf_counter() > deadline:
            break
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    return Cost(done, wall / done * 1e6, cpu / done * 1e6)


class Scene:
    """A queue with ``size`` jobs in one state, and a round of calls that leaves it so."""

    def __init__(self, queue: Queue, size: int) -> None:
        self.queue = queue
        self.fill(size)

    def fill(self, size: int) -> None:
        """Bring so many jobs into that state."""
        raise NotImplementedError

    def round(self, calls: int, seconds: float = ENDLESS) -> dict[str, Cost]:
        """Add as many jobs, then take and end as many; no step for longer than so many seconds."""
        return self._both(self._jobs([()] * calls), seconds)

    def _both(self, jobs: list[Any], seconds: float) -> dict[str, Cost]:
        added = timed(self.queue.add, jobs, seconds)
        worked = timed(self._work, range(added.calls), seconds)
        return {"add": added, "work": worked}

    def _jobs(self, depends_on: Sequence[Sequence[str]]) -> list[Any]:
        return [self.queue.prepare(new_id(), needed) for needed in depends_on]

    def _work(self, _: int) -> None:
        taken = self.queue.take()
        assert taken is not None
        self.queue.end(taken, ok=True)

    def add(self, *depends_on: str) -> str:
        """One job; its id."""
        made = new_id()
        self.queue.add(self.queue.prepare(made, depends_on))
        return made

    def add_running(self) -> str:
        """A job that is taken at once: nothing else may be ready."""
        made = self.add()
        assert self.queue.take() == made
        return made

    def multiply(
        self, job_id: str, copies: int, *, depends_on: str = "", in_chain: bool = False
    ) -> None:
        """As many jobs more like this one, the last that was added."""
        if copies > 0:
            source = Source(job_id, self.queue.number(job_id), depends_on)
            graph_filling.multiply(
                self.queue.path, self.queue.tables, source, copies, in_chain=in_chain
            )


class Ready(Scene):
    """So many are ready, in front of those that are added."""

    def fill(self, size: int) -> None:
        """All like the first one."""
        self.multiply(self.add(), size - 1)


class Finished(Scene):
    """So many are done, and nothing else is there."""

    def fill(self, size: int) -> None:
        """All like the first one."""
        done = self.add_running()
        self.queue.end(done, ok=True)
        self.multiply(done, size - 1)


class Waiting(Scene):
    """So many wait for one that runs, and those that are added for another one."""

    def fill(self, size: int) -> None:
        """All like the first one."""
        gate = self.add_running()
        self.multiply(self.add(gate), size - 1, depends_on=gate)

    def round(self, calls: int, seconds: float = ENDLESS) -> dict[str, Cost]:
        """What is added waits; before it is taken, all of it becomes ready at once.

        ``poll``: asking for a job while there is none.
        """
        opener = self.add_running()
        polled = timed(self._poll, range(calls // 10), seconds)
        added = timed(self.queue.add, self._jobs([(opener,)] * calls), seconds)
        self.queue.end(opener, ok=True)
        worked = timed(self._work, range(added.calls), seconds)
        for left in range(added.calls - worked.calls):
            self._work(left)
        return {"add": added, "work": worked, "poll": polled}

    def _poll(self, _: int) -> None:
        assert self.queue.take() is None


class Chain(Scene):
    """So many in a chain: each end makes the next one ready, each new one goes to the tail."""

    def fill(self, size: int) -> None:
        """The second one is multiplied, each copy behind the one before."""
        self.head = self.add()
        second = self.add(self.head)
        copies = size - 3
        self.multiply(second, copies, depends_on=self.head, in_chain=True)
        self.tail = self.add(graph_filling.job_id(copies))

    def round(self, calls: int, seconds: float = ENDLESS) -> dict[str, Cost]:
        """As many at the tail as from the head."""
        ids = [self.tail, *(new_id() for _ in range(calls))]
        jobs = [self.queue.prepare(job_id, (before,)) for before, job_id in pairwise(ids)]
        found = self._both(jobs, seconds)
        self.tail = ids[found["add"].calls]
        return found


class Fan(Scene):
    """One, then so many at once, then one that waits for all of these."""

    def fill(self, size: int) -> None:
        """All but the last few of those in the middle."""
        self.root = self.add()
        first = self.add(self.root)
        copies = size - 1 - FAN_ADDED
        self.multiply(first, copies, depends_on=self.root)
        self.middle = [first, *(graph_filling.job_id(n) for n in range(1, copies + 1))]

    def round(self, calls: int, seconds: float = ENDLESS) -> dict[str, Cost]:
        """Once: add the others and the last one, open the fan, and drain it (but ``calls``)."""
        ids = [new_id() for _ in range(FAN_ADDED)]
        jobs = [self.queue.prepare(job_id, (self.root,)) for job_id in ids]
        added = timed(self.queue.add, jobs)
        last = [self.queue.prepare(new_id(), [*self.middle, *ids])]
        joined = timed(self.queue.add, last)
        opened = timed(self._work, range(1))
        left = len(self.middle) + len(ids) + 1
        drained = timed(self._work, range(min(calls, left)), seconds)
        if drained.calls == left:
            assert self.queue.take() is None
        return {"add": added, "join": joined, "open": opened, "drain": drained}


class FailedChain(Chain):
    """A chain whose head fails."""

    def round(self, calls: int, seconds: float = ENDLESS) -> dict[str, Cost]:
        """Once: ``fail`` counts those that had failed when the call returned.

        ``poll`` is what the rest took in all by asking for jobs again and again, as far as that
        went, and how many failed so; a queue that settles its graph at once has none.
        """
        head = self.queue.take()
        assert head == self.head
        ended = timed(lambda job_id: self.queue.end(job_id, ok=False), [head])
        failed = self.queue.failed()
        found = {"fail": ended._replace(calls=failed)}
        if failed < calls:
            polled = timed(lambda _: self.queue.take(), range(calls), seconds)
            settled, whole = self.queue.failed() - failed, polled.wall * polled.calls
            found["poll"] = Cost(settled, whole, polled.cpu * polled.calls)
        return found


SCENES: dict[str, type[Scene]] = {
    "ready": Ready,
    "waiting": Waiting,
    "chain": Chain,
    "finished": Finished,
    "fan": Fan,
    "failed chain": FailedChain,
}
