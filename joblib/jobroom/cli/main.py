"""``jobroom``: the command line's verbs, each with its heavy imports inside."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from jobroom.cli.demo import demo
from jobroom.errors import JobroomError

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
        from jobroom import tokens
        from jobroom.settings import read_settings

        only = (
            None if rooms is None else [room for name in rooms.split(",") if (room := name.strip())]
        )
        made = tokens.token_for_settings(
            read_settings(), sub=sub, is_admin=admin, rooms=only, hours=hours
        )
        typer.echo(made)


@app.command()
def sweep() -> None:
    """Sweep once: lost workers, timeouts, orphan jobs, old tasks. For cron and its like."""
    with _one_sentence_errors():
        from jobroom.service.queue import JobQueue
        from jobroom.settings import read_settings

        with JobQueue.open(read_settings()) as queue:
            for name, count in queue.sweep()._asdict().items():
                typer.echo(f"{name} {count}")


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
        typer.echo(f"{opened.location}: {before or 'empty'} -> {migrate.HEAD}")


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
