"""A file for the embedded queue in each example."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def fresh_file(
    empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Path]:
    """Makes a copy of an empty queue's file; durability is for power cuts, which tests have not."""
    monkeypatch.setenv("ZNDRAW_JOBLIB_SQLITE_SYNCHRONOUS", "NORMAL")
    made: list[Path] = []

    def fresh() -> Path:
        if made:
            for each in tmp_path.glob(f"{made[-1].name}*"):
                each.unlink()
        path = tmp_path / f"{len(made)}.db"
        path.write_bytes(empty_database.read_bytes())
        made.append(path)
        return path

    return fresh
