"""``jobroom db import-pyantz``: what it says, and what it refuses."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import old_queue
import pytest
import servers
import tables
from old_queue import ERROR, PENDING, READY, RUNNING, SUCCESS, OldQueue
from typer.testing import CliRunner, Result

from jobroom.cli import import_pyantz, main
from jobroom.embedded import SqliteQueue
from jobroom.errors import ConfigurationError
from jobroom.service import importing
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings

KINDS = ("sqlite", "libsql", "postgresql")


@pytest.fixture
def run(monkeypatch):
    """Runs ``jobroom db import-pyantz`` in this process, with these settings."""
    for name in [name for name in os.environ if name.startswith("ZNDRAW_JOBLIB_")]:
        monkeypatch.delenv(name)

    def run(*arguments: object, **settings: object) -> Result:
        given = {f"ZNDRAW_JOBLIB_{name.upper()}": str(value) for name, value in settings.items()}
        words = ["db", "import-pyantz", *map(str, arguments)]
        return CliRunner().invoke(main.app, words, env=given)

    return run


@pytest.fixture
def old(tmp_path) -> Path:
    """A queue with a job of each status."""
    return old_queue.write(
        tmp_path / "old.db",
        {
            "done": (SUCCESS,),
            "broken": (ERROR,),
            "ran": (RUNNING, ["done"]),
            "waits": (PENDING, ["ran"]),
            "ready": (READY, ["done"]),
        },
    )


@pytest.fixture
def url(request, stores: servers.Stores, tmp_path) -> Iterator[str]:
    """A migrated database of the kind that the test asks for."""
    made = stores.fresh(request.param, tmp_path)
    yield made
    stores.release(made)


def sentence(done: Result) -> str:
    """The one sentence of a command that refused."""
    assert done.exit_code == 1, (done.stdout, done.exception)
    assert done.stderr.startswith("jobroom: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return str(done.stderr.removeprefix("jobroom: ").rstrip("\n"))


@pytest.mark.parametrize("url", KINDS, indirect=True)
def test_it_brings_all_jobs_once_into_each_store(run, old, url) -> None:
    first, second = run(old, "--into", url), run(old, "--into", url)
    assert (first.exit_code, second.exit_code) == (0, 0), (first.stderr, second.stderr)
    from_, into, did, running = first.stdout.splitlines()
    assert from_ == f"from  {old}"
    assert into.startswith("into  ")
    assert did.startswith("imported 5 jobs with 3 dependencies in ")
    assert did.endswith(" s: 2 pending, 1 blocked, 1 completed, 1 failed")
    assert running == "1 of them were running: queued again"
    assert second.stdout.splitlines()[2:] == [
        "imported nothing",
        "5 jobs were there already, and stay as they are",
    ]
    with JobQueue.open(JobLibSettings(database_url=url)) as queue:
        found = tables.read(queue, "SELECT key, status FROM task ORDER BY seq")
        assert dict(found) == {
            "done": "completed",
            "broken": "failed",
            "ran": "pending",
            "waits": "blocked",
            "ready": "pending",
        }
        counted = tables.read(queue, "SELECT state, count(*) FROM edge GROUP BY state")
        assert sorted(counted) == [("met", 2), ("waiting", 1)]


@pytest.mark.parametrize("url", KINDS, indirect=True)
def test_what_comes_behind_those_that_wait_for_it_settles_them(run, tmp_path, url) -> None:
    """On each store, and in the counts."""
    jobs = {
        "on-done": (PENDING, ["done"]),
        "on-broken": (PENDING, ["broken"]),
        "down": (PENDING, ["on-broken"]),
        "done": (SUCCESS,),
        "broken": (ERROR,),
    }
    done = run(old_queue.write(tmp_path / "old.db", jobs), "--into", url)
    assert done.exit_code == 0, done.stderr
    assert " s: 1 pending, 1 completed, 3 failed\n" in done.stdout


def test_without_a_url_it_imports_into_the_database_of_the_settings(run, old, tmp_path) -> None:
    done = run(old, database_url=f"sqlite:///{tmp_path}/ours.db")
    assert done.exit_code == 0, done.stderr
    assert f"into  {tmp_path}/ours.db" in done.stdout


def test_running_jobs_may_be_failed(run, old, tmp_path) -> None:
    done = run(old, "--into", f"sqlite:///{tmp_path}/ours.db", "--running", "fail")
    assert "1 pending, 1 completed, 3 failed" in done.stdout
    assert "1 of them were running: failed" in done.stdout


def test_what_could_not_be_taken_over_is_named(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(import_pyantz, "MOST_NAMED", 2)
    queue = OldQueue(tmp_path / "old.db")
    for number in range(4):
        queue.add(f"bad {number}", text="{")
    queue.add("round", PENDING, ["round"])
    done = run(queue.close(), "--into", f"sqlite:///{tmp_path}/ours.db")
    assert [line for line in done.stdout.splitlines() if line.startswith("fault")] == [
        "fault: job bad 0: its configuration is no JSON",
        "fault: job bad 1: its configuration is no JSON",
        "fault: 2 more jobs",
        "fault: these wait for each other and will never run: round -> round",
    ]
    assert "1 blocked, 4 failed" in done.stdout
    assert "4 jobs could not be taken over as they were" in done.stdout
    assert done.exit_code == 1


@pytest.mark.parametrize("fault", ["a job", "a cycle"])
def test_a_fault_is_exit_code_1(fault: str, run, tmp_path) -> None:
    """A script that goes on after it must see that something is not there as it was."""
    queue = OldQueue(tmp_path / "old.db")
    queue.add("good")
    if fault == "a job":
        queue.add("bad", text="{")
    else:
        queue.add("round", PENDING, ["round"])
    done = run(queue.close(), "--into", f"sqlite:///{tmp_path}/ours.db")
    assert done.exit_code == 1
    assert "imported 2 jobs" in done.stdout


def test_json_is_one_object_with_every_fault(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(import_pyantz, "MOST_NAMED", 1)
    queue = OldQueue(tmp_path / "old.db")
    for name in ("bad", "worse"):
        queue.add(name, text="{")
    queue.add("good")
    path, target = queue.close(), f"sqlite:///{tmp_path}/ours.db"
    done = run(path, "--into", target, "--json")
    told = json.loads(done.stdout)
    reason = "its configuration is no JSON"
    assert done.exit_code == 1
    assert told == {
        "from": str(path),
        "into": f"{tmp_path}/ours.db",
        "imported": 3,
        "dependencies": 0,
        "statuses": {"pending": 1, "failed": 2},
        "were_running": 0,
        "known": 0,
        "faults": [{"job": name, "reason": reason} for name in ("bad", "worse")],
        "cycle": None,
    }
    again = run(path, "--into", target, "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["known"] == 3


def test_an_empty_queue_is_imported_too(run, tmp_path) -> None:
    done = run(old_queue.write(tmp_path / "old.db", {}), "--into", f"sqlite:///{tmp_path}/ours.db")
    assert done.stdout.splitlines()[2:] == ["imported nothing"]


def test_a_file_that_is_refused_makes_no_database(run, tmp_path) -> None:
    target = tmp_path / "ours.db"
    missing = tmp_path / "missing.db"
    assert sentence(run(missing, "--into", f"sqlite:///{target}")) == (
        f"There is no file {missing}."
    )
    assert not target.exists()


def test_the_file_itself_is_no_target(run, old) -> None:
    before = old.read_bytes()
    said = sentence(run(old, "--into", f"sqlite:///{old}"))
    assert said == f"Name another database by --into: {old} itself stays as it is."
    assert old.read_bytes() == before


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("ours.db", "--into is not a URL"),
        ("mysql://x/y", "--into names 'mysql'"),
        ("sqlite:////no/such/folder/ours.db", "The folder /no/such/folder does not exist"),
    ],
)
def test_a_target_that_cannot_be_is_refused(run, old, url, named) -> None:
    assert named in sentence(run(old, "--into", url))


def test_a_target_that_is_pyantz_s_own_too_is_refused(run, old, tmp_path) -> None:
    other = old_queue.write(tmp_path / "other.db", {"a": (READY,)})
    assert sentence(run(old, "--into", f"sqlite:///{other}")) == (
        f"The database {other} is a queue of pyantz's own: jobroom db import-pyantz brings its jobs"
        " into another one."
    )


def test_a_target_with_other_tables_is_refused(run, old, tmp_path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE things (a)")
    assert sentence(run(old, "--into", f"sqlite:///{other}")) == (
        f"The database {other} holds other tables; give jobroom one of its own by --into."
    )


def test_a_queue_opened_on_pyantz_s_file_names_this_command(old) -> None:
    with pytest.raises(ConfigurationError, match="jobroom db import-pyantz"):
        SqliteQueue(old)


def test_ctrl_c_says_how_to_go_on(run, old, tmp_path, monkeypatch) -> None:
    url = f"sqlite:///{tmp_path}/ours.db"
    monkeypatch.setattr(importing, "NEAR_BATCH", 2)
    steps = importing.Importing.run

    def interrupted(self):
        yield next(steps(self))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(importing.Importing, "run", interrupted)
        done = run(old, "--into", url)
    assert done.exit_code == 130
    assert done.stderr == (
        "jobroom: stopped as you asked. Run the same command again: it goes on where it was.\n"
    )
    rest = run(old, "--into", url)
    assert "imported 3 jobs" in rest.stdout
    assert "2 jobs were there already" in rest.stdout


def test_ten_thousand_jobs_take_seconds(run, tmp_path, tally) -> None:
    queue = OldQueue(tmp_path / "old.db")
    for number in range(10_000):
        queue.add(
            f"job {number}",
            (SUCCESS, READY, PENDING, PENDING)[number % 4],
            [f"job {number - 1}"] if number % 4 > 1 else (),
            parameters={"x": "y" * 200},
        )
    path = queue.close()
    began = time.monotonic()
    done = run(path, "--into", f"sqlite:///{tmp_path}/ours.db")
    seconds = time.monotonic() - began
    assert "imported 10,000 jobs with 5,000 dependencies" in done.stdout
    assert "2,500 pending, 5,000 blocked, 2,500 completed" in done.stdout
    tally(f"import-pyantz: 10,000 jobs in {seconds:.1f} s")
    assert seconds < 60
