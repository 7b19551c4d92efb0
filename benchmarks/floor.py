"""Our hot requests beside the floor, in turn: submit, claim + complete, and both in one request.

Run: python benchmarks/floor.py [--quick] [--json]
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import fill
import load
import rawhttp
import report
import servers
from report import Row
from servers import Server

CONNECTIONS = (1, 8, 64)
SECONDS, ROUNDS, PENDING = 3, 3, 400_000
QUICK_SECONDS, QUICK_ROUNDS, QUICK_PENDING = 1, 1, 60_000
BARS = {64: 0.50}
"""Of the floor, at so many connections; with fewer each request waits for a disk of its own."""
BAR_NORMAL = 0.45
SUBMIT = f"/v1/joblib/rooms/{fill.room(0)}/tasks/{fill.job(0)}"
AGAINST = "no-op Starlette"


@dataclass(frozen=True, slots=True)
class Case:
    """A load on ours, beside as many requests that do nothing (which answer nothing to go by)."""

    what: str
    script: str
    path: str = "/"


SUBMITTING = Case("submit", "submit", SUBMIT)
CLAIMING = (
    Case("claim + complete, two requests", "claim_and_complete"),
    Case("complete and claim next, one request", "fused"),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """Medians of the rounds of one load on one server."""

    per_second: float
    cpu_us: float


def measure(*, quick: bool = False) -> list[Row]:
    """Medians of interleaved rounds, each floor beside ours under the same load."""
    pending = QUICK_PENDING if quick else PENDING
    with servers.serve_floor() as floor:
        with serve_filled(1_000) as ours:
            rows = _rows(SUBMITTING, ours, floor, quick=quick)
        with serve_filled(1_000, synchronous="NORMAL") as ours:
            rows.append(_at_normal(ours, floor, quick=quick))
        with serve_filled(pending) as ours:
            for case in CLAIMING:
                rows += _rows(case, ours, floor, quick=quick)
            check_not_empty(ours)
    return rows


@contextmanager
def serve_filled(pending: int, *, synchronous: str = "FULL") -> Iterator[Server]:
    """Our server on a file with so many pending tasks of the job that is submitted to."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        file = Path(folder) / "queue.db"
        fill.fill(file, fill.Backlog(pending, workers=max(CONNECTIONS)))
        yield stack.enter_context(servers.serve_jobroom(synchronous=synchronous, file=file))


def workers_of(ours: Server) -> list[str]:
    """The instance workers that serve the job: one for each connection that claims."""
    with rawhttp.Connection(ours.port) as connection:
        asked = rawhttp.request("GET", "/v1/joblib/workers?limit=500", token=servers.token())
        found = [worker["id"] for worker in connection.call(asked)["items"]]
    return [worker for worker in found if worker != fill.ADMIN.identity]


def check_not_empty(ours: Server) -> None:
    """A queue that ran dry answered claims that claimed nothing: no figure at all."""
    with rawhttp.Connection(ours.port) as connection:
        claim = rawhttp.request("POST", "/v1/joblib/tasks/claim", {}, token=servers.token())
        assert connection.call(claim)["task"], "the queue ran dry; fill it with more"


def counted(connections: int) -> str:
    """The number in words that a table can use."""
    return "1 connection" if connections == 1 else f"{connections} connections"


def _compare(
    case: Case, ours: Server, floor: Server, connections: Sequence[int], *, quick: bool
) -> dict[int, tuple[Figure, Figure]]:
    """Ours and the floor at each number of connections, all of them in each round."""
    workers = workers_of(ours)
    found: dict[int, list[tuple[Figure, Figure]]] = {count: [] for count in connections}
    for _ in range(QUICK_ROUNDS if quick else ROUNDS):
        for count, rounds in found.items():
            beside = _load(floor, "submit", case.path, count, [], quick=quick)
            mine = _load(ours, case.script, case.path, count, workers, quick=quick)
            rounds.append((mine, beside))
    return {
        count: (_median([mine for mine, _ in rounds]), _median([beside for _, beside in rounds]))
        for count, rounds in found.items()
    }


def _rows(case: Case, ours: Server, floor: Server, *, quick: bool) -> list[Row]:
    rows = []
    before: tuple[int, Figure] | None = None
    for count, pair in _compare(case, ours, floor, CONNECTIONS, quick=quick).items():
        rows.append(_ratio(f"{case.what}, {counted(count)}", *pair, BARS.get(count)))
        if before is not None:
            rows.append(_growth(case.what, count, pair[0], *before))
        before = count, pair[0]
    return rows


def _at_normal(ours: Server, floor: Server, *, quick: bool) -> Row:
    pair = _compare(SUBMITTING, ours, floor, (1,), quick=quick)[1]
    return _ratio("submit, synchronous=NORMAL, 1 connection", *pair, BAR_NORMAL)


def _load(
    server: Server, script: str, path: str, connections: int, workers: list[str], *, quick: bool
) -> Figure:
    before = server.cpu_seconds
    done = load.run(
        f"{server}{path}",
        script=script,
        token=servers.token(),
        connections=connections,
        workers=workers,
        seconds=QUICK_SECONDS if quick else SECONDS,
    )
    if done.errors:
        raise SystemExit(f"{script}: {done.errors} of {done.requests} answers were errors")
    return Figure(done.per_second, (server.cpu_seconds - before) / done.requests * 1e6)


def _median(figures: list[Figure]) -> Figure:
    return Figure(
        statistics.median(figure.per_second for figure in figures),
        statistics.median(figure.cpu_us for figure in figures),
    )


def _ratio(what: str, mine: Figure, beside: Figure, bar: float | None) -> Row:
    ratio = mine.per_second / beside.per_second
    share = beside.cpu_us / mine.cpu_us
    cpu = f"CPU {mine.cpu_us:.0f} us a request, the floor {beside.cpu_us:.0f}: {share:.2f}"
    return Row(
        what, mine.per_second, beside.per_second, AGAINST, "req/s", ratio, bar=bar, reason=cpu
    )


def _growth(what: str, connections: int, mine: Figure, fewer: int, before: Figure) -> Row:
    return Row(
        f"{what}: never slower with {counted(connections)}",
        mine.per_second,
        before.per_second,
        f"ours with {fewer}",
        "req/s",
        mine.per_second / before.per_second,
        bar=1.0,
    )


if __name__ == "__main__":
    report.command(measure, __doc__)
