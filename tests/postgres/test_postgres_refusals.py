"""What is said where a PostgreSQL cannot be used: one sentence that says what to do, no secret."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator

import pytest
import servers

from jobroom.errors import ConfigurationError
from jobroom.settings import JobLibSettings
from jobroom.store import dialect, migrate, postgres
from jobroom.store.postgres import Postgres

Opened = Callable[..., Postgres]


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        call()
    return str(caught.value)


@pytest.fixture
def guarded(server: servers.Postgres) -> Iterator[str]:
    """The URL of a user who needs a password, without it."""
    rules = server.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    server.execute("CREATE ROLE ada LOGIN PASSWORD 'right'")
    rules.write_text(f"host all ada 127.0.0.1/32 scram-sha-256\n{before}")
    server.execute("SELECT pg_reload_conf()")
    yield server.url("queue").replace("postgres@", "ada@")
    rules.write_text(before)
    server.execute("SELECT pg_reload_conf()")
    server.execute("DROP ROLE ada")


@pytest.mark.parametrize("login", ["ada:wrong-secret@", "ada@", "nobody-we-know:wrong-secret@"])
def test_a_login_that_is_refused_says_so_and_not_the_password(
    opened: Opened, guarded: str, login: str
) -> None:
    database = opened(guarded.replace("ada@", login))
    said = refused(lambda: database.read("SELECT 1"))
    assert "refuses the login; check the user and the password" in said
    assert "wrong-secret" not in said + database.location
    assert "ada" not in database.location


def test_a_database_that_does_not_exist(server: servers.Postgres, opened: Opened) -> None:
    database = opened(server.url("nowhere"))
    said = refused(lambda: migrate.prepare(database))
    assert said == (
        f"The database 127.0.0.1:{server.port}/nowhere does not exist;"
        " create it, or name another one by ZNDRAW_JOBLIB_DATABASE_URL."
    )


def test_a_server_that_is_not_there(opened: Opened) -> None:
    database = opened(f"postgresql://ada:secret@127.0.0.1:{servers.free_port()}/queue")
    assert "does not answer; start the server" in refused(lambda: database.read("SELECT 1"))


def test_a_host_that_nobody_knows(opened: Opened) -> None:
    database = opened("postgresql://ada@no.such.host.invalid/queue")
    assert "on a host that nobody knows" in refused(lambda: database.read("SELECT 1"))


def test_a_user_without_rights(server: servers.Postgres, opened: Opened) -> None:
    server.execute("CREATE ROLE guest LOGIN")
    database = opened(server.url("queue").replace("postgres@", "guest@"))
    said = refused(lambda: migrate.prepare(database))
    assert "may not be used by this user; grant it the rights" in said


def test_a_server_that_is_too_old(
    opened: Opened, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "OLDEST_SERVER", 99)
    said = refused(lambda: opened(url).read("SELECT 1"))
    assert said.endswith("is PostgreSQL 18; jobroom needs 99 or newer.")


def test_a_database_that_does_not_hold_all_texts(server: servers.Postgres, opened: Opened) -> None:
    server.execute(
        "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C'"
        " TEMPLATE template0"
    )
    said = refused(lambda: opened(server.url("ascii")).read("SELECT 1"))
    assert "has the encoding SQL_ASCII; create one with ENCODING 'UTF8'" in said


def test_a_url_that_is_none(opened: Opened) -> None:
    assert "is not a URL of PostgreSQL" in refused(lambda: opened("postgresql://h/d?no=such"))


def test_an_empty_database_is_not_upgraded_silently(
    server: servers.Postgres, opened: Opened
) -> None:
    server.execute("CREATE DATABASE empty")
    database = opened(server.url("empty"))
    assert refused(lambda: migrate.prepare(database)).endswith("is empty: run jobroom db upgrade.")


def test_without_the_driver_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = JobLibSettings(database_url="postgresql://ada@localhost/queue")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "jobroom.store.postgres")
    said = refused(lambda: dialect.open_database(settings))
    assert 'pip install "jobroom[postgres]"' in said
    monkeypatch.undo()
    importlib.import_module("jobroom.store.postgres")


@pytest.mark.parametrize("kind", ["postgresql", "postgres", "postgresql+psycopg"])
def test_each_spelling_of_its_urls_is_understood(url: str, kind: str) -> None:
    spelled = url.replace("postgresql", kind, 1)
    database = dialect.open_database(JobLibSettings(database_url=spelled))
    try:
        assert database.read("SELECT 1") == [(1,)]
    finally:
        database.close()
