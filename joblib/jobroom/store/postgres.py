"""PostgreSQL: the store for those who outgrow one machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from sqlalchemy.dialects.postgresql.psycopg import dialect as psycopg_dialect

from jobroom import secret_store
from jobroom.errors import ConfigurationError
from jobroom.store.session import Outcome
from jobroom.store.statement import Spelling

try:
    import psycopg

    from jobroom.store import postgres_login, postgres_pool, postgres_waking
    from jobroom.store.postgres_line import Connection
    from jobroom.store.postgres_session import OUTDATED, PerhapsKeptError, PostgresSession
except ImportError as error:
    message = 'A PostgreSQL store needs its driver; install it: pip install "jobroom[postgres]".'
    raise ConfigurationError(message) from error

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from sqlalchemy.engine import Engine

    from jobroom.settings import JobLibSettings
    from jobroom.store import foreign

OLDEST_SERVER = 16  # the first with IS JSON
UPGRADE_SECONDS = 365 * 86_400.0
"""A statement of an upgrade takes as long as it takes."""
_URL = postgres_login.URL

SPELLING = Spelling(
    "postgresql",
    psycopg_dialect(paramstyle="pyformat"),  # type: ignore[no-untyped-call]  # SQLAlchemy's own
    re.compile(r"%\(([a-z]\w*)\)s((?:::[A-Z]+(?: PRECISION)?(?:\[\])?)?)"),
    "%s",
    postgres_waking.CLOCK,
)
COLUMNS = (
    "SELECT made.relname, part.attname FROM pg_class AS made"
    " JOIN pg_namespace AS room ON room.oid = made.relnamespace"
    " JOIN pg_attribute AS part ON part.attrelid = made.oid"
    " WHERE room.nspname = current_schema() AND made.relkind IN ('r', 'p')"
    " AND part.attnum > 0 AND NOT part.attisdropped"
)
"""The columns of each table of the schema that new tables go to."""
_LIMIT_UPGRADE = "SET LOCAL idle_in_transaction_session_timeout = '60s'"
_LOCK_UPGRADE = (
    "SELECT pg_advisory_xact_lock(hashtextextended('jobroom upgrade ' || current_schema(), 0))"
)

_OUTCOMES = {
    "40001": Outcome.BUSY,  # serialization failure
    "40P01": Outcome.BUSY,  # deadlock
    "55P03": Outcome.BUSY,  # lock timeout
    "57014": Outcome.BUSY,  # statement timeout, or cancelled by hand
    "25P03": Outcome.BUSY,  # open too long, which a pause of this process may have been
    "25P04": Outcome.BUSY,
    "53300": Outcome.BUSY,  # too many connections
    "40003": Outcome.UNKNOWN,
    "54000": Outcome.TOO_LARGE,  # an entry of an index
    "25006": Outcome.AWAY,  # read-only: a standby, or a disk that is nearly full
    "42501": Outcome.AWAY,  # a right was taken away
    "3D000": Outcome.AWAY,  # no such database
}
_AWAY = ("08", "28", "53", "57P", "58", "XX")
"""Connection, login, resources, shutdown, I/O, damage: kinds that the server is at fault for."""


class Postgres:
    """A PostgreSQL database, spoken to over a few connections."""

    spelling: ClassVar[Spelling] = SPELLING
    columns_query: ClassVar[str] = COLUMNS
    advice: ClassVar[str] = (
        "check that its disk has room, and that the user may create tables in its schema"
    )
    is_at_hand: ClassVar[bool] = False
    batch: ClassVar[int] = 100
    hears_itself: ClassVar[bool] = False
    skips_locked = True
    spares = False

    def __init__(self, settings: JobLibSettings, url: secret_store.Text | None = None) -> None:
        self.threads = settings.database_connections
        self._login = postgres_login.Login(url or secret_store.Fixed(settings.database_url))
        self.location = postgres_login.location_of(self._login.parameters())
        self._pool = postgres_pool.Pool(
            self._login,
            size=settings.database_connections,
            seconds=settings.database_busy_seconds,
        )
        self._telling = postgres_waking.Telling()
        self._waking = postgres_waking.Waking(self._login, self._telling.me)

    def session(self, *, write: bool) -> PostgresSession:  # noqa: ARG002 - all may write here
        """A conversation; nothing is sent before its first statement."""
        return PostgresSession(self._pool, self._telling)

    def outcome(self, error: Exception) -> Outcome | None:
        """What became of a transaction that met this error; None for an error of our own."""
        if isinstance(error, PerhapsKeptError):
            return Outcome.UNKNOWN
        if isinstance(error, postgres_pool.TakenError):
            return Outcome.BUSY
        if not isinstance(error, psycopg.Error):
            return None
        state = error.sqlstate
        if state in OUTDATED:
            self._pool.drop()
        if state is None:
            return _without_state(error)
        if state in _OUTCOMES:
            return _OUTCOMES[state]
        return Outcome.AWAY if state.startswith(_AWAY) else Outcome.FAULT

    def is_busy(self, error: Any) -> bool:
        """Whether others were at work: worth another try at once."""
        return self.outcome(error) is Outcome.BUSY

    def read(self, text: str) -> list[tuple[Any, ...]]:
        """Run one query outside of everything. Raises ConfigurationError where it cannot be."""
        try:
            with self._connect() as connection:
                return connection.execute(text.encode()).fetchall()
        except psycopg.Error as error:
            raise self.refusal(error) from error

    def refusal(self, error: Exception) -> ConfigurationError:
        """What is wrong with the database, and what to do, by the driver's error."""
        reason = _reason(error)
        for sign, what in _REFUSALS:
            if sign in reason:
                return ConfigurationError(f"The database {self.location} {what}.")
        return ConfigurationError(f"The database {self.location} cannot be used: {reason}.")

    def engine(self) -> Engine:
        """For alembic: an engine on connections of our own."""
        from sqlalchemy import create_engine, event
        from sqlalchemy.pool import NullPool

        engine = create_engine("postgresql+psycopg://", creator=self._connect, poolclass=NullPool)

        @event.listens_for(engine, "begin")
        def begin(connection: object) -> None:
            # The lock first: whoever comes second waits here and then finds nothing left to do.
            connection.exec_driver_sql(_LIMIT_UPGRADE)  # type: ignore[attr-defined]  # as below
            connection.exec_driver_sql(_LOCK_UPGRADE)  # type: ignore[attr-defined]  # an event's Connection

        return engine

    def watch_commits(self) -> AbstractContextManager[foreign.Commits]:
        """Signs of what other processes commit."""
        return self._waking.watch()

    def has_news(self) -> bool:
        """Whether another process may have committed since this was last asked."""
        return self._waking.has_news()

    def close(self) -> None:
        """Close the connections."""
        self._waking.close()
        self._pool.close()

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection as any program has it. Raises ConfigurationError for one that is no use."""
        try:
            # Prepared statements are lost behind a pooler.
            connection = self._login.reach(
                lambda told: Connection.connect(
                    **postgres_pool.hurried(told), prepare_threshold=None
                )
            )
        except psycopg.Error as error:
            raise self.refusal(error) from error
        connection.patience = UPGRADE_SECONDS
        what = _is_unfit(connection.info)
        if what is not None:
            connection.close()
            raise ConfigurationError(f"The database {self.location} {what}.")
        return connection


def _is_unfit(info: psycopg.ConnectionInfo) -> str | None:
    encoding = info.parameter_status("server_encoding")
    if info.server_version < OLDEST_SERVER * 10_000:
        version = info.server_version // 10_000
        return f"is PostgreSQL {version}; jobroom needs {OLDEST_SERVER} or newer"
    if encoding not in {None, "UTF8"}:
        return f"has the encoding {encoding}; create one with ENCODING 'UTF8'"
    return None


def _without_state(error: psycopg.Error) -> Outcome:
    """Of an error that no server has numbered: one of a connection, made or lost, or of ours."""
    if not isinstance(error, psycopg.OperationalError):
        return Outcome.FAULT
    return Outcome.BUSY if "too many" in str(error) else Outcome.AWAY


def _reason(error: Exception) -> str:
    """The last line of what the driver says, which tells what the last try met."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if "FATAL:" in line), lines[0] if lines else repr(error))
    return told.rpartition("FATAL:")[2].strip().rstrip(".")


_LOGIN = f"refuses the login; check the user and the password in {_URL}"
_REFUSALS = (
    ("permission denied", f"may not be used by this user; grant it the rights, or change {_URL}"),
    ("password authentication failed", _LOGIN),
    ("no password supplied", _LOGIN),
    ('role "', _LOGIN),
    ("no pg_hba.conf entry", f"refuses this host or user; check its pg_hba.conf, or {_URL}"),
    ("does not exist", f"does not exist; create it, or name another one by {_URL}"),
    ("Connection refused", f"does not answer; start the server, or name another one by {_URL}"),
    ("timeout expired", f"does not answer; check the network, or name another one by {_URL}"),
    ("resolve host", f"is on a host that nobody knows; check {_URL}"),
    ("translate host name", f"is on a host that nobody knows; check {_URL}"),
    ("too many", "has no connection to spare; raise its max_connections, or try later"),
    ("starting up", "is just starting; try again in a moment"),
)
"""What the driver says, and what we say to that."""
