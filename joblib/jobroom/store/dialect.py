"""The differences between databases: the only place that asks which one it is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from jobroom import secret_store
from jobroom.errors import ConfigurationError
from jobroom.settings import on_lambda

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from sqlalchemy.engine import Engine

    from jobroom.settings import JobLibSettings
    from jobroom.store import foreign
    from jobroom.store.statement import Spelling

log = logging.getLogger("jobroom")


class Database(Protocol):
    """What is asked of any database."""

    spelling: ClassVar[Spelling]
    columns_query: ClassVar[str]
    """Asks for (table, column) of all that there is."""
    is_at_hand: ClassVar[bool]
    """Whether it is a file of this host, upgraded when it is opened; a server's never is."""
    hears_itself: ClassVar[bool]
    """Whether what is told of others' commits tells of our own as well: each of them is news."""
    advice: ClassVar[str]
    """What to look at where it cannot be written."""
    batch: ClassVar[int]
    """How many rows one transaction of a sweep deals with, at most: others wait meanwhile."""
    location: str
    """What it is called in messages; never holds a secret."""

    def read(self, text: str) -> list[tuple[Any, ...]]:
        """Run one query outside of everything. Raises ConfigurationError where it cannot be."""

    def refusal(self, error: Any) -> ConfigurationError:
        """What is wrong with the database, and what to do, by the driver's error."""

    def is_busy(self, error: Any) -> bool:
        """Whether another writer is at work: worth another try at once."""

    def engine(self) -> Engine:
        """For alembic, which speaks SQLAlchemy; to be disposed of."""

    def watch_commits(self) -> AbstractContextManager[foreign.Commits]:
        """Signs that somebody, perhaps we ourselves, may have committed."""

    def close(self) -> None:
        """Let go of what is kept open between requests."""


class LocalDatabase(Database, Protocol):
    """A database whose connections are this process's own, one for each lane."""

    def connect(self, *, read_only: bool) -> Any:
        """Open a DB-API connection of our own, ready for use."""

    def now(self, connection: Any) -> int:
        """The store's clock, in microseconds since 1970."""

    def begin(self, connection: Any, *, write: bool) -> None:
        """Begin a transaction; raises the driver's error where the store is busy."""

    def is_unavailable(self, error: Exception) -> bool:
        """Whether the store, not the statement, is at fault: worth another try later."""

    def tolerate(self, connection: Any, error: Exception) -> bool:
        """Whether the connection can read past this error from now on: worth another try."""

    def foreign_version(self, connection: Any) -> int:
        """A number that changes when somebody else commits; asked outside a transaction."""


def open_database(settings: JobLibSettings) -> Any:
    """The database that the settings name; nothing is connected yet.

    Raises ConfigurationError for a URL that names none that we know.
    """
    url = secret_store.database_url(settings, _same_kind())
    kind = kind_of(url.value())
    if kind == "sqlite":
        from jobroom.store.sqlite_file import SQLiteFile

        if on_lambda():
            # Tasks would be taken, and be gone with the environment: nothing fails, nobody is told.
            log.error("store.alone advice=%s", ALONE)
        said = {"database_url": url.value(), "database_url_arn": None}
        return SQLiteFile(settings.model_copy(update=said))
    if kind == "libsql":
        from jobroom.store.libsql import LibSQL

        return LibSQL(settings, url)
    from jobroom.store.postgres import Postgres

    return Postgres(settings, url)


ALONE = (
    "Each execution environment has a SQLite file of its own, which ends with it; set"
    " ZNDRAW_JOBLIB_DATABASE_URL to libsql:// or postgresql://."
)


def _same_kind() -> Callable[[str], None]:
    """Refuses a URL that cannot be read, or that names another database than the first did."""
    first: list[str] = []

    def check(url: str) -> None:
        kind = kind_of(url)
        if first and kind != first[0]:
            message = "ZNDRAW_JOBLIB_DATABASE_URL names another kind of database: start anew."
            raise ConfigurationError(message)
        if kind == "libsql":
            from jobroom.store.hrana import url as libsql_url

            libsql_url.parse(url)
        elif kind == "postgresql":
            from jobroom.store import postgres_login

            postgres_login.parameters_of(url)
        first[:] = [kind]

    return check


KINDS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "libsql": "libsql",
    "libsql+client": "libsql",
    "https": "libsql",
    "http": "libsql",
    "postgresql": "postgresql",
    "postgresql+psycopg": "postgresql",
    "postgres": "postgresql",
}
"""The database that each kind of URL names."""


def kind_of(database_url: str) -> str:
    """Which database a URL names: sqlite, libsql or postgresql."""
    # No more of it is read here: what comes behind is the driver's, and may be a secret.
    name, separator, _ = database_url.strip().partition("://")
    name = name.lower()
    if not separator:
        message = "ZNDRAW_JOBLIB_DATABASE_URL is not a URL; write sqlite:///jobroom.db, say."
        raise ConfigurationError(message)
    if name not in KINDS:
        message = (
            f"ZNDRAW_JOBLIB_DATABASE_URL names {name!r}; the queue is kept in a SQLite file"
            " (sqlite:///jobroom.db, say), in libSQL (libsql://) or in PostgreSQL (postgresql://)."
        )
        raise ConfigurationError(message)
    return KINDS[name]
