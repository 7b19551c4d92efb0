"""A store that is busy, full or broken: an honest answer, nothing kept, and work goes on."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from jobroom.errors import StoreUnavailable
from jobroom.settings import JobLibSettings
from jobroom.store import state
from jobroom.store.lane import Lane, Work
from jobroom.store.sqlite_file import SQLiteFile
from jobroom.store.statement import Statement
from jobroom.store.transaction import Transaction

pytestmark = pytest.mark.only_on("sqlite")  # the others have lanes of another kind

PATIENCE = 10
FILL = Statement(text("INSERT INTO notice VALUES ('w', :task_id, 1)"))


class Connection:
    """A real connection whose next commit may be made to fail."""

    def __init__(self, real: sqlite3.Connection) -> None:
        self._real = real
        self.fault: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def commit(self) -> None:
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        self._real.commit()


class Database(SQLiteFile):
    """A real file that tells when a writer finds it busy."""

    def __init__(self, settings: JobLibSettings) -> None:
        super().__init__(settings)
        self.was_busy = threading.Event()

    def connect(self, *, read_only: bool) -> Any:
        return Connection(super().connect(read_only=read_only))

    def begin(self, connection: Any, *, write: bool) -> None:
        try:
            super().begin(connection, write=write)
        except sqlite3.OperationalError:
            self.was_busy.set()
            raise


@pytest.fixture
def database(settings: JobLibSettings) -> Database:
    return Database(settings)


@pytest.fixture
def lane(database: Database, settings: JobLibSettings) -> Iterator[Lane]:
    opened = Lane(database, settings, write=True)
    yield opened
    opened.close()


@pytest.fixture
def rival(database: Database) -> Iterator[sqlite3.Connection]:
    """Another process's connection, in the middle of a write."""
    connection = sqlite3.connect(database.path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.close()


def disk_full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def put(tx: Transaction, *, name: str) -> None:
    state.put(tx, name, 1)


def has(lane: Lane, name: str) -> bool:
    return lane.call(Work(lambda tx: state.get(tx, name), {})) is not None


def test_a_failed_commit_answers_unavailable_to_the_whole_group(lane: Lane) -> None:
    """Contract, *Errors*: ``store-unavailable`` 503; nothing of it is kept."""
    group = [Work(put, {"name": name}) for name in "abc"]
    lane._connection.fault = disk_full()
    with lane._lock:
        lane._run(group)
    assert [type(work.error) for work in group] == [StoreUnavailable] * 3
    assert not any(has(lane, name) for name in "abc")


def test_a_lane_works_on_after_a_failed_commit(lane: Lane) -> None:
    lane._connection.fault = disk_full()
    with pytest.raises(StoreUnavailable):
        lane.call(Work(put, {"name": "a"}))
    lane.call(Work(put, {"name": "b"}))
    assert has(lane, "b")


def test_a_fault_of_the_commit_that_is_not_the_stores_is_not_called_unavailable(
    lane: Lane,
) -> None:
    lane._connection.fault = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        lane.call(Work(put, {"name": "a"}))
    assert not has(lane, "a")


def test_a_busy_writer_is_waited_for(
    lane: Lane, database: Database, rival: sqlite3.Connection
) -> None:
    """Design, *The write path*: several processes on one file stay correct, never a 500."""

    def finish() -> None:
        assert database.was_busy.wait(PATIENCE)
        rival.execute("COMMIT")

    other = threading.Thread(target=finish)
    other.start()
    lane.call(Work(put, {"name": "a"}))
    other.join()
    assert has(lane, "a")


def test_a_writer_busy_for_too_long_is_unavailable(
    settings: JobLibSettings, rival: sqlite3.Connection
) -> None:
    impatient = settings.model_copy(update={"database_busy_seconds": 0.02})
    lane = Lane(Database(settings), impatient, write=True)
    with pytest.raises(StoreUnavailable):
        lane.call(Work(put, {"name": "a"}))
    rival.execute("COMMIT")
    lane.call(Work(put, {"name": "a"}))
    lane.close()


def test_a_reader_does_not_wait_for_a_writer(
    settings: JobLibSettings,
    rival: sqlite3.Connection,  # it writes meanwhile
) -> None:
    reader = Lane(Database(settings), settings, write=False)
    assert not has(reader, "a")
    reader.close()


def test_a_full_disk_is_unavailable_and_small_work_goes_on(lane: Lane) -> None:
    pages = lane._connection.execute("PRAGMA page_count").fetchone()[0]
    lane._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(StoreUnavailable):
        lane.call(Work(lambda tx: tx.change(FILL, task_id="x" * 100_000), {}))
    assert not has(lane, "a")
    lane._connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
    lane.call(Work(put, {"name": "a"}))
    assert has(lane, "a")


def test_a_full_disk_answers_the_whole_group(lane: Lane) -> None:
    pages = lane._connection.execute("PRAGMA page_count").fetchone()[0]
    lane._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    small = Work(put, {"name": "a"})
    large = Work(lambda tx: tx.change(FILL, task_id="x" * 100_000), {})
    with lane._lock:
        lane._run([small, large])
    assert [type(work.error) for work in (small, large)] == [StoreUnavailable] * 2


def test_the_message_of_an_unavailable_store_says_what_to_do(lane: Lane) -> None:
    lane._connection.fault = disk_full()
    with pytest.raises(StoreUnavailable, match=r"nothing of it was kept\. Try again"):
        lane.call(Work(put, {"name": "a"}))


@pytest.mark.parametrize("fate", ["deleted", "replaced"])
def test_a_database_that_is_not_there_any_more_takes_nothing(
    settings: JobLibSettings, fate: str
) -> None:
    """What would be written to a file without a name would be found by nobody."""
    database = SQLiteFile(settings)
    lane = Lane(database, settings, write=True)
    kept = database.path.with_suffix(".kept")
    database.path.rename(kept)
    if fate == "replaced":
        database.path.write_bytes(kept.read_bytes())
    with pytest.raises(StoreUnavailable):
        lane.call(Work(lambda tx: state.put(tx, "a", 1), {}))
    database.path.unlink(missing_ok=True)
    kept.rename(database.path)
    lane.call(Work(lambda tx: state.put(tx, "a", 1), {}))
    lane.close()
