"""Which Python the graph queue's client is run on: one that really answers."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import newer_python
import pytest


def interpreter(path, *, says, status=0):
    """A file that answers as a Python does, or as a shim that has none behind it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def find(tmp_path):
    """Looks in a home and on a PATH that are empty, run by a Python that is too old."""
    old = interpreter(tmp_path / "old" / "python", says="3.11.9 /of/old")

    def look(*folders, **environment):
        path = os.pathsep.join(map(str, folders))
        home = str(tmp_path / "home")
        return newer_python.find({"PATH": path, "HOME": home} | environment, running=str(old))

    return look


def test_the_running_interpreter_is_taken_when_it_is_new_enough(tmp_path):
    running = interpreter(tmp_path / "python", says="3.14.1 /of/running")
    found = newer_python.find({"PATH": "", "HOME": str(tmp_path)}, running=str(running))
    assert found == newer_python.Found("3.14.1", Path("/of/running"))


def test_there_may_be_none(find, tmp_path):
    interpreter(tmp_path / "bin" / "python3", says="3.12.7 /of/bin")
    assert find(tmp_path / "bin") is None


def test_one_on_path_is_found_by_its_version_s_name(find, tmp_path):
    interpreter(tmp_path / "bin" / "python3", says="3.12.7 /of/python3")
    interpreter(tmp_path / "bin" / "python3.14", says="3.14.0 /of/python3.14")
    assert find(tmp_path / "bin") == ("3.14.0", Path("/of/python3.14"))


def test_the_plain_name_counts_when_it_is_new_enough(find, tmp_path):
    interpreter(tmp_path / "bin" / "python3", says="3.13.2 /of/python3")
    assert find(tmp_path / "bin") == ("3.13.2", Path("/of/python3"))


def test_a_shim_that_only_fails_does_not_hide_the_one_behind_it(find, tmp_path):
    interpreter(tmp_path / "shims" / "python3.13", says="3.13.0 /of/shim", status=127)
    interpreter(tmp_path / "bin" / "python3.13", says="3.13.1 /of/bin")
    assert find(tmp_path / "shims", tmp_path / "bin") == ("3.13.1", Path("/of/bin"))


def test_what_answers_nonsense_is_passed_over(find, tmp_path):
    interpreter(tmp_path / "bin" / "python3.13", says="command not found")
    assert find(tmp_path / "bin") is None


@pytest.mark.parametrize(
    "below",
    [
        ".pyenv/versions/3.13.0",
        ".local/share/uv/python/cpython-3.13.1-linux-x86_64-gnu",
        ".asdf/installs/python/3.13.2",
        ".local/share/mise/installs/python/3.13.3",
    ],
)
def test_one_that_a_version_manager_installed_is_found(below, find, tmp_path):
    interpreter(tmp_path / "home" / below / "bin" / "python3", says="3.13.9 /of/manager")
    assert find() == ("3.13.9", Path("/of/manager"))


@pytest.mark.parametrize(
    ("variable", "below"),
    [
        ("PYENV_ROOT", "versions/3.13.0"),
        ("UV_PYTHON_INSTALL_DIR", "cpython-3.13.1"),
        ("ASDF_DATA_DIR", "installs/python/3.13.2"),
        ("MISE_DATA_DIR", "installs/python/3.13.3"),
    ],
)
def test_a_version_manager_may_have_its_folder_elsewhere(variable, below, find, tmp_path):
    interpreter(tmp_path / "its" / below / "bin" / "python3", says="3.13.9 /of/manager")
    assert find(**{variable: str(tmp_path / "its")}) == ("3.13.9", Path("/of/manager"))


def test_the_oldest_that_is_new_enough_is_taken_of_a_version_manager(find, tmp_path):
    for version in ("3.9.1", "3.12.4", "3.13.10", "3.13.9", "3.14.0"):
        path = tmp_path / "home" / ".pyenv" / "versions" / version / "bin" / "python3"
        interpreter(path, says=f"{version} /of/{version}")
    assert find() == ("3.13.9", Path("/of/3.13.9"))


def test_a_real_interpreter_answers_whatever_pythonhome_says(monkeypatch):
    monkeypatch.setattr(newer_python, "NEEDED", sys.version_info[:2])
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    assert newer_python.find({"PATH": ""}) == (platform.python_version(), Path(sys.executable))


def test_where_there_is_none_the_script_says_in_a_sentence_what_to_install(tmp_path):
    code = "import newer_python as n; n.find = lambda: None; n.main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(newer_python.__file__).parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{newer_python.MISSING}\n"


def test_ci_looks_for_it_before_anything_else():
    run = (Path(__file__).parents[2] / ".ci" / "run").read_text().splitlines()
    steps = [line for line in run if line.startswith("step ")]
    assert steps[0].endswith(" python3 tests/newer_python.py")
