"""A server's host clock that a test sets: libfaketime, loaded into the server's process.

It moves what the C library tells everybody in the process: SQLite's clock, Python's, APScheduler's.
The steady clock stays as it is, as on a real host whose clock is set.
"""

from __future__ import annotations

from importlib.metadata import files
from pathlib import Path

LIBRARY = next(
    str(path.locate()) for path in files("libfaketime") or () if path.match("libfaketime.so.*")
)
SHARED_MEMORY = Path("/dev/shm")  # the library's choice


class HostClock:
    """The clock of one host, told by a file; it starts at the true time."""

    def __init__(self, folder, name="clock"):
        self._file = Path(folder) / name
        self._ahead = 0
        self.jump(0)

    def jump(self, seconds):
        """Set the clock forward, or back."""
        self._ahead += seconds
        draft = self._file.with_suffix(".draft")
        draft.write_text(f"{self._ahead:+d}s\n")
        draft.replace(self._file)

    @property
    def environment(self):
        return {
            "LD_PRELOAD": LIBRARY,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


def clear_after(pid):
    """Remove what the library leaves of a killed process, for the next one with its number."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        (SHARED_MEMORY / name).unlink(missing_ok=True)
