"""All benchmarks in one go, and one table of ratios against the bars at the end.

Run: python benchmarks/run.py [--quick] [--only NAME]... [--json FILE] [--peer-venv FOLDER]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import report
from report import Row

BENCHMARKS = {
    "floor": "the hot requests beside a handler that does nothing",
    "http_scale": "a request's cost at 1k, 100k, 1M tasks, 1,000 rooms, 100 jobs",
    "lists": "lists at 1k, 100k, 1M tasks",
    "peer": "submit and claim + complete beside zndraw-joblib 0.1.7",
    "wakeup": "how soon a waiting request hears of what it waits for",
    "waiters": "what waiting requests cost while nothing happens",
    "client_map": "ten thousand tasks by Client.map beside a bare httpx loop",
    "embedded": "the queue inside a process beside raw sqlite3 and other queues",
    "graph": "the embedded graph queue beside raw sqlite3 and pyantz 2.0.3",
    "libsql": "what a libSQL server is asked and bills, and its speed",
    "postgres": "the queue in PostgreSQL beside psycopg, procrastinate and pgqueuer",
    "imports": "the CPU that importing takes",
    "growth": "a day's work in a minute, with retention on",
}
"""Modules of this folder, in the order in which they run; each is imported when its turn comes."""


@dataclass(slots=True)
class Outcome:
    """What has been measured so far, and what could not be."""

    rows: list[Row] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    load_at_start: float = field(default_factory=lambda: os.getloadavg()[0])


def main() -> int:
    """Run what was asked for; 1 if one of the benchmarks could not be run."""
    options = _options()
    # What was started is stopped by the ends of `with` blocks: a polite kill must reach them.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = [name for name in BENCHMARKS if not options.only or name in options.only]
    outcome = Outcome()
    for number, name in enumerate(chosen, 1):
        _tell(f"[{number}/{len(chosen)}] {name}: {BENCHMARKS[name]} ... ")
        begun = time.monotonic()
        _run(name, outcome, options)
        outcome.seconds[name] = time.monotonic() - begun
        _tell(f"{outcome.seconds[name]:.0f} s {outcome.failures.get(name, '')}\n")
    print(report.table(outcome.rows))
    print(_summary(outcome))
    if options.json:
        options.json.write_text(_document(outcome) + "\n")
    return 1 if outcome.failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run at all?")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, help="may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the rows for machines, too")
    parser.add_argument("--peer-venv", type=Path, help="where the peer is, or will be, installed")
    return parser.parse_args()


def _run(name: str, outcome: Outcome, options: argparse.Namespace) -> None:
    """One benchmark; whatever stops it must not cost the figures of the others."""
    extra: dict[str, Any] = {"venv": options.peer_venv} if name == "peer" else {}
    try:
        measure: Callable[..., list[Row]] = importlib.import_module(name).measure
        outcome.rows += measure(quick=options.quick, **extra)
    except (Exception, SystemExit) as fault:  # noqa: BLE001 - told below, beside the figures
        outcome.failures[name] = f"{type(fault).__name__}: {fault}"


def _summary(outcome: Outcome) -> str:
    missed = [row for row in outcome.rows if not row.is_met]
    with_bar = sum(row.bar is not None for row in outcome.rows)
    bare = len(outcome.rows) - with_bar
    bars = f"{with_bar - len(missed)} bars met, {len(missed)} missed; {bare} figures without a bar."
    misses = [f"* missed: {row.what}: {row.ratio:.2f}, {row.verdict}" for row in missed]
    failures = [f"* could not be run: {name}: {why}" for name, why in outcome.failures.items()]
    took = f"{sum(outcome.seconds.values()):.0f} s in all"
    machine = f"{_machine()}; load {outcome.load_at_start:.1f} at the start; {took}."
    return "\n".join(["", bars, *misses, *failures, "", machine])


def _document(outcome: Outcome) -> str:
    document = {
        "machine": _machine(),
        "load_at_start": outcome.load_at_start,
        "seconds": outcome.seconds,
        "failures": outcome.failures,
        "rows": json.loads(report.as_json(outcome.rows)),
    }
    return json.dumps(document, indent=2)


def _machine() -> str:
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()},"
        f" Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )


def _tell(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
