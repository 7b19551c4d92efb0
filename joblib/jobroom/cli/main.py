"""``jobroom``: the command line's verbs, each with its heavy imports inside."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobroom import __version__
from jobroom.cli import (
    changing,
    checking,
    database,
    profiles,
    reading_log,
    schedule,
    showing,
    submitting,
    watching,
)
from jobroom.cli.demo import demo
from jobroom.cli.sentences import one_sentence_errors, saying_what_to_check
from jobroom.cli.serve import serve
from jobroom.cli.target import Target
from jobroom.cli.verbs import Verbs
from jobroom.cli.worker import worker

if TYPE_CHECKING:
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
    "fired_schedules": "tasks submitted by schedules",
}
"""The counts of a sweep, in words."""

TASKS = "Tasks"
OVERVIEW = "What is there"
SERVER = "The server's side"
OWN = "This machine"

app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
VERBS: tuple[tuple[str, str, Callable[..., None]], ...] = (
    (TASKS, "submit", submitting.submit),
    (TASKS, "run", submitting.run),
    (TASKS, "watch", watching.watch),
    (TASKS, "wait", watching.wait),
    (TASKS, "list", showing.list_tasks),
    (TASKS, "show", showing.show),
    (TASKS, "log", reading_log.log),
    (TASKS, "why", showing.why),
    (TASKS, "cancel", changing.cancel),
    (TASKS, "retry", changing.retry),
    (OVERVIEW, "jobs", showing.jobs),
    (OVERVIEW, "workers", showing.workers),
    (OVERVIEW, "rooms", showing.rooms),
    (OVERVIEW, "stats", showing.stats),
    (OWN, "worker", worker),
    (OWN, "check", checking.check),
    (OWN, "demo", demo),
    (SERVER, "serve", serve),
)
"""Where a verb stands in the help, its name, and what it does."""

for panel, name, verb in VERBS:
    app.command(name, rich_help_panel=panel)(verb)
app.add_typer(schedule.app, name="schedule", rich_help_panel=TASKS)
app.add_typer(schedule.app, name="schedule", rich_help_panel=OVERVIEW)
app.add_typer(profiles.app, name="profile", rich_help_panel=OWN)
app.add_typer(database.app, name="db", rich_help_panel=SERVER)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"jobroom {__version__}")
        raise typer.Exit


@app.callback()
def jobroom(
    ctx: typer.Context,
    *,
    url: Annotated[
        str | None, typer.Option(help="The server's address; else JOBROOM_URL's, or a profile's.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token; else JOBROOM_TOKEN.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="A profile's address and token; else JOBROOM_PROFILE's.")
    ] = None,
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """A job queue for Python workers that needs no broker."""
    ctx.obj = Target(url, token_file, profile)


@app.command(rich_help_panel=SERVER)
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


@app.command(rich_help_panel=SERVER)
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
