"""URLs, the words of statements, error classes, and what an import brings along."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jobroom.errors import ConfigurationError
from jobroom.store.hrana import client_library, dbapi, errors
from jobroom.store.hrana.client_library import LibsqlClientTransport
from jobroom.store.hrana.http import HranaHttp
from jobroom.store.hrana.sql import first_word, may_write
from jobroom.store.hrana.url import open_transport, parse, safe_location


@pytest.mark.parametrize(
    ("url", "kind", "base_url"),
    [
        ("libsql://db.example.com", "http", "https://db.example.com"),
        ("libsql://db.example.com:8443/", "http", "https://db.example.com:8443"),
        ("libsql://db.example.com?tls=1", "http", "https://db.example.com"),
        ("libsql://127.0.0.1:8080?tls=0", "http", "http://127.0.0.1:8080"),
        ("libsql://[::1]:8080?tls=0", "http", "http://[::1]:8080"),
        ("https://db.example.com/dev/one/", "http", "https://db.example.com/dev/one"),
        ("http://127.0.0.1:8080", "http", "http://127.0.0.1:8080"),
        ("libsql+client://db.example.com", "library", "wss://db.example.com"),
        ("libsql+client://h:1?tls=0", "library", "ws://h:1"),
        ("libsql+client://h:1?tls=0&transport=ws", "library", "ws://h:1"),
        ("libsql+client://h:1?tls=0&transport=http", "library", "http://h:1"),
        ("libsql+client://h?transport=http", "library", "https://h"),
    ],
)
def test_a_url_names_a_transport_and_a_place(url, kind, base_url):
    assert parse(url) == (kind, base_url, None)


def test_a_token_in_the_url_is_read_and_nowhere_shown():
    url = "libsql://db.example.com/main?authToken=s3cret&tls=1"
    assert parse(url) == ("http", "https://db.example.com/main", "s3cret")
    assert safe_location(url) == "libsql://db.example.com/main"


@pytest.mark.parametrize(
    "url",
    [
        "libsql://user:s3cret@db.example.com",
        "libsql://s3cret@db.example.com",
        "libsql://db.example.com?token=s3cret",
        "libsql://db.example.com?authToken=s3cret&authToken=s3cret",
        "libsql://db.example.com#s3cret",
        "libsql://db.example.com?tls=0",
        "libsql://db.example.com?tls=s3cret",
        "libsql://db.example.com:s3cret",
        "libsql://",
        "https://db.example.com?tls=0",
        "http://db.example.com?transport=http",
        "libsql+client://h?transport=s3cret",
        "ws://db.example.com",
        "sqlite:///file.db",
        "libsql://[::1",
        "s3cret",
    ],
)
def test_a_url_that_does_not_fit_is_a_clear_error_without_what_it_holds(url):
    with pytest.raises(ConfigurationError) as raised:
        parse(url)
    message = str(raised.value)
    assert message.startswith("ZNDRAW_JOBLIB_DATABASE_URL ")
    assert message.endswith(".")
    assert "s3cret" not in message
    assert "s3cret" not in safe_location(url)


def test_a_url_opens_its_transport_and_sends_nothing():
    for url, kind in (
        ("libsql://127.0.0.1:1?tls=0", HranaHttp),
        ("libsql+client://127.0.0.1:1?tls=0", LibsqlClientTransport),
    ):
        transport = open_transport(url, None, 1.0)
        assert isinstance(transport, kind)
        assert transport.counters.requests == 0
        transport.close()


@pytest.mark.parametrize(
    ("given", "sent"), [(None, "of-url"), (lambda: None, "of-url"), (lambda: "own", "own")]
)
def test_the_providers_token_goes_before_the_urls(given, sent):
    transport = open_transport("https://h?authToken=of-url", given, 1.0)
    assert transport._ask_token() == sent
    transport.close()


def test_without_the_library_its_url_is_a_clear_error(monkeypatch):
    def import_module(_name):
        raise ImportError

    monkeypatch.setattr(client_library, "import_module", import_module)
    with pytest.raises(ConfigurationError, match=r'pip install "jobroom\[libsql-client\]"'):
        open_transport("libsql+client://h", None, 1.0)


def test_an_import_brings_no_client_along():
    code = (
        "import sys, jobroom.store.hrana.url, jobroom.store.hrana.http,"
        " jobroom.store.hrana.client_library, jobroom.store.hrana.dbapi\n"
        "heavy = {'httpx', 'aiohttp', 'libsql_client', 'sqlalchemy'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "jobroom.store.hrana.url.open_transport('libsql://h', None, 1.0).close()\n"
        "print('httpx' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["[]", "False"]


@pytest.mark.parametrize(
    ("sql", "word", "writes"),
    [
        ("SELECT 1", "SELECT", False),
        ("  -- a\n /* b */ ; values (1)", "VALUES", False),
        ("EXPLAIN QUERY PLAN DELETE FROM task", "EXPLAIN", False),
        ("WITH x AS (SELECT 1) DELETE FROM task", "WITH", True),
        ("insert into task values (1)", "INSERT", True),
        ("PRAGMA table_info('task')", "PRAGMA", False),
        ('PRAGMA main.table_xinfo("task")', "PRAGMA", False),
        ("PRAGMA user_version", "PRAGMA", False),
        ("PRAGMA user_version = 3", "PRAGMA", True),
        ("PRAGMA foreign_keys(1)", "PRAGMA", True),
        ("PRAGMA incremental_vacuum", "PRAGMA", True),
        ("", "", True),
        ("/* never closed", "", True),
        ("-- only this", "", True),
    ],
)
def test_the_first_word_tells_whether_a_statement_may_write(sql, word, writes):
    assert (first_word(sql), may_write(sql)) == (word, writes)


def test_errors_form_the_tree_of_db_api():
    tree = {
        errors.InterfaceError: errors.Error,
        errors.DatabaseError: errors.Error,
        errors.OperationalError: errors.DatabaseError,
        errors.IntegrityError: errors.DatabaseError,
        errors.ProgrammingError: errors.DatabaseError,
        errors.DataError: errors.DatabaseError,
        errors.InternalError: errors.DatabaseError,
        errors.NotSupportedError: errors.DatabaseError,
    }
    assert all(kind.__base__ is base for kind, base in tree.items())
    assert all(getattr(dbapi, kind.__name__) is kind for kind in (*tree, errors.Warning))


@pytest.mark.parametrize(
    ("code", "kind", "is_busy", "is_unavailable"),
    [
        ("SQLITE_CONSTRAINT_UNIQUE", errors.IntegrityError, False, False),
        ("SQLITE_BUSY", errors.OperationalError, True, True),
        ("SQLITE_BUSY_SNAPSHOT", errors.OperationalError, True, True),
        ("TRANSACTION_TIMEOUT", errors.OperationalError, True, True),
        ("TRANSACTION_BUSY", errors.OperationalError, True, True),
        ("BLOCKED", errors.OperationalError, False, True),
        ("SQLITE_FULL", errors.OperationalError, False, True),
        ("SQLITE_IOERR", errors.OperationalError, False, True),
        ("SQLITE_READONLY", errors.OperationalError, False, True),
        ("SQLITE_CORRUPT", errors.DatabaseError, False, True),
        ("SQLITE_TOOBIG", errors.DataError, False, False),
        ("SQL_PARSE_ERROR", errors.ProgrammingError, False, False),
        ("ARGS_INVALID", errors.ProgrammingError, False, False),
        ("SQLITE_INTERNAL", errors.InternalError, False, False),
        ("SQLITE_UNKNOWN", errors.OperationalError, False, False),
        (None, errors.OperationalError, False, False),
    ],
)
def test_a_code_of_the_server_has_its_class(code, kind, is_busy, is_unavailable):
    error = errors.of_statement(code, "SQLite error: something.")
    assert type(error) is kind
    assert (error.is_busy, error.is_unavailable) == (is_busy, is_unavailable)
    assert str(error) == f"something ({code or 'UNKNOWN'})."
    assert type(error.copy()) is kind


def test_what_may_have_been_applied_is_not_worth_another_try_at_once():
    assert not errors.OperationalError("?", code="SQLITE_BUSY", applied=None).is_busy
