"""``jobroom check``: look at every connection and right before they are first needed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from jobroom.cli import exits, target
from jobroom.cli.target import AsJson

if TYPE_CHECKING:
    from jobroom.cli.checkpoint import Finding

WORDS = {True: "ok", False: "failed", None: "skipped"}
STYLES = {True: "green", False: "bold red", None: "dim"}


def check(
    ctx: typer.Context,
    *,
    room: Annotated[
        str | None, typer.Option(help="Also whether jobs and tasks are taken in this room.")
    ] = None,
    category: Annotated[
        str, typer.Option(help="The category of the job that would be registered.")
    ] = "modifiers",
    as_json: AsJson = False,
) -> None:
    """Check the way to the server, the token and its rights; nothing is left behind there.

    Each line is ok, failed (with the next step) or skipped; exit code 1 if one failed.
    """
    code = exits.Code.OK
    with exits.told():
        from jobroom.cli import checkpoint, checks, printing
        from jobroom.client.connection import Connection

        place = target.target_of(ctx).place()
        token = place.token if isinstance(place.token, str) else None
        with Connection(place.url, place.token) as connection:
            looked_at = checkpoint.Place(connection, token, room, category)
            for found in checks.findings(looked_at):
                if as_json:
                    printing.say_json(dataclasses.asdict(found))
                else:
                    _show(found)
                if found.ok is False:
                    code = exits.Code.FAILED
    raise typer.Exit(code)


def _show(found: Finding) -> None:
    from jobroom.cli import printing

    out = printing.console()
    line = f"  {found.check:<10} {printing.clean_line(found.found)}"
    out.print(f"{WORDS[found.ok]:<7}", style=STYLES[found.ok], end="")
    out.print(line)
    if found.advice is not None:
        out.print(f"{'':<20}{printing.clean_line(found.advice)}")
