"""A SQLite file: the database at hand."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from jobroom.errors import ConfigurationError
from jobroom.store import foreign, patience
from jobroom.store.statement import Spelling

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from sqlalchemy.engine import Engine

    from jobroom.settings import JobLibSettings

OLDEST_SQLITE = (3, 35, 0)  # the first with RETURNING

CHECK = (
    "check that its disk has room, that you may write the file and its folder,"
    " and that no other process keeps it busy"
)
"""What to look at where a database cannot be written."""
_ANOTHER = "name another file by ZNDRAW_JOBLIB_DATABASE_URL"
_BUSY_AT_UPGRADE_SECONDS = 30.0
_LOG_KEPT_BYTES = 16 * 1024 * 1024

_FileId: TypeAlias = "tuple[int, int] | None"
"""Device and number of a file; None where there is none."""

SPELLING = Spelling(
    "sqlite",
    # Named parameters: what is compiled is read again for their order.
    sqlite_dialect(paramstyle="named"),
    re.compile(r":([a-z]\w*)()"),
    "?",
)
COLUMNS = (
    "SELECT made.name, part.name FROM sqlite_master AS made"
    " JOIN pragma_table_info(made.name) AS part WHERE made.type = 'table'"
)
"""The columns of each table that there is."""


class MovedError(Exception):
    """The database file, or its log, was deleted, moved or replaced while it was open."""

    def __init__(self, location: str) -> None:
        super().__init__(
            f"{location} or its -wal was deleted, moved or replaced; put it back, or restart"
        )


class SQLiteFile:
    """A SQLite file: one writer at a time, readers beside it (write-ahead log)."""

    spelling = SPELLING
    columns_query = COLUMNS
    advice = CHECK
    batch = 100
    is_at_hand = True
    hears_itself = False

    def __init__(self, settings: JobLibSettings) -> None:
        self.path = sqlite_path(settings.database_url)
        self.location = str(self.path)
        self._synchronous = settings.sqlite_synchronous
        self._file, self._log = str(self.path), f"{self.path}-wal"
        self._opened: tuple[_FileId, _FileId] = (None, None)

    def connect(self, *, read_only: bool) -> sqlite3.Connection:
        """Open the file; a missing folder, a junk file or a read-only one is a clear error."""
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            message = f"SQLite 3.35 or newer is needed; this Python has {sqlite3.sqlite_version}."
            raise ConfigurationError(message)
        if self._has_no_folder():
            message = (
                f"The folder {self.path.parent} does not exist;"
                " make it, or set ZNDRAW_JOBLIB_DATABASE_URL."
            )
            raise ConfigurationError(message)
        try:
            return self._connect(read_only=read_only)
        except sqlite3.Error as error:
            raise self.refusal(error) from error

    def refusal(self, error: sqlite3.Error) -> ConfigurationError:
        """What is wrong with the file, and what to do, by the driver's error."""
        code = _primary_code(error)
        if os.path.isdir(self.path):  # noqa: PTH112 - Path.is_dir raises where one may not look
            advice = f"it is a folder; {_ANOTHER}"
        elif code == sqlite3.SQLITE_NOTADB:
            advice = f"it is no SQLite database; {_ANOTHER}"
        elif code == sqlite3.SQLITE_CORRUPT:
            advice = f"it is damaged ({error}); put a whole copy in its place, or {_ANOTHER}"
        else:
            advice = f"{CHECK} ({error}); or {_ANOTHER}"
        return ConfigurationError(f"The database {self.location} cannot be opened: {advice}.")

    def _has_no_folder(self) -> bool:
        try:
            return not self.path.parent.is_dir()
        except PermissionError:  # it may be there; SQLite will say that it may not be opened
            return False

    def _connect(self, *, read_only: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=patience.left(self._BUSY_AT_OPEN_SECONDS),
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        try:
            self._make_ready(connection, read_only=read_only)
        except sqlite3.Error:
            connection.close()
            raise
        self._opened = self._identity()
        return connection

    def _make_ready(self, connection: sqlite3.Connection, *, read_only: bool) -> None:
        if not read_only:
            connection.execute("PRAGMA journal_mode = WAL")  # a file of somebody else stays as is
            # What a long reader, or a full disk, made the log grow to is given back.
            connection.execute(f"PRAGMA journal_size_limit = {_LOG_KEPT_BYTES}")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA cache_size = -32768")
        connection.execute("PRAGMA temp_store = MEMORY")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        # From here on a busy writer is waited for by the lane, in small random steps: SQLite's
        # own handler starves writers for up to seconds (measured: facts on performance).
        connection.execute("PRAGMA busy_timeout = 0")
        if not read_only:
            self._check_writable(connection)

    def _check_writable(self, connection: sqlite3.Connection) -> None:
        """SQLite opens a file that it may not write as readily as any; find out now."""
        try:
            connection.execute("BEGIN IMMEDIATE")  # of a read-only file it makes a mere BEGIN
            connection.execute("PRAGMA user_version = 0")
            connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            if not self.is_busy(error):  # whoever writes just now proves that it can be done
                raise

    def _identity(self) -> tuple[_FileId, _FileId]:
        """Which files lie at the paths of the database and of its log."""
        return _file_id(self._file), _file_id(self._log)

    _BUSY_AT_OPEN_SECONDS = 10.0

    def now(self, _connection: sqlite3.Connection) -> int:
        """The host's clock: it is what SQLite itself would ask, and ten times as slowly."""
        return time.time_ns() // 1000

    def begin(self, connection: sqlite3.Connection, *, write: bool) -> None:
        """Take the write lock at once: upgrading a read lock later fails whatever the timeout.

        Raises ``MovedError`` where another file lies at a path now, or none: what would be
        written would be found by nobody.
        """
        file, log = self._identity()
        if file != self._opened[0] or (log != self._opened[1] is not None):
            raise MovedError(self.location)
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")

    def is_busy(self, error: Exception) -> bool:
        """SQLITE_BUSY in any of its kinds, and SQLITE_LOCKED."""
        return _primary_code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

    def is_unavailable(self, error: Exception) -> bool:
        """Disk full, I/O error, file gone or made read-only under us."""
        return isinstance(error, MovedError) or _primary_code(error) in {
            sqlite3.SQLITE_BUSY,
            sqlite3.SQLITE_LOCKED,
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_READONLY,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_NOTADB,
            sqlite3.SQLITE_NOMEM,
        }

    def tolerate(self, connection: sqlite3.Connection, error: Exception) -> bool:
        """A text that is no UTF-8 comes as bytes from now on, which a damaged row may hold.

        Only from its first sight on: a function for each text costs more than the driver's own.
        """
        if "Could not decode to UTF-8" not in str(error) or connection.text_factory is not str:
            return False
        connection.text_factory = _text_or_bytes
        return True

    def read(self, text: str) -> list[tuple[Any, ...]]:
        """Run one query outside of everything; waits for a migration by another process."""
        connection = self.connect(read_only=True)
        try:
            _bear_busy(connection)
            return connection.execute(text).fetchall()
        except sqlite3.Error as error:
            raise self.refusal(error) from error
        finally:
            connection.close()

    def engine(self) -> Engine:
        """For alembic: an engine on connections of our own."""
        from sqlalchemy import create_engine, event
        from sqlalchemy.pool import NullPool

        def connect() -> sqlite3.Connection:
            connection = self.connect(read_only=False)
            _bear_busy(connection)
            return connection

        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

        @event.listens_for(engine, "begin")
        def begin(connection: object) -> None:
            # The lock first: whoever comes second waits here and then finds nothing left to do.
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # type: ignore[attr-defined]  # an event's Connection

        return engine

    def close(self) -> None:
        """Nothing is held but by the connections."""

    def foreign_version(self, connection: sqlite3.Connection) -> int:
        """``data_version``: moves when another connection commits, never for our own commits."""
        return int(connection.execute("PRAGMA data_version").fetchone()[0])

    def watch_commits(self) -> AbstractContextManager[foreign.Commits]:
        """Every commit writes to the write-ahead log, which lives as long as we have it open."""
        return foreign.watch_file(Path(self._log))


def sqlite_path(database_url: str) -> Path:
    """The file of a ``sqlite:///`` URL, as an absolute path."""
    scheme, separator, rest = database_url.strip().partition("://")
    try:
        url = make_url(f"{scheme.lower()}{separator}{rest}")
    except (ArgumentError, ValueError):
        message = "ZNDRAW_JOBLIB_DATABASE_URL is not a URL; write sqlite:///jobroom.db, say."
        raise ConfigurationError(message) from None
    if url.database in (None, "", ":memory:"):
        message = "A queue in memory cannot be shared; name a file: sqlite:///jobroom.db, say."
        raise ConfigurationError(message)
    if str(url.database).startswith("file:"):
        message = (
            "ZNDRAW_JOBLIB_DATABASE_URL takes a path, not a file: URI;"
            " write sqlite:///jobroom.db, say."
        )
        raise ConfigurationError(message)
    return Path(str(url.database)).absolute()


def _bear_busy(connection: sqlite3.Connection) -> None:
    """Have SQLite wait for a migration by another process, which no lane does here."""
    milliseconds = int(patience.left(_BUSY_AT_UPGRADE_SECONDS) * 1000)
    connection.execute(f"PRAGMA busy_timeout = {milliseconds}")


def _text_or_bytes(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def _file_id(path: str) -> _FileId:
    try:
        found = os.stat(path)  # noqa: PTH116 - a path's own is slower, and each transaction asks
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _primary_code(error: Exception) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF
