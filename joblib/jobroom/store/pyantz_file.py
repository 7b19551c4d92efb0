"""A ``queue.db`` that pyantz's own queue has written: read in order, and never changed.

Its four tables are described in the seed: ``job_status`` has a row for each job, ``job_queue`` one
for each that was not taken yet, ``queue_items`` the configuration in chunks, ``dependencies`` the
edges.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from urllib.parse import quote

from jobroom.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobroom.store.transaction import Row

COLUMNS = {
    "job_status": {"job_id", "job_status", "worker_id", "details"},
    "queue_items": {"job_id", "job_subindex", "job_config_content"},
    "job_queue": {"q_index", "job_id"},
    "dependencies": {"job_id", "depends_on"},
}
_MAGIC = b"SQLite format 3\0"
# Where SQLite keeps its locks in a file: every connection to one with a write-ahead log holds a
# shared lock in this range for as long as it is open (sqlite.org/lockingv3.html).
_LOCKS_BEGIN = 0x40000000
_LOCKS_LENGTH = 512
_LEFTOVERS = ("-wal", "-journal")


class OldJob(NamedTuple):
    """A job as pyantz's tables have it; ``config`` None where ``fault`` says what is wrong."""

    job_id: str
    status: int | None
    config: str | None
    fault: str | None
    details: str | None
    worker_id: str | None
    depends_on: tuple[str, ...]


class PyantzFile:
    """The file, open for reading: ``order`` are the ids of its jobs, ``needed`` of dependencies."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.location = str(path)
        self._connection = connection
        self.order = _in_order(self._ask(_JOBS))
        self.order += [row[0] for row in self._ask(_WITHOUT_STATUS)]
        self.needed = frozenset(row[0] for row in self._ask(_NEEDED))

    def read(self, job_ids: Sequence[str]) -> list[OldJob]:
        """These jobs, each with all that belongs to it."""
        named = json.dumps(job_ids)
        statuses = {row[0]: row[1:] for row in self._ask(_STATUSES, named)}
        chunks = _by_first(self._ask(_CHUNKS, named))
        needed = _by_first(self._ask(_DEPENDENCIES, named))
        jobs = []
        for job_id in job_ids:
            status, details, worker_id = statuses.get(job_id, (None, None, None))
            config, fault = _config_of(chunks.get(job_id, []))
            jobs.append(
                OldJob(
                    job_id,
                    status if isinstance(status, int) else None,
                    config,
                    fault,
                    None if details is None else str(details),
                    None if worker_id is None else str(worker_id),
                    tuple(name for (name,) in needed.get(job_id, [])),
                )
            )
        return jobs

    def dependencies(self) -> Iterator[tuple[str, str]]:
        """All edges between jobs that have not ended: (dependent, dependency)."""
        return ((row[0], row[1]) for row in self._ask(_OPEN_EDGES))

    def _ask(self, text: str, *values: object) -> list[Row]:
        try:
            return self._connection.execute(text, values).fetchall()
        except sqlite3.Error as error:
            raise _refusal(self.location, error) from error


_JOBS = """
SELECT job_id, place FROM job_status LEFT JOIN (
    SELECT job_id AS queued, min(q_index) AS place FROM job_queue GROUP BY job_id
) ON queued = job_id ORDER BY job_status.rowid
"""
# Rows that belong to no job are told of, too: by hand or by damage there may be some.
_WITHOUT_STATUS = """
SELECT DISTINCT job_id FROM (
    SELECT job_id FROM queue_items UNION ALL SELECT job_id FROM job_queue
) WHERE job_id IS NOT NULL AND job_id NOT IN (SELECT job_id FROM job_status) ORDER BY job_id
"""
_NEEDED = "SELECT DISTINCT depends_on FROM dependencies"
_STATUSES = """
SELECT job_id, job_status, details, worker_id FROM job_status
WHERE job_id IN (SELECT value FROM json_each(?))
"""
_DEPENDENCIES = """
SELECT job_id, depends_on FROM dependencies
WHERE job_id IN (SELECT value FROM json_each(?)) ORDER BY job_id, depends_on
"""
_CHUNKS = """
SELECT job_id, job_subindex, CAST(job_config_content AS BLOB) FROM queue_items
WHERE job_id IN (SELECT value FROM json_each(?)) ORDER BY job_id, job_subindex
"""
_OPEN_EDGES = """
SELECT edge.job_id, edge.depends_on FROM dependencies AS edge
JOIN job_status AS dependent ON dependent.job_id = edge.job_id
JOIN job_status AS dependency ON dependency.job_id = edge.depends_on
WHERE dependent.job_status < 3 AND dependency.job_status < 3
"""


def _by_first(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for first, *rest in rows:
        found.setdefault(first, []).append(tuple(rest))
    return found


def _config_of(chunks: list[Row]) -> tuple[str | None, str | None]:
    """The text that the chunks make, or what is wrong with them."""
    if not chunks:
        return None, "it has no stored configuration"
    if [index for index, _ in chunks] != list(range(len(chunks))):
        return None, "chunks of its configuration are missing"
    try:
        return b"".join(chunk for _, chunk in chunks).decode(), None
    except (TypeError, UnicodeDecodeError):
        return None, "its configuration is no UTF-8"


def _in_order(jobs: list[Row]) -> list[str]:
    """As they were added; those that wait in the queue have its order among themselves.

    The two differ where pyantz has put one back that had been taken before.
    """
    queued = iter(sorted((place, job_id) for job_id, place in jobs if place is not None))
    return [job_id if place is None else next(queued)[1] for job_id, place in jobs]


@contextmanager
def open_file(path: Path) -> Iterator[PyantzFile]:
    """Open the file so that nothing is written to it, nor beside it.

    Raises ConfigurationError with one sentence where it is missing, in use, or no such file.
    """
    with ExitStack() as opened:
        opened.enter_context(_kept_from_others(path))
        readable = opened.enter_context(_without_leftovers(path))
        connection = opened.enter_context(_connected(readable, path))
        _check_tables(connection, path)
        yield PyantzFile(path, connection)


@contextmanager
def _kept_from_others(path: Path) -> Iterator[None]:
    """Whoever has it open is at work on it; whoever comes now waits until it is read."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except FileNotFoundError:
        raise ConfigurationError(f"There is no file {path}.") from None
    except OSError as error:
        raise ConfigurationError(f"The file {path} cannot be read: {error.strerror}.") from error
    if start != _MAGIC:
        raise ConfigurationError(f"The file {path} is no SQLite database.")
    if not os.access(path, os.W_OK):
        yield  # nobody is at work on it: an archived one, say
        return
    with path.open("r+b") as locked:
        _lock(locked, path)
        yield


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCKS_LENGTH, _LOCKS_BEGIN)
    except (BlockingIOError, PermissionError):
        message = (
            f"The file {path} is in use by another process: let its run end or stop it, then"
            " import it."
        )
        raise ConfigurationError(message) from None
    except OSError:
        return  # a file system without locks, on which no run of pyantz's would work either


