"""Opening a database: what cannot work is said in one sentence that names what to set."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobroom.errors import ConfigurationError
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store import sqlite_file


def message_of(database_url: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        JobQueue.open(JobLibSettings(database_url=database_url))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    message = message_of(f"sqlite:///{tmp_path}/missing/queue.db")
    assert f"The folder {tmp_path}/missing does not exist" in message
    assert "ZNDRAW_JOBLIB_DATABASE_URL" in message


def test_a_directory_in_place_of_the_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    assert f"The database {tmp_path} cannot be opened" in message_of(f"sqlite:///{tmp_path}")


def test_what_is_no_url_is_an_error() -> None:
    assert "is not a URL" in message_of("queue.db")


def test_another_kind_of_database_is_an_error_that_names_it() -> None:
    assert "names 'mysql'" in message_of("mysql://localhost/queue")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_a_queue_in_memory_is_an_error(url: str) -> None:
    assert "in memory" in message_of(url)


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sqlite_file.sqlite_path("sqlite:///queue.db") == tmp_path / "queue.db"


@pytest.mark.only_on("sqlite")
def test_an_sqlite_that_is_too_old_is_named(
    settings: JobLibSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file.sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(ConfigurationError, match=r"SQLite 3\.35 or newer is needed"):
        JobQueue.open(settings)


def test_an_answered_write_survives_power_loss_by_default(tmp_path: Path) -> None:
    """Design, *The write path*: ``synchronous = FULL`` (2) with a write-ahead log."""
    settings = JobLibSettings(database_url=f"sqlite:///{tmp_path}/queue.db")
    with JobQueue.open(settings) as queue:
        connection = queue.writer._connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_times_of_the_store_are_microseconds_and_can_be_moved(queue: JobQueue) -> None:
    """Design, *Time, ids, fences*."""
    before = queue.run(lambda tx: tx.now)
    queue.clock_offset += 3600 * 1_000_000
    moved = queue.run(lambda tx: tx.now) - before
    assert 3600 * 1_000_000 <= moved < 3660 * 1_000_000
