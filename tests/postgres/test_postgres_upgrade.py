"""The migrations on PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable

import servers

from jobroom.store import migrate
from jobroom.store.postgres import Postgres

Opened = Callable[..., Postgres]


def test_two_upgrades_at_once_and_a_third_later_are_one(
    server: servers.Postgres, opened: Opened
) -> None:
    server.execute("CREATE DATABASE twice")
    databases = [opened(server.url("twice")) for _ in range(2)]
    together = threading.Barrier(2)
    failed: list[Exception] = []

    def upgrade(database: Postgres) -> None:
        together.wait()
        try:
            migrate.upgrade(database)
        except Exception as error:  # noqa: BLE001 - told by the test's thread
            failed.append(error)

    threads = [threading.Thread(target=upgrade, args=[database]) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    migrate.upgrade(databases[0])
    assert failed == []
    assert migrate.current(databases[0]) == migrate.HEAD
    assert databases[0].read("SELECT count(*) FROM alembic_version") == [(1,)]


def test_only_the_tables_of_ones_own_schema_count(server: servers.Postgres, opened: Opened) -> None:
    server.execute("CREATE DATABASE shared")
    owner = opened(server.url("shared"))
    migrate.upgrade(owner)
    with owner._connect() as connection:
        connection.execute("CREATE SCHEMA apart")
    apart = opened(f"{server.url('shared')}?options=-csearch_path%3Dapart")
    assert migrate.current(apart) is None
    migrate.upgrade(apart)
    migrate.prepare(apart)
    assert owner.read("SELECT count(*) FROM pg_tables WHERE tablename = 'task'") == [(2,)]


def test_texts_are_in_the_order_of_their_code_points(database: Postgres) -> None:
    """Rule *Lists*: the same order on every store."""
    columns = database.read(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND data_type = 'text'"
        " AND collation_name IS DISTINCT FROM 'C'"
    )
    assert columns == []


def test_dead_tasks_are_cleared_away_soon(database: Postgres) -> None:
    options = database.read("SELECT reloptions FROM pg_class WHERE relname = 'task'")[0][0]
    assert "autovacuum_vacuum_scale_factor=0.01" in options


def test_no_extension_is_needed(database: Postgres) -> None:
    assert database.read("SELECT extname FROM pg_extension") == [("plpgsql",)]
