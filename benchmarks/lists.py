"""What lists cost over HTTP as the queue grows: rooms, jobs, filters, cursors, offsets, totals.

Run: python benchmarks/lists.py [--quick] [--json]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import fill
import http_scale
import rawhttp
import report
import servers
import sites
from fill import Backlog
from report import Row
from sites import Site

ROUNDS, QUICK_ROUNDS = 12, 2
REQUESTS = 10  # of each kind, in a round
STEP_SECONDS = 1.5  # of each kind, in a round: a list that scans everything is not asked for more
BAR = 1.15
BASE = "/v1/joblib"
TASKS = f"{BASE}/rooms/{fill.room(0)}/tasks"

FILES = {
    "1k": Backlog(1_000, finished=100, jobs=5, workers=100),
    "100k": Backlog(100_000, finished=10_000, jobs=5, workers=100),
    "1M": Backlog(1_000_000, finished=100_000, jobs=5, workers=100),
}


FEWER = "fewer wait there than a place in the queue is counted to, 1,000"
COUNTED = "the smaller list is shorter than what a total counts, 10,000"


@dataclass(frozen=True, slots=True)
class Listing:
    """One kind of list. ``{middle}`` in its path is half of what is pending.

    ``at``: it goes on by the cursor that this path gives. ``small``: why it must cost less where
    there are 1k tasks; none where it need not. ``grows``: it cannot be flat, and why.
    """

    kind: str
    path: str
    at: str = ""
    small: str = COUNTED
    grows: str = ""


LISTINGS = (
    Listing("room's tasks", TASKS),
    Listing("room's tasks, total alone", f"{TASKS}?limit=0"),
    Listing("job's tasks", f"{BASE}/rooms/{fill.room(0)}/jobs/{fill.job(1)}/tasks"),
    Listing("tasks by status, pending", f"{TASKS}?status=pending"),
    Listing("tasks by status, completed", f"{TASKS}?status=completed"),
    Listing("tasks by creator of a tenth", f"{TASKS}?created_by_id=user3"),
    Listing("tasks by creator of 60", f"{TASKS}?created_by_id={fill.RARE}", small=FEWER),
    Listing("cursor in the middle", TASKS, at=f"{TASKS}?limit=1&offset={{middle}}"),
    Listing("offset 500", f"{TASKS}?offset=500"),
    Listing(
        "offset in the middle",
        f"{TASKS}?offset={{middle}}",
        grows="an offset is counted through; a cursor is not",
    ),
    Listing(
        "queue position of the last task",
        f"{BASE}/tasks/{{last}}",
        small=FEWER,
    ),
    Listing("workers", f"{BASE}/workers", small=""),
    Listing("room's workers", f"{BASE}/rooms/{fill.room(0)}/workers", small=""),
    Listing("room's jobs", f"{BASE}/rooms/{fill.room(0)}/jobs", small=""),
)


def measure(*, quick: bool = False) -> list[Row]:
    """Each kind of list at each size, beside the next smaller size."""
    with sites.serve_all(http_scale.sized(FILES, quick=quick)) as asked:
        requests = {
            listing.kind: {
                name: [_request(listing, site)] * REQUESTS for name, site in asked.items()
            }
            for listing in LISTINGS
        }
        for number in range(1 + (QUICK_ROUNDS if quick else ROUNDS)):
            for kind, queued in requests.items():
                sites.ask(kind, queued, asked, seconds=STEP_SECONDS)
            if number == 0:
                sites.forget_costs(asked)
        return [row for listing in LISTINGS for row in _rows(listing, asked)]


def _request(listing: Listing, site: Site) -> bytes:
    path = _path(listing.path, site.backlog)
    if listing.at:
        found = site.connection.call(_get(_path(listing.at, site.backlog)))
        path = f"{path}?cursor={found['next_cursor']}"
    return _get(path)


def _path(path: str, backlog: Backlog) -> str:
    last = fill.task_id(backlog.finished + backlog.pending)
    return path.format(middle=backlog.pending // 2, last=last)


def _get(path: str) -> bytes:
    return rawhttp.request("GET", path, token=servers.token())


def _rows(listing: Listing, asked: Mapping[str, Site]) -> list[Row]:
    rows = []
    for large, small, reason in (
        ("100k", "1k", listing.grows or listing.small),
        ("1M", "100k", listing.grows),
    ):
        rows += sites.rows(
            large,
            listing.kind,
            asked[large],
            asked[small],
            against=small,
            bar=None if reason else BAR,
            note=reason,
        )
    return rows


if __name__ == "__main__":
    report.command(measure, __doc__)
