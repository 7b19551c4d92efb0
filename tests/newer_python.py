"""Finds a Python that pyantz runs on; as a script it prints which, or says what to install."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

NEEDED = (3, 13)
NAMES = (*(f"python3.{minor}" for minor in range(NEEDED[1], 20)), "python3", "python")
MISSING = (
    "no Python >= 3.13 with venv and sqlite3 answers, neither on PATH nor among those of pyenv, "
    'uv, asdf and mise: install one, for example by "uv python install 3.13" or '
    '"pyenv install 3.13"'
)
# A build without the lock of the interpreter finds no wheels of what pyantz needs.
PROBE = """
import ensurepip, platform, sqlite3, sys, sysconfig, venv
assert not sysconfig.get_config_var("Py_GIL_DISABLED")
print(platform.python_version(), sys.executable)
"""
ANSWER_SECONDS = 30


class Found(NamedTuple):
    """An interpreter that answered."""

    version: str
    path: Path


def find(
    environment: Mapping[str, str] = os.environ, *, running: str = sys.executable
) -> Found | None:
    """The running interpreter, the first on PATH, or one that a version manager installed."""
    for path in (Path(running), *_on_path(environment), *_managed(environment)):
        if (found := _ask(path)) is not None:
            return found
    return None


def _on_path(environment: Mapping[str, str]) -> Iterator[Path]:
    """Each of each name: in front of a good one there may be a shim that only says no."""
    folders = [folder for folder in environment.get("PATH", "").split(os.pathsep) if folder]
    for name in NAMES:
        for folder in folders:
            yield Path(folder, name)


def _managed(environment: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environment.get("HOME") or Path.home())
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    for variable, default, below in (
        ("PYENV_ROOT", home / ".pyenv", "versions"),
        ("UV_PYTHON_INSTALL_DIR", data / "uv" / "python", "."),
        ("ASDF_DATA_DIR", home / ".asdf", "installs/python"),
        ("MISE_DATA_DIR", data / "mise", "installs/python"),
    ):
        folder = Path(environment.get(variable) or default) / below
        yield from sorted(folder.glob("*/bin/python3"), key=_version_in_name)


def _version_in_name(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", path.parts[-3]))


def _ask(path: Path) -> Found | None:
    """Whether it really answers, and is new enough; ``-I``: whatever PYTHONHOME says."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    said = re.fullmatch(r"((\d+)\.(\d+)\S*) (.+)", done.stdout.strip())
    if said is None or (int(said[2]), int(said[3])) < NEEDED:
        return None
    return Found(said[1], Path(said[4]))


def main() -> None:
    """What ``.ci/run`` shows."""
    if (found := find()) is None:
        sys.exit(MISSING)
    print(f"Python {found.version}: {found.path}")  # noqa: T201 - that is what it is for


if __name__ == "__main__":
    main()
