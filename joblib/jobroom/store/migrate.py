"""The schema's version: one SELECT where it is right, alembic where it is not."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from jobroom.errors import ConfigurationError
from jobroom.store import schema
from jobroom.store.dialect import CHECK

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy.engine import Engine

    from jobroom.store.dialect import Database

HEAD = "0001"
"""The revision that this code works with; alembic is imported only where the file has another."""

MIGRATIONS = Path(__file__).parent / "migrations"


def prepare(database: Database) -> None:
    """Bring a local SQLite file to ``HEAD``; refuse one that a newer jobroom has written."""
    if current(database) != HEAD:
        upgrade(database)


def current(database: Database) -> str | None:
    """The revision that the database is at; None for an empty one.

    Raises ConfigurationError for a file that is not a database, not one of ours, or one of ours
    that is not complete.
    """
    connection = database.connect(read_only=True)
    try:
        connection.execute("PRAGMA busy_timeout = 30000")  # another process may be migrating it
        columns = _columns(connection)
        if not columns:
            return None
        if "alembic_version" not in columns:
            message = (
                f"The database {database.location} holds other tables; "
                "give jobroom a file of its own by ZNDRAW_JOBLIB_DATABASE_URL."
            )
            raise ConfigurationError(message)
        rows = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        revisions = [str(row[0]) for row in rows]
    except sqlite3.Error as error:
        raise database.refusal(error) from error
    finally:
        connection.close()
    _check_complete(database, revisions, columns)
    return revisions[0] if revisions else None


def _columns(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """The columns of each table that there is."""
    found: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT made.name, part.name FROM sqlite_master AS made"
        " JOIN pragma_table_info(made.name) AS part WHERE made.type = 'table'"
    ):
        found.setdefault(table, set()).add(column)
    return found


def _check_complete(database: Database, revisions: list[str], columns: dict[str, set[str]]) -> None:
    """Refuse what an upgrade that was cut off, or a hand, has left: every request would fail."""
    ours = schema.metadata.tables
    missing = [
        f"{table.name}.{column.name}"
        for table in ours.values()
        for column in table.columns
        if column.name not in columns.get(table.name, ())
    ]
    if len(revisions) > 1:
        fault = f"it names {len(revisions)} versions of its schema"
    elif not revisions and not ours.keys().isdisjoint(columns):
        fault = "it does not say which version its schema has"
    elif revisions == [HEAD] and missing:
        fault = f"it has no {missing[0]}"
    else:
        return
    message = (
        f"The database {database.location} is not complete: {fault}. Put a whole copy in its"
        " place, or name another file by ZNDRAW_JOBLIB_DATABASE_URL."
    )
    raise ConfigurationError(message)


def upgrade(database: Database) -> None:
    """Run alembic's migrations up to ``HEAD``; two processes at once are a no-op for the second."""
    from alembic import command
    from alembic.script import ScriptDirectory
    from sqlalchemy.exc import DBAPIError

    config = _config()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    revision = current(database)
    if revision is not None and revision not in known:
        message = (
            f"The database {database.location} has schema {revision}, which this jobroom does not"
            " know; it was written by a newer version. Upgrade jobroom, or name another file."
        )
        raise ConfigurationError(message)
    engine = _engine(database)
    try:
        with engine.connect() as connection, connection.begin():
            config.attributes["connection"] = connection
            command.upgrade(config, HEAD)
    except DBAPIError as error:
        message = f"The database {database.location} cannot be written: {CHECK} ({error.orig})."
        raise ConfigurationError(message) from error
    finally:
        engine.dispose()


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    # A percent sign in the path of the installation would be read as an interpolation.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def _engine(database: Database) -> Engine:
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import NullPool

    def connect() -> sqlite3.Connection:
        connection: sqlite3.Connection = database.connect(read_only=False)
        connection.execute("PRAGMA busy_timeout = 30000")
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @event.listens_for(engine, "begin")
    def begin(connection: object) -> None:
        # The lock first: whoever comes second waits here and then finds nothing left to do.
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # type: ignore[attr-defined]  # an event's Connection

    return engine
