"""DB-API 2.0 over a transport, for SQLAlchemy and for tools that speak nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from jobroom.store.hrana.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004 - DB-API's name
)
from jobroom.store.hrana.sql import first_word, may_write
from jobroom.store.hrana.transport import Result, Step, Stream, Transport
from jobroom.store.hrana.url import open_transport

__all__ = [
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "sqlite_version_info",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"
sqlite_version_info = (3, 45, 1)
"""What sqld 0.24 says; a server may have another."""
Binary = bytes
Description = tuple[str, None, None, None, None, None, None]
LARGEST_BATCH = 500


def connect(
    place: str | Transport,
    *,
    token: str | None = None,
    timeout_seconds: float = 10.0,
    autocommit: bool = False,
) -> Connection:
    """Connect to a URL, or over a transport that stays its owner's; nothing is sent yet."""
    if isinstance(place, str):
        opened = open_transport(place, (lambda: token) if token else None, timeout_seconds)
        return Connection(opened, autocommit=autocommit, owns_transport=True)
    return Connection(place, autocommit=autocommit)


class Connection:
    """A connection: one transaction after the other, opened by its first statement.

    That takes the write lock at once, unless it is certainly a query; a transaction that begins
    with a query and writes later may meet SQLITE_BUSY. ``begin(write=True)``, or the statement
    BEGIN IMMEDIATE, takes the lock first. With ``autocommit`` each statement stands alone.
    """

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(
        self, transport: Transport, *, autocommit: bool = False, owns_transport: bool = False
    ) -> None:
        self.transport = transport
        self._autocommit = autocommit
        self._owns_transport = owns_transport
        self._stream: Stream | None = None
        self._is_closed = False

    @property
    def autocommit(self) -> bool:
        """Whether each statement commits by itself."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if value and self._stream is not None:
            self.commit()
        self._autocommit = value

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._stream is not None

    def begin(self, *, write: bool) -> None:
        """Begin a transaction, also with ``autocommit``; its first statement carries it along."""
        self._check_open()
        if self._stream is not None:
            raise ProgrammingError("A transaction is open already.", code="SQL_TRANSACTION")
        self._stream = self.transport.stream(write=write)

    def cursor(self) -> Cursor:
        """A cursor; all of a connection work in its one transaction."""
        self._check_open()
        return Cursor(self)

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> Cursor:
        """A new cursor that has run the statement."""
        return self.cursor().execute(sql, parameters)

    def run(self, steps: Sequence[Step]) -> list[Result]:
        """Run statements in the open transaction, or as this connection begins one."""
        self._check_open()
        if self._stream is None:
            write = any(may_write(step.sql) for step in steps)
            if self._autocommit:
                return self.transport.batch(steps, write=write)
            # Only the first one decides: what was read first must still hold when it writes.
            self._stream = self.transport.stream(write=may_write(steps[0].sql))
        return self._stream.run(steps)

    def commit(self) -> None:
        """Commit; nothing is sent where no statement was run."""
        self._check_open()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.commit()

    def rollback(self) -> None:
        """Undo the transaction; nothing is sent where there is none."""
        self._check_open()
        self._give_up()

    def close(self) -> None:
        """Undo what is not committed, and close; a second call does nothing."""
        self._give_up()
        if not self._is_closed and self._owns_transport:
            self.transport.close()
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self._give_up()

    def _give_up(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.rollback()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ProgrammingError("The connection is closed.", code="CLOSED")


class Cursor:
    """The rows of the last statement, all of which have come with its answer."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.description: list[Description] | None = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self._rows: list[tuple[Any, ...]] = []
        self._next = 0
        self._is_closed = False

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> Self:
        """Run one statement; BEGIN, COMMIT and ROLLBACK move the connection's transaction."""
        self._check_open()
        self._keep(None)
        if not self._moves_transaction(sql):
            self._keep(self.connection.run([Step(sql, tuple(parameters))])[0])
        return self

    def executemany(self, sql: str, sets: Sequence[Sequence[object]]) -> Self:
        """Run one statement for each set of parameters, many of them in one round trip."""
        self._check_open()
        self._keep(None)
        steps = [Step(sql, tuple(parameters)) for parameters in sets]
        results: list[Result] = []
        for start in range(0, len(steps), LARGEST_BATCH):
            results += self.connection.run(steps[start : start + LARGEST_BATCH])
        self.rowcount = sum(map(_written, results))
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, ``arraysize`` of them where not said."""
        self._check_open()
        start = self._next
        self._next = min(len(self._rows), start + (self.arraysize if size is None else size))
        return self._rows[start : self._next]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rest of the rows."""
        return self.fetchmany(len(self._rows))

    def close(self) -> None:
        """Forget the rows."""
        self._keep(None)
        self._is_closed = True

    def setinputsizes(self, sizes: object) -> None:
        """Do nothing, as DB-API allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing, as DB-API allows."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchone, None)

    def _moves_transaction(self, sql: str) -> bool:
        word = first_word(sql)
        if word == "BEGIN":
            self.connection.begin(write="IMMEDIATE" in sql.upper() or "EXCLUSIVE" in sql.upper())
        elif word in ("COMMIT", "END"):
            self.connection.commit()
        elif word == "ROLLBACK" and " TO " not in f"{' '.join(sql.upper().split())} ":
            self.connection.rollback()
        else:
            return False
        return True

    def _keep(self, result: Result | None) -> None:
        self.description, self.rowcount, self.lastrowid = None, -1, None
        self._rows, self._next = [], 0
        if result is not None:
            self._rows = result.rows
            self.rowcount = _written(result)
            self.lastrowid = result.rowid
            if result.columns:
                self.description = [
                    (name, None, None, None, None, None, None) for name in result.columns
                ]

    def _check_open(self) -> None:
        if self._is_closed:
            raise ProgrammingError("The cursor is closed.", code="CLOSED")


def _written(result: Result) -> int:
    """How many rows a statement returned, or else wrote."""
    return len(result.rows) if result.columns else result.count
