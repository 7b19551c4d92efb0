"""DB-API 2.0 (PEP 249) over the transports that have streams."""

from __future__ import annotations

import sqlite3

import pytest

from jobroom.store.hrana import dbapi
from jobroom.store.hrana.transport import Step

pytest_plugins = ["sqld_for_tests"]

INSERT = "INSERT INTO notes (name, value) VALUES (?, ?)"


@pytest.fixture
def connection(streaming):
    with dbapi.connect(streaming) as opened:
        yield opened


def committed(hrana):
    sql = "SELECT name, value FROM notes ORDER BY id"
    return hrana.batch([Step(sql)], write=False)[0].rows


def test_the_module_says_what_it_is():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 1, "qmark")
    assert dbapi.sqlite_version_info >= (3, 35)
    assert dbapi.Binary(b"a") == b"a"
    assert dbapi.Connection.Error is dbapi.Error


def test_a_transaction_opens_with_the_first_statement_and_ends_with_commit(connection, hrana):
    cursor = connection.cursor()
    cursor.execute(INSERT, ("a", 1))
    assert connection.in_transaction
    assert committed(hrana) == []
    connection.commit()
    assert not connection.in_transaction
    assert committed(hrana) == [("a", 1)]


def test_a_rollback_undoes_and_a_close_does_too(streaming, hrana):
    connection = dbapi.connect(streaming)
    connection.execute(INSERT, ("a", 1))
    connection.rollback()
    connection.execute(INSERT, ("b", 2))
    connection.close()
    connection.close()
    assert committed(hrana) == []
    for use in (connection.cursor, connection.commit, connection.rollback):
        with pytest.raises(dbapi.ProgrammingError, match="closed"):
            use()


def test_as_a_context_it_commits_or_undoes(streaming, hrana):
    with dbapi.connect(streaming) as connection:
        connection.execute(INSERT, ("a", 1))

    def fail():
        with dbapi.connect(streaming) as connection:
            connection.execute(INSERT, ("b", 2))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert committed(hrana) == [("a", 1)]


def test_with_autocommit_each_statement_stands_alone(connection, hrana):
    connection.autocommit = True
    connection.execute(INSERT, ("a", 1))
    assert committed(hrana) == [("a", 1)]
    assert not connection.in_transaction
    connection.begin(write=True)
    connection.execute(INSERT, ("b", 2))
    assert committed(hrana) == [("a", 1)]
    connection.rollback()
    connection.autocommit = False
    connection.execute(INSERT, ("c", 3))
    connection.autocommit = True
    assert committed(hrana) == [("a", 1), ("c", 3)]


def test_begin_commit_and_rollback_are_statements_too(connection, hrana):
    cursor = connection.cursor()
    for end, kept in (("COMMIT", 1), ("ROLLBACK", 1), ("END", 2)):
        cursor.execute("BEGIN IMMEDIATE")
        with pytest.raises(dbapi.ProgrammingError):
            cursor.execute("BEGIN")
        cursor.execute(INSERT, (end, 1))
        cursor.execute(end)
        assert not connection.in_transaction
        assert len(committed(hrana)) == kept
    cursor.execute("SAVEPOINT one")
    cursor.execute(INSERT, ("undone", 1))
    cursor.execute("ROLLBACK TO one")
    assert connection.in_transaction
    connection.commit()
    assert len(committed(hrana)) == 2


def test_a_query_takes_no_lock(streaming, sqld, opened):
    reader = dbapi.connect(streaming)
    reader.execute("SELECT * FROM notes")
    with dbapi.connect(opened("http", sqld.url, timeout_seconds=2)) as writer:
        writer.execute(INSERT, ("a", 1))
    reader.close()


