"""What ``jobroom db copy`` refuses, and the row that it names."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import copying_stage as stage
import pytest

KINDS = ("sqlite", "libsql", "postgresql")


def refused(done) -> str:
    """The one sentence on stderr."""
    assert done.exit_code == 1, (done.stdout, done.exception)
    assert done.stderr.startswith("jobroom: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return str(done.stderr)


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_holds_a_queue_is_refused_and_left_alone(made, copied, kind):
    source, other = made("sqlite", tasks=7), made(kind, tasks=5)
    before = stage.dump(other)
    assert "holds a queue already: name one that is empty" in refused(copied(source, other))
    assert stage.dump(other) == before


@pytest.mark.parametrize("kind", KINDS)
def test_one_database_is_not_copied_to_itself(made, copied, kind):
    url = made(kind, tasks=7)
    told = refused(copied(url, url))
    assert "holds this very queue already" in told
    assert "both URLs name one database" in told


@pytest.mark.parametrize("kind", KINDS)
def test_one_empty_database_is_not_copied_to_itself(made, copied, kind):
    url = made(kind)
    assert "Both URLs name one database" in refused(copied(url, url))
    assert stage.execute(url, "SELECT count(*) FROM queue_state") == [(0,)]


def test_a_copy_that_is_done_says_so_when_it_is_run_again(made, copied):
    source, other = made("sqlite", tasks=7), made("libsql")
    assert copied(source, other).exit_code == 0
    assert "it was copied before" in refused(copied(source, other))


def test_the_target_of_an_unfinished_copy_is_no_source(made, copied):
    source, other = made("sqlite", tasks=7), made("sqlite")
    stage.execute(source, "INSERT INTO queue_state VALUES ('copy_not_finished', 5)")
    assert "is itself a copy that is not finished" in refused(copied(source, other))


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_without_tables_holds_no_queue(empty, made, copied, kind):
    source = empty(kind)
    if kind == "sqlite":
        stage.path_of(source).touch()
    assert "holds no queue" in refused(copied(source, made("sqlite")))


def test_a_source_that_is_not_there_is_not_made(made, copied, tmp_path):
    told = refused(copied(f"sqlite:///{tmp_path}/nothing.db", made("sqlite")))
    assert f"no database {tmp_path}/nothing.db" in told
    assert "--from" in told
    assert "ZNDRAW_JOBLIB" not in told
    assert not (tmp_path / "nothing.db").exists()


@pytest.mark.parametrize(
    ("kind", "side"), [("sqlite", "source"), ("libsql", "source"), ("postgresql", "target")]
)
def test_another_schema_version_is_refused(made, copied, kind, side):
    source, other = made(kind, tasks=7), made(kind)
    stage.execute(
        source if side == "source" else other, "UPDATE alembic_version SET version_num = '0000'"
    )
    told = refused(copied(source, other))
    assert f"The {side} " in told
    assert "has schema 0000" in told
    assert "jobroom db upgrade" in told


@pytest.mark.parametrize(
    ("side", "url", "words"),
    [
        ("--from", "nonsense", "--from is not a URL"),
        ("--to", "mysql://localhost/x", "--to names 'mysql'"),
        ("--to", "sqlite:///nowhere/at/all.db", "or set --to"),
        ("--from", "libsql://localhost?tls=0", "--from says tls=0 and no port"),
        ("--to", "postgresql://postgres@127.0.0.1:1/x", "--to"),
        ("--to", "http://127.0.0.1:1", "cannot be reached"),
    ],
)
def test_what_is_wrong_with_a_side_names_its_option(made, copied, side, url, words):
    good = made("sqlite", tasks=1)
    done = copied(url, good) if side == "--from" else copied(good, url)
    told = refused(done)
    assert words in told
    assert "ZNDRAW_JOBLIB_DATABASE_URL" not in told


def damage(url: str, sql: str) -> None:
    """Write what no jobroom writes; foreign keys and checks look away."""
    with closing(sqlite3.connect(stage.path_of(url))) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(sql)
        connection.commit()


ODD_ROWS = {
    "bytes that are no text": (
        "UPDATE task SET payload = CAST(x'7b22ff' AS TEXT) WHERE seq = 5",
        r"task seq=5, id='[^']+': payload holds bytes that are no UTF-8 text",
    ),
    "a blob": (
        "UPDATE worker SET name = x'00ff' WHERE id = 'w0'",
        r"worker id='w0': name holds bytes that are no UTF-8 text",
    ),
    "a text in a number": (
        "UPDATE task SET progress = 'much' WHERE seq = 5",
        r"task seq=5, id='[^']+': progress holds text, which is not a number",
    ),
    "a fraction in an integer": (
        "UPDATE task SET created_at = 1.5 WHERE seq = 5",
        r"created_at holds 1.5, which is not an integer",
    ),
    "infinity": (
        "UPDATE task SET progress = 9e999 WHERE seq = 5",
        r"progress holds no finite number",
    ),
}


@pytest.mark.parametrize(
    ("kind", "odd"),
    [
        *(("sqlite", odd) for odd in ODD_ROWS),
        ("libsql", "bytes that are no text"),
        ("postgresql", "bytes that are no text"),
    ],
)
def test_a_row_that_cannot_be_carried_over_is_named_before_anything_is_written(
    made, copied, kind, odd
):
    source, other = made("sqlite", tasks=50), made(kind)
    sql, told = ODD_ROWS[odd]
    damage(source, sql)
    sentence = refused(copied(source, other))
    assert re.search(told, sentence), sentence
    assert "mend or delete" in sentence
    assert not any(stage.dump(other).values())


def test_what_a_postgresql_cannot_hold_is_named_and_a_libsql_holds_it(made, copied):
    """NUL in a text, and an integer of 64 bits where it has one of 32."""
    source = made("sqlite", tasks=50)
    damage(source, "UPDATE task SET message = 'a' || char(0) || 'b' WHERE seq = 5")
    damage(source, "UPDATE task SET version = 3000000000 WHERE seq = 6")
    sentence = refused(copied(source, made("postgresql")))
    assert "message holds a NUL character, which PostgreSQL cannot keep" in sentence
    assert "version holds 3000000000, which is too large an integer" in sentence
    for kind in ("libsql", "sqlite"):
        other = made(kind)
        assert copied(source, other).exit_code == 0
        assert stage.dump(other) == stage.dump(source)


def test_of_many_such_rows_ten_are_named(made, copied):
    source = made("sqlite", tasks=50)
    damage(source, "UPDATE task SET progress = 9e999")
    assert refused(copied(source, made("sqlite"))).count("no finite number") == 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_the_target_s_rules_forbid_is_named(made, copied, kind):
    """A task of a job that is not there: only the target itself finds that."""
    source, other = made("sqlite", tasks=50), made(kind)
    damage(source, "UPDATE task SET job_seq = 99 WHERE seq = 5")
    sentence = refused(copied(source, other))
    assert re.search(r"task seq=5, id='[^']+': the target refuses it, ", sentence), sentence
    damage(source, "UPDATE task SET job_seq = 1 WHERE seq = 5")
    assert copied(source, other, "--restart").exit_code == 0
    assert stage.dump(other) == stage.dump(source)
