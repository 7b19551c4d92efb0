"""Migrations on every store: they make what the tables say, once, whoever comes first."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import servers
import tables
from sqlalchemy import MetaData

from jobroom.errors import ConfigurationError
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store import dialect, migrate
from jobroom.store.schema import metadata

UPGRADE = """
import sys
from jobroom.settings import JobLibSettings
from jobroom.store import dialect, migrate
database = dialect.open_database(JobLibSettings(database_url=sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
migrate.upgrade(database)
"""
COLUMNS = (
    "SELECT table_name, ordinal_position, column_name, data_type, is_nullable, column_default"
    " FROM information_schema.columns WHERE table_schema = 'public'"
)
CONSTRAINTS = (
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace"
)
INDEXES = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
PARTS = (
    "SELECT made.name, part.* FROM sqlite_master AS made"
    " JOIN pragma_table_info(made.name) AS part WHERE made.type = 'table'"
)
TEXTS = "SELECT tbl_name, type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"


def opened(url: str) -> Any:
    """The database of a URL, to be closed by ``with``."""
    return closing(dialect.open_database(JobLibSettings(database_url=url)))


def shape(url: str) -> list[tuple[Any, ...]]:
    """Every column, key, check and index of our tables, as the store tells them."""
    asked = (COLUMNS, CONSTRAINTS, INDEXES) if url.startswith("postgresql") else (PARTS, TEXTS)
    with opened(url) as database:
        rows = [tuple(row) for query in asked for row in database.read(query)]
    # Constraints may be written in any order.
    clauses = [
        (*row[:-1], *sorted(line.strip().rstrip(",") for line in str(row[-1]).splitlines()))
        for row in rows
        if row[0] != "alembic_version"
    ]
    assert clauses
    return sorted(clauses, key=repr)


@pytest.fixture
def empty_url(store: str, stores: servers.Stores, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Makes a database with nothing in it."""
    if store == "sqlite":
        yield lambda name: f"sqlite:///{tmp_path / name}.db"
        return
    made: list[str] = []

    def make(name: str) -> str:
        if store == "postgresql":
            stores.postgres.execute(f"CREATE DATABASE {name}")
            made.append(stores.postgres.url(name))
        elif store == "libsql":
            stores.sqld.create_namespace(name)
            made.append(stores.sqld.url_of(name))
        else:
            stores.sqld.drop_namespace("127")
            stores.sqld.create_namespace("127")
            return f"libsql+client://127.0.0.1:{stores.sqld.port}?tls=0"
        return made[-1]

    yield make
    for url in made:
        stores.release(url)


def upgrade(url: str) -> None:
    with opened(url) as database:
        migrate.upgrade(database)


def execute(url: str, *sql: str) -> None:
    """Run statements on a database that may not be one of ours."""
    with opened(url) as database:
        engine = database.engine()
        try:
            with engine.begin() as connection:
                for each in sql:
                    connection.exec_driver_sql(each)
        finally:
            engine.dispose()


def refusal(url: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        JobQueue.open(JobLibSettings(database_url=url)).close()
    message = str(caught.value)
    assert "\n" not in message
    with opened(url) as database:
        assert database.location in message
    return message


def created(url: str) -> None:
    """Make the tables by what the code says of them."""
    made = MetaData()
    for table in metadata.tables.values():
        copy = table.to_metadata(made)
        for index in copy.indexes:
            where = index.dialect_options["sqlite"].get("where")
            if where is not None:
                index.dialect_kwargs["postgresql_where"] = where
    with opened(url) as database:
        engine = database.engine()
        try:
            made.create_all(engine)
        finally:
            engine.dispose()


def test_a_migrated_database_equals_a_created_one(empty_url) -> None:
    created(plain := empty_url("plain"))
    wanted = shape(plain)
    upgrade(migrated := empty_url("grown"))
    assert shape(migrated) == wanted


def test_migrating_twice_is_a_no_op(settings: JobLibSettings) -> None:
    before = shape(settings.database_url)
    upgrade(settings.database_url)
    assert shape(settings.database_url) == before
    with opened(settings.database_url) as database:
        assert migrate.current(database) == migrate.HEAD


def test_an_upgraded_database_may_be_used_at_once(empty_url) -> None:
    """As ``jobroom db upgrade`` does, which tells the version that it came to."""
    with opened(empty_url("used")) as database:
        assert migrate.current(database) is None
        migrate.upgrade(database)
        assert migrate.current(database) == migrate.HEAD
        migrate.prepare(database)


def test_rows_survive_a_migration_that_finds_nothing_to_do(queue: JobQueue) -> None:
    tables.write(queue, "INSERT INTO queue_state VALUES ('kept', 1)")
    upgrade(queue.settings.database_url)
    assert tables.read(queue, "SELECT value FROM queue_state") == [(1,)]


def test_two_processes_that_upgrade_one_empty_database_at_once_both_work(empty_url) -> None:
    url = empty_url("contended")
    command = [sys.executable, "-c", UPGRADE, url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    started = [subprocess.Popen(command, text=True, **pipes) for _ in range(2)]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    ended = [process.communicate(timeout=60) for process in started]
    assert [process.returncode for process in started] == [0, 0], ended
    with opened(url) as database:
        assert migrate.current(database) == migrate.HEAD


def test_a_database_of_a_newer_version_is_refused_by_its_revision(
    settings: JobLibSettings,
) -> None:
    execute(settings.database_url, "UPDATE alembic_version SET version_num = '9999'")
    message = refusal(settings.database_url)
    assert "9999" in message
    assert "newer version" in message


def test_a_database_of_something_else_is_refused_and_left_alone(empty_url) -> None:
    execute(url := empty_url("foreign_one"), "CREATE TABLE users (name TEXT)")
    before = shape(url)
    assert "holds other tables" in refusal(url)
    with opened(url) as database, pytest.raises(ConfigurationError, match="holds other tables"):
        migrate.upgrade(database)
    assert shape(url) == before


def test_a_database_that_lacks_a_column_is_refused(settings: JobLibSettings) -> None:
    execute(settings.database_url, "ALTER TABLE task DROP COLUMN message")
    assert "is not complete: it has no task.message" in refusal(settings.database_url)


@pytest.mark.only_on("libsql", "libsql+client", "postgresql")
def test_an_empty_database_of_a_server_is_never_filled_silently(empty_url) -> None:
    """Design, *Dependencies*: a server's database never silently: it says what to run."""
    url = empty_url("bare")
    assert "is empty: run jobroom db upgrade." in refusal(url)
    with opened(url) as database:
        assert migrate.current(database) is None


@pytest.mark.only_on("postgresql")
def test_a_refused_migration_leaves_no_table_behind(empty_url) -> None:
    """PostgreSQL makes tables in a transaction: what fails at the last one leaves none."""
    url = empty_url("half")
    execute(url, "CREATE VIEW worker_job_link AS SELECT 1 AS one")
    with pytest.raises((ConfigurationError, psycopg.Error)):
        upgrade(url)
    assert not [row for row in shape(url) if row[0] == "job"]
