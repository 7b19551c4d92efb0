"""A database that cannot be worked with is refused at the start, in one sentence: case C38.

Every case is met by all who open it: the server, ``jobroom sweep`` and ``jobroom db upgrade``.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import live_server
import pytest

COMMANDS = (
    ("uvicorn", "app:app", "--port", "0"),
    ("jobroom", "sweep"),
    ("jobroom", "db", "upgrade"),
)
CHECK = "check that its disk has room, that you may write the file and its folder"
ANOTHER = "name another file by ZNDRAW_JOBLIB_DATABASE_URL"
WHOLE = "ut a whole copy in its place"
CASES = {}


def case(sentence, *, sweep=None, largest=None):
    """A fault, as a function that brings it about; what is said of it, and by the sweep if else."""

    def noted(bring_about):
        CASES[bring_about.__name__] = SimpleNamespace(
            bring_about=bring_about, sentence=sentence, sweep=sweep or sentence, largest=largest
        )
        return bring_about

    return noted


@case(CHECK, sweep="There is no database")
def a_new_file_in_a_read_only_folder(place):
    place.file.unlink()
    place.folder.chmod(0o555)


@case(CHECK)
def a_file_in_a_read_only_folder(place):
    place.folder.chmod(0o555)


@case(CHECK)
def a_read_only_file(place):
    place.file.chmod(0o444)


@case(CHECK)
def a_read_only_file_that_is_empty(place):
    place.file.write_bytes(b"")
    place.file.chmod(0o444)


@case(CHECK)
def a_file_of_somebody_else(place):
    place.file.chmod(0o000)


@case(CHECK)
def a_folder_of_somebody_else(place):
    place.folder.chmod(0o000)


@case("does not exist; make it, or set ZNDRAW_JOBLIB_DATABASE_URL")
def a_folder_that_is_not_there(place):
    shutil.rmtree(place.folder)


@case("does not exist; make it, or set ZNDRAW_JOBLIB_DATABASE_URL")
def a_file_in_place_of_the_folder(place):
    shutil.rmtree(place.folder)
    place.folder.write_text("a file")


@case(f"it is a folder; {ANOTHER}")
def a_folder_in_place_of_the_file(place):
    place.file.unlink()
    place.file.mkdir()


@case(CHECK, sweep="There is no database")
def a_link_to_nowhere(place):
    place.file.unlink()
    place.file.symlink_to(place.folder / "nowhere" / "queue.db")


@case(f"it is no SQLite database; {ANOTHER}")
def a_file_that_is_no_database(place):
    place.file.write_bytes(b"These are my notes. " * 1000)


@case(WHOLE)
def a_file_that_was_cut_in_half(place):
    os.truncate(place.file, place.file.stat().st_size // 2)


@case(WHOLE)
def a_file_of_which_the_header_is_left(place):
    os.truncate(place.file, 100)


@case(WHOLE)
def a_file_with_rubbish_after_its_header(place):
    content = place.file.read_bytes()
    place.file.write_bytes(content[:100] + random.Random(1).randbytes(len(content) - 100))


@case("schema 9999, which this jobroom does not know; it was written by a newer version. Upgrade")
def a_file_of_a_newer_version(place):
    place.execute("UPDATE alembic_version SET version_num = '9999'")


@case(f"it does not say which version its schema has. P{WHOLE}")
def a_file_without_a_version(place):
    place.execute("DELETE FROM alembic_version")


@case(f"it names 2 versions of its schema. P{WHOLE}")
def a_file_of_two_versions(place):
    place.execute("INSERT INTO alembic_version VALUES ('0000')")


@case(f"it has no notice.worker_id. P{WHOLE}")
def a_half_migrated_file_without_a_table(place):
    place.execute("DROP TABLE notice")


@case(f"it has no task.due_at. P{WHOLE}")
def a_half_migrated_file_without_a_column(place):
    place.execute("DROP INDEX ix_task_due", "ALTER TABLE task DROP COLUMN due_at")


@case("holds other tables; give jobroom one of its own")
def a_file_of_something_else(place):
    place.execute("DROP TABLE alembic_version")


@case(CHECK, largest=8192)
def a_disk_without_room_for_a_new_file(place):
    place.file.unlink()


@case(CHECK, largest=0)
def a_disk_without_room_for_the_log(place):
    """An existing file is opened; its -wal cannot be made."""


@case(CHECK, largest=16 * 1024)
def a_disk_without_room_for_the_index_of_the_log(place):
    """There is room for a -wal, and none for a -shm, which takes 32 KiB at once."""


@case(CHECK)
def a_log_that_may_not_be_read(place):
    place.file.with_name("queue.db-wal").touch(0o000)


@case(CHECK)
def a_folder_in_place_of_the_index_of_the_log(place):
    place.file.with_name("queue.db-shm").mkdir()


@pytest.fixture
def place(tmp_path, empty_database):
    """A sound database in a folder of its own, to be spoilt."""
    folder = tmp_path / "store"
    folder.mkdir()
    file = folder / "queue.db"
    shutil.copy(empty_database, file)

    def execute(*statements):
        with closing(sqlite3.connect(file, isolation_level=None)) as opened:
            for statement in statements:
                opened.execute(statement)

    yield SimpleNamespace(folder=folder, file=file, execute=execute)
    if folder.is_dir():
        folder.chmod(0o755)


@pytest.mark.parametrize("name", CASES)
def test_whoever_opens_it_is_told_what_to_do(run, place, tmp_path, name):
    spoilt = CASES[name]
    spoilt.bring_about(place)
    settings = {"jwt_secret": live_server.SECRET, "database_url": f"sqlite:///{place.file}"}
    for command in COMMANDS:
        done = run(*command, folder=tmp_path, largest=spoilt.largest, **settings)
        check_refusal(done, spoilt.sweep if "sweep" in command else spoilt.sentence)
        assert str(place.folder) in done.output


def check_refusal(done, sentence):
    """It ended, not well, and said so in one line, and why."""
    assert done.code not in (0, None), done.output
    assert "Traceback" not in done.output
    lines = [line for line in done.output.splitlines() if not line.startswith("INFO:")]
    said = [line for line in lines if "jobroom: " in line]
    assert len(said) == 1, done.output
    assert sentence in said[0]
    assert all(
        line in said or line.endswith("Application startup failed. Exiting.") for line in lines
    )


@pytest.mark.parametrize("name", ["a_read_only_file", "a_file_that_was_cut_in_half"])
def test_a_refused_file_is_left_as_it_was(run, place, tmp_path, name):
    CASES[name].bring_about(place)
    before = place.file.read_bytes()
    settings = {"jwt_secret": live_server.SECRET, "database_url": f"sqlite:///{place.file}"}
    for command in COMMANDS:
        run(*command, folder=tmp_path, **settings)
    assert place.file.read_bytes() == before


def a_read_only_folder(place):
    place.folder.chmod(0o555)


def a_folder_that_may_not_be_entered(place):
    place.folder.chmod(0o000)


def a_key_of_somebody_else(place):
    place.key.write_text("k" * 86)
    place.key.chmod(0o000)


def a_key_that_others_may_read(place):
    place.key.write_text("k" * 86)
    place.key.chmod(0o644)


def a_folder_in_place_of_the_key(place):
    place.key.mkdir()
    place.key.chmod(0o700)


def a_damaged_key(place):
    place.key.write_text("k")
    place.key.chmod(0o600)


KEYS = {
    a_read_only_folder: "mend that or set ZNDRAW_JOBLIB_JWT_SECRET",
    a_folder_that_may_not_be_entered: "mend that or set ZNDRAW_JOBLIB_JWT_SECRET",
    a_folder_that_is_not_there: "mend that or set ZNDRAW_JOBLIB_JWT_SECRET",
    a_key_of_somebody_else: "mend that or set ZNDRAW_JOBLIB_JWT_SECRET",
    a_folder_in_place_of_the_key: "mend that or set ZNDRAW_JOBLIB_JWT_SECRET",
    a_key_that_others_may_read: "delete it to get a new key, or run chmod 600",
    a_damaged_key: "delete it to get a new key",
}


@pytest.mark.parametrize("bring_about", KEYS, ids=lambda fault: fault.__name__)
def test_a_token_without_a_key_says_what_to_do(run, place, tmp_path, bring_about):
    place.key = place.file.with_name("queue.db.key")
    bring_about(place)
    url = f"sqlite:///{place.file}"
    done = run("jobroom", "token", "--sub", "alice", folder=tmp_path, database_url=url)
    check_refusal(done, KEYS[bring_about])


def test_a_token_on_a_full_disk_says_what_to_do(run, place, tmp_path):
    url = f"sqlite:///{place.file}"
    command = ("jobroom", "token", "--sub", "alice")
    done = run(*command, folder=tmp_path, largest=0, database_url=url)
    check_refusal(done, "mend that or set ZNDRAW_JOBLIB_JWT_SECRET")
    assert list(place.folder.iterdir()) == [place.file]
