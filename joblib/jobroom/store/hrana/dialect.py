"""A SQLAlchemy dialect over a transport: for migrations and reflection, not for the hot path."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from sqlalchemy import URL, Connection, Engine, Pool, create_engine, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.engine.interfaces import ConnectArgsType, DBAPIConnection, IsolationLevel
from sqlalchemy.pool import NullPool

from jobroom.store.hrana import dbapi
from jobroom.store.hrana.transport import Transport
from jobroom.store.hrana.url import open_transport

_DISCONNECTED = ("TRANSPORT", "TIMEOUT", "PROTOCOL", "CLOSED", "STREAM_", "HTTP_")


def engine_of(transport: Transport) -> Engine:
    """An engine whose connections use the transport; ``engine.dispose()`` closes it."""
    register()
    return create_engine("sqlite+hrana://", connect_args={"transport": transport})


def register() -> None:
    """Make ``sqlite+hrana://`` known to SQLAlchemy."""
    registry.register("sqlite.hrana", __name__, "HranaDialect")


class HranaDialect(SQLiteDialect):
    """SQLite's SQL over the network; a stream on the server is open only in a transaction.

    ``sqlite+hrana://HOST:PORT?tls=0`` takes the parameters of a ``libsql://`` URL.
    """

    driver = "hrana"
    supports_statement_cache = True
    default_paramstyle = "qmark"
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._transport: Transport | None = None

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """DB-API over a transport."""
        return dbapi

    @classmethod
    def get_pool_class(cls, url: URL) -> type[Pool]:  # noqa: ARG003 - SQLAlchemy's
        """No pool: a connection costs nothing, and a stream that waits in a pool expires."""
        return NullPool

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        """Close the transport with the engine."""

        @event.listens_for(engine, "engine_disposed")
        def dispose(disposed: Engine) -> None:
            dialect = disposed.dialect
            if isinstance(dialect, HranaDialect):
                dialect.close_transport()

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        """The place as a libSQL URL; empty where the engine was given a transport."""
        if url.host is None:
            return [], {}
        return [url.set(drivername="libsql").render_as_string(hide_password=False)], {}

    def connect(self, *place: Any, **options: Any) -> DBAPIConnection:
        """A connection over the engine's one transport, made at the first of them."""
        if self._transport is None:
            self._transport = options.get("transport") or open_transport(str(place[0]), None)
        connection: Any = dbapi.connect(self._transport)
        return connection  # type: ignore[no-any-return]  # no nominal type of SQLAlchemy's

    def close_transport(self) -> None:
        """Close the transport, if there is one; the next connection makes another from the URL."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def get_isolation_level_values(self, dbapi_conn: DBAPIConnection) -> list[IsolationLevel]:  # noqa: ARG002 - SQLAlchemy's
        """SERIALIZABLE, or each statement by itself."""
        return ["SERIALIZABLE", "AUTOCOMMIT"]

    def get_default_isolation_level(self, dbapi_conn: DBAPIConnection) -> IsolationLevel:  # noqa: ARG002 - SQLAlchemy's
        """What every connection begins with."""
        return "SERIALIZABLE"

    def set_isolation_level(self, dbapi_connection: DBAPIConnection, level: IsolationLevel) -> None:
        """Choose whether each statement commits by itself."""
        dbapi_connection.autocommit = level == "AUTOCOMMIT"

    def reset_isolation_level(self, dbapi_conn: DBAPIConnection) -> None:
        """Back to transactions."""
        dbapi_conn.autocommit = False

    def get_isolation_level(self, dbapi_connection: DBAPIConnection) -> IsolationLevel:
        """What the connection does now."""
        return "AUTOCOMMIT" if dbapi_connection.autocommit else "SERIALIZABLE"

    def detect_autocommit_setting(self, dbapi_conn: DBAPIConnection) -> bool:
        """Whether each statement commits by itself."""
        return bool(dbapi_conn.autocommit)

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        version = str(connection.exec_driver_sql("SELECT sqlite_version()").scalar())
        return tuple(int(part) for part in version.split("."))

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:  # noqa: ARG002 - SQLAlchemy's
        """Whether the transaction, or the way to the server, is gone."""
        return isinstance(e, dbapi.Error) and e.code.startswith(_DISCONNECTED)
