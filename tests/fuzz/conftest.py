"""The application that is fuzzed, and the count of what was sent to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import fuzz_kit
import pytest


@pytest.fixture(scope="module")
def target(
    tmp_path_factory: pytest.TempPathFactory, empty_database: Path
) -> Iterator[fuzz_kit.Target]:
    """An application on a database of this module's, with a job in it."""
    path = tmp_path_factory.mktemp("fuzz") / "queue.db"
    shutil.copy(empty_database, path)
    opened = fuzz_kit.Target(path)
    job = {
        "category": "modifiers",
        "name": "Rotate",
        "schema": {"type": "object", "properties": {"angle": {"type": "number"}}},
    }
    answer = opened.send(
        "set-up", "PUT", f"{fuzz_kit.BASE}/rooms/r1/jobs", body=json.dumps(job).encode()
    )
    assert answer.status == 201
    yield opened
    opened.close()


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was tried."""
    if fuzz_kit.COUNTS:
        total = sum(fuzz_kit.COUNTS.values())
        parts = ", ".join(f"{topic} {n:,}" for topic, n in sorted(fuzz_kit.COUNTS.items()))
        terminalreporter.write_line(f"fuzz: {total:,} requests judged ({parts})")
    for note in fuzz_kit.NOTES:
        terminalreporter.write_line(f"fuzz: {note}")
