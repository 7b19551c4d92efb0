"""What a request costs over HTTP as the queue grows: backlog, history, rooms, jobs of a worker.

Run: python benchmarks/http_scale.py [--quick] [--json]
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import fill
import rawhttp
import report
import servers
import sites
from fill import Backlog
from report import Row
from sites import Site

ROUNDS, QUICK_ROUNDS = 25, 4
WARM_UP = 2  # rounds that are not counted
REQUESTS, QUICK_REQUESTS = 40, 20  # of each kind, in a round
STEP_SECONDS = 20.0
QUICK_MOST = 100_000
BAR, BAR_OF_JOBS = 1.15, 1.35
BASE = "/v1/joblib"
ANY = "status of any pending task"
STEPS = ("submit", "status", ANY, "claim", "heartbeat", "report")
"""In the order of a task's life: after each round as much is pending as before it."""

FILES = {
    "1k pending": Backlog(1_000),
    "100k pending": Backlog(100_000),
    "1M pending": Backlog(1_000_000),
    "1M finished, 1k pending": Backlog(1_000, finished=1_000_000),
    "1,000 rooms, 100k pending": Backlog(100_000, rooms=1_000),
    "100 jobs, 1k pending": Backlog(1_000, jobs=100),
    "100 jobs, 1M pending": Backlog(1_000_000, jobs=100),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A site beside a smaller one."""

    what: str
    large: str
    small: str
    steps: tuple[str, ...] = STEPS
    bar: float = BAR


COMPARISONS = (
    Comparison("100k pending", "100k pending", "1k pending"),
    Comparison("1M pending", "1M pending", "1k pending"),
    Comparison("1M finished", "1M finished, 1k pending", "1k pending"),
    Comparison("1,000 rooms", "1,000 rooms, 100k pending", "100k pending"),
    Comparison(
        "worker of 100 jobs, 1M pending",
        "100 jobs, 1M pending",
        "100 jobs, 1k pending",
        ("claim",),
        BAR_OF_JOBS,
    ),
)


@dataclass(slots=True)
class Lives:
    """What has become of one site's tasks: how many were claimed, and what was submitted."""

    backlog: Backlog
    claimed: int = 0
    submitted: list[str] = field(default_factory=list)

    def any_pending(self) -> str:
        """The id of any task that still waits; the oldest were claimed first."""
        number = random.randrange(self.claimed, self.backlog.pending + len(self.submitted))
        if number < self.backlog.pending:
            return fill.task_id(self.backlog.finished + 1 + number)
        return self.submitted[number - self.backlog.pending]


def measure(*, quick: bool = False) -> list[Row]:
    """Every kind of request at every size, beside the same at the small size."""
    rounds, count = (QUICK_ROUNDS, QUICK_REQUESTS) if quick else (ROUNDS, REQUESTS)
    with sites.serve_all(sized(FILES, quick=quick)) as asked:
        lives = {name: Lives(site.backlog) for name, site in asked.items()}
        for number in range(WARM_UP + rounds):
            if number == WARM_UP:
                sites.forget_costs(asked)
            _live_through(asked, lives, count)
        return [row for comparison in COMPARISONS for row in _rows(comparison, asked)]


def sized(files: Mapping[str, Backlog], *, quick: bool) -> dict[str, Backlog]:
    """The sizes as they are named; quick: none beyond a hundred thousand."""
    if not quick:
        return dict(files)
    return {
        name: replace(
            backlog,
            pending=min(backlog.pending, QUICK_MOST),
            finished=min(backlog.finished, QUICK_MOST),
        )
        for name, backlog in files.items()
    }


def _live_through(asked: Mapping[str, Site], lives: Mapping[str, Lives], count: int) -> None:
    """So many tasks of each site, from their submission to their report."""

    def ask(step: str, requests: Callable[[str], list[bytes]]) -> dict[str, list[Any]]:
        each = {name: requests(name) for name in asked}
        return sites.ask(step, each, asked, seconds=STEP_SECONDS)

    beat = _request("PATCH", f"{BASE}/workers/{fill.ADMIN.identity}")
    claim = _request("POST", f"{BASE}/tasks/claim", {"start": True})
    submitted = ask("submit", lambda name: _submissions(asked[name].backlog, count))
    for name, tasks in submitted.items():
        lives[name].submitted += [task["id"] for task in tasks]
    ask("status", lambda name: [_get(task["id"]) for task in submitted[name]])
    ask(ANY, lambda name: [_get(lives[name].any_pending()) for _ in range(count)])
    claimed = ask("claim", lambda _: [claim] * count)
    for name, answers in claimed.items():
        lives[name].claimed += len(answers)
    ask("heartbeat", lambda _: [beat] * count)
    ask("report", lambda name: [_report(answer["task"]) for answer in claimed[name]])


def _submissions(backlog: Backlog, count: int) -> list[bytes]:
    return [_submission(backlog, number) for number in range(count)]


def _submission(backlog: Backlog, number: int) -> bytes:
    where = fill.room(number % backlog.rooms)
    what = fill.job(number % backlog.jobs)
    body = {"payload": {"angle": number, "axis": "z", "note": "what a user interface sends"}}
    return _request("POST", f"{BASE}/rooms/{where}/tasks/{what}", body)


def _get(task_id: str) -> bytes:
    return _request("GET", f"{BASE}/tasks/{task_id}")


def _report(task: dict[str, Any]) -> bytes:
    body = {"status": "completed", "attempt": task["attempt"], "result": {"ok": True}}
    return _request("PATCH", f"{BASE}/tasks/{task['id']}", body)


def _request(method: str, path: str, body: object = None) -> bytes:
    return rawhttp.request(method, path, body, token=servers.token())


def _rows(comparison: Comparison, asked: Mapping[str, Site]) -> Iterator[Row]:
    for step in comparison.steps:
        yield from sites.rows(
            comparison.what,
            step,
            asked[comparison.large],
            asked[comparison.small],
            against=comparison.small,
            bar=comparison.bar,
            note="",
        )


if __name__ == "__main__":
    report.command(measure, __doc__)
