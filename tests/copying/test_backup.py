"""``jobroom db backup``: one moment of a SQLite file that is in use."""

from __future__ import annotations

import resource
import signal
import sqlite3
import statistics
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import copying_stage as stage
import pytest

from jobroom.errors import ConfigurationError
from jobroom.service import health
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store import backup
from jobroom.store.sqlite_file import SQLiteFile


@pytest.fixture
def backed_up(run):
    def back_up(url: str, path: Path):
        return run("db", "backup", str(path), database_url=url)

    return back_up


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_backup_holds_the_very_same_rows(made, backed_up, run, tmp_path):
    url, copy = made("sqlite", tasks=200), tmp_path / "copy.db"
    done = backed_up(url, copy)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{copy}: {copy.stat().st_size:,} bytes, checked\n"
    assert stage.dump(f"sqlite:///{copy}") == stage.dump(url)
    assert run("db", "check", database_url=f"sqlite:///{copy}").exit_code == 0


def test_a_backup_is_read_by_whom_the_database_is_read_by(made, backed_up, tmp_path):
    url, copy = made("sqlite", tasks=1), tmp_path / "copy.db"
    stage.path_of(url).chmod(0o640)
    backed_up(url, copy)
    assert copy.stat().st_mode & 0o777 == 0o640


def test_a_backup_replaces_nothing(made, backed_up, tmp_path):
    url, copy = made("sqlite", tasks=1), tmp_path / "copy.db"
    copy.write_text("mine")
    done = backed_up(url, copy)
    assert (done.exit_code, done.stderr) == (
        1,
        f"jobroom: There is a {copy} already: name a file that is not there.\n",
    )
    assert copy.read_text() == "mine"


def test_a_backup_replaces_nothing_that_came_meanwhile(made, tmp_path):
    database = SQLiteFile(JobLibSettings(database_url=made("sqlite", tasks=1)))
    copy = tmp_path / "copy.db"
    with pytest.raises(ConfigurationError, match="already"):
        backup.back_up(database, copy, lambda _: copy.write_text("mine"))
    assert copy.read_text() == "mine"
    assert not [name for name in names_in(tmp_path) if name.endswith(".part")]


def test_where_there_are_no_links_a_backup_is_renamed(made, tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(backup.os, "link", refuse)
    url, copy = made("sqlite", tasks=20), tmp_path / "copy.db"
    database = SQLiteFile(JobLibSettings(database_url=url))
    backup.back_up(database, copy, lambda _: None)
    assert stage.dump(f"sqlite:///{copy}") == stage.dump(url)
    copy.unlink()
    with pytest.raises(ConfigurationError, match="already"):
        backup.back_up(database, copy, lambda _: copy.write_text("mine"))


def test_a_backup_into_a_folder_that_is_not_there_is_one_sentence(made, backed_up, tmp_path):
    done = backed_up(made("sqlite"), tmp_path / "nowhere" / "copy.db")
    assert done.exit_code == 1
    assert done.stderr == (
        f"jobroom: The backup {tmp_path}/nowhere/copy.db cannot be made"
        " (No such file or directory).\n"
    )


def test_a_backup_of_nothing_makes_nothing(backed_up, tmp_path):
    done = backed_up(f"sqlite:///{tmp_path}/nothing.db", tmp_path / "copy.db")
    assert done.exit_code == 1
    assert f"no database {tmp_path}/nothing.db" in done.stderr
    assert names_in(tmp_path) == set()


def test_a_full_disk_leaves_no_backup(made, tmp_path):
    url, copy = made("sqlite", tasks=500), tmp_path / "copy.db"
    done = subprocess.run(
        stage.command("db", "backup", str(copy)),
        env=stage.environment(database_url=url),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    assert "check that its disk has room" in stage.refusal_of(done)
    assert not [name for name in names_in(tmp_path) if "copy" in name]


def test_a_killed_backup_leaves_nothing_under_its_name(made, tmp_path):
    database = made("sqlite", tasks=2000, payload="x" * 1000)
    copy = tmp_path / "copy.db"
    script = (
        "import os, signal, pathlib\n"
        "from jobroom.settings import JobLibSettings\n"
        "from jobroom.store import backup\n"
        "from jobroom.store.sqlite_file import SQLiteFile\n"
        f"database = SQLiteFile(JobLibSettings(database_url={database!r}))\n"
        f"path = pathlib.Path({str(copy)!r})\n"
        "backup.back_up(database, path, lambda _: os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    done = subprocess.run(
        [stage.sys.executable, "-c", script], env=stage.environment(), check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert not copy.exists()


def test_a_damaged_database_gives_no_backup(made, backed_up, tmp_path):
    url, copy = made("sqlite", tasks=500), tmp_path / "copy.db"
    with closing(sqlite3.connect(stage.path_of(url))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ((page,),) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'ix_task_room'"
        ).fetchall()
    with stage.path_of(url).open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\x55" * 4096)
    done = backed_up(url, copy)
    assert done.exit_code == 1
    assert "is damaged" in done.stderr
    assert not copy.exists()


@pytest.mark.parametrize(
    ("kind", "tool"), [("libsql", "turso db shell"), ("postgresql", "pg_dump")]
)
def test_a_server_is_backed_up_by_its_own_tool(made, backed_up, tmp_path, kind, tool):
    done = backed_up(made(kind), tmp_path / "copy")
    assert done.exit_code == 1
    assert tool in done.stderr
    assert done.stderr.count("\n") == 1
    assert names_in(tmp_path) == set()


class Load:
    """A writer that keeps on writing, and how long each write took."""

    def __init__(self, url: str) -> None:
        self.seconds: list[float] = []
        self._queue = JobQueue.open(JobLibSettings(database_url=url, sqlite_synchronous="NORMAL"))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._queue.close()

    def _write(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            self._queue.run(health.check_writable)
            self.seconds.append(time.monotonic() - began)


def test_writers_go_on_during_a_backup_which_is_of_one_moment(made, tmp_path, tally):
    url, copy = made("sqlite", tasks=8000, payload="x" * 1000), tmp_path / "copy.db"
    before = stage.dump(url)
    moments = []
    with Load(url) as load:
        while len(load.seconds) < 50:
            time.sleep(0.01)
        calm = list(load.seconds)
        began = time.monotonic()
        database = SQLiteFile(JobLibSettings(database_url=url))
        size = backup.back_up(database, copy, lambda pages: moments.append(pages.done))
        took = time.monotonic() - began
        during = load.seconds[len(calm) :]
    assert len(during) > 5
    assert moments == sorted(moments), "it began anew"
    assert stage.dump(f"sqlite:///{copy}") == before
    tally(
        f"db backup of {size / 1e6:.0f} MB in {took:.2f} s under load: a write took"
        f" {statistics.median(calm) * 1000:.1f} ms (at most {max(calm) * 1000:.0f}) before,"
        f" {statistics.median(during) * 1000:.1f} ms (at most {max(during) * 1000:.0f}) meanwhile"
    )
    assert max(during) < 5
