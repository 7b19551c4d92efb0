"""Tools in environments of their own, which a test run makes once and keeps for the next."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OURS = ("PYTHON", "AWS_", "SAM_", "PYANTZ_", "JOBROOM_", "ZNDRAW_JOBLIB_", "VIRTUAL_ENV")
LONGEST_SECONDS = 600


def clean_environment(**variables: str) -> dict[str, str]:
    """A developer's own settings must not decide a check."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**kept, **variables}


def run(*command: str | Path, given: str = "", environment: dict[str, str] | None = None) -> str:
    """What a command prints; RuntimeError with its last words where it fails."""
    done = subprocess.run(
        command,
        env=clean_environment() if environment is None else environment,
        input=given,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LONGEST_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise RuntimeError(f"{words} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def make_venv(python: str | Path, home: Path, *packages: str) -> tuple[str | Path, ...]:
    """An environment in ``home / "venv"`` with these packages; the command of its pip."""
    run(python, "-m", "venv", home / "venv")
    pip = (home / "venv" / "bin" / "python", "-m", "pip")
    run(*pip, "install", "-q", *packages)
    return pip


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Alone among the processes of a test run."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def digest(*texts: str) -> str:
    """A short name for what is made of these."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
