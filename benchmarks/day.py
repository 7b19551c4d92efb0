"""A day's work in a minute: 100,000 tasks through 8 workers while the old ones are removed.

Run: python benchmarks/day.py [--tasks 100000] [--workers 8] [--retention 5] [--keys]

Nothing may grow with the number of tasks that went through: the file, the server's memory, and
what a claim costs are compared with what they were in the beginning, when the first finished tasks
had reached the end of their retention. With ``--keys`` each task is submitted with an idempotency
key, as the SDK does it: those are kept for 24 hours whatever the retention (rules, *Idempotency*).
The file then grows, by the same for each task, and claims must not become dearer for it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import servers

BASE = "/v1/joblib"
SUBMIT = f"{BASE}/rooms/r1/tasks/r1:modifiers:Rotate"
PAYLOAD = {"angle": 90, "axis": "x"}
SCHEMA = {"type": "object", "properties": {"angle": {"type": "number"}}, "required": ["angle"]}
JOB = {"category": "modifiers", "name": "Rotate", "schema": SCHEMA}
BACKLOG = 2000
TIMED_OF = 10
"""One task in so many is claimed by a request of its own, whose time is taken."""
TELL_SECONDS = 0.2
SAMPLES = 20
MOST_SECONDS = 1800
MOST_GROWTH = 1.5
"""What the end may have more than the beginning, for noise: what grows is many times that."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment; times in milliseconds, sizes in MiB. ``speed`` is of tasks a second."""

    seconds: float
    completed: int
    speed: float
    rows: int
    file: float
    log: float
    memory: float
    median: float
    p95: float


class Wire:
    """One kept connection that sends JSON and reads JSON, without the cost of a full client."""

    def __init__(self, url: str) -> None:
        split = urlsplit(url)
        self._connection = HTTPConnection(str(split.hostname), split.port, timeout=60)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = {
            "Authorization": f"Bearer {servers.token()}",
            "Content-Type": "application/json",
        }

    def send(self, method: str, path: str, body: object, **head: str) -> Any:
        """One request; an answer that is no success ends the program."""
        self._connection.request(method, path, json.dumps(body).encode(), {**self._head, **head})
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            sys.exit(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text)


class Worker:
    """Submits its share of the tasks and does as many, each completion with the next claim."""

    def __init__(self, url: str, number: int, *, keys: bool) -> None:
        self._wire, self._number, self._keys = Wire(url), number, keys
        self.id = self._wire.send("POST", f"{BASE}/workers", {})["id"]
        self._wire.send("PUT", f"{BASE}/rooms/r1/jobs", {**JOB, "worker_id": self.id})
        self.submitted = 0

    def submit(self) -> None:
        """Submit one more task."""
        key = {"Idempotency-Key": f"{self._number}-{self.submitted}"} if self._keys else {}
        self._wire.send("POST", SUBMIT, {"payload": PAYLOAD}, **key)
        self.submitted += 1

    def claim(self) -> tuple[Any, float]:
        """A task that is running now, and what the claim took (ms)."""
        began = time.perf_counter()
        claim = {"worker_id": self.id, "start": True}
        task = self._wire.send("POST", f"{BASE}/tasks/claim", claim)["task"]
        return task, (time.perf_counter() - began) * 1000

    def complete(self, task: Any, *, claim_next: bool) -> Any:
        """Report a task; the next one, if it was asked for."""
        report = {"status": "completed", "result": 1, "attempt": task["attempt"]}
        report["claim_next"] = claim_next
        return self._wire.send("PATCH", f"{BASE}/tasks/{task['id']}", report).get("next_task")


def work(url: str, number: int, *, tasks: int, ahead: int, keys: bool, tell: Any) -> None:
    """One worker process; tells how many tasks it has done and what its claims took (ms)."""
    worker = Worker(url, number, keys=keys)
    for _ in range(min(ahead, tasks)):
        worker.submit()
    task, done, latencies, told_at = None, 0, [], time.monotonic()
    for one in range(tasks):
        if worker.submitted < tasks:
            worker.submit()
        if task is None:
            task, took = worker.claim()
            latencies.append(took)
        if task is None:
            sys.exit("A claim came back empty while this worker's share was not done.")
        task = worker.complete(task, claim_next=one % TIMED_OF > 0 and one + 1 < tasks)
        done += 1
        if time.monotonic() - told_at > TELL_SECONDS:
            tell.put((done, latencies))
            done, latencies, told_at = 0, [], time.monotonic()
    tell.put((done, latencies))


@contextmanager
def serve(folder: str, retention: float) -> Iterator[servers.Server]:
    """Our server with its sweeper on, and a short memory."""
    environment = {
        "ZNDRAW_JOBLIB_DATABASE_URL": f"sqlite:///{folder}/queue.db",
        "ZNDRAW_JOBLIB_JWT_SECRET": servers.SECRET,
        "ZNDRAW_JOBLIB_SWEEPER_INTERVAL_SECONDS": "1",
        "ZNDRAW_JOBLIB_TASK_RETENTION_SECONDS": str(retention),
    }
    with servers.serve("app:app", environment, ready="/readyz", loud=False) as server:
        yield server


