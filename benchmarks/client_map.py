"""Ten thousand tasks by ``Client.map``, beside a bare httpx loop that submits and asks for each.

Run: python benchmarks/client_map.py [--quick] [--json]

Both run in a process of their own, in turn, against one server and the same two workers, which
answer each task with its payload. What counts is the CPU that the client and the server spend on a
task, and how large the client's process becomes; the time has the workers in it.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import report
import servers
from report import Row
from servers import Server

from jobroom.client.sync_client import Client

TASKS, QUICK_TASKS = 10_000, 300
ROUNDS, QUICK_ROUNDS = 2, 1
WORKERS = 2
BASE = "/v1/joblib"
JOB = "bench:modifiers:Echo"
SELF = Path(__file__)


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took, all of it together."""

    seconds: float
    client_cpu: float
    requests: int
    grown_kib: int
    server_cpu: float = 0.0


def measure(*, quick: bool = False) -> list[Row]:
    """Compare both ways, and the map with a smaller one."""
    tasks, rounds = (QUICK_TASKS, QUICK_ROUNDS) if quick else (TASKS, ROUNDS)
    by_map: list[Run] = []
    by_loop: list[Run] = []
    tenth: list[Run] = []
    with ExitStack() as stack:
        server = stack.enter_context(servers.serve_jobroom(synchronous="NORMAL"))
        for _ in range(WORKERS):
            stack.enter_context(_worker(server))
        for _ in range(rounds):
            by_map.append(_run(server, "map", tasks))
            by_loop.append(_run(server, "loop", tasks))
            tenth.append(_run(server, "map", tasks // 10))
    return _rows(tasks, by_map, by_loop, tenth)


def _rows(tasks: int, by_map: list[Run], by_loop: list[Run], tenth: list[Run]) -> list[Row]:
    def median(runs: list[Run], figure: Callable[[Run], float]) -> float:
        return statistics.median(map(figure, runs))

    def row(what: str, unit: str, figure: Callable[[Run], float]) -> Row:
        ours, beside = median(by_map, figure), median(by_loop, figure)
        return Row(what, ours, beside, "httpx loop", unit, ours / max(beside, 1e-9))

    large = median(by_map, lambda run: run.grown_kib)
    small = median(tenth, lambda run: run.grown_kib)
    each = 1_000 / tasks
    return [
        row(f"map of {tasks:,}: client CPU", "ms a task", lambda run: run.client_cpu * each),
        row("... server CPU, workers' too", "ms a task", lambda run: run.server_cpu * each),
        row("... time", "ms a task", lambda run: run.seconds * each),
        row("... requests", "a task", lambda run: run.requests / tasks),
        row("... memory that came on top", "KiB", lambda run: run.grown_kib),
        Row(
            *("... memory, ten times the tasks", large, small, f"{tasks // 10:,} tasks", "KiB"),
            ratio=large / max(small, 1),
        ),
    ]


def _run(server: Server, how: str, tasks: int) -> Run:
    begun = server.cpu_seconds
    command = [sys.executable, str(SELF), how, str(server), str(tasks)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = Run(**json.loads(done.stdout))
    return Run(**{**asdict(found), "server_cpu": server.cpu_seconds - begun})


@contextmanager
def _worker(server: Server) -> Iterator[None]:
    command = [sys.executable, str(SELF), "work", str(server), "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise RuntimeError("the worker did not start")
        yield
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


# What the processes do


def _map(http: httpx.Client, url: str, tasks: int) -> None:
    client = Client(url, servers.token(), http=http)
    payloads = ({"n": n} for n in range(tasks))
    for n, result in enumerate(client.map(JOB, payloads)):
        _check(result == {"n": n})


def _loop(http: httpx.Client, url: str, tasks: int) -> None:
    address = f"{url}{BASE}/rooms/bench/tasks/{JOB}"
    ids = [http.post(address, json={"payload": {"n": n}}).json()["id"] for n in range(tasks)]
    for n, task_id in enumerate(ids):
        task: dict[str, Any] = {"status": "pending"}
        while task["status"] != "completed":
            head = {"Prefer": "wait=20"}
            task = http.get(f"{url}{BASE}/tasks/{task_id}", headers=head).json()
        _check(task["result"] == {"n": n})


def _check(is_right: bool) -> None:  # noqa: FBT001 - an assertion that -O leaves in
    if not is_right:
        raise RuntimeError("a result is another task's")


def _work(http: httpx.Client, url: str, _tasks: int) -> None:
    worker = http.post(f"{url}{BASE}/workers", json={}).json()["id"]
    job = {"category": "modifiers", "name": "Echo", "worker_id": worker}
    http.put(f"{url}{BASE}/rooms/bench/jobs", json=job).raise_for_status()
    print("ready", flush=True)
    while True:
        body = {"worker_id": worker, "start": True}
        head = {"Prefer": "wait=20"}
        task = http.post(f"{url}{BASE}/tasks/claim", json=body, headers=head).json()["task"]
        while task:
            end = {"status": "completed", "result": task["payload"], "claim_next": True}
            fence = {"attempt": task["attempt"], "worker_id": worker}
            address = f"{url}{BASE}/tasks/{task['id']}"
            task = http.patch(address, json={**end, **fence}).json()["next_task"]


def _be(how: str, url: str, tasks: int) -> None:
    """Be one of the processes, and say what it took."""
    requests = 0

    def count(_request: httpx.Request) -> None:
        nonlocal requests
        requests += 1

    head = {"Authorization": f"Bearer {servers.token()}"}
    hooks = {"request": [count]}
    with httpx.Client(headers=head, timeout=60, event_hooks=hooks) as http:
        before = _peak_kib()
        begun, cpu = time.perf_counter(), time.process_time()
        {"map": _map, "loop": _loop, "work": _work}[how](http, url, tasks)
        took, used = time.perf_counter() - begun, time.process_time() - cpu
    print(json.dumps(asdict(Run(took, used, requests, _peak_kib() - before))))


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in {"map", "loop", "work"}:
        _be(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        report.command(measure, __doc__)
