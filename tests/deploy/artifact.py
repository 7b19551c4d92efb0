"""The artifact as the deploy builds it, and the runtime client of AWS, kept for the next run."""

from __future__ import annotations

import functools
import platform
import shutil
from pathlib import Path
from typing import NamedTuple

import newer_python
from tooling import digest, locked, make_venv, run

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RUNTIME = ("awslambdaric==4.2.2", "boto3>=1.44")
"""What AWS puts beside a function; whatever else it imports must be in the artifact."""
BUILDS_KEPT = 3


class Built(NamedTuple):
    """What there is to run."""

    folder: Path  # what Lambda unpacks to /var/task
    archive: Path
    python: Path  # of an environment with the runtime client alone
    version: str  # of that Python, as 3.13


@functools.cache
def prepare(cache: Path) -> Built:
    """Make all of it in the folder, or find it there, made of the same things.

    Once for a process: somebody may edit the sources while it tests.
    """
    with locked(cache):
        python, version = _runtime(cache)
        contents = digest(version, platform.machine(), *_contents())
        home = cache / f"artifact-{contents}"
        if not (home / "complete").exists():
            _forget_old(cache)
            shutil.rmtree(home, ignore_errors=True)
            archive = home / "task.zip"
            kept = cache / "dependencies"
            build(python, home / "built", version, "--keep-in", kept, "--zip", archive)
            shutil.rmtree(home / "built")
            shutil.unpack_archive(archive, home / "task")
        (home / "complete").touch()
    return Built(home / "task", home / "task.zip", python, version)


def build(python: Path, folder: Path, version: str, *arguments: str | Path) -> None:
    """Run what the Makefile runs, for this machine."""
    command = [python, DEPLOY / "build_lambda.py", folder, "--python-version", version]
    run(*command, "--platform", platform.machine(), *arguments)


def _contents() -> list[str]:
    """All that the artifact is made of."""
    build = [DEPLOY / "build_lambda.py", DEPLOY / "requirements-lambda.txt"]
    sources = [*build, ROOT / "app.py", *(ROOT / "joblib" / "jobroom").rglob("*")]
    return [
        f"{path.relative_to(ROOT)} {path.read_bytes()!r}"
        for path in sorted(sources)
        if path.is_file() and "__pycache__" not in path.parts
    ]


def _runtime(cache: Path) -> tuple[Path, str]:
    found = newer_python.find()
    assert found is not None, newer_python.MISSING
    home = cache / f"runtime-{digest(found.version, str(found.path), *RUNTIME)}"
    python = home / "venv" / "bin" / "python"
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        make_venv(found.path, home, *RUNTIME)
        (home / "complete").touch()
    return python, ".".join(found.version.split(".")[:2])


def _forget_old(cache: Path) -> None:
    builds = sorted(cache.glob("artifact-*/complete"), key=lambda path: path.stat().st_mtime)
    for complete in builds[: 1 - BUILDS_KEPT]:
        shutil.rmtree(complete.parent)
