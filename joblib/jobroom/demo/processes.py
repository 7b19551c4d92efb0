"""The demo's processes: started with a clean environment, watched, and always ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import NamedTuple, Self

from jobroom.demo.guard import Guard

HOST = "127.0.0.1"
END_SECONDS = 8.0
LOG_LINES = 12

FOREIGN = ("ZNDRAW_JOBLIB_", "JOBROOM_", "UVICORN_", "WEB_CONCURRENCY", "FORWARDED_ALLOW_IPS")
"""Variables of the user's own servers: the demo must not touch their database."""


class DemoError(Exception):
    """Why the demo ends early, in one sentence; ``log`` has the last lines of who is to blame."""

    def __init__(self, message: str, *, log: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.log = tuple(log)


class Interrupted(Exception):
    """The user, or the system, asked the demo to end."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.strsignal(signum))
        self.exit_code = 128 + signum


class Signals:
    """Ctrl-C and its like, noticed at places where stopping is safe and not in between."""

    WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self._came: int | None = None
        self._before: dict[int, signal.Handlers] = {}

    def __enter__(self) -> Self:
        for signum in self.WATCHED:
            # What the caller ignores (nohup) stays ignored.
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._note)  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        self._came = signum

    def check(self) -> None:
        """Raise ``Interrupted`` if a signal came."""
        if self._came is not None:
            raise Interrupted(self._came)

    def sleep(self, seconds: float) -> None:
        """Pause, and then check."""
        time.sleep(seconds)
        self.check()


class Child(NamedTuple):
    """One started process and where it writes what it has to say."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def last_lines(self) -> list[str]:
        """Return the end of its log."""
        return self.log.read_text("utf-8", errors="replace").splitlines()[-LOG_LINES:]


class Children:
    """The processes of one run; leaving the ``with`` block ends them all, and so does a kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Child] = []
        self._guard = Guard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._guard.close()

    def start(self, name: str, arguments: Sequence[str], **variables: str) -> Child:
        """Start ``python -m <arguments>`` with its log in the run's folder."""
        log = self._folder / f"{name.replace(' ', '-')}.log"
        with log.open("wb") as sink:
            process = subprocess.Popen(  # noqa: S603 - our own modules, no shell
                [sys.executable, "-m", *arguments],
                cwd=self._folder,
                env=child_environment(os.environ, {**variables, **self._guard.variables}),
                pass_fds=(self._guard.watched,),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                # Ctrl-C in the terminal shall reach the demo alone, which then ends them in order.
                start_new_session=True,
            )
        child = Child(name, process, log)
        self._children.append(child)
        return child

    def check(self) -> None:
        """Raise ``DemoError`` if one of them has ended."""
        for child in self._children:
            code = child.process.poll()
            if code is not None:
                how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
                message = f"The {child.name} process {how} before the work was done."
                raise DemoError(message, log=child.last_lines())

    def last_lines(self) -> list[str]:
        """Return the ends of all logs, each line with its process."""
        return [f"{child.name}: {line}" for child in self._children for line in child.last_lines()]

    def stop(self) -> None:
        """End them, the first one last; who does not end in time is killed."""
        first, others = self._children[:1], self._children[1:]
        for group in (others, first):
            deadline = time.monotonic() + END_SECONDS
            for child in group:
                child.process.terminate()
            for child in group:
                _wait(child.process, deadline)
        self._children.clear()


def _wait(process: subprocess.Popen[bytes], deadline: float) -> None:
    try:
        process.wait(max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def child_environment(ours: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: ours without foreign settings, with what is added."""
    kept = {name: value for name, value in ours.items() if not name.startswith(FOREIGN)}
    # A relative entry would mean another folder in the child, which starts elsewhere.
    paths = filter(None, kept.get("PYTHONPATH", "").split(os.pathsep))
    kept["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in paths)
    # The children talk to this machine alone, never through a proxy.
    return {**kept, "NO_PROXY": HOST, "no_proxy": HOST, "PYTHONUNBUFFERED": "1", **added}


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port