@contextmanager
def _without_leftovers(path: Path) -> Iterator[Path]:
    """The file, or where a killed run has left a log beside it, a copy with that folded in."""
    left = [suffix for suffix in _LEFTOVERS if _size_of(f"{path}{suffix}")]
    if not left:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="jobroom-import-") as folder:
        copy = Path(folder, "queue.db")
        try:
            # The file last: to close it gives up the lock on it.
            for suffix in (*left, ""):
                shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        except OSError as error:
            message = (
                f"The file {path} and what a killed run has left beside it cannot be copied to"
                f" {folder} to be read: {error.strerror}."
            )
            raise ConfigurationError(message) from error
        yield copy


def _size_of(path: str) -> int:
    with suppress(OSError):
        return Path(path).stat().st_size
    return 0


@contextmanager
def _connected(readable: Path, path: Path) -> Iterator[sqlite3.Connection]:
    # Immutable: no lock and no -shm, which could not be made in a folder that is read-only.
    options = "mode=ro&immutable=1" if readable == path else "mode=rw"
    address = f"file:{quote(str(readable.absolute()))}?{options}"
    try:
        connection = sqlite3.connect(address, uri=True, isolation_level=None)
    except sqlite3.Error as error:
        raise _refusal(str(path), error) from error
    connection.text_factory = _text
    try:
        yield connection
    finally:
        connection.close()


def _text(stored: bytes) -> str:
    """Damaged text is still shown; a configuration is read as bytes, and must be sound."""
    return stored.decode(errors="replace")


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    query = (
        "SELECT made.name, part.name FROM sqlite_master AS made"
        " JOIN pragma_table_info(made.name) AS part WHERE made.type = 'table'"
    )
    columns: dict[str, set[str]] = {}
    try:
        for table, column in connection.execute(query):
            columns.setdefault(table, set()).add(column)
    except sqlite3.Error as error:
        raise _refusal(str(path), error) from error
    if "alembic_version" in columns:
        message = (
            f"The file {path} is jobroom's own already: open it with SqliteQueue, or copy it with"
            " jobroom db copy."
        )
        raise ConfigurationError(message)
    for table, wanted in COLUMNS.items():
        missing = wanted - columns.get(table, set())
        if missing:
            what = f"column {min(missing)} in {table}" if table in columns else f"table {table}"
            raise ConfigurationError(f"The file {path} is no queue of pyantz's: it has no {what}.")


def _refusal(location: str, error: sqlite3.Error) -> ConfigurationError:
    said = " ".join(str(error).split()).rstrip(".")
    return ConfigurationError(f"The file {location} cannot be read, it may be damaged: {said}.")
