"""The demo's server, and the guard that ends it with the demo."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jobroom.demo import guard, server
from jobroom.demo.guard import Guard


def test_a_process_that_nobody_guards_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(guard.VARIABLE, raising=False)
    before = threading.active_count()
    guard.watch()
    assert threading.active_count() == before


def test_a_process_ends_with_the_pipe_and_does_its_last_act_first() -> None:
    act = "import sys, time; from jobroom.demo import guard;"
    act += "guard.watch(and_first=lambda: print('last act', flush=True));"
    act += "print('watching', flush=True); time.sleep(600)"
    held = Guard()
    with subprocess.Popen(
        [sys.executable, "-c", act],
        env={**os.environ, **held.variables},
        pass_fds=(held.watched,),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        assert process.poll() is None
        held.close()
        assert process.stdout.read() == "last act\n"
    assert process.returncode == 1


def test_a_folder_is_removed_although_a_file_comes_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is ending too may still write between two looks at the folder."""
    folder = tmp_path / "jobroom-demo-x"
    folder.mkdir()
    remove = shutil.rmtree
    calls: list[Path] = []

    def remove_late(path: Path, *, ignore_errors: bool) -> None:
        calls.append(path)
        remove(path, ignore_errors=ignore_errors)
        if len(calls) == 1:
            folder.mkdir()
            (folder / "late.log").write_text("x", "utf-8")

    monkeypatch.setattr(shutil, "rmtree", remove_late)
    server.remove_folder(folder)
    assert not folder.exists()
    assert len(calls) == 2


def test_a_folder_that_is_kept_is_not_named_and_nothing_is_removed() -> None:
    server.remove_folder(None)
