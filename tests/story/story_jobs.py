"""The jobs of the long story: each start of a task leaves a line in a file."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import jobroom

STARTS = Path(os.environ.get("STORY_STARTS", os.devnull))


def _note(name):
    with STARTS.open("a") as starts:
        starts.write(f"{name}\n")


@jobroom.job(room="r1")
def nap(name: str, seconds: float = 0.0) -> str:
    """Sleep."""
    _note(name)
    time.sleep(seconds)
    return name


@jobroom.job(room="r1")
def busy(name: str, seconds: float) -> str:
    """Keep the interpreter busy with Python alone."""
    _note(name)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
    return name


@jobroom.job(room="r1")
def dies(name: str) -> None:
    """End as a crash or the system's out-of-memory killer would end it."""
    _note(name)
    os.kill(os.getpid(), signal.SIGKILL)


@jobroom.job(room="r1", validate=False)
def strict(name: str, angle: float) -> float:
    """Never called with an angle that is no number."""
    _note(name)
    return angle
