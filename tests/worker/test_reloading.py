"""``jobroom worker --reload``: what is watched, and what a change does."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest
from worker_shop import until

from jobroom.worker import reloading
from jobroom.worker.reloading import Watch, fault_in, folders_of


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# What is watched


def test_a_file_is_watched_with_its_folder(here):
    (here / "sub").mkdir()
    (here / "sub" / "tasks.py").touch()
    assert folders_of(["sub/tasks.py", "sub/tasks.py:rotate"]) == [here / "sub"]


def test_a_module_of_here_is_watched_with_all_that_is_here(here):
    (here / "tasks.py").touch()
    (here / "pack").mkdir()
    assert folders_of(["tasks", "pack.inner:name"]) == [here]


def test_an_installed_package_is_watched_where_it_is(here):
    assert folders_of(["pydantic.main"]) == [Path(sys.modules["pydantic"].__file__).parent]


def test_an_unknown_module_is_looked_for_here(here):
    assert folders_of(["nowhere_at_all"]) == [here]


def test_new_changed_and_removed_files_are_changes(here):
    for name in ("old.py", "gone.py", "same.py", "text.txt"):
        (here / name).write_text("1")
    watch = Watch([here])
    assert watch.changes() == set()
    (here / "old.py").write_text("12")
    (here / "gone.py").unlink()
    (here / "sub").mkdir()
    (here / "sub" / "new.py").touch()
    (here / "text.txt").write_text("12")
    assert {path.name for path in watch.changes()} == {"old.py", "gone.py", "new.py"}
    assert watch.changes() == set()


def test_nobodys_own_code_is_not_watched(here):
    for folder in (".git", "node_modules", "__pycache__", "site-packages", "env"):
        (here / folder).mkdir()
    (here / "env" / "pyvenv.cfg").touch()
    watch = Watch([here])
    for folder in here.iterdir():
        (folder / "new.py").touch()
    assert watch.changes() == set()


def test_a_fault_is_told_with_its_place(here):
    (here / "good.py").write_text("x = 1\n")
    (here / "bad.py").write_text("x = 1\nx = = 2\n")
    (here / "null.py").write_bytes(b"x = 1\0")
    assert fault_in([here / "good.py", here / "gone.py"]) is None
    assert fault_in(here.glob("*.py")) == "bad.py:2: invalid syntax"
    assert "null bytes" in fault_in([here / "null.py"])


def test_it_says_where_it_cannot_be_had(monkeypatch, capsys):
    monkeypatch.setattr("jobroom.worker.reloading.os.name", "nt")
    code = reloading.run(["tasks"])
    monkeypatch.undo()
    assert (code, "needs Linux or macOS" in capsys.readouterr().err) == (2, True)


# What a change does


def told(worker, text):
    worker.until_told(text)


def change(worker, old, new):
    (source,) = worker.room.folder.glob("jobs*.py")
    source.write_text(source.read_text().replace(old, new))


VERSION = """
    @job
    def version(seconds: float = 0) -> str:
        began("began")
        time.sleep(seconds)
        return "one"
"""


def test_a_change_begins_a_new_worker_when_the_old_one_has_finished(room):
    worker = room.worker(VERSION, "--reload")
    running = room.submit("version", seconds=1.5)
    until((room.folder / "began").exists)
    change(worker, '"one"', '"two"')
    told(worker, "changed: the worker finishes what runs and begins again.")
    assert room.until_completed(running, room.submit("version")) == ["one", "two"]
    assert len(worker.lines("serves")) == 2


def test_a_syntax_error_is_told_and_the_old_code_goes_on_until_it_is_mended(room):
    worker = room.worker(VERSION, "--reload")
    change(worker, 'return "one"', 'return = "one"')
    told(worker, "The worker goes on with the old code until this is mended.")
    assert room.until_completed(room.submit("version")) == ["one"]
    change(worker, 'return = "one"', 'return "three"')
    worker.until_told("serves", times=2)
    assert room.until_completed(room.submit("version")) == ["three"]


def test_code_that_cannot_be_imported_waits_for_the_next_change(room):
    worker = room.worker(VERSION, "--reload")
    change(worker, '"one"', '"one" + no_such_name')
    change(worker, "@job\ndef", "no_such_name\n@job\ndef")
    told(worker, "it begins again when a file changes.")
    change(worker, "no_such_name\n@job\ndef", "@job\ndef")
    worker.until_told("serves", times=2)


def test_ctrl_c_ends_both(room):
    worker = room.worker(VERSION, "--reload")
    inner = int(re.search(r"process (\d+)\)", worker.output)[1])
    worker.send(signal.SIGINT)
    assert worker.wait() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(inner, 0)


def test_nothing_is_left_of_one_that_is_killed(room):
    worker = room.worker(VERSION, "--reload")
    inner = int(re.search(r"process (\d+)\)", worker.output)[1])
    worker.kill()
    until(lambda: not Path(f"/proc/{inner}").exists() or _is_zombie(inner))


def _is_zombie(pid):
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


def test_the_exit_code_of_a_worker_that_has_come_to_its_end_is_ours(here):
    assert _code_of("pass") == 0


def test_a_worker_that_a_signal_ends_while_stopping_is_told_as_shells_do(here):
    watch, script = Watch([here]), "import time; open('up', 'w'); time.sleep(60)"
    made = reloading.Reloader(watch, [sys.executable, "-c", script])
    threading.Thread(target=_once_up, args=(here / "up", signal.SIGHUP)).start()
    assert made.run() == 128 + signal.SIGTERM


def _once_up(path, number):
    until(path.exists)
    os.kill(os.getpid(), number)


def _code_of(script):
    return reloading.run(["tasks"], command=[sys.executable, "-c", script])
