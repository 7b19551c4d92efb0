"""Reading pyantz's file: nothing of it is changed, and what cannot be read is said."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import old_queue
import pytest
from old_queue import READY, SUCCESS, OldQueue

from jobroom.errors import ConfigurationError
from jobroom.store import pyantz_file

TESTS = Path(__file__).parents[1]


def files_beside(path: Path) -> dict[str, bytes]:
    """The folder of the file: names and contents."""
    return {each.name: each.read_bytes() for each in path.parent.iterdir()}


def ids_in(path: Path) -> list[str]:
    """The ids that are read."""
    with pyantz_file.open_file(path) as file:
        return list(file.order)


def refusal(path: Path) -> str:
    """The sentence of a file that is refused."""
    with pytest.raises(ConfigurationError) as refused, pyantz_file.open_file(path):
        pass
    assert "\n" not in str(refused.value)
    return str(refused.value)


@contextmanager
def written_elsewhere(path: Path, *, then: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has written jobs ``a`` and ``b`` with a write-ahead log."""
    code = f"""
import os, sys
from pathlib import Path
from old_queue import OldQueue
queue = OldQueue(Path({str(path)!r}), wal=True)
queue.add("a")
queue.add("b", 1, ["a"])
queue.connection.commit()
print("written", flush=True)
{then}
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in a folder of its own."""
    folder = tmp_path / "run"
    folder.mkdir()
    return folder / "queue.db"


def test_reading_leaves_no_trace(path: Path) -> None:
    old_queue.write(path, {"a": (READY,), "b": (SUCCESS,)})
    before = files_beside(path)
    assert ids_in(path) == ["a", "b"]
    assert files_beside(path) == before


def test_what_a_killed_run_left_in_its_log_is_read_and_left_there(path: Path) -> None:
    """The log is folded into a copy; the file itself may be all but empty."""
    with written_elsewhere(path, then="os._exit(9)") as process:
        process.wait(30)
    assert path.with_name("queue.db-wal").stat().st_size > 0
    before = files_beside(path)
    assert ids_in(path) == ["a", "b"]
    assert files_beside(path) == before


def test_what_a_killed_transaction_left_is_rolled_back_in_the_copy(path: Path, tmp_path) -> None:
    """A rollback journal: half of what the transaction wrote is in the file."""
    queue = OldQueue(path)
    queue.add("a")
    queue.connection.commit()
    queue.connection.execute("PRAGMA cache_size = 1")
    queue.connection.execute("PRAGMA cache_spill = 1")
    for number in range(200):
        queue.add(f"b{number}", parameters={"x": "y" * 5000})
    left = tmp_path / "left"
    left.mkdir()
    for name in ("queue.db", "queue.db-journal"):
        shutil.copy(path.with_name(name), left / name)
    queue.connection.rollback()
    assert ids_in(left / "queue.db") == ["a"]


def test_a_file_that_may_not_be_written_is_read(path: Path) -> None:
    old_queue.write(path, {"a": (READY,)})
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        assert ids_in(path) == ["a"]
    finally:
        path.parent.chmod(0o700)


def test_a_name_with_signs_of_an_address_is_a_name(path: Path) -> None:
    odd = path.with_name("a?mode=rw&b#c%20d.db")
    old_queue.write(odd, {"a": (READY,)})
    assert ids_in(odd) == ["a"]


def test_a_file_in_use_is_refused(path: Path) -> None:
    """A run that goes on would do the same jobs a second time."""
    with written_elsewhere(path, then="sys.stdin.readline()"):
        assert refusal(path) == (
            f"The file {path} is in use by another process: let its run end or stop it, then"
            " import it."
        )
    assert ids_in(path) == ["a", "b"]


def test_whoever_comes_while_it_is_read_waits(path: Path) -> None:
    old_queue.write(path, {"a": (READY,)})
    code = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0)
try:
    connection.execute("DELETE FROM job_status")
except sqlite3.OperationalError as error:
    print(error)
"""
    with pyantz_file.open_file(path) as file:
        done = subprocess.run(
            [sys.executable, "-c", code, path],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stdout == "database is locked\n"
        assert [job.job_id for job in file.read(file.order)] == ["a"]


def _missing(path: Path) -> None:
    pass


def _folder(path: Path) -> None:
    path.mkdir()


def _text(path: Path) -> None:
    path.write_text("no database")


def _empty(path: Path) -> None:
    path.touch()


def _of_others(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE things (a)")
    connection.close()


def _without_a_column(path: Path) -> None:
    old_queue.write(path, {})
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE job_status DROP COLUMN details")
    connection.close()


def _damaged(path: Path) -> None:
    old_queue.write(path, {f"job {number}": (READY,) for number in range(500)})
    whole = bytearray(path.read_bytes())
    whole[4096:] = b"\xff" * (len(whole) - 4096)
    path.write_bytes(whole)


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (_missing, "There is no file {path}."),
    "a folder": (_folder, "The file {path} cannot be read: Is a directory."),
    "text": (_text, "The file {path} is no SQLite database."),
    "empty": (_empty, "The file {path} is no SQLite database."),
    "of others": (_of_others, "The file {path} is no queue of pyantz's: it has no table"),
    "without a column": (
        _without_a_column,
        "The file {path} is no queue of pyantz's: it has no column details in job_status.",
    ),
    "damaged": (_damaged, "The file {path} cannot be read, it may be damaged:"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_such_file_is_refused_in_one_sentence(path: Path, kind: str) -> None:
    make, sentence = REFUSED[kind]
    make(path)
    assert refusal(path).startswith(sentence.format(path=path))


def test_our_own_file_is_refused(empty_database: Path) -> None:
    assert refusal(empty_database) == (
        f"The file {empty_database} is jobroom's own already: open it with SqliteQueue, or copy it"
        " with jobroom db copy."
    )
