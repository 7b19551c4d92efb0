"""What every test may use: a queue on a real SQLite file, whose clock the test moves."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobroom.domain.records import Caller
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings

SECOND = 1_000_000
TALLY = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Nothing is counted yet."""
    config.stash[TALLY] = []


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the counts: a test that passed says nothing of how much it went through."""
    if config.stash[TALLY]:
        terminalreporter.section("counts")
    for line in config.stash[TALLY]:
        terminalreporter.write_line(line)


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Call it with counts that are to be printed at the end of the run, or with a line."""
    name = request.node.name

    def note(line: str = "", **counts: object) -> None:
        said = " ".join(f"{key}={value}" for key, value in counts.items())
        request.config.stash[TALLY].append(line or f"{name}: {said}")

    return note


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
