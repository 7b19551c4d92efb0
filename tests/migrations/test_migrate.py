"""Migrations of a SQLite file, which happen when it is opened; see also what every store does."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from jobroom.errors import ConfigurationError
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store import migrate
from jobroom.store.sqlite_file import SQLiteFile

OPEN = """
import sys
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
print("ready", flush=True)
sys.stdin.readline()
JobQueue.open(JobLibSettings(database_url=sys.argv[1])).close()
print("alembic" in sys.modules)
"""


def open_in_process(path: Path) -> subprocess.Popen[str]:
    """A process that has imported everything and opens the file when it is told to."""
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN, f"sqlite:///{path}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def refusal(path: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        JobQueue.open(JobLibSettings(database_url=f"sqlite:///{path}"))
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_head_is_the_newest_revision_of_alembic() -> None:
    assert ScriptDirectory.from_config(migrate._config()).get_heads() == [migrate.HEAD]


def test_a_new_file_is_made_and_migrated_at_opening(tmp_path: Path) -> None:
    settings = JobLibSettings(database_url=f"sqlite:///{tmp_path}/queue.db")
    JobQueue.open(settings).close()
    assert migrate.current(SQLiteFile(settings)) == migrate.HEAD


def test_an_empty_file_is_taken_for_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "queue.db").touch()
    settings = JobLibSettings(database_url=f"sqlite:///{tmp_path}/queue.db")
    JobQueue.open(settings).close()
    assert migrate.current(SQLiteFile(settings)) == migrate.HEAD


def test_two_processes_that_open_one_new_file_at_once_both_work(tmp_path: Path) -> None:
    """Design, *Dependencies*: a local file is upgraded on start, by whoever comes first."""
    path = tmp_path / "queue.db"
    started = [open_in_process(path) for _ in range(2)]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ended = [process.communicate(timeout=30) for process in started]
    assert [process.returncode for process in started] == [0, 0], ended


@pytest.mark.only_on("sqlite")
def test_opening_a_current_file_does_not_import_alembic(settings: JobLibSettings) -> None:
    """Design, *Serverless*: cold start is a feature."""
    out, err = open_in_process(SQLiteFile(settings).path).communicate("go\n", timeout=30)
    assert (out.strip(), err) == ("False", "")


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are my notes, not a database. " * 100)
    refusal(path)
    assert path.read_text().startswith("These are my notes")


def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE users (name TEXT)")
    assert "holds other tables" in refusal(path)
    tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    mode = connection.execute("PRAGMA journal_mode").fetchone()
    connection.close()
    assert (tables, mode) == ([("users",)], ("delete",))


def test_a_disk_that_is_full_at_the_first_start_is_one_sentence(tmp_path: Path) -> None:
    """Case C38: start-up refuses with one clear sentence."""
    code = (
        "import resource, signal, sys\n"
        "from jobroom.service.queue import JobQueue\n"
        "from jobroom.settings import JobLibSettings\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
        "try:\n"
        "    JobQueue.open(JobLibSettings(database_url=sys.argv[1]))\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    url = f"sqlite:///{tmp_path / 'queue.db'}"
    done = subprocess.run(
        [sys.executable, "-c", code, url], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("ConfigurationError The database"), done.stdout + done.stderr
