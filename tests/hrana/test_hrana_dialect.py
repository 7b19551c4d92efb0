"""SQLAlchemy and alembic over the network: what our migrations and reflection need."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import servers
from alembic import command
from sqlalchemy import (
    JSON,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    exc,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.pool import NullPool

from jobroom.store import migrate, schema
from jobroom.store.hrana import dbapi
from jobroom.store.hrana.dialect import engine_of, register

pytest_plugins = ["sqld_for_tests"]

metadata = MetaData()
owners = Table("owners", metadata, Column("id", Integer, primary_key=True))
things = Table(
    "things",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("owner", ForeignKey("owners.id", name="fk_things_owner")),
    Column("data", JSON),
    Column("at", DateTime),
    Column("raw", LargeBinary),
    UniqueConstraint("name", name="uq_things_name"),
    CheckConstraint("length(name) < 20", name="ck_things_name"),
    Index("ix_things_at", "at", "name", sqlite_where=text("owner IS NOT NULL")),
)


@pytest.fixture
def engine(streaming):
    made = engine_of(streaming)
    metadata.drop_all(made)
    metadata.create_all(made)
    yield made
    metadata.drop_all(made)
    made.dispose()


def count(engine):
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(things))


def test_rows_of_all_types_go_there_and_back(engine):
    given = {"name": "a", "data": {"b": [1, None]}, "raw": b"\0\xff"}
    with engine.begin() as connection:
        inserted = connection.execute(insert(things).values(**given))
        assert inserted.inserted_primary_key == (1,)
        found = connection.execute(select(things)).mappings().one()
        assert {key: found[key] for key in given} == given
    assert count(engine) == 1


def test_many_rows_return_their_keys(engine):
    rows = [{"name": f"a{number}"} for number in range(20)]
    with engine.begin() as connection:
        keys = connection.execute(
            insert(things).returning(things.c.id, sort_by_parameter_order=True), rows
        )
        assert list(keys.scalars()) == list(range(1, 21))
        changed = connection.execute(update(things).values(data=1).where(things.c.id > 15))
        assert changed.rowcount == 5
        returned = connection.execute(
            update(things).values(data=2).where(things.c.id > 18).returning(things.c.id)
        )
        assert sorted(returned.scalars()) == [19, 20]


def test_errors_are_sqlalchemys_and_the_transaction_is_undone(engine):
    def insert_twice():
        with engine.begin() as connection:
            connection.execute(insert(things).values(name="a"))
            connection.execute(insert(things).values(name="a"))

    with pytest.raises(exc.IntegrityError) as raised:
        insert_twice()
    assert isinstance(raised.value.orig, dbapi.IntegrityError)
    assert count(engine) == 0


def test_savepoints_undo_a_part(engine):
    with engine.begin() as connection:
        connection.execute(insert(things).values(name="a"))
        nested = connection.begin_nested()
        connection.execute(insert(things).values(name="b"))
        with pytest.raises(exc.IntegrityError):
            connection.execute(insert(things).values(name="a"))
        nested.rollback()
        with connection.begin_nested():
            connection.execute(insert(things).values(name="c"))
    assert count(engine) == 2


def test_isolation_levels(engine):
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "SERIALIZABLE"
        assert connection.default_isolation_level == "SERIALIZABLE"
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert connection.get_isolation_level() == "AUTOCOMMIT"
        connection.execute(insert(things).values(name="a"))
        assert count(engine) == 1
    with engine.connect() as connection:
        connection.execute(insert(things).values(name="b"))
        connection.rollback()
    assert count(engine) == 1


def test_reflection_sees_keys_indexes_and_checks(engine):
    found = inspect(engine)
    assert {"owners", "things"} <= set(found.get_table_names())
    assert [column["name"] for column in found.get_columns("things")] == [
        column.name for column in things.columns
    ]
    assert found.get_pk_constraint("things")["constrained_columns"] == ["id"]
    (index,) = found.get_indexes("things")
    assert (index["name"], index["column_names"]) == ("ix_things_at", ["at", "name"])
    assert str(index["dialect_options"]["sqlite_where"]) == "owner IS NOT NULL"
    assert [one["name"] for one in found.get_unique_constraints("things")] == ["uq_things_name"]
    assert [one["name"] for one in found.get_check_constraints("things")] == ["ck_things_name"]
    (key,) = found.get_foreign_keys("things")
    assert (key["name"], key["referred_table"]) == ("fk_things_owner", "owners")


def test_a_lost_stream_or_connection_is_a_disconnect(engine):
    is_disconnect = engine.dialect.is_disconnect
    for code in ("STREAM_EXPIRED", "STREAM_INVALID", "TRANSPORT", "TIMEOUT", "HTTP_404"):
        assert is_disconnect(dbapi.OperationalError("?", code=code), None, None)
    for code in ("SQLITE_BUSY", "SQLITE_CONSTRAINT"):
        assert not is_disconnect(dbapi.OperationalError("?", code=code), None, None)
    assert not is_disconnect(ValueError("?"), None, None)


def test_an_engine_that_is_disposed_closes_its_transport(sqld, opened):
    made = engine_of(opened("http", sqld.url))
    with made.connect() as connection:
        assert connection.scalar(text("SELECT 1")) == 1
    made.dispose()
    with pytest.raises(exc.InterfaceError, match="closed"):
        made.connect().scalar(text("SELECT 1"))


def test_an_engine_by_url_makes_its_own_transport_again_after_dispose(sqld):
    register()
    made = create_engine(f"sqlite+hrana://127.0.0.1:{sqld.port}?tls=0")
    assert isinstance(made.pool, NullPool)
    for _ in range(2):
        with made.connect() as connection:
            assert connection.scalar(text("SELECT 1")) == 1
        made.dispose()


@contextmanager
def fresh(kind, tmp_path):
    """An engine on an empty database: a file, or a server of its own."""
    if kind == "file":
        yield create_engine(f"sqlite:///{tmp_path / 'queue.db'}", poolclass=NullPool)
        return
    from sqld_for_tests import open_transport

    with servers.Sqld() as server:
        transport = open_transport(kind, server.start().url)
        yield engine_of(transport)
        transport.close()


def upgrade(engine):
    """As ``store.migrate`` does it: the lock first, then alembic on that connection."""

    @event.listens_for(engine, "begin")
    def begin(connection):
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    with engine.connect() as connection, connection.begin():
        config = migrate._config()
        config.attributes["connection"] = connection
        command.upgrade(config, migrate.HEAD)
    event.remove(engine, "begin", begin)


def reflected(engine):
    """All that a database says of its schema."""
    found = inspect(engine)
    tables = {}
    for table in found.get_table_names():
        tables[table] = {
            "columns": [
                {**column, "type": str(column["type"])} for column in found.get_columns(table)
            ],
            "primary key": found.get_pk_constraint(table),
            "foreign keys": found.get_foreign_keys(table),
            "unique": found.get_unique_constraints(table),
            "checks": found.get_check_constraints(table),
            "indexes": [
                {
                    **index,
                    "dialect_options": str(index.get("dialect_options", {}).get("sqlite_where")),
                }
                for index in found.get_indexes(table)
            ],
        }
    return tables


@pytest.mark.parametrize("kind", ["http", "ws"])
def test_our_migrations_make_the_schema_that_they_make_in_a_file(tmp_path, kind):
    with fresh("file", tmp_path) as file, fresh(kind, tmp_path) as server:
        for engine in (file, server, server):
            upgrade(engine)
        expected = reflected(file)
        assert set(schema.metadata.tables) < set(expected)
        assert reflected(server) == expected
        with server.connect() as connection:
            version = connection.scalar(text("SELECT version_num FROM alembic_version"))
        assert version == migrate.HEAD
        server.dispose()
