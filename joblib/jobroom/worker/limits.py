"""What a task may use, how long and how much memory, and what is told of one that used more."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

from jobroom.errors import ConfigurationError
from jobroom.worker.guardian import family_of

BYTES_PER_MB = 1024 * 1024
LOOK_SECONDS = 0.1
"""How often memory is looked at: what is taken between two looks comes on top of the limit."""

_PROC = Path("/proc")


def check_memory_limit(megabytes: float | None) -> None:
    """Raise ``ConfigurationError`` for a limit that nobody would keep."""
    if megabytes is not None and not _PROC.joinpath("self", "statm").exists():
        raise ConfigurationError(
            "memory_mb is watched on Linux only: leave it out of jobs on this machine."
        )


class MemoryWatch:
    """Looks from time to time at how much memory a process and its descendants use."""

    def __init__(self, pid: int, megabytes: float) -> None:
        self._pid = pid
        self._most = megabytes * BYTES_PER_MB
        self._looked_at = -math.inf

    def is_over(self) -> bool:
        """Whether more is used than may be, by the last look."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return False
        self._looked_at = now
        family = list(family_of(self._pid))
        if sum(map(_resident, family)) <= self._most:
            return False
        # Forked processes share pages, which were counted for each of them.
        return sum(map(_proportional, family)) > self._most


def _resident(pid: int) -> int:
    try:
        pages = (_PROC / str(pid) / "statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _proportional(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return _resident(pid)
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


# What people are told


def too_long(seconds: float, where: str = "") -> str:
    """Say that a task ran longer than it may."""
    said = f"ran longer than its limit of {seconds:g} s (timeout_seconds) and was stopped"
    return f"{said}\n{where}" if where else said


def too_big(megabytes: float) -> str:
    """Say that a task used more memory than it may."""
    return f"used more than {megabytes:g} MiB of memory (memory_mb) and was stopped"


def lost(code: int) -> str:
    """Say how the process of a task ended in the midst of it.

    >>> lost(9)
    'the process of this task ended by itself with exit code 9; see its log'
    >>> lost(-11)
    'the process of this task ended with signal 11 (segmentation fault); see its log'
    """
    if code >= 0:
        return f"the process of this task ended by itself with exit code {code}; see its log"
    number = -code
    if number == signal.SIGKILL:
        named = "killed), perhaps out of memory"
    else:
        named = f"{(signal.strsignal(number) or 'unknown').partition(':')[0].lower()})"
    return f"the process of this task ended with signal {number} ({named}; see its log"
