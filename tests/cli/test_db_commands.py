"""``jobroom db upgrade``, ``db check`` and ``sweep`` on each store, and what they say of faults."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import servers
import tables
from typer.testing import CliRunner, Result

from jobroom.cli import database, main
from jobroom.domain.records import Caller
from jobroom.service import claiming, registration, scheduling, submission
from jobroom.service.inspection import Inspection
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store import jobs, migrate

ROOT = Path(__file__).parents[2]
KINDS = ("sqlite", "libsql", "postgresql")
HEAD = migrate.HEAD


@pytest.fixture
def run(monkeypatch):
    """Runs ``jobroom`` in this process, with these settings."""
    for name in [name for name in os.environ if name.startswith("ZNDRAW_JOBLIB_")]:
        monkeypatch.delenv(name)

    def run(*arguments: str, **settings: object) -> Result:
        given = {f"ZNDRAW_JOBLIB_{name.upper()}": str(value) for name, value in settings.items()}
        return CliRunner().invoke(main.app, [*arguments], env=given)

    return run


@pytest.fixture
def url(request, stores: servers.Stores, tmp_path) -> Iterator[str]:
    """A migrated database of the kind that the test asks for."""
    made = stores.fresh(request.param, tmp_path)
    yield made
    stores.release(made)


@pytest.fixture
def bare(request, stores: servers.Stores, tmp_path) -> Iterator[str]:
    """A database without any table."""
    if request.param == "sqlite":
        made = f"sqlite:///{tmp_path}/bare.db"
    elif request.param == "libsql":
        stores.sqld.create_namespace("bare")
        made = stores.sqld.url_of("bare")
    else:
        stores.postgres.execute("CREATE DATABASE bare")
        made = stores.postgres.url("bare")
    yield made
    stores.release(made)


on_each = pytest.mark.parametrize("url", KINDS, indirect=True)
on_each_bare = pytest.mark.parametrize("bare", KINDS, indirect=True)


def sentence(done: Result) -> str:
    """The one sentence of a command that refused."""
    assert done.exit_code == 1, (done.stdout, done.exception)
    assert done.stdout == ""
    assert done.stderr.startswith("jobroom: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return str(done.stderr)


def fill(url: str) -> None:
    """A worker, two jobs, and tasks pending and claimed."""
    alice = Caller("alice")
    with JobQueue.open(JobLibSettings(database_url=url)) as queue:
        for name in ("Rotate", "Scale"):
            spec = registration.JobSpec("modifiers", name)
            job = queue.run(registration.register_job, caller=alice, room_id="r1", spec=spec)
        for _ in range(3):
            queue.run(
                submission.submit_task,
                caller=alice,
                room_id="r1",
                job=job.view.job,
                new=submission.NewTask("{}"),
            )
        queue.run(claiming.claim_tasks, caller=alice)


@on_each_bare
def test_an_upgrade_says_from_where_to_where_and_does_nothing_twice(run, bare):
    first, second = (run("db", "upgrade", database_url=bare) for _ in range(2))
    assert (first.exit_code, second.exit_code) == (0, 0), (first.stderr, second.stderr)
    assert first.stdout.endswith(f": empty -> {HEAD}\n")
    assert second.stdout.endswith(f": {HEAD} -> {HEAD}\n")


@on_each_bare
def test_two_upgrades_at_once_are_one(bare):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "joblib")}
    environment["ZNDRAW_JOBLIB_DATABASE_URL"] = bare
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "jobroom.cli.main", "db", "upgrade"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    told = [one.communicate(timeout=60) for one in both]
    assert [one.returncode for one in both] == [0, 0], told
    assert all(output.endswith(f"-> {HEAD}\n") for output, _ in told)


@on_each
def test_a_check_says_what_there_is(run, url):
    fill(url)
    done = run("db", "check", database_url=url)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = {line[:12].strip(): line[12:] for line in done.stdout.splitlines()}
    assert list(lines) == [
        "database", "server", "schema", "write", "round trip", "clock", "jobs", "workers",
        "tasks", "integrity",
    ]  # fmt: skip
    assert lines["schema"] == f"{HEAD} (this jobroom's)"
    assert lines["write"].startswith("yes, in ")
    assert lines["jobs"] == "2 shown"
    assert lines["workers"] == "1 active"
    assert lines["tasks"] == "1 claimed, 2 pending"
    assert lines["integrity"].startswith("ok (")
    assert "references" in lines["integrity"]


@on_each
def test_a_check_for_programs_is_one_json_object(run, url):
    fill(url)
    found = json.loads(run("db", "check", "--json", database_url=url).stdout)
    assert found["schema"] == found["wanted_schema"] == HEAD
    assert found["counts"]["tasks"] == {"claimed": 1, "pending": 2}
    assert found["faults"] == []
    assert found["round_trip_milliseconds"] > 0
    assert (found["clock_milliseconds"] is None) == url.startswith("sqlite")
    assert abs(found["clock_milliseconds"] or 0) < 5000
    product = {"s": "SQLite 3.", "h": "libSQL, SQLite 3.", "p": "PostgreSQL 18"}[url[0]]
    assert found["server"].startswith(product)


@on_each_bare
def test_a_check_of_a_database_without_tables_says_to_upgrade_it(run, bare):
    if bare.startswith("sqlite"):
        Path(bare.removeprefix("sqlite:///")).touch()
    done = run("db", "check", database_url=bare)
    assert done.exit_code == 1
    assert "holds no queue yet" in done.stdout
    assert "run jobroom db upgrade" in done.stdout


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_check_of_a_newer_schema_says_so(run, url):
    write(url, "UPDATE alembic_version SET version_num = '9999'")
    done = run("db", "check", database_url=url)
    assert done.exit_code == 1
    assert "has schema 9999" in done.stdout
    assert "9999 (not this jobroom's)" in done.stdout


def write(url: str, sql: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute(sql)
        connection.commit()


def test_a_check_makes_no_file(run, tmp_path):
    told = sentence(run("db", "check", database_url=f"sqlite:///{tmp_path}/nothing.db"))
    assert f"no database {tmp_path}/nothing.db" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_check_finds_rows_whose_job_is_missing(run, url):
    fill(url)
    write(url, "UPDATE task SET job_seq = 99 WHERE seq = 1")
    done = run("db", "check", database_url=url)
    assert done.exit_code == 1
    assert "fault       1 rows of task.job_seq refer to rows that are not there." in done.stdout


@on_each
def test_a_check_names_a_damaged_schedule_and_says_what_to_do(run, url):
    fill(url)
    with JobQueue.open(JobLibSettings(database_url=url)) as queue:
        for name in ("nightly", "hourly"):
            queue.run(
                scheduling.put_schedule,
                caller=Caller("alice"),
                room_id="r1",
                job=queue.run(lambda tx: jobs.get_by_seq(tx, 1)),
                spec=scheduling.ScheduleSpec(name, every_seconds=60.0),
            )
        tables.write(queue, "UPDATE schedule SET end_at = 9000000000000000000 WHERE name LIKE 'n%'")
    done = run("db", "check", database_url=url)
    assert done.exit_code == 1
    assert done.stdout.endswith(
        "fault       The schedule 'nightly' of room 'r1' is damaged (end_at is no time): put it"
        " again.\n"
    )


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_check_finds_a_damaged_page(run, url):
    path = Path(url.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'ix_task_room'"
        ((page,),) = connection.execute(query).fetchall()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\x55" * 4096)
    done = run("db", "check", database_url=url)
    assert done.exit_code == 1
    assert "damaged" in done.stdout + done.stderr


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_check_that_cannot_write_says_what_to_look_at(run, url):
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as other:
        other.execute("BEGIN IMMEDIATE")
        done = run("db", "check", database_url=url, database_busy_seconds=0.1)
    assert done.exit_code == 1
    assert "write       no\n" in done.stdout
    assert "It cannot be written: check that its disk has room" in done.stdout


def test_counts_that_were_cut_off_say_so():
    found = Inspection("here", "SQLite", HEAD, counts={"tasks": {"pending": 1_000_000}})
    found.counts_are_bounded = True
    assert "tasks       1,000,000 pending (of the first million)" in database.check_lines(found)


@on_each
def test_a_sweep_works_on_each_store(run, url):
    done = run("sweep", database_url=url)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("workers judged: yes\nworkers lost: 0\n")


@pytest.mark.parametrize("bare", ["libsql", "postgresql"], indirect=True)
def test_a_sweep_of_a_server_without_tables_says_to_upgrade_it(run, bare):
    assert "is empty: run jobroom db upgrade" in sentence(run("sweep", database_url=bare))


NOBODY_THERE = {
    "libsql": "http://127.0.0.1:{port}",
    "postgresql": "postgresql://postgres:a-secret@127.0.0.1:{port}/queue",
}


@pytest.mark.parametrize("kind", NOBODY_THERE)
@pytest.mark.parametrize("verb", [("db", "upgrade"), ("db", "check"), ("sweep",)])
def test_a_server_that_does_not_answer_is_one_sentence(run, kind, verb):
    place = NOBODY_THERE[kind].format(port=servers.free_port())
    told = sentence(run(*verb, database_url=place))
    assert "127.0.0.1" in told
    assert "check" in told or "start the server" in told
    assert "a-secret" not in told


def test_a_wrong_token_is_one_sentence(run):
    with servers.Sqld(auth=True, in_memory=True).start() as sqld:
        for token in (None, "nonsense", sqld.token(read_only=True)):
            given = {} if token is None else {"database_auth_token": token}
            told = sentence(run("db", "upgrade", database_url=sqld.url, **given))
            assert "token" in told
            assert token is None or token not in told
        given = {"database_auth_token": sqld.token()}
        assert run("db", "upgrade", database_url=sqld.url, **given).exit_code == 0
        assert run("db", "check", database_url=sqld.url, **given).exit_code == 0


def test_each_side_of_a_copy_has_its_own_token(run, tmp_path):
    with servers.Sqld(auth=True, in_memory=True).start() as sqld:
        (tmp_path / "token").write_text(sqld.token())
        run("db", "upgrade", database_url=f"sqlite:///{tmp_path}/queue.db")
        ends = ("db", "copy", "--from", f"sqlite:///{tmp_path}/queue.db", "--to")
        refused = sentence(run(*ends, sqld.url))
        assert "--to-token-file" in refused
        wrong = {"database_auth_token": "meant for another"}
        done = run(*ends, sqld.url, "--to-token-file", str(tmp_path / "token"), **wrong)
        assert done.exit_code == 0, done.stderr
        url = f"{sqld.url}?authToken={sqld.token()}"
        back = ("db", "copy", "--from", url, "--to", f"sqlite:///{tmp_path}/back.db")
        done = run(*back, **wrong)
        assert done.exit_code == 0, done.stderr
        assert sqld.token() not in done.stdout


def test_a_wrong_password_is_one_sentence(run, stores):
    stores.postgres.execute("CREATE ROLE locked LOGIN PASSWORD 'right'")
    hba = Path(stores.postgres.execute("SHOW hba_file")[0][0])
    before = hba.read_text()
    hba.write_text(f"host all locked 127.0.0.1/32 scram-sha-256\n{before}")
    try:
        stores.postgres.execute("SELECT pg_reload_conf()")
        place = f"postgresql://locked:a-wrong-one@127.0.0.1:{stores.postgres.port}/postgres"
        told = sentence(run("db", "upgrade", database_url=place))
    finally:
        hba.write_text(before)
        stores.postgres.execute("SELECT pg_reload_conf()")
        stores.postgres.execute("DROP ROLE locked")
    assert "password" in told
    assert "a-wrong-one" not in told


@pytest.mark.parametrize(
    ("package", "url", "extra"),
    [
        ("psycopg", "postgresql://localhost/queue", "jobroom[postgres]"),
        ("libsql_client", "libsql+client://127.0.0.1:9?tls=0", "jobroom[libsql-client]"),
        ("alembic", "sqlite:///queue.db", "jobroom[server]"),
    ],
)
def test_a_package_that_is_not_installed_is_one_sentence(tmp_path, package, url, extra):
    code = (
        f"import sys\nsys.modules[{package!r}] = None\n"
        "from jobroom.cli.main import app\napp(['db', 'upgrade'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "joblib"), "ZNDRAW_JOBLIB_DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("jobroom: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert extra in done.stderr
