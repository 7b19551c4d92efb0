"""What every test may use: a queue on a real SQLite file, whose clock the test moves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobroom.domain.records import Caller
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings

SECOND = 1_000_000


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty database file: copying it is a hundred times faster than migrating."""
    path = tmp_path_factory.mktemp("template") / "empty.db"
    JobQueue.open(JobLibSettings(database_url=f"sqlite:///{path}")).close()
    return path


@pytest.fixture
def settings(tmp_path: Path, empty_database: Path) -> JobLibSettings:
    """Settings for a fresh database of this test; FULL is for power cuts, which tests have not."""
    path = tmp_path / "queue.db"
    shutil.copy(empty_database, path)
    return JobLibSettings(database_url=f"sqlite:///{path}", sqlite_synchronous="NORMAL")


@pytest.fixture
def queue(settings: JobLibSettings) -> Iterator[JobQueue]:
    """An open queue; ``queue.clock_offset += 5 * SECOND`` lets five seconds pass."""
    with JobQueue.open(settings) as opened:
        yield opened


@pytest.fixture
def alice() -> Caller:
    """A user who sees every room."""
    return Caller("alice")


@pytest.fixture
def bob() -> Caller:
    """Another user who sees every room."""
    return Caller("bob")


@pytest.fixture
def admin() -> Caller:
    """An admin of every room."""
    return Caller("root", is_admin=True)
