"""What client processes wrote down, and whether the store's rows bear it out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import kill_store
import live_server

PROGRAM = Path(__file__).with_name("kill_cycles.py")
LONGEST_SECONDS = 300


class Clients:
    """Processes of ``kill_cycles.py`` with their notes in ``folder``."""

    def __init__(self, folder, processes, *, kind="plain", clients=8, cycles, urls):
        self.folder = Path(folder) / "notes"
        self.folder.mkdir()
        environment = live_server.environment()
        environment["PYTHONPATH"] += f":{live_server.ROOT / 'tests'}"
        self.processes = [
            subprocess.Popen(
                [
                    *(sys.executable, PROGRAM, kind, f"w{number}", str(cycles)),
                    *(self.folder / f"w{number}.jsonl", *urls),
                ],
                env=environment,
            )
            for number in range(clients)
        ]
        processes += self.processes

    def stop(self):
        (self.folder / "stop").touch()
        self.wait()

    def wait(self):
        assert [process.wait(LONGEST_SECONDS) for process in self.processes] == [0] * len(
            self.processes
        )

    def notes(self):
        return Notes(sorted(self.folder.glob("*.jsonl")))


class Notes:
    """What was written down until now; the last line may still be being written."""

    def __init__(self, paths):
        self.submitted: dict[str, str] = {}
        self.completed: dict[str, object] = {}
        self.claims = Counter()
        self.running_again = Counter()
        self.broken = Counter()
        self.odd: list[str] = []
        self.empty: list[str] = []
        for path in paths:
            for line in path.read_bytes().splitlines(keepends=True):
                if line.endswith(b"\n"):
                    self._add(*json.loads(line))

    def _add(self, kind, what, more=None):
        if kind == "submitted":
            assert what not in self.submitted, f"two submissions were given the task {what}"
            self.submitted[what] = more
        elif kind == "completed":
            assert what not in self.completed, f"two clients completed the task {what}"
            self.completed[what] = more
        elif kind == "claimed":
            self.claims[what] += 1
        elif kind == "running again":
            self.running_again[what] += more
        elif kind == "broken":
            self.broken[what] += 1
        else:
            {"odd": self.odd, "empty": self.empty}[kind].append(what)


def check_acknowledged(notes, rows):
    """Every acknowledged submission is there once, every acknowledged report stands."""
    assert notes.odd == []
    assert notes.empty == []
    assert notes.submitted.keys() <= rows.keys()
    for task_id, nonce in notes.submitted.items():
        assert kill_store.payload_of(rows[task_id])["nonce"] == nonce
    nonces = Counter(kill_store.payload_of(row)["nonce"] for row in rows.values())
    assert [nonce for nonce, times in nonces.items() if times > 1] == []
    for task_id, result in notes.completed.items():
        row = rows[task_id]
        assert (row.status, kill_store.result_of(row)) == ("completed", result)


def check_exactly_once(notes, rows, *, cycles=None):
    """Each submission is one task, claimed, started and completed once, and by one client.

    A row's version counts its writes: submitted, claimed, started and completed are four; a
    report of ``running`` that was repeated may have written once more.
    """
    check_acknowledged(notes, rows)
    assert notes.submitted.keys() == rows.keys() == notes.completed.keys()
    assert cycles in (None, len(rows))
    assert set(notes.claims.values()) == {1}
    for task_id, row in rows.items():
        assert (row.status, row.attempt, row.starts, row.error) == ("completed", 1, 1, None)
        assert 4 <= row.version <= 4 + notes.running_again[task_id], row
