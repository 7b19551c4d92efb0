"""Environments of their own for what we are compared with, made at their first use and kept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

INSTALL_SECONDS = 600


def folder_of(name: str) -> Path:
    """Where the environment of that name is kept between two runs."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "jobroom-benchmarks" / name


def prepare(
    folder: Path, pins: Sequence[str], imports: str, *, by: str | Path = sys.executable
) -> Path:
    """The Python of an environment that can import these, made now if there is none."""
    python = folder / "bin" / "python"
    if python.exists() and _run([python, "-c", f"import {imports}"]) is None:
        return python
    print(f"Installing {', '.join(pins)} into {folder}", file=sys.stderr)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fault = _run([by, "-m", "venv", "--clear", folder])
    fault = fault or _run([python, "-m", "pip", "install", "--quiet", *pins])
    if fault:
        raise SystemExit(f"The peer cannot be installed into {folder}: {fault}")
    return python


def _run(command: list[str | Path]) -> str | None:
    """The last line of what a failing command says; None if it did not fail."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
    )
    return (
        (done.stderr.strip().splitlines() or ["no reason given"])[-1] if done.returncode else None
    )