def test_rowcount_and_lastrowid(connection):
    cursor = connection.cursor()
    assert (cursor.rowcount, cursor.lastrowid) == (-1, None)
    cursor.execute(INSERT, ("a", 1))
    assert (cursor.rowcount, cursor.lastrowid) == (1, 1)
    cursor.executemany(INSERT, [("b", 1), ("c", 1), ("d", 2)])
    assert cursor.rowcount == 3
    cursor.execute("UPDATE notes SET value = 5 WHERE value = 1")
    assert (cursor.rowcount, cursor.lastrowid, cursor.description) == (3, None, None)
    cursor.execute("UPDATE notes SET value = 6 WHERE value = 1")
    assert cursor.rowcount == 0
    cursor.execute("UPDATE notes SET value = 7 WHERE value = 5 RETURNING name")
    assert (cursor.rowcount, len(cursor.fetchall())) == (3, 3)
    cursor.execute(f"{INSERT} ON CONFLICT DO NOTHING RETURNING id", ("a", 1))
    assert (cursor.rowcount, cursor.fetchall()) == (0, [])
    cursor.execute(f"{INSERT} ON CONFLICT DO NOTHING", ("a", 1))
    assert cursor.rowcount == 0
    cursor.execute("SELECT * FROM notes WHERE value = 7")
    assert cursor.rowcount == 3
    cursor.execute("DELETE FROM notes")
    assert cursor.rowcount == 4
    connection.rollback()


def test_many_are_sent_in_one_round_trip(hrana):
    connection = dbapi.connect(hrana)
    requests = hrana.counters.requests
    connection.cursor().executemany(INSERT, [(f"a{number}", number) for number in range(400)])
    connection.commit()
    assert hrana.counters.requests == requests + 2
    assert len(committed(hrana)) == 400
    connection.cursor().executemany(INSERT, [])
    assert hrana.counters.requests == requests + 3


def test_rows_are_fetched_in_all_ways(connection):
    cursor = connection.cursor()
    cursor.execute("WITH n(i) AS (VALUES (1), (2), (3), (4), (5)) SELECT i FROM n")
    assert cursor.description == [("i", None, None, None, None, None, None)]
    assert cursor.fetchone() == (1,)
    assert cursor.fetchmany() == [(2,)]
    assert cursor.fetchmany(2) == [(3,), (4,)]
    assert cursor.fetchall() == [(5,)]
    assert (cursor.fetchone(), cursor.fetchmany(3), cursor.fetchall()) == (None, [], [])
    assert list(cursor.execute("SELECT 1 UNION SELECT 2")) == [(1,), (2,)]
    cursor.setinputsizes([None])
    cursor.setoutputsize(1)
    cursor.close()
    with pytest.raises(dbapi.ProgrammingError, match="closed"):
        cursor.fetchone()


def test_a_query_without_rows_has_its_columns_all_the_same(connection):
    cursor = connection.execute("SELECT id, name FROM notes")
    assert [column[0] for column in cursor.description] == ["id", "name"]
    assert (cursor.rowcount, cursor.fetchall()) == (0, [])


def test_a_failing_statement_leaves_no_rows_of_the_one_before(connection):
    cursor = connection.execute("SELECT 1")
    with pytest.raises(dbapi.OperationalError):
        cursor.execute("SELECT * FROM nowhere")
    assert (cursor.rowcount, cursor.description, cursor.fetchall()) == (-1, None, [])


def test_the_errors_are_of_the_classes_that_sqlite3_raises(connection):
    cases = ["INSERT INTO nowhere VALUES (1)", "SELECT unknown FROM notes"]
    with sqlite3.connect(":memory:") as local:
        local.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, name TEXT UNIQUE, value)")
        local.execute("INSERT INTO notes VALUES (1, 'a', 1)")
        for sql in (*cases, "INSERT INTO notes VALUES (1, 'b', 1)"):
            connection.execute("INSERT OR IGNORE INTO notes VALUES (1, 'a', 1)")
            with pytest.raises(sqlite3.Error) as theirs:
                local.execute(sql)
            with pytest.raises(dbapi.Error) as ours:
                connection.execute(sql)
            assert type(ours.value).__name__ == type(theirs.value).__name__
    local.close()


def test_a_connection_by_url_owns_its_transport(sqld, hrana):
    url = f"libsql://127.0.0.1:{sqld.port}?tls=0"
    with dbapi.connect(url, token="ignored here") as connection:
        connection.execute(INSERT, ("a", 1))
    connection.close()
    with pytest.raises(dbapi.InterfaceError, match="closed"):
        connection.transport.batch([Step("SELECT 1")], write=False)
    assert committed(hrana) == [("a", 1)]
