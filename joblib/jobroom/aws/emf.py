"""Metrics for CloudWatch: one JSON line on stdout, from which its log agent takes the numbers.

The embedded metric format costs no call: a function prints, and is done.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

from jobroom.service import gauging

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobroom.domain.records import SweepReport
    from jobroom.http.door import Door
    from jobroom.http.traffic import Traffic
    from jobroom.service.counting import Counts, Histogram
    from jobroom.service.gauging import Backlog
    from jobroom.service.queue import JobQueue

log = logging.getLogger("jobroom")

MOST_BACKLOGS = 25
"""So many pairs of room and job are told in a sweep, the oldest first: each costs two metrics."""
MOST_METRICS = 100
LONGEST_DIMENSION = 1024
CLIENT_ERRORS, SERVER_ERRORS = 400, 500

_UNITS = {"OldestPendingSeconds": "Seconds", "QueueSeconds": "Seconds", "WaitSeconds": "Seconds"}
_SPANS = ("QueueSeconds", "WaitSeconds")
_COUNT = " in all"
_SWEPT = {
    "lost_workers": "LostWorkers",
    "requeued_tasks": "SweptRequeued",
    "failed_tasks": "SweptFailed",
    "timed_out_tasks": "TimedOut",
    "expired_tasks": "Expired",
    "hidden_jobs": "HiddenJobs",
    "stuck_tasks": "StuckTasks",
    "removed_tasks": "Removed",
    "fired_schedules": "FiredSchedules",
}


class Reporter:
    """Prints what has happened since it last did; one for each process."""

    def __init__(self, namespace: str, stream: TextIO | None = None) -> None:
        self._namespace = namespace
        self._stream = stream
        self._told: dict[str, float] = {}

    def flush(self, door: Door) -> None:
        """At the end of an invocation: what requests did since the last one; never raises."""
        try:
            self._tell({**_of_tasks(door.counts), **_of_requests(door.traffic)})
        except Exception:
            log.exception("metrics.failed")

    def flush_sweep(self, queue: JobQueue, report: SweepReport) -> None:
        """At the end of a sweep: what it did, and how much waits; never raises."""
        try:
            gauges = queue.run(gauging.read_gauges)
            done = report._asdict()
            swept = {told: done[name] for name, told in _SWEPT.items() if done[name]}
            self._tell(
                _of_tasks(queue.counts),
                {
                    "Sweeps": 1,
                    "Pending": gauges.pending,
                    "Delayed": gauges.delayed,
                    "Blocked": gauges.blocked,
                    "Held": gauges.held,
                    "OldestPendingSeconds": gauges.oldest_seconds,
                    **swept,
                },
            )
            for backlog in _oldest(gauges.backlogs):
                self._print(
                    {"Pending": backlog.pending, "OldestPendingSeconds": backlog.oldest_seconds},
                    {"Room": backlog.room_id, "Job": backlog.job_name},
                )
        except Exception:
            log.exception("metrics.failed")

    def _tell(self, so_far: Mapping[str, float], now: Mapping[str, float] | None = None) -> None:
        """Print by how much the totals have grown, and what is to be told as it is."""
        news = {name: total - self._told.get(name, 0) for name, total in so_far.items()}
        self._told.update(so_far)
        for name in _SPANS:
            count, seconds = news.pop(name + _COUNT, 0), news.pop(name, 0)
            if count:
                news[name] = seconds / count
        changed = {name: value for name, value in news.items() if value or name in _SPANS}
        self._print({**changed, **(now or {})}, {})

    def _print(self, values: Mapping[str, Any], dimensions: Mapping[str, str]) -> None:
        """One line; nothing where there is nothing to say."""
        if not values:
            return
        metrics = [{"Name": name, "Unit": _UNITS.get(name, "Count")} for name in values]
        directive = {
            "Namespace": self._namespace,
            "Dimensions": [list(dimensions)],
            "Metrics": metrics[:MOST_METRICS],
        }
        line = {
            "_aws": {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]},
            **{name: _dimension(value) for name, value in dimensions.items()},
            **values,
        }
        stream = self._stream or sys.stdout
        stream.write(json.dumps(line) + "\n")
        stream.flush()


def _of_tasks(counts: Counts) -> dict[str, float]:
    return {
        "Submitted": counts.submitted,
        "Claimed": counts.claimed,
        "EmptyClaims": counts.unserved,
        "Completed": counts.ended["completed"],
        "Failed": counts.ended["failed"],
        "Cancelled": counts.ended["cancelled"],
        "Requeued": counts.requeued,
        "StoreErrors": counts.store_errors,
        **_spans("QueueSeconds", counts.queued),
    }


def _of_requests(traffic: Traffic) -> dict[str, float]:
    told = {"Requests": 0, "ClientErrors": 0, "ServerErrors": 0}
    for (_, _, status), count in traffic.requests.items():
        told["Requests"] += count
        if status >= SERVER_ERRORS:
            told["ServerErrors"] += count
        elif status >= CLIENT_ERRORS:
            told["ClientErrors"] += count
    return {**told, **_spans("WaitSeconds", traffic.waits)}


def _spans(name: str, spans: Histogram) -> dict[str, float]:
    return {name: spans.total, name + _COUNT: spans.count}


def _oldest(backlogs: Iterable[Backlog]) -> list[Backlog]:
    waiting = [each for each in backlogs if each.oldest_seconds is not None]
    waiting.sort(key=lambda each: each.oldest_seconds or 0.0, reverse=True)
    return waiting[:MOST_BACKLOGS]


def _dimension(value: str) -> str:
    """A name as CloudWatch takes it: printable ASCII, not blank, not too long."""
    plain = value.encode("ascii", "backslashreplace").decode()
    shown = "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in plain)
    return shown[:LONGEST_DIMENSION] if shown[:LONGEST_DIMENSION].strip() else "-"
