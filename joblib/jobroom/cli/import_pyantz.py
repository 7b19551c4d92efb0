"""``jobroom db import-pyantz``: take over the jobs of a queue that pyantz has kept by itself."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from jobroom.cli.exits import Code
from jobroom.cli.sentences import one_sentence_errors, saying_what_to_check
from jobroom.errors import ConfigurationError, StoreUnavailable

if TYPE_CHECKING:
    from jobroom.service.importing import Importing
    from jobroom.settings import JobLibSettings
    from jobroom.store.pyantz_file import PyantzFile

MOST_NAMED = 100
"""How many faulty jobs are named; all of them are in the queue, with the reason."""
AGAIN = "Run the same command again: it goes on where it was."
ORDER = ("pending", "blocked", "claimed", "running", "completed", "failed", "cancelled")


def import_pyantz(
    file: Annotated[Path, typer.Argument(help="pyantz's queue.db; it is only read.")],
    into: Annotated[
        str | None,
        typer.Option(help="The URL of the database to import into; else that of the settings."),
    ] = None,
    running: Annotated[
        Literal["requeue", "fail"],
        typer.Option(
            help="What becomes of jobs that were running: nobody knows whether their worker lives."
        ),
    ] = "requeue",
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """Import the jobs of a pyantz queue, with their order, states and dependencies.

    They come into the room @local, where SqliteQueue finds them. Run twice, it imports nothing
    twice; cut off, it goes on where it was when the same command is run again. Exit code 1 where
    some could not be taken over as they were, or wait for each other.
    """
    with one_sentence_errors():
        from jobroom.settings import read_settings
        from jobroom.store import pyantz_file

        settings = read_settings()
        if into is not None:
            settings = _settings_for(settings, into)
        with pyantz_file.open_file(file) as opened:
            _check_is_another(file, settings)
            done = _import(opened, settings, running, is_option=into is not None, quiet=as_json)
        if as_json:
            typer.echo(json.dumps(done.as_json()))
        else:
            for line in report_lines(done, running):
                typer.echo(line)
        raise typer.Exit(Code.FAILED if done.importing.done.faults or done.cycle else Code.OK)


class _Done(NamedTuple):
    """An import that came to its end."""

    source: str
    target: str
    importing: Importing
    cycle: list[str] | None
    seconds: float

    def as_json(self) -> dict[str, object]:
        done = self.importing.done
        return {
            "from": self.source,
            "into": self.target,
            "imported": done.jobs,
            "dependencies": done.edges,
            "statuses": {each: done.statuses[each] for each in ORDER if done.statuses[each]},
            "were_running": done.were_running,
            "known": done.known,
            "faults": [{"job": fault.job_id, "reason": fault.reason} for fault in done.faults],
            "cycle": self.cycle,
        }


def _settings_for(settings: JobLibSettings, url: str) -> JobLibSettings:
    """What is said for this database alone goes before what is said for the usual one."""
    changed: dict[str, object] = {"database_url": url, "database_url_arn": None}
    if "authToken=" in url:
        changed |= {"database_auth_token": None, "database_auth_token_file": None}
        changed["database_auth_token_arn"] = None
    return settings.model_copy(update=changed)


def _check_is_another(file: Path, settings: JobLibSettings) -> None:
    from jobroom.store import dialect
    from jobroom.store.sqlite_file import sqlite_path

    try:
        if dialect.kind_of(settings.database_url) != "sqlite":
            return
        path = sqlite_path(settings.database_url)
    except ConfigurationError:
        return  # opening it says so
    if path.exists() and path.samefile(file):
        message = f"Name another database by --into: {file} itself stays as it is."
        raise ConfigurationError(message)


def _import(
    file: PyantzFile,
    settings: JobLibSettings,
    running: Literal["requeue", "fail"],
    *,
    is_option: bool,
    quiet: bool,
) -> _Done:
    from jobroom.service.importing import Importing
    from jobroom.service.queue import JobQueue

    try:
        queue = JobQueue.open(settings)
    except ConfigurationError as error:
        meant = str(error).replace("ZNDRAW_JOBLIB_DATABASE_URL", "--into")
        raise ConfigurationError(meant if is_option else str(error)) from error
    began = time.monotonic()
    with queue, saying_what_to_check(queue.database.location, queue.database.advice):
        if not quiet:
            typer.echo(f"from  {file.location}\ninto  {queue.database.location}")
        importing = Importing(queue, file, running=running)
        _run(importing, len(file.order), quiet=quiet)
        seconds = time.monotonic() - began
        return _Done(file.location, queue.database.location, importing, importing.cycle, seconds)


def _run(importing: Importing, total: int, *, quiet: bool) -> None:
    from rich.console import Console

    from jobroom.cli import progress

    try:
        # What a program reads is on stdout.
        with progress.meter_for(Console(stderr=quiet), unit="jobs") as meter:
            for done in importing.run():
                meter.show("importing", "jobs", done, total)
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{error} {AGAIN}") from error
    except KeyboardInterrupt:
        typer.echo(f"jobroom: stopped as you asked. {AGAIN}", err=True)
        raise typer.Exit(Code.INTERRUPTED) from None


def report_lines(told: _Done, running: str) -> Iterator[str]:
    """Tell what an import has done: exact counts, and who could not be taken over as it was."""
    done = told.importing.done
    if done.jobs:
        states = [f"{done.statuses[each]:,} {each}" for each in ORDER if done.statuses[each]]
        yield (
            f"imported {done.jobs:,} jobs with {done.edges:,} dependencies in {told.seconds:.1f} s:"
            f" {', '.join(states)}"
        )
    else:
        yield "imported nothing"
    if done.were_running:
        fate = "queued again" if running == "requeue" else "failed"
        yield f"{done.were_running:,} of them were running: {fate}"
    if done.known:
        yield f"{done.known:,} jobs were there already, and stay as they are"
    if done.faults:
        yield f"{len(done.faults):,} jobs could not be taken over as they were"
    for fault in done.faults[:MOST_NAMED]:
        yield f"fault: job {fault.job_id}: {fault.reason}"
    if len(done.faults) > MOST_NAMED:
        yield f"fault: {len(done.faults) - MOST_NAMED:,} more jobs"
    if told.cycle:
        yield f"fault: these wait for each other and will never run: {' -> '.join(told.cycle)}"
