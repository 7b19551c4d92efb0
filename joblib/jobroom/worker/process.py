"""The process of a slot, as the worker sees it."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import jobroom
from jobroom.worker.capture import PipeReader
from jobroom.worker.channel import Channel, Message
from jobroom.worker.guardian import Guardian, end_family

CHILD = "jobroom.worker.child"


class SlotProcess:
    """Starts with it; leads a session and a group of its own, so that all in it can be ended."""

    def __init__(self, guardian: Guardian, folder: str | None = None) -> None:
        self._guardian = guardian
        ours, theirs = socket.socketpair()
        self.output_fd, their_output = os.pipe()
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, self.output_fd)
            undo.callback(ours.close)
            try:
                self._process = _start(theirs.fileno(), their_output, folder)
            finally:
                theirs.close()
                os.close(their_output)
            self.pid = self._process.pid
            undo.callback(self._process.wait)
            undo.callback(self._process.kill)
            guardian.guard(self.pid)
            undo.pop_all()
        self.channel = Channel(ours)
        self.output = PipeReader(self.output_fd)
        with contextlib.suppress(OSError):  # found out by whoever waits for an answer
            self.channel.send(_hello())

    def exit_code(self, *, wait_seconds: float = 0.0) -> int | None:
        """Return how it ended, minus a signal's number; None while it runs."""
        try:
            return self._process.wait(wait_seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End it and all that belongs to it, at once."""
        end_family(self.pid)

    def hang_up(self) -> None:
        """Let it come to its end, if it runs nothing."""
        self.channel.close()

    def end(self, *, wait_seconds: float = 0.0) -> None:
        """End it for good, with the processes that tasks have left behind."""
        self.hang_up()
        self.exit_code(wait_seconds=wait_seconds)
        self.kill()
        self._process.wait()
        self._guardian.forget(self.pid)
        os.close(self.output_fd)


def _hello() -> Message:
    """Return what of this program its processes are to have as well."""
    root = logging.getLogger()
    return {
        "kind": "hello",
        "path": sys.path,
        "pythonpath": os.environ.get("PYTHONPATH"),
        "log_level": root.level if root.handlers else None,
    }


def _start(channel: int, output: int, folder: str | None) -> subprocess.Popen[bytes]:
    home = str(Path(jobroom.__file__).parents[1])
    warned = [f"-W{option}" for option in sys.warnoptions]
    return subprocess.Popen(  # noqa: S603  # this very program
        [sys.executable, "-P", *warned, "-m", CHILD, str(channel)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=[channel],
        start_new_session=True,
        cwd=folder if folder is not None and Path(folder).is_dir() else None,
        env={**os.environ, "PYTHONPATH": home},
    )
