"""What can go wrong between us and a libSQL server, in the classes of DB-API 2.0."""

from __future__ import annotations

from typing import Self


class Warning(Exception):  # noqa: A001 - DB-API's name
    """DB-API's; never raised here."""


class Error(Exception):
    """Base of all errors.

    ``code`` is the server's, such as ``SQLITE_BUSY``, or one of ours: ``TRANSPORT`` (no
    connection, or it broke), ``TIMEOUT``, ``UNAUTHORIZED``, ``FORBIDDEN``, ``HTTP_502``,
    ``PROTOCOL`` (an answer that makes no sense), ``STREAM_INVALID``, ``STREAM_CLOSED``,
    ``TRANSACTION_LOST``, ``BUSY_HERE`` (too many writers in this process), ``CLOSED``.
    ``applied`` is False where certainly nothing of the request was applied, None where nobody
    knows: it may have been sent, and no whole answer came.
    """

    def __init__(self, message: str, *, code: str = "ERROR", applied: bool | None = False) -> None:
        super().__init__(message)
        self.code = code
        self.applied = applied

    @property
    def is_busy(self) -> bool:
        """Whether another try at once is sensible: others write, and nothing was applied."""
        return self.applied is False and self.code.startswith(_BUSY)

    @property
    def is_unavailable(self) -> bool:
        """Whether the store is at fault, not the statement: worth another try later."""
        return self.code.startswith(_UNAVAILABLE)

    def copy(self) -> Self:
        """The same error to be raised in another thread."""
        return type(self)(str(self), code=self.code, applied=self.applied)


class InterfaceError(Error):
    """The client was used in a way that it does not allow, such as after its end."""


class DatabaseError(Error):
    """An error of the database; the classes below say which kind."""


class OperationalError(DatabaseError):
    """The server, or the way to it, did not do what it should; also a missing table."""


class IntegrityError(DatabaseError):
    """A constraint forbids it."""


class ProgrammingError(DatabaseError):
    """The statement, or its parameters, cannot be right."""


class DataError(DatabaseError):
    """A value, or a result, that cannot be sent or kept."""


class InternalError(DatabaseError):
    """The database has met a fault of its own."""


class NotSupportedError(DatabaseError):
    """The transport, or the server, cannot do this at all."""


def of_statement(code: str | None, message: str, *, applied: bool | None = False) -> DatabaseError:
    """The error that the server answers for one statement."""
    # sqld says of an argument that is too long that it is none.
    known = "SQLITE_TOOBIG" if "too big" in message else code or "UNKNOWN"
    sentence = f"{message.removeprefix('SQLite error: ').rstrip('.')} ({known})."
    for prefix, kind in _KINDS:
        if known.startswith(prefix):
            return kind(sentence, code=known, applied=applied)
    return OperationalError(sentence, code=known, applied=applied)


_BUSY = (
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
    "TRANSACTION_BUSY",
    "TRANSACTION_TIMEOUT",
    "BUSY_HERE",
)
_UNAVAILABLE = (
    *_BUSY,
    "TRANSPORT",
    "TIMEOUT",
    "PROTOCOL",
    "CLOSED",
    "UNAUTHORIZED",
    "FORBIDDEN",
    "HTTP_404",
    "HTTP_429",
    "HTTP_5",
    "STREAM_",
    "TRANSACTION_LOST",
    "BLOCKED",
    "SQLITE_FULL",
    "SQLITE_IOERR",
    "SQLITE_READONLY",
    "SQLITE_CANTOPEN",
    "SQLITE_CORRUPT",
    "SQLITE_NOTADB",
    "SQLITE_NOMEM",
    "SQLITE_PROTOCOL",
    "SQLITE_INTERRUPT",
)
_KINDS: tuple[tuple[str, type[DatabaseError]], ...] = (
    ("SQLITE_CONSTRAINT", IntegrityError),
    ("SQLITE_MISMATCH", IntegrityError),
    ("SQLITE_TOOBIG", DataError),
    ("RESPONSE_TOO_LARGE", DataError),
    ("SQL_INPUT_ERROR", OperationalError),  # a missing column, say: as sqlite3 has it
    ("SQL_", ProgrammingError),
    ("ARGS_", ProgrammingError),
    ("SQLITE_RANGE", ProgrammingError),
    ("SQLITE_MISUSE", ProgrammingError),
    ("SQLITE_INTERNAL", InternalError),
    ("SQLITE_CORRUPT", DatabaseError),
    ("SQLITE_NOTADB", DatabaseError),
)
