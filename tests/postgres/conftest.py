"""A PostgreSQL that these tests may kill, with a migrated database, and its store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import servers

from jobroom.settings import JobLibSettings
from jobroom.store import migrate
from jobroom.store.postgres import Postgres

SECONDS = 10.0


def settings_for(url: str, **kwargs: object) -> JobLibSettings:
    return JobLibSettings(database_url=url, **kwargs)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Postgres]:
    with servers.Postgres(fsync=False).start() as started:
        started.execute("CREATE DATABASE queue")
        database = Postgres(settings_for(started.url("queue")))
        migrate.upgrade(database)
        database.close()
        yield started


@pytest.fixture
def url(server: servers.Postgres) -> str:
    return server.url("queue")


@pytest.fixture
def opened() -> Iterator[Callable[..., Postgres]]:
    """Opens stores, and closes them at the end."""
    databases: list[Postgres] = []

    def open_one(url: str, **kwargs: object) -> Postgres:
        databases.append(Postgres(settings_for(url, **kwargs)))
        return databases[-1]

    yield open_one
    for database in databases:
        database.close()


@pytest.fixture
def database(opened: Callable[..., Postgres], url: str) -> Postgres:
    return opened(url)


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Waits until something is so."""

    def wait_until(is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not is_so():
            assert time.monotonic() < deadline, "it did not come to be"
            time.sleep(0.005)

    return wait_until
