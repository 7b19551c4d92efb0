"""``jobroom``: the command line's verbs, each with its heavy imports inside."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Annotated

import typer

from jobroom.cli import database
from jobroom.cli.demo import demo
from jobroom.cli.sentences import one_sentence_errors, saying_what_to_check
from jobroom.domain.records import SweepReport

SWEPT = {
    "lost_workers": "workers lost",
    "requeued_tasks": "tasks pending again",
    "failed_tasks": "tasks failed",
    "timed_out_tasks": "tasks timed out",
    "expired_tasks": "tasks expired",
    "hidden_jobs": "orphan jobs hidden",
    "stuck_tasks": "stuck tasks settled",
    "removed_tasks": "old tasks removed",
}
"""The counts of a sweep, in words."""

app = typer.Typer(
    help="A job queue for Python workers that needs no broker.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(database.app, name="db")
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
    with one_sentence_errors():
        from jobroom import keys, tokens
        from jobroom.settings import read_settings

        settings = read_settings()
        only = (
            None if rooms is None else [room for name in rooms.split(",") if (room := name.strip())]
        )
        key_path = keys.local_key_path(settings.database_url)
        had_key = key_path is None or os.path.exists(key_path)  # noqa: PTH110 - Path's would raise where one may not look
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
    with one_sentence_errors():
        from jobroom.service.queue import JobQueue
        from jobroom.settings import read_settings
        from jobroom.store import dialect, presence

        settings = read_settings()
        # Opening would make a file, and a cron job in the wrong folder be content for ever.
        with closing(dialect.open_database(settings)) as opened:
            presence.check(opened)
        with (
            saying_what_to_check(opened.location, opened.advice),
            JobQueue.open(settings) as queue,
        ):
            done = queue.sweep()
        for line in report_lines(done):
            typer.echo(line)


def report_lines(done: SweepReport) -> list[str]:
    """Tell what a sweep did, a line for each count."""
    judged = "yes" if done.judged else "no (after an outage they get one timeout to beat first)"
    counts = (f"{words}: {getattr(done, field)}" for field, words in SWEPT.items())
    return [f"workers judged: {judged}", *counts]


if __name__ == "__main__":
    app()
