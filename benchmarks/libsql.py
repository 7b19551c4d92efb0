"""The queue in a libSQL server: what is billed, and its speed beside a bare Hrana request.

Run: python benchmarks/libsql.py [--quick] [--json]

One real sqld on loopback. *Costs*: requests, and the rows that the server says it read and wrote,
per operation. *Latency*: one use case after the other, beside one bare statement by the same
client. *Throughput*: our HTTP server under 1, 8 and 64 connections, as far from sqld as a proxy
makes it, beside bare INSERTs by two connections: more writers than that stop sqld for good.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import fill
import floor
import load
import real_servers
import report
import servers
from fill import ADMIN, Backlog
from report import Row

from jobroom.service import claiming, reading, registration, reporting, submission
from jobroom.service import workers as crew
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store.hrana.http import HranaHttp
from jobroom.store.hrana.transport import Step

SIZES = (1_000, 100_000)
CONNECTIONS = (1, 8, 64)
STORE_CONNECTIONS = (8, 64)
DELAYS_MS, QUICK_DELAYS_MS = (0, 5, 20), (0, 20)
SECONDS, ROUNDS = 2, 3
QUICK_SECONDS, QUICK_ROUNDS = 1, 1
CALLS, QUICK_CALLS = 40, 10  # of each operation in each round of the latencies
LATENCY_ROUNDS, QUICK_LATENCY_ROUNDS = 7, 2
MOST_GROWTH = 1.0
BARE_WRITERS = 2
BARE_TABLE = (
    "CREATE TABLE bare (seq INTEGER PRIMARY KEY, status TEXT NOT NULL, payload TEXT NOT NULL)",
    "CREATE INDEX ix_bare ON bare (seq) WHERE status = 'pending'",
)
BARE = {
    "SELECT 1": Step("SELECT 1"),
    "INSERT": Step("INSERT INTO bare (status, payload) VALUES ('pending', ?)", (fill.PAYLOAD,)),
    "UPDATE": Step(
        "UPDATE bare SET status = 'running' WHERE seq = (SELECT seq FROM bare"
        " WHERE status = 'pending' ORDER BY seq LIMIT 1) RETURNING seq, payload"
    ),
}
BESIDE = {
    "submit": "INSERT",
    "claim and start": "UPDATE",
    "complete": "UPDATE",
    "heartbeat": "UPDATE",
    "status": "SELECT 1",
}
"""The operations of the latencies, and the bare statement that stands beside each."""


def measure(*, quick: bool = False) -> list[Row]:
    """Costs, latencies, throughput."""
    return [*_costs(quick=quick), *_latencies(quick=quick), *_throughput(quick=quick)]


@contextmanager
def _open(backlog: Backlog) -> Iterator[tuple[Any, JobQueue]]:
    """A server with a backlog, and a queue on it."""
    with real_servers.sqld() as server:
        server.start()
        settings = JobLibSettings(database_url=real_servers.migrated(server.url))
        with JobQueue.open(settings) as queue:
            fill.fill_remote(queue, backlog)
            yield server, queue


class _Hands:
    """The operations, as an embedding program calls them; the held task goes through its life."""

    def __init__(self, queue: JobQueue) -> None:
        self.run = queue.run
        self._job = self.run(
            registration.find_job, caller=ADMIN, room_id=fill.room(0), full_name=fill.job(0)
        )
        self._held = self._claim()
        self.steps: dict[str, Callable[[], object]] = {
            "submit": self._submit,
            "claim and start": self._claim,
            "status": self._status,
            "progress": lambda: self._report(progress=0.5),
            "heartbeat": self._heartbeat,
            "complete and claim next": self._complete_and_claim,
            "complete": lambda: self._report("completed", result='{"ok": true}'),
        }

    def _submit(self) -> None:
        new = submission.NewTask(fill.PAYLOAD)
        made = self.run(
            submission.submit_task, caller=ADMIN, room_id=fill.room(0), job=self._job, new=new
        )
        assert made is not None

    def _claim(self) -> Any:
        self._held = self.run(claiming.claim_tasks, caller=ADMIN, start=True)[0].task
        return self._held

    def _status(self) -> None:
        self.run(reading.get_task, caller=ADMIN, task_id=self._held.id)

    def _heartbeat(self) -> None:
        self.run(crew.heartbeat, caller=ADMIN, worker_id=ADMIN.identity)

    def _complete_and_claim(self) -> None:
        done = self._report("completed", claim_next=True)
        assert done.next_task is not None
        self._held = done.next_task.task

    def _report(self, status: str | None = None, **said: Any) -> Any:
        report = reporting.Report(status, attempt=self._held.attempt, **said)
        return self.run(reporting.report, caller=ADMIN, task_id=self._held.id, report=report)


class _Cost(NamedTuple):
    """What one operation took, as the transport and the server count."""

    requests: int
    read: int
    written: int


def _costs(*, quick: bool) -> list[Row]:
    """Each operation once, with few and with many tasks that wait."""
    small, large = SIZES
    many = 20_000 if quick else large
    few_costs, many_costs = _costs_at(small), _costs_at(many)
    rows = []
    for step, mine in many_costs.items():
        few = few_costs[step]
        for name, ours, beside in zip(("read", "written"), mine[1:], few[1:], strict=True):
            what = f"libSQL {step}, {many:,} pending: rows {name}"
            ratio = ours / beside if beside else float(ours == 0)
            note = f"{mine.requests} request{'s' if mine.requests > 1 else ''}"
            rows.append(
                Row(
                    what,
                    ours,
                    beside,
                    f"ours with {small:,} pending",
                    "rows",
                    ratio,
                    MOST_GROWTH,
                    at_most=True,
                    reason=note,
                )
            )
    return [*rows, *_bill(many_costs)]


def _costs_at(pending: int) -> dict[str, _Cost]:
    with _open(Backlog(pending)) as (_, queue):
        hands = _Hands(queue)
        counters = queue.database.transport.counters
        found = {}
        for step, call in hands.steps.items():
            before = _Cost(counters.requests, counters.rows_read, counters.rows_written)
            call()
            after = _Cost(counters.requests, counters.rows_read, counters.rows_written)
            found[step] = _Cost(*(new - old for new, old in zip(after, before, strict=True)))
        return found


def _bill(costs: dict[str, _Cost]) -> list[Row]:
    """What 1,000 tasks come to where rows are billed, by two ways to work."""
    each = ("submit", "claim and start", "complete")
    fused = ("submit", "complete and claim next")
    rows = []
    for place, name in ((1, "read"), (2, "written")):
        apart, together = (1_000 * sum(costs[step][place] for step in way) for way in (each, fused))
        beside = "submit, complete and claim next"
        what = f"libSQL, 1,000 tasks by submit, claim, complete: rows {name}"
        rows.append(Row(what, apart, together, beside, "rows", apart / together))
    return rows


def _latencies(*, quick: bool) -> list[Row]:
    """One call after the other, a few of each in turn with bare requests by the same client."""
    rounds, calls = (QUICK_LATENCY_ROUNDS, QUICK_CALLS) if quick else (LATENCY_ROUNDS, CALLS)
    times: dict[str, list[float]] = {}
    with _open(Backlog(SIZES[0])) as (server, queue):
        bare = HranaHttp(server.url, None)
        _make_bare(bare)
        hands = _Hands(queue)
        steps: dict[str, Callable[[], object]] = {name: _bare_call(bare, name) for name in BARE} | {
            name: hands.steps[name] for name in BESIDE
        }
        for number in range(rounds):
            for _ in range(calls):
                for name, call in steps.items():
                    begun = time.perf_counter()
                    call()
                    if number:
                        times.setdefault(name, []).append(1e6 * (time.perf_counter() - begun))
        bare.close()
    middle = {name: statistics.median(found) for name, found in times.items()}
    return [
        Row(
            f"libSQL {step}, one after the other: latency",
            middle[step],
            middle[beside],
            f"bare Hrana {beside}",
            "us",
            middle[step] / middle[beside],
        )
        for step, beside in BESIDE.items()
    ]


def _make_bare(bare: HranaHttp) -> None:
    for statement in BARE_TABLE:
        bare.batch([Step(statement)], write=True)


def _bare_call(bare: HranaHttp, name: str) -> Callable[[], object]:
    return lambda: bare.batch([BARE[name]], write=name != "SELECT 1")


def _throughput(*, quick: bool) -> list[Row]:
    """Our server near and far from the store."""
    rows = []
    backlog = Backlog(20_000 if quick else 100_000, workers=max(CONNECTIONS))
    with _open(backlog) as (server, queue):
        bare = HranaHttp(server.url, None)
        _make_bare(bare)
        bare.close()
        workers = [view.worker.id for view in _instances(queue)]
        for delay in QUICK_DELAYS_MS if quick else DELAYS_MS:
            with ExitStack() as stack:
                proxy = stack.enter_context(real_servers.proxy(server.port, delay=delay / 1000))
                ours = {
                    count: stack.enter_context(
                        servers.serve_jobroom(url=proxy.url, store_connections=count)
                    )
                    for count in STORE_CONNECTIONS
                }
                rows += _rows_at(delay, proxy, ours, workers, quick=quick)
    return rows


def _instances(queue: JobQueue) -> list[Any]:
    found, _ = queue.run(crew.list_workers, caller=ADMIN, limit=500)
    return [view for view in found if view.worker.kind == "instance"]


class _Rate(NamedTuple):
    """Requests a second, and how many of them one request to the store served."""

    per_second: float
    per_request: float


def _rows_at(
    delay: int, proxy: Any, ours: dict[int, servers.Server], workers: list[str], *, quick: bool
) -> list[Row]:
    seconds = QUICK_SECONDS if quick else SECONDS
    loads: dict[tuple[str, int, int], Callable[[], _Rate]] = {
        ("bare", BARE_WRITERS, 0): _load(
            proxy,
            f"{proxy.url}/v2/pipeline",
            script="hrana",
            connections=BARE_WRITERS,
            workers=(),
            seconds=seconds,
        )
    }
    for threads, server in ours.items():
        for count in CONNECTIONS:
            for script, path in (("submit", floor.SUBMIT), ("claim_and_complete", "/")):
                loads[script, count, threads] = _load(
                    proxy,
                    f"{server}{path}",
                    script=script,
                    connections=count,
                    workers=workers,
                    seconds=seconds,
                )
    found: dict[tuple[str, int, int], list[_Rate]] = {key: [] for key in loads}
    for _ in range(QUICK_ROUNDS if quick else ROUNDS):
        for key in random.sample(list(loads), len(loads)):
            found[key].append(loads[key]())
    middle = {
        key: _Rate(*(statistics.median(figures) for figures in zip(*rates, strict=True)))
        for key, rates in found.items()
    }
    beside = middle["bare", BARE_WRITERS, 0].per_second
    return [
        Row(
            f"libSQL {SAID[script]} over HTTP, {floor.counted(count)}, {threads} to the store,"
            f" {delay} ms away",
            rate.per_second,
            beside,
            f"bare Hrana INSERTs, {BARE_WRITERS} connections",
            "req/s",
            rate.per_second / beside,
            reason=f"{rate.per_request:.1f} of them in one request to the store",
        )
        for (script, count, threads), rate in middle.items()
        if script != "bare"
    ]


SAID = {"submit": "submit", "claim_and_complete": "claim + complete (two requests)"}


def _load(proxy: Any, url: str, **said: Any) -> Callable[[], _Rate]:
    def send() -> _Rate:
        before = proxy.requests
        done = load.run(url, token=servers.token(ADMIN.identity), **said)
        if done.errors:
            raise SystemExit(f"{url}: {done.errors} of {done.requests} answers were errors")
        return _Rate(done.per_second, done.requests / max(1, proxy.requests - before))

    return send


if __name__ == "__main__":
    report.command(measure, __doc__)
