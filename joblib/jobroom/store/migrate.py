"""The schema's version: one SELECT where it is right, alembic where it is not.

A new local file is made by what the schema says, which is what the migrations make of it.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table

from jobroom.errors import ConfigurationError
from jobroom.store import patience, schema, state

if TYPE_CHECKING:
    from collections.abc import Callable

    from alembic.config import Config
    from sqlalchemy import Connection

    from jobroom.store.dialect import Database

T = TypeVar("T")

HEAD = "0001"
"""The revision that this code works with; alembic is imported only where the file has another."""

PATIENCE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 0.1
"""While another process upgrades the same database."""
OF_PYANTZ = {"job_queue", "queue_items", "dependencies", "job_status"}
"""The tables of pyantz's own queue (graph contract)."""
MIGRATIONS = Path(__file__).parent / "migrations"
_REVISION = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""What alembic keeps the revision in, as it makes it."""


def prepare(database: Database) -> None:
    """See that the database is at ``HEAD``: a local file is brought there, a server's never.

    Raises ConfigurationError where a newer jobroom has written it, or where a server's database
    is to be upgraded first: others may be at work on it with the version before.
    """
    found = current(database)
    if found == HEAD:
        _check_copied(database)
        return
    if database.is_at_hand:
        if found is not None or not _create(database):
            upgrade(database)
        return
    check_known(database, found)
    lacks = "is empty" if found is None else f"has schema {found}, this jobroom wants {HEAD}"
    message = f"The database {database.location} {lacks}: run jobroom db upgrade."
    raise ConfigurationError(message)


def _check_copied(database: Database) -> None:
    """Refuse the target of a copy that is not finished: half of its tasks would be run."""
    mark = f"SELECT 1 FROM queue_state WHERE name = '{state.COPY_NOT_FINISHED}'"  # noqa: S608 - ours
    if database.read(mark):
        message = (
            f"The database {database.location} is the target of a copy that is not finished: run"
            " jobroom db copy again, with --restart to begin anew."
        )
        raise ConfigurationError(message)


def current(database: Database) -> str | None:
    """The revision that the database is at; None for an empty one.

    Raises ConfigurationError for a file that is not a database, not one of ours, or one of ours
    that is not complete.
    """
    columns: dict[str, set[str]] = {}
    for table, column in database.read(database.columns_query):
        columns.setdefault(table, set()).add(column)
    if not columns:
        return None
    if "alembic_version" not in columns:
        if columns.keys() >= OF_PYANTZ:
            message = (
                f"The database {database.location} is a queue of pyantz's own: jobroom db"
                " import-pyantz brings its jobs into another one."
            )
            raise ConfigurationError(message)
        message = (
            f"The database {database.location} holds other tables; "
            "give jobroom one of its own by ZNDRAW_JOBLIB_DATABASE_URL."
        )
        raise ConfigurationError(message)
    rows = database.read("SELECT version_num FROM alembic_version")
    revisions = [str(row[0]) for row in rows]
    _check_complete(database, revisions, columns)
    return revisions[0] if revisions else None


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
        " place, or name another database by ZNDRAW_JOBLIB_DATABASE_URL."
    )
    raise ConfigurationError(message)


def _create(database: Database) -> bool:
    """Make every table of a new file; False where somebody else has made one just now.

    alembic would take ten times as long, and a queue in a file is opened as readily as a file.
    """

    def create(connection: Connection) -> bool:
        if connection.exec_driver_sql(database.columns_query).first() is not None:
            return False
        schema.metadata.create_all(connection, checkfirst=False)
        _REVISION.create(connection, checkfirst=False)
        connection.execute(_REVISION.insert().values(version_num=HEAD))
        return True

    return _write(database, create)


def upgrade(database: Database) -> None:
    """Run alembic's migrations up to ``HEAD``; two processes at once are a no-op for the second."""
    from alembic import command

    def migrate(connection: Connection) -> None:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, HEAD)

    check_known(database, current(database))
    _write(database, migrate)


def _write(database: Database, work: Callable[[Connection], T]) -> T:
    """Do this in a transaction of its own; again, for a while, if another process is in the way."""
    from sqlalchemy.exc import DBAPIError

    deadline = time.monotonic() + patience.left(PATIENCE_SECONDS)
    while True:
        engine = database.engine()
        try:
            with engine.connect() as connection, connection.begin():
                return work(connection)
        except DBAPIError as error:
            # Where a transaction cannot begin with the lock, another upgrade may be in the way.
            if database.is_busy(error.orig) and time.monotonic() < deadline:
                time.sleep(random.uniform(0, LONGEST_PAUSE_SECONDS))  # noqa: S311 - no secret
                continue
            why = f"{database.advice} ({error.orig})"
            message = f"The database {database.location} cannot be written: {why}."
            raise ConfigurationError(message) from error
        finally:
            engine.dispose()


def check_known(database: Database, revision: str | None) -> None:
    """Refuse a database that a newer jobroom has written. Raises ConfigurationError."""
    if revision is None:
        return
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if revision not in known:
        message = (
            f"The database {database.location} has schema {revision}, which this jobroom does not"
            " know; it was written by a newer version. Upgrade jobroom, or name another database."
        )
        raise ConfigurationError(message)


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    # A percent sign in the path of the installation would be read as an interpolation.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config
