"""A day's work in a minute as rows: what the end of it has more than the beginning.

Run: python benchmarks/growth.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from collections.abc import Callable

import day
import report
from day import Sample
from report import Row

TASKS, QUICK_TASKS = 100_000, 10_000
RETENTION_SECONDS, QUICK_RETENTION_SECONDS = 5.0, 0.5
FEWEST_SAMPLES = 4

MEASURES: tuple[tuple[str, str, Callable[[Sample], float]], ...] = (
    ("file", "MiB", lambda sample: sample.file),
    ("write-ahead log", "MiB", lambda sample: sample.log),
    ("memory of the server", "MiB", lambda sample: sample.memory),
    ("claim, median", "ms", lambda sample: sample.median),
    ("claim, p95", "ms", lambda sample: sample.p95),
)


def measure(*, quick: bool = False) -> list[Row]:
    """All of the day's tasks, and nothing that grows with their number."""
    options = argparse.Namespace(
        tasks=QUICK_TASKS if quick else TASKS,
        workers=8,
        retention=QUICK_RETENTION_SECONDS if quick else RETENTION_SECONDS,
        keys=False,
    )
    with contextlib.redirect_stdout(sys.stderr):  # its samples, as they come
        *busy, after = day.run(options)
    what = f"{options.tasks:,} tasks, 8 workers"
    speed = after.completed / busy[-1].seconds
    rows = [Row(f"{what}: speed", speed, 0, "no bar", "tasks/s", speed)]
    first = options.retention + day.SWEEP_SLACK_SECONDS
    settled = [sample for sample in busy if sample.seconds > first]
    if len(settled) >= FEWEST_SAMPLES:
        rows += [_row(what, *one, settled) for one in MEASURES]
    left = float(after.rows)
    return [*rows, Row(f"{what}: rows left", left, 0, "none", "rows", left, bar=0, at_most=True)]


def _row(
    what: str, name: str, unit: str, of: Callable[[Sample], float], settled: list[Sample]
) -> Row:
    """The last third of the samples beside the first one since the sweep has begun to remove."""
    third = len(settled) // 3 or 1
    start = statistics.median(map(of, settled[:third]))
    end = statistics.median(map(of, settled[-third:]))
    ratio = end / start if start else 1.0
    return Row(
        f"{what}: {name} at the end",
        end,
        start,
        "in the beginning",
        unit,
        ratio,
        bar=day.MOST_GROWTH,
        at_most=True,
    )


if __name__ == "__main__":
    report.command(measure, __doc__)
