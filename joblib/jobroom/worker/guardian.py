"""A small process that outlives a killed worker by a moment, and ends what it had started.

Run as a script by a bare interpreter. It is told which process groups there are, a line each:
``+1234`` and ``-1234``. When the worker is gone, however it went, they are killed, whatever
state they are in. So it also ends the programs that tasks have started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")


def family_of(pid: int) -> Iterator[int]:
    """Give the process and its descendants, as far as they can be seen."""
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        yield one
        with contextlib.suppress(OSError):
            for thread in (PROC / str(one) / "task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())


def end_family(pid: int) -> None:
    """End descendants of a process, its group and, last, itself, which may be the caller."""
    _, *descendants = family_of(pid)
    for one in descendants:  # they may have left the group
        with contextlib.suppress(OSError):
            os.kill(one, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


class Guardian:
    """The worker's side: started with the first process that is guarded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._guarded: set[int] = set()

    def guard(self, pid: int) -> None:
        """End this process and its group when this program has ended."""
        with self._lock:
            self._guarded.add(pid)
            if self._process is None or self._process.poll() is not None:
                self._start()
            else:
                self._say(f"+{pid}")

    def forget(self, pid: int) -> None:
        """Guard it no more: it has ended."""
        with self._lock:
            self._guarded.discard(pid)
            self._say(f"-{pid}")

    def close(self) -> None:
        """End it, and whatever is still guarded."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.wait()

    def _start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603  # this very file
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        for pid in self._guarded:
            self._say(f"+{pid}")

    def _say(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):  # it was killed, and the next one is told
                self._process.stdin.write(f"{line}\n".encode())


def main() -> None:
    """Remember the groups until the end of the input, then end them."""
    # A service manager signals all processes of a service; the worker's end is ours.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    guarded: set[int] = set()
    for line in sys.stdin:
        pid = int(line[1:])
        (guarded.add if line.startswith("+") else guarded.discard)(pid)
    for pid in guarded:
        end_family(pid)


if __name__ == "__main__":
    main()
