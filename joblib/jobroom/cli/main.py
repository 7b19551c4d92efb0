"""``jobroom``: the command line's verbs, each with its heavy imports inside."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from jobroom.cli.demo import demo
from jobroom.domain.records import SweepReport
from jobroom.errors import ConfigurationError, JobroomError, StoreUnavailable

SWEPT = {
    "lost_workers": "workers lost",
    "requeued_tasks": "tasks pending again",
    "failed_tasks": "tasks failed",
    "timed_out_tasks": "tasks timed out",
    "expired_tasks": "tasks expired",
    "hidden_jobs": "orphan jobs hidden",
    "removed_tasks": "old tasks removed",
}
"""The counts of a sweep, in words."""

app = typer.Typer(
    help="A job queue for Python workers that needs no broker.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
database = typer.Typer(help="The database of the queue.", no_args_is_help=True)
app.add_typer(database, name="db")
app.command()(demo)


@app.command()
def token(
    sub: Annotated[str, typer.Option(help="Whose token: the identity.")],
    admin: Annotated[bool, typer.Option("--admin", help="With an admin's rights.")] = False,
    rooms: Annotated[
        str | None, typer.Option(help="Only these rooms, separated by commas; without it all.")
    ] = None,
    hours: Annotated[float, typer.Option(help="How long it is valid.", min=0.01)] = 8,
) -> None:
    """Make a token that a server with these settings accepts."""
    with _one_sentence_errors():
        from jobroom import keys, tokens
        from jobroom.settings import read_settings

        settings = read_settings()
        only = (
            None if rooms is None else [room for name in rooms.split(",") if (room := name.strip())]
        )
        key_path = keys.local_key_path(settings.database_url)
        had_key = key_path is None or os.path.exists(key_path)  # noqa: PTH110 - see sweep
        made = tokens.token_for_settings(settings, sub=sub, is_admin=admin, rooms=only, hours=hours)
        if key_path is not None and not had_key and key_path.exists():
            typer.echo(
                f"jobroom: made a new key, {key_path.absolute()}; only a server on the database"
                f" {key_path.absolute().with_suffix('')} accepts this token.",
                err=True,
            )
        typer.echo(made)


@app.command()
def sweep() -> None:
    """Sweep once: lost workers, timeouts, orphan jobs, old tasks. For cron and its like."""
    with _one_sentence_errors():
        from jobroom.service.queue import JobQueue
        from jobroom.settings import read_settings
        from jobroom.store import sqlite_file

        settings = read_settings()
        path = sqlite_file.sqlite_path(settings.database_url)
        # Opening would make it, and a cron job in the wrong folder would be content for ever.
        # Path.exists would raise where one may not look; opening says that in a sentence.
        if os.access(path.parent, os.X_OK) and not os.path.exists(path):  # noqa: PTH110
            raise ConfigurationError(
                f"There is no database {path} to sweep: set ZNDRAW_JOBLIB_DATABASE_URL to the"
                " server's, or make this one with jobroom db upgrade."
            )
        with _saying_what_to_check(str(path)), JobQueue.open(settings) as queue:
            done = queue.sweep()
        for line in report_lines(done):
            typer.echo(line)


def report_lines(done: SweepReport) -> list[str]:
    """Tell what a sweep did, a line for each count."""
    judged = "yes" if done.judged else "no (after an outage they get one timeout to beat first)"
    counts = (f"{words}: {getattr(done, field)}" for field, words in SWEPT.items())
    return [f"workers judged: {judged}", *counts]


@database.command()
def upgrade() -> None:
    """Bring the database to the schema of this version."""
    with _one_sentence_errors():
        from jobroom.settings import read_settings
        from jobroom.store import dialect, migrate

        settings = read_settings()
        opened = dialect.open_database(settings)
        before = migrate.current(opened)
        migrate.prepare(opened)
        # With nothing to upgrade nothing was written: is this a database to work with?
        opened.connect(read_only=False).close()
        typer.echo(f"{opened.location}: {before or 'empty'} -> {migrate.HEAD}")


@contextmanager
def _saying_what_to_check(location: str) -> Iterator[None]:
    """To try again in a moment, as a client is told, does not help who owns the file."""
    try:
        yield
    except StoreUnavailable as error:
        from jobroom.store import sqlite_file

        message = f"The database {location} cannot be written: {sqlite_file.CHECK}."
        raise StoreUnavailable(message) from error


@contextmanager
def _one_sentence_errors() -> Iterator[None]:
    """An error is one sentence on stderr and exit code 1, never a trace."""
    try:
        yield
    except JobroomError as error:
        typer.echo(f"jobroom: {error}", err=True)
        sys.exit(1)
    except ImportError as error:
        if not (error.name or "").partition(".")[0]:
            raise
        typer.echo(
            f'jobroom: this command needs {error.name}; run: pip install "jobroom[server]"',
            err=True,
        )
        sys.exit(1)
    except ValueError as error:
        typer.echo(f"jobroom: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    app()
