"""One end of a copy: a database that rows are read from, or written to, many at a time."""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from jobroom.errors import ConfigurationError, StoreUnavailable
from jobroom.store import dialect, migrate, presence
from jobroom.store.copy_rows import LIMITS, Limits, Row
from jobroom.store.session import Outcome, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jobroom.settings import JobLibSettings
    from jobroom.store.copy_rows import Rows
    from jobroom.store.dialect import LocalDatabase
    from jobroom.store.network import NetworkDatabase
    from jobroom.store.session import Answer
    from jobroom.store.statement import Statement

    Write = tuple[Statement, tuple[Any, ...]]

T = TypeVar("T")

PATIENCE_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""The pauses after which a store that does not answer is tried again."""


class RowsRefused(Exception):
    """The database does not take these rows; its driver says why."""


class End(Protocol):
    """Where rows come from, or go to."""

    location: str
    kind: str
    limits: Limits

    def ask(self, statement: Statement, **params: Any) -> list[Row]:
        """Run a query; raises StoreUnavailable where the store has been away for long."""

    def ask_all(self, statements: Iterable[Statement]) -> list[list[Row]]:
        """Run queries at one moment."""

    def write(self, writes: Sequence[Write]) -> None:
        """Run statements that write, all or none.

        Raises StoreUnavailable where the store took nothing, or nobody knows; RowsRefused where
        it will never take them.
        """

    def add(self, rows: Rows, values: Sequence[Row]) -> None:
        """Insert rows, all or none; raises as ``write`` does."""

    def renew(self) -> None:
        """Read from here on what has been committed by now."""

    def close(self) -> None:
        """Let go of the database."""


class FileEnd:
    """A file of this host. Reading, it sees one moment of it all the time, whoever writes."""

    def __init__(
        self, database: LocalDatabase, settings: JobLibSettings, *, read_only: bool
    ) -> None:
        self.location = database.location
        self.kind = database.spelling.name
        self.limits = LIMITS.get(self.kind, Limits())
        self._database = database
        self._reads = read_only
        self._connection: sqlite3.Connection = database.connect(read_only=read_only)
        # Nobody else should write; whoever does so all the same is soon done.
        milliseconds = int(settings.database_busy_seconds * 1000)
        self._connection.execute(f"PRAGMA busy_timeout = {milliseconds}")
        self.renew()

    def ask(self, statement: Statement, **params: Any) -> list[Row]:
        """Run a query."""
        compiled = statement.compiled(self._database.spelling)
        values = compiled.values(params)
        try:
            try:
                return self._connection.execute(compiled.text, values).fetchall()
            except sqlite3.Error as error:
                if not self._database.tolerate(self._connection, error):
                    raise
            return self._connection.execute(compiled.text, values).fetchall()
        except sqlite3.Error as error:
            raise self._database.refusal(error) from error

    def ask_all(self, statements: Iterable[Statement]) -> list[list[Row]]:
        """Run queries; a source sees one moment anyway, and of a target we are the only writer."""
        return [self.ask(statement) for statement in statements]

    def write(self, writes: Sequence[Write]) -> None:
        """Run statements that write, all or none."""
        texts = ((one.compiled(self._database.spelling).text, values) for one, values in writes)
        groups = [
            (text, [values for _, values in group])
            for text, group in groupby(texts, key=itemgetter(0))
        ]
        self._commit(groups)

    def add(self, rows: Rows, values: Sequence[Row]) -> None:
        """Insert rows: the driver runs one statement for all of them."""
        self._commit([(rows.insert_one.compiled(self._database.spelling).text, values)])

    def renew(self) -> None:
        """A new moment to be read."""
        if self._reads:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._database.begin(self._connection, write=False)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._database.close()

    def _commit(self, groups: Sequence[tuple[str, Sequence[Row]]]) -> None:
        try:
            self._database.begin(self._connection, write=True)
            for text, sets in groups:
                self._connection.executemany(text, sets)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if self._database.is_unavailable(error):
                raise StoreUnavailable(_away(self.location, error)) from error
            raise RowsRefused(str(error)) from error


class ServerEnd:
    """A store across a network. Each of its conversations is one round trip."""

    def __init__(self, database: NetworkDatabase) -> None:
        self.location = database.location
        self.kind = database.spelling.name
        self.limits = LIMITS.get(self.kind, Limits())
        self._database = database

    def ask(self, statement: Statement, **params: Any) -> list[Row]:
        """Run a query, several times where the store does not answer."""
        compiled = statement.compiled(self._database.spelling)
        step = Step(compiled.text, compiled.values(params))
        return patiently(lambda: self._send([step], write=False))[0].rows

    def ask_all(self, statements: Iterable[Statement]) -> list[list[Row]]:
        """Run queries in one round trip."""
        spelling = self._database.spelling
        steps = [Step(statement.compiled(spelling).text) for statement in statements]
        answers = patiently(lambda: self._send(steps, write=False))
        return [answer.rows for answer in answers]

    def write(self, writes: Sequence[Write]) -> None:
        """Run statements that write, all or none."""
        spelling = self._database.spelling
        steps = [Step(one.compiled(spelling).text, values, writes=True) for one, values in writes]
        self._send(steps, write=True)

    def add(self, rows: Rows, values: Sequence[Row]) -> None:
        """Insert rows, many by one statement."""
        self.write(list(rows.inserts(values)))

    def renew(self) -> None:
        """Each query sees what has been committed by then."""

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def _send(self, steps: list[Step], *, write: bool) -> list[Answer]:
        session = self._database.session(write=write)
        try:
            return session.alone(steps)
        except Exception as error:
            outcome = self._database.outcome(error)
            if outcome is None:
                raise
            if outcome is Outcome.FAULT and write:
                raise RowsRefused(" ".join(str(error).split()).rstrip(".")) from error
            if outcome is Outcome.FAULT:
                raise self._database.refusal(error) from error
            raise StoreUnavailable(_away(self.location, error)) from error
        finally:
            session.close()


def open_source(settings: JobLibSettings) -> End:
    """The database to copy from; raises ConfigurationError where it holds no queue of ours."""
    with _closed_on_error(dialect.open_database(settings)) as database:
        presence.check(database)
        found = migrate.current(database)
        if found is None:
            raise ConfigurationError(f"The source {database.location} holds no queue.")
        _check_revision(found, f"The source {database.location}")
        return _end_of(database, settings, read_only=True)


def open_target(settings: JobLibSettings) -> End:
    """The database to copy to, made ready where it is empty."""
    with _closed_on_error(dialect.open_database(settings)) as database:
        found = migrate.current(database)
        if found is None:
            migrate.upgrade(database)
        else:
            _check_revision(found, f"The target {database.location}")
        return _end_of(database, settings, read_only=False)


@contextmanager
def _closed_on_error(database: Any) -> Iterator[Any]:
    """Nobody else will close a database of which no end is made."""
    try:
        yield database
    except BaseException:
        database.close()
        raise


def _check_revision(found: str, name: str) -> None:
    if found != migrate.HEAD:
        message = (
            f"{name} has schema {found}, and only {migrate.HEAD} can be copied: run jobroom db"
            " upgrade on it, or use the jobroom that it is from."
        )
        raise ConfigurationError(message)


def _end_of(database: Any, settings: JobLibSettings, *, read_only: bool) -> End:
    if database.is_at_hand:
        return FileEnd(database, settings, read_only=read_only)
    return ServerEnd(database)


def patiently(attempt: Callable[[], T]) -> T:
    """Try again and again what may be repeated, as long as a restart of the store takes."""
    for pause in PATIENCE_SECONDS:
        try:
            return attempt()
        except StoreUnavailable:
            time.sleep(pause)
    return attempt()


def _away(location: str, error: Exception) -> str:
    said = " ".join(str(error).split()).rstrip(".")
    return f"The database {location} could not go on ({said})."
