"""``jobroom cancel, retry``: end tasks, and put them back to work."""

from __future__ import annotations

from typing import Annotated

import typer

from jobroom.cli import exits, target
from jobroom.cli.showing import TaskId
from jobroom.cli.target import AsJson
from jobroom.errors import JobroomError


def cancel(
    ctx: typer.Context,
    task_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The tasks' ids.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Cancel tasks; the worker of a running one is told to stop it."""
    from jobroom.cli import printing

    code = exits.Code.OK
    with exits.told(), target.server(ctx) as server:
        for task_id in task_ids:
            try:
                task = server.cancel(task_id)
            except JobroomError as error:
                exits.say(str(error))
                code = code or exits.code_of(error)
                continue
            if as_json:
                printing.say_json(task)
            else:
                typer.echo(f"{task['id']} is cancelled")
    raise typer.Exit(code)


def retry(
    ctx: typer.Context,
    task_id: TaskId,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing, name the tasks that would go again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put a failed or cancelled task back to work, with those that failed because of it."""
    from jobroom.cli import printing

    with exits.told(), target.server(ctx) as server:
        found = server.retry(task_id, dry_run=dry_run)
        if as_json:
            printing.say_json(found)
        elif dry_run:
            for one in found["tasks"]:
                typer.echo(one)
            if hidden := found.get("hidden"):
                exits.say(f"and {hidden} more, in rooms that this token does not see")
        else:
            typer.echo(f"{found['id']} is {found['status']} again")
