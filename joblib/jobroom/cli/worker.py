"""``jobroom worker``: serves the jobs of modules and files until it is told to stop."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobroom.cli import exits, streams
from jobroom.cli.target import target_of

if TYPE_CHECKING:
    from jobroom.client.options import Registration
    from jobroom.client.profile import Place
    from jobroom.client.worker import ProcessWorker

LINE = "%(asctime)s %(levelname)s %(message)s"
QUIETER = ("httpx", "httpcore")


class Isolate(StrEnum):
    """Where tasks run."""

    THREAD = "thread"
    PROCESS = "process"


class Level(StrEnum):
    """What is logged at least."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def worker(  # noqa: PLR0917  # each of them is an option
    ctx: typer.Context,
    modules: Annotated[
        list[str],
        typer.Argument(metavar="MODULE...", help="package.module, module:name or path/to/file.py."),
    ],
    slots: Annotated[int, typer.Option(min=1, max=1000, help="How many tasks run at once.")] = 1,
    isolate: Annotated[
        Isolate, typer.Option(help="Tasks in threads, or each in a process of its own.")
    ] = Isolate.THREAD,
    room: Annotated[
        str | None, typer.Option(help="The room of the jobs that name none; without it @global.")
    ] = None,
    drain: Annotated[
        bool, typer.Option("--drain", "--once", help="End when nothing is left to do.")
    ] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start anew when a file of yours has changed.")
    ] = False,
    log_level: Annotated[Level, typer.Option(help="What is logged, on stderr.")] = Level.INFO,
) -> None:
    """Serve the jobs that modules define: @jobroom.job functions and classes with a run.

    The first SIGTERM or Ctrl-C lets what runs come to its end (exit code 0), the second one
    hands it back (130 or 143). SIGUSR1 makes it say on stderr why it is idle.
    """
    streams.hold_no_answer()  # what the user's code prints outside of tasks is none
    _log_from(log_level)
    if reload:
        from jobroom.worker import reloading

        sys.exit(reloading.run(modules))
    with exits.told():
        jobs = _find(modules, room)
        sys.exit(
            _serve(jobs, slots=slots, isolate=isolate, drain=drain, place=target_of(ctx).place())
        )


def _log_from(level: Level) -> None:
    logging.basicConfig(level=level.upper(), format=LINE, stream=sys.stderr)
    for name in QUIETER:
        logging.getLogger(name).setLevel(logging.WARNING)


def _find(modules: Sequence[str], room: str | None) -> list[Registration]:
    from jobroom.errors import ConfigurationError
    from jobroom.worker import finding

    try:
        found = [job for module in modules for job in finding.find_jobs(module, room=room)]
    except finding.CannotImport as failure:
        exits.say(str(failure))
        for line in failure.frames:
            typer.echo(line, err=True)
        sys.exit(exits.Code.USAGE)
    except (TypeError, ValueError) as wrong:  # a room that cannot be, a class that is no job
        raise ConfigurationError(str(wrong)) from None
    twice = {job.full_name for job in found if sum(job.full_name == o.full_name for o in found) > 1}
    if twice:
        raise ConfigurationError(f"{min(twice)} is defined twice; give one another name.")
    return found


def _serve(jobs: list[Registration], *, isolate: Isolate, place: Place, **how: Any) -> int:
    from jobroom.client.connection import Connection
    from jobroom.client.worker import ProcessWorker
    from jobroom.worker.serve import serving_of

    with Connection(place.url, place.token) as connection:
        ours = ProcessWorker(connection)
        with _leaving_at_sigterm(ours):
            serving = serving_of(
                ours,
                jobs,
                slots=how["slots"],
                isolate=isolate.value,
                until_empty=how["drain"],
                announce=lambda: typer.echo(
                    _banner(ours, place.url, isolate=isolate, slots=how["slots"]), err=True
                ),
            )
            return serving.run()


@contextmanager
def _leaving_at_sigterm(ours: ProcessWorker) -> Iterator[None]:
    """Sign the worker off at a SIGTERM that comes before the serving has begun to mind it."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)  # as shells tell of a signal

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        ours.leave()
        signal.signal(signal.SIGTERM, before)


def _banner(ours: ProcessWorker, url: str, *, isolate: Isolate, slots: int) -> str:
    where = "in threads" if isolate is Isolate.THREAD else "in processes of their own"
    many = "1 task" if slots == 1 else f"{slots} tasks"
    return (
        f"Worker {ours.id} ({socket.gethostname()}, process {os.getpid()}) at {url} serves"
        f" {', '.join(sorted(ours.jobs))}: {many} at once, {where}. Ctrl-C finishes what runs,"
        " a second one hands it back."
    )
