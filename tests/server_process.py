"""A server process of the tests: unprivileged, on a port and a folder that stay its own."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pwd
import random
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

START_SECONDS = 120
STOP_SECONDS = 15
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 2**30  # a container often has 64 MiB, which a server fills
# Below the ports that the system hands to clients: else a client of a server that is down may
# be given the server's port, or even be connected to itself.
PORTS = range(20_000, 32_000)
# Ends the server and removes its folder when we are gone without having said goodbye. Not
# PR_SET_PDEATHSIG: that one already fires when the thread ends that started the server.
WATCHDOG = """
read -r _ && exit 0
children=$(cat /proc/$1/task/$1/children 2>/dev/null)
kill -CONT $1 $children
kill -QUIT $1
tries=0
while kill -0 $1 && ! grep -q ') Z' /proc/$1/stat && [ $tries -lt 50 ]
do sleep 0.1; tries=$((tries + 1)); done
kill -KILL $1 $children
rm -rf "$2"
"""


class ServerProcess:
    """A server process on a port and a folder that stay its own over restarts.

    It runs as ``nobody`` where we are root; neither server should be, or lets itself be, root.
    ``in_memory``: its folder is on no disk, where there is memory enough for that.
    """

    name: str
    stop_signal = signal.SIGTERM

    def __init__(self, *, in_memory: bool = False) -> None:
        self.port = free_port()
        parent = MEMORY if in_memory and _has_room(MEMORY) else None
        self.folder = Path(tempfile.mkdtemp(prefix=f"jobroom-{self.name}-", dir=parent))
        self._give(self.folder)
        self._output = self.folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def output(self) -> str:
        try:
            return self._output.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} is not running"
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it (again) on its port and data, and wait until it answers."""
        assert not self.is_running, f"{self.name} runs already"
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                **self._command(),
                **nobody(),
                cwd=self.folder,
                env={"PATH": os.defpath, "HOME": str(self.folder), "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,  # a Ctrl-C is ours to handle
            )
        self._watchdog = subprocess.Popen(
            ["sh", "-c", WATCHDOG, "watchdog", str(self.process.pid), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._until(self._is_ready, START_SECONDS)
        return self

    def stop(self) -> int:
        """Ask it to end, as an operator does, and wait for that; its exit code."""
        self.resume()
        self.process.send_signal(self.stop_signal)
        code = self.process.wait(STOP_SECONDS)
        self._ended()
        return code

    def kill(self) -> None:
        """End all of it with SIGKILL, in the middle of whatever it does."""
        with contextlib.ExitStack() as opened:
            # Stopped first, it starts no child behind our back.
            pids = self._signal_all(signal.SIGSTOP)
            ends = [fd for pid in pids if (fd := _watch(pid, opened)) is not None]
            for pid in pids:
                _signal(pid, signal.SIGKILL)
            self.process.wait(STOP_SECONDS)
            _until_ended(ends)
        self._ended()

    def restart(self) -> Self:
        """End it if it still runs, and start it again."""
        if self.is_running:
            self.stop()
        return self.start()

    def suspend(self) -> None:
        """Let it hang: it keeps its connections, takes new ones, and answers nobody."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal_all(signal.SIGCONT)

    def close(self) -> None:
        """End it, whatever state it is in, and remove its folder."""
        atexit.unregister(self.close)
        if self.is_running:
            self.kill()
        elif self._process is not None:
            self._ended()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _command(self) -> dict[str, Any]:
        raise NotImplementedError

    def _is_ready(self) -> bool:
        raise NotImplementedError

    def _until(self, is_so: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not is_so():
            assert self.process.poll() is None, f"{self.name} ended: {self.output[-4000:]}"
            assert time.monotonic() < deadline, f"{self.name} is not ready: {self.output[-4000:]}"
            time.sleep(0.005)

    def _signal_all(self, number: signal.Signals) -> list[int]:
        """Signal the server and then its children; who was told."""
        self.process.send_signal(number)
        children = _children(self.process.pid)
        for pid in children:
            _signal(pid, number)
        return [self.process.pid, *children]

    def _ended(self) -> None:
        self._process = None
        if self._watchdog is not None:
            with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
                self._watchdog.communicate(b"the server has ended\n", timeout=STOP_SECONDS)
            self._watchdog = None

    def _give(self, path: Path) -> None:
        """Make a path the server's own."""
        if who := nobody():
            os.chown(path, who["user"], who["group"])


def free_port() -> int:
    """A port that nobody listens on, the system gives to no client, and no other call returns."""
    for port in random.SystemRandom().sample(PORTS, k=100):
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            # A name in the kernel that is ours until this process ends, also before the bind.
            taken = socket.socket(socket.AF_UNIX)
            with contextlib.closing(taken):
                taken.bind(f"\0jobroom-test-port-{port}")
                taken.detach()
            return port
    raise AssertionError("no free port")


@functools.cache
def nobody() -> Mapping[str, Any]:
    """What makes a process unprivileged, where we are root."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam("nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def _has_room(folder: Path) -> bool:
    """Whether a server may have its folder here; it may keep programs there, too."""
    if not os.access(folder, os.W_OK):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize > MEMORY_BYTES and not found.f_flag & os.ST_NOEXEC


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _watch(pid: int, opened: contextlib.ExitStack) -> int | None:
    """A descriptor that becomes readable when the process ends; None if it has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    opened.callback(os.close, fd)
    return fd


def _until_ended(ends: Iterable[int]) -> None:
    left = set(ends)
    deadline = time.monotonic() + STOP_SECONDS
    while left:
        ended, _, _ = select.select(left, [], [], max(0, deadline - time.monotonic()))
        assert ended, "a killed process is still there"
        left -= set(ended)
