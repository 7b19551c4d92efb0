"""The schema's version: one SELECT where it is right, alembic where it is not."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from jobroom.errors import ConfigurationError

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

    Raises ConfigurationError for a file that is not a database, or not one of ours.
    """
    connection = database.connect(read_only=True)
    try:
        connection.execute("PRAGMA busy_timeout = 30000")  # another process may be migrating it
        tables = {
            row[0]
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        if not tables:
            return None
        if "alembic_version" not in tables:
            message = (
                f"The database {database.location} holds other tables; "
                "give jobroom a file of its own by ZNDRAW_JOBLIB_DATABASE_URL."
            )
            raise ConfigurationError(message)
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return None if row is None else str(row[0])
    except sqlite3.Error as error:
        message = f"The database {database.location} cannot be read: {error}."
        raise ConfigurationError(message) from error
    finally:
        connection.close()


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
        message = (
            f"The database {database.location} cannot be written: check that its disk has room,"
            f" that you may write the file and its folder, and that no other process keeps it busy"
            f" ({error.orig})."
        )
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
