"""The queue inside a process, without HTTP, beside plain sqlite3 and two peers.

Run: python benchmarks/embedded.py [--quick] [--peer-venv FOLDER]

Three floors, all of plain sqlite3 with the same pragmas: *minimal* is the least that may be called
a queue (one table, one index, one statement a step); *our writes* are the statements of ours that
change rows, *our statements* all of them, recorded from one call and replayed on our own schema
without any of our Python.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import report
from raw_queue import MinimalQueue, Recorder, Recording, ReplayQueue
from report import Row

from jobroom.domain.records import Caller, Job, Task
from jobroom.service import claiming, registration, reporting, submission
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store.transaction import Transaction

HERE = Path(__file__).resolve().parent
PAYLOAD = json.dumps({"angle": 90, "axis": "z", "note": "x" * 160})
ROOM = "r1"
ROUNDS, CALLS = 7, 1000
QUICK_ROUNDS, QUICK_CALLS = 3, 100
BARS = {"submit": 0.75, "claim_and_complete": 0.55, "complete_and_claim": 0.70}
SAID = {
    "submit": "submit",
    "claim_and_complete": "claim + complete",
    "complete_and_claim": "complete and claim next",
}
FLOORS = {"minimal": "minimal sqlite3", "writes": "our writes on sqlite3", "all": "our statements"}
PEERS = ("huey", "litequeue")
PEER_VENV = Path(tempfile.gettempdir()) / "jobroom-benchmark-peers"


class Queue(Protocol):
    """What is timed."""

    def submit(self) -> None:
        """Add a task."""

    def claim(self) -> None:
        """Take a task and hold it."""

    def claim_and_complete(self) -> None:
        """Take a task, then complete it."""

    def complete_and_claim(self) -> None:
        """Complete the held task and take the next one in the same transaction."""


class OurQueue:
    """The use cases, called as an embedding program does; ``run`` opens their transactions."""

    def __init__(self, run: Callable[..., Any], identity: str = "bench") -> None:
        self._run = run
        self.caller = Caller(identity, is_admin=True)
        spec = registration.JobSpec("modifiers", "Rotate")
        registered = run(registration.register_job, caller=self.caller, room_id=ROOM, spec=spec)
        self._job: Job = registered.view.job
        self.job_seq = self._job.seq
        self.held: Task

    def submit(self) -> None:
        """One transaction."""
        self._run(
            submission.submit_task,
            caller=self.caller,
            room_id=ROOM,
            job=self._job,
            new=submission.NewTask(PAYLOAD),
        )

    def claim(self) -> None:
        """Take the first one."""
        self.held = self._run(claiming.claim_tasks, caller=self.caller, start=True)[0].task

    def complete(self) -> None:
        """End the held one."""
        self._report(claim_next=False)

    def claim_and_complete(self) -> None:
        """Two transactions."""
        self.claim()
        self.complete()

    def complete_and_claim(self) -> None:
        """One transaction."""
        self.held = self._report(claim_next=True).next_task.task

    def _report(self, *, claim_next: bool) -> Any:
        said = reporting.Report("completed", attempt=self.held.attempt, claim_next=claim_next)
        return self._run(reporting.report, caller=self.caller, task_id=self.held.id, report=said)


def measure(*, quick: bool = False, peer_venv: Path = PEER_VENV) -> list[Row]:
    """Each step at both durabilities, in interleaved rounds."""
    rounds, most = (QUICK_ROUNDS, QUICK_CALLS) if quick else (ROUNDS, CALLS)
    python = _peer_python(peer_venv)
    rows = []
    for synchronous, calls in (("NORMAL", most), ("FULL", most // 4)):
        with _queues(synchronous) as queues:
            seconds: dict[tuple[str, str], list[float]] = {}
            for _ in range(rounds):
                for name, queue in queues.items():
                    for step, spent in _one_round(queue, calls).items():
                        seconds.setdefault((name, step), []).append(spent / calls)
                for name in PEERS:
                    if python is None:
                        break
                    for step, spent in _peer_round(python, name, synchronous, calls).items():
                        seconds.setdefault((name, step), []).append(spent / calls)
        speeds = {key: 1 / statistics.median(found) for key, found in seconds.items()}
        rows += _rows(synchronous, speeds)
    return rows


@contextmanager
def _queues(synchronous: str) -> Iterator[dict[str, Queue]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(JobQueue.open(_settings(folder / "ours.db", synchronous)))
        queues: dict[str, Queue] = {"ours": OurQueue(ours.run)}
        queues["minimal"] = MinimalQueue(folder / "minimal.db", synchronous, PAYLOAD)
        for name in ("writes", "all"):
            path = folder / f"{name}.db"
            recording = _record(_settings(path, synchronous))
            chosen = recording.writes() if name == "writes" else recording
            queues[name] = ReplayQueue(path, synchronous, chosen)
        yield queues


def _settings(path: Path, synchronous: str) -> JobLibSettings:
    given = {"database_url": f"sqlite:///{path}", "sqlite_synchronous": synchronous}
    return JobLibSettings.model_validate(given)


def _record(settings: JobLibSettings) -> Recording:
    """Run each step once on a connection that remembers the statements."""
    with JobQueue.open(settings) as queue:
        connection = queue.database.connect(read_only=False)
        recorder = Recorder(connection)

        def run(use_case: Callable[..., Any], **said: object) -> Any:
            queue.database.begin(connection, write=True)
            done = use_case(Transaction(recorder, queue.database, settings), **said)
            connection.commit()
            return done

        ours = OurQueue(run)
        submit, claim = recorder.record(ours.submit), recorder.record(ours.claim)
        task_id = ours.held.id
        complete = recorder.record(ours.complete)
        ours.submit()
        ours.submit()
        ours.claim()
        held_id = ours.held.id
        both = recorder.record(ours.complete_and_claim)
        connection.close()
    claimed = [step.rows[0] for step in claim if step.wrote and step.rows][-1]
    return Recording(submit, claim, complete, both, task_id, held_id, claimed.index(task_id))


def _one_round(queue: Queue, calls: int) -> dict[str, float]:
    """Seconds of so many calls of each step."""
    seconds = {"submit": _timed(queue.submit, calls)}
    seconds["claim_and_complete"] = _timed(queue.claim_and_complete, calls)
    for _ in range(calls + 1):
        queue.submit()
    queue.claim()
    seconds["complete_and_claim"] = _timed(queue.complete_and_claim, calls)
    return seconds


def _timed(step: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        step()
    return time.perf_counter() - start


def _rows(synchronous: str, speeds: dict[tuple[str, str], float]) -> list[Row]:
    rows = []
    for step, said in SAID.items():
        ours = speeds["ours", step]
        what = f"embedded {said}, {synchronous}"
        for name, floor in FLOORS.items():
            beside = speeds[name, step]
            bar = None if name == "all" else BARS[step]
            rows.append(Row(what, ours, beside, floor, "calls/s", ours / beside, bar))
        for name in PEERS:
            if (name, step) in speeds:
                beside = speeds[name, step]
                rows.append(Row(what, ours, beside, name, "calls/s", ours / beside))
    return rows


def _peer_round(python: Path, name: str, synchronous: str, calls: int) -> dict[str, float]:
    command = [str(python), str(HERE / "embedded_peers.py"), name, synchronous, str(calls)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    seconds: dict[str, float] = json.loads(out.stdout)
    return seconds


def _peer_python(folder: Path) -> Path | None:
    """The interpreter of the peers' own environment, made at its first use; None without them."""
    python = folder / "bin" / "python"
    asked = [str(python), "-c", "import huey, litequeue"]
    try:
        if not python.exists():
            venv.create(folder, with_pip=True)
        if subprocess.run(asked, capture_output=True, check=False).returncode:
            subprocess.run([python, "-m", "pip", "install", "-q", *PEERS], check=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"Measured without {' and '.join(PEERS)}: {error}", file=sys.stderr)
        return None
    return python


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run at all?")
    parser.add_argument("--peer-venv", type=Path, default=PEER_VENV, help="made if it is missing")
    options = parser.parse_args()
    print(report.table(measure(quick=options.quick, peer_venv=options.peer_venv)))


if __name__ == "__main__":
    main()
