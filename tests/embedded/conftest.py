"""A queue of the test's own; durability is for power cuts, which tests have not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobroom.embedded import SqliteQueue


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZNDRAW_JOBLIB_SQLITE_SYNCHRONOUS", "NORMAL")


@pytest.fixture
def path(empty_database: Path, tmp_path: Path) -> Path:
    """A queue's file; a copy of a made one, as making it waits for the disk several times."""
    copied = tmp_path / "queue.db"
    copied.write_bytes(empty_database.read_bytes())
    return copied


@pytest.fixture
def queue(path: Path) -> Iterator[SqliteQueue]:
    with SqliteQueue(path) as opened:
        yield opened
