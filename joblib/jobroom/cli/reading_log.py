"""``jobroom log``: what a task has printed, and goes on printing."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from jobroom.cli import exits, target
from jobroom.cli.showing import TaskId
from jobroom.cli.target import AsJson


def log(
    ctx: typer.Context,
    task_id: TaskId,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the task has ended.")
    ] = False,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Of this attempt alone; without it of the newest.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a task's log; with --follow as it grows, also over its later attempts."""
    from jobroom.cli import printing

    with exits.told(interrupted=_interrupted), target.server(ctx) as server:
        server.task(task_id)  # what is not there, or nobody who answers, is told at once
        server.be_patient()
        if as_json:
            for piece in server.log_documents(task_id, follow=follow, attempt=attempt):
                printing.say_json(piece)
            return
        show = printing.clean_log if sys.stdout.isatty() else str
        is_empty = True
        for text in server.log(task_id, follow=follow, attempt=attempt):
            sys.stdout.write(show(text))
            sys.stdout.flush()
            is_empty = False
        if is_empty:
            exits.say("the log is empty.")


def _interrupted() -> str:
    return "stopped reading; the task goes on."
