"""The demo from start to end: server, workers, tasks, results, and nothing left behind."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.text import Text

from jobroom.demo import scans, summary
from jobroom.demo.processes import (
    HOST,
    LOG_LINES,
    Children,
    DemoError,
    Interrupted,
    Signals,
    free_port,
)
from jobroom.demo.rest import Rest
from jobroom.demo.scans import FULL_NAME, ROOM, Scan
from jobroom.demo.screen import Followed, screen_for
from jobroom.demo.summary import Outcome
from jobroom.domain.lifecycle import TaskStatus, is_terminal

START_SECONDS = 45.0
STILL_SECONDS = 60.0
LOOK_SECONDS = 0.1
TOKEN_HOURS = 1.0
SERVER_PARTS = ("jwt", "sqlalchemy", "starlette", "uvicorn")

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Options:
    """What the user may choose; ``keep`` is a folder for what is otherwise removed."""

    tasks: int = 20
    workers: int = 2
    keep: Path | None = None


def run(options: Options, console: Console | None = None) -> int:
    """Run the demo and return its exit code: 0 only if every task completed with a right result."""
    console = console or Console(highlight=False)
    try:
        with Signals() as signals:
            # Before the folder: this takes a while, and until the server has started a kill
            # leaves the folder behind.
            _load_server_parts()
            with _workspace(options.keep) as folder, Children(folder) as children:
                _Run(options, console, signals, folder, children).play()
    except Interrupted as stopped:
        console.print(Text("Stopped as you asked: server and workers have ended."))
        return stopped.exit_code
    except DemoError as error:
        _print_error(error)
        return 1
    _print_farewell(console, options.keep)
    return 0


@contextmanager
def _workspace(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with _temporary_folder() as folder:
            yield Path(folder)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        used = any(keep.iterdir())
    except OSError as error:
        raise DemoError(f"{keep} cannot be used as a folder: {error.strerror}.") from error
    if used:
        raise DemoError(f"{keep} is not empty: name a new folder to keep the demo's files in.")
    yield keep.resolve()


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="jobroom-demo-")
    except OSError as error:
        raise DemoError(f"No temporary folder can be made: {error.strerror}.") from error


class _Run:
    """One run, step by step."""

    def __init__(
        self,
        options: Options,
        console: Console,
        signals: Signals,
        folder: Path,
        children: Children,
    ) -> None:
        self._options = options
        self._console = console
        self._signals = signals
        self._folder = folder
        self._children = children
        self._secret = secrets.token_urlsafe(48)
        self._url = f"http://{HOST}:{free_port()}"
        self._began = time.monotonic()

    def play(self) -> None:
        """Do it all; raises ``DemoError`` for what goes wrong and ``Interrupted`` on Ctrl-C."""
        self._start_server()
        with closing(Rest(self._url, self._token("scientist"))) as rest:
            self._wait_for("The server did not become ready", rest.is_ready)
            self._say(f"server ready at {self._url}, with a SQLite file")
            workers = self._start_workers(rest)
            planned = scans.plan_scans(self._options.tasks)
            submitted = {self._look(partial(rest.submit, scan)): scan for scan in planned}
            self._say(f"{len(submitted)} tasks submitted: turn a methyl group, find the barrier")
            followed = self._follow(rest, submitted, workers)
        self._conclude(followed)

    def _token(self, sub: str) -> str:
        from jobroom import tokens  # loaded by now

        return tokens.issue_token(self._secret, sub=sub, rooms=[ROOM], hours=TOKEN_HOURS)

    def _say(self, sentence: str) -> None:
        seconds = time.monotonic() - self._began
        self._console.print(Text(f"{seconds:5.1f} s  ", style="dim").append(sentence, style="none"))

    def _start_server(self) -> None:
        self._children.start(
            "server",
            (
                *("jobroom.demo.server", "--port", self._url.rpartition(":")[2]),
                # Who is killed cannot tidy up; the server does it then.
                *(("--remove", str(self._folder)) if self._options.keep is None else ()),
            ),
            ZNDRAW_JOBLIB_DATABASE_URL="sqlite:///jobroom.db",
            ZNDRAW_JOBLIB_JWT_SECRET=self._secret,
        )

    def _start_workers(self, rest: Rest) -> dict[str, str]:
        count = self._options.workers
        for number in range(1, count + 1):
            name = f"worker {number}"
            self._children.start(
                name, ("jobroom.demo.worker", self._url), JOBROOM_TOKEN=self._token(name)
            )
        self._wait_for("The workers did not register", lambda: len(rest.workers()) >= count)
        workers = rest.workers()
        self._say(f"{count} {'worker' if count == 1 else 'workers'} registered {FULL_NAME}")
        return workers

    def _wait_for(self, failure: str, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._look(is_done):
            if time.monotonic() > deadline:
                raise DemoError(
                    f"{failure} within {START_SECONDS:.0f} s.", log=self._children.last_lines()
                )
            self._signals.sleep(LOOK_SECONDS)

    def _look(self, question: Callable[[], Answer]) -> Answer:
        """Ask the server; if a process has ended, that is the better explanation."""
        self._children.check()
        try:
            return question()
        except DemoError as error:
            self._children.check()
            raise DemoError(str(error), log=self._children.last_lines()) from error

    def _follow(
        self, rest: Rest, submitted: dict[str, Scan], workers: dict[str, str]
    ) -> list[Followed]:
        names = sorted(workers.values())
        moved = Movement()
        with screen_for(self._console, workers=names, total=len(submitted)) as screen:
            while True:
                tasks = self._look(rest.tasks)
                followed = [
                    Followed(scan, tasks[task_id], workers.get(tasks[task_id].worker_id or "", "-"))
                    for task_id, scan in submitted.items()
                ]
                screen.show(followed)
                if all(is_terminal(each.task.status) for each in followed):
                    return followed
                moved.note(followed, self._children)
                self._signals.sleep(LOOK_SECONDS)

    def _conclude(self, followed: Sequence[Followed]) -> None:
        outcomes = [self._checked(each, len(followed)) for each in followed]
        seconds = time.monotonic() - self._began
        summary.print_results(self._console, outcomes)
        relaxed = sum(len(outcome.curve.energies) for outcome in outcomes)
        self._console.print(
            Text(
                f"{len(outcomes)} of {len(followed)} tasks completed in {seconds:.1f} s: "
                f"{relaxed} geometries, every result checked.",
                style="bold green",
            )
        )
        if self._options.keep is not None:
            summary.write_results(self._folder, outcomes)

    def _checked(self, each: Followed, total: int) -> Outcome:
        self._signals.check()
        name = f"Task {each.scan.number} of {total} ({each.scan.label})"
        if each.task.status is not TaskStatus.COMPLETED:
            reason = (each.task.error or "It gives no reason.").splitlines()
            message = f"{name} ended as {each.task.status} instead of completed."
            raise DemoError(message, log=reason[-LOG_LINES:])
        try:
            curve = scans.read_curve(each.task.result)
        except ValueError as error:
            raise DemoError(f"{name} completed, but its result {error}.") from error
        fault = scans.find_fault(each.scan, curve)
        if fault is not None:
            raise DemoError(f"{name} completed, but its curve {fault}.")
        return Outcome(each, curve)


class Movement:
    """Notices when nothing has changed for too long."""

    def __init__(self) -> None:
        self._seen: object = None
        self._since = time.monotonic()

    def note(self, followed: Sequence[Followed], children: Children) -> None:
        """Compare with the last time; raises ``DemoError`` after a minute of standstill."""
        now = time.monotonic()
        state = [(each.task.status, each.task.attempt, each.task.progress) for each in followed]
        if state != self._seen:
            self._seen, self._since = state, now
        elif now - self._since > STILL_SECONDS:
            message = f"No task has moved for {STILL_SECONDS:.0f} s, so the demo gives up."
            raise DemoError(message, log=children.last_lines())


def _load_server_parts() -> None:
    missing = [name for name in SERVER_PARTS if find_spec(name) is None]
    if missing:
        raise DemoError(
            f"The demo starts a server and does not find {', '.join(missing)}: "
            'run  pip install "jobroom[server]"  first.'
        )
    import jobroom.tokens  # noqa: F401  # for whoever needs a token later


def _print_error(error: DemoError) -> None:
    console = Console(stderr=True, highlight=False)
    console.print(Text(str(error), style="bold red"), soft_wrap=True)
    for line in error.log:
        console.print(Text(f"  {line}"), soft_wrap=True)


def _print_farewell(console: Console, keep: Path | None) -> None:
    left = "nothing is left behind" if keep is None else f"database, logs and results are in {keep}"
    console.print(Text(f"Server and workers have ended; {left}."), soft_wrap=True)
    server = "app:app" if Path("app.py").exists() else "--factory jobroom.bootstrap:create_app"
    steps = (
        (f"{_commands_folder()}uvicorn {server}", "your own server; it prints a token to use"),
        ("curl http://127.0.0.1:8000/readyz", "is it ready?"),
        ("http://127.0.0.1:8000/docs", "every route, in the browser"),
    )
    wide = max(len(command) for command, _ in steps)
    lines = (f"  {command.ljust(wide)}  # {purpose}" for command, purpose in steps)
    console.print(Text("\n".join(("Next:", *lines))), soft_wrap=True)


def _commands_folder() -> str:
    """Return what to type before a command of this environment: nothing if it is on the path."""
    here = Path(sys.executable).parent
    if shutil.which("uvicorn") == str(here / "uvicorn"):
        return ""
    near = os.path.relpath(here)
    return (str(here) if near.startswith(os.pardir) else near) + os.sep