class Observer:
    """Takes a sample now and then, and prints it."""

    HEAD = "   s    tasks  tasks/s    rows   file    log  memory  claim ms: median    p95"

    def __init__(self, folder: str, server: servers.Server, tell: SimpleQueue[Any]) -> None:
        self._file, self._server, self._tell = Path(folder) / "queue.db", server, tell
        self.began = self._last_at = time.monotonic()
        self._latencies: list[float] = []
        self._last = 0
        self.completed = 0
        print(self.HEAD)

    def hear(self) -> None:
        """Take in what the workers have told."""
        while not self._tell.empty():
            done, latencies = self._tell.get()
            self.completed += done
            self._latencies += latencies

    def sample(self) -> Sample:
        """Measure now; the claims are those since the last time."""
        now = time.monotonic()
        claims = sorted(self._latencies) or [0.0]
        found = Sample(
            seconds=now - self.began,
            completed=self.completed,
            speed=(self.completed - self._last) / (now - self._last_at),
            rows=self._rows(),
            file=self._file.stat().st_size / MIB,
            log=self._file.with_name("queue.db-wal").stat().st_size / MIB,
            memory=resident(self._server.pid) / MIB,
            median=statistics.median(claims),
            p95=claims[int(len(claims) * 0.95)],
        )
        self._latencies, self._last, self._last_at = [], self.completed, now
        print(
            f"{found.seconds:4.0f} {found.completed:8,} {found.speed:8,.0f} {found.rows:7,}"
            f" {found.file:6.1f} {found.log:6.1f} {found.memory:7.1f}"
            f" {found.median:17.2f} {found.p95:6.2f}",
            flush=True,
        )
        return found

    def _rows(self) -> int:
        with closing(sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)) as opened:
            return int(opened.execute("SELECT count(*) FROM task").fetchone()[0])


def resident(pid: int) -> int:
    """How much memory a process has (bytes), as Linux tells it."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def run(options: argparse.Namespace) -> list[Sample]:
    """The day: all samples, evenly over its tasks."""
    share = options.tasks // options.workers
    tell: SimpleQueue[Any] = multiprocessing.SimpleQueue()
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory() as folder, serve(folder, options.retention) as server:
        url = str(server)
        Wire(url).send("PUT", f"{BASE}/rooms/r1/jobs", JOB)
        how = {"tasks": share, "keys": options.keys, "tell": tell}
        how["ahead"] = BACKLOG // options.workers
        crew = [
            multiprocessing.Process(target=work, args=(url, number), kwargs=how)
            for number in range(options.workers)
        ]
        observer = Observer(folder, server, tell)
        for process in crew:
            process.start()
        try:
            while any(process.is_alive() for process in crew) or not tell.empty():
                observer.hear()
                if observer.completed >= share * options.workers * (len(samples) + 1) / SAMPLES:
                    samples.append(observer.sample())
                if time.monotonic() - observer.began > MOST_SECONDS:
                    sys.exit(f"Not done after {MOST_SECONDS} s: this is no day in a minute.")
                time.sleep(0.05)
        finally:
            for process in crew:
                process.kill()
                process.join()
        if any(process.exitcode for process in crew):
            sys.exit("A worker ended badly.")
        time.sleep(options.retention + 3)
        samples.append(observer.sample())
    return samples


def verdicts(samples: list[Sample], options: argparse.Namespace) -> list[str]:
    """One line for each thing that must not grow; MISSED where it did."""
    *busy, after = samples
    early = [one for one in busy if one.seconds > options.retention + SWEEP_SLACK_SECONDS]
    if len(early) < 4:
        return [f"No verdict: too short a day for a retention of {options.retention:g} s."]
    third = len(early) // 3 or 1
    start, end = early[:third], early[-third:]
    kept = "kept for their keys" if options.keys else "left"
    lines = [
        compare("server memory", "MiB", [s.memory for s in start], [s.memory for s in end]),
        compare("claim, median", "ms", [s.median for s in start], [s.median for s in end]),
        compare("claim, p95", "ms", [s.p95 for s in start], [s.p95 for s in end]),
        f"rows after a last retention: {after.rows:,} {kept}",
    ]
    files = compare("file", "MiB", [s.file for s in start], [s.file for s in end])
    logs = compare("write-ahead log", "MiB", [s.log for s in start], [s.log for s in end])
    if options.keys:
        grown = (after.file - start[0].file) / max(1, after.rows - start[0].rows) * MIB
        return [f"file: {after.file:.1f} MiB, {grown:.0f} bytes for each task kept", logs, *lines]
    lines[-1] += "" if after.rows == 0 else ": MISSED, bar 0"
    return [files, logs, *lines]


SWEEP_SLACK_SECONDS = 3


def compare(what: str, unit: str, start: list[float], end: list[float]) -> str:
    """The medians of the beginning and of the end, and whether that is growth."""
    first, last = statistics.median(start), statistics.median(end)
    ratio = last / first if first else 1.0
    verdict = "met" if ratio <= MOST_GROWTH else "MISSED"
    return (
        f"{what}: {first:.2f} -> {last:.2f} {unit}, {ratio:.2f}x: {verdict}, bar {MOST_GROWTH:g}x"
    )


def main() -> None:
    """Run the day, and print its samples and its verdict; the exit code is 1 for a miss."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--retention", type=float, default=5, help="in seconds")
    parser.add_argument("--keys", action="store_true", help="submit with idempotency keys")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the samples here too")
    options = parser.parse_args()
    samples = run(options)
    took = samples[-2].seconds
    done = samples[-1].completed
    print(f"\n{done:,} tasks in {took:.0f} s, {done / took:,.0f} a second:")
    lines = verdicts(samples, options)
    print("\n".join(f"* {line}" for line in lines))
    if options.json is not None:
        found = {"samples": [asdict(one) for one in samples], "verdicts": lines}
        options.json.write_text(json.dumps(found, indent=2))
    sys.exit(any("MISSED" in line for line in lines))


if __name__ == "__main__":
    main()
