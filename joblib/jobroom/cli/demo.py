"""``jobroom demo``: see the whole thing work on a real molecule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

INTERRUPTED = 130
"""The exit code that shells give to Ctrl-C: 128 and the signal's number."""


def demo(
    tasks: Annotated[int, typer.Option(min=1, max=200, help="How many scans to submit.")] = 20,
    workers: Annotated[int, typer.Option(min=1, max=16, help="How many worker processes.")] = 2,
    keep: Annotated[
        Path | None,
        typer.Option(help="A new folder to keep the database, the logs and the results in."),
    ] = None,
) -> None:
    """Run a server, workers and twenty real tasks on caffeine, then remove every trace of them."""
    # Before the imports, which take a while of their own.
    typer.echo(f"Starting a server and {workers} worker{'s'[: workers > 1]} on this machine ...")
    try:
        from jobroom.demo.run import Options, run

        code = run(Options(tasks=tasks, workers=workers, keep=keep))
    except KeyboardInterrupt:
        # The run itself takes note of Ctrl-C in order; this is the moment before it.
        typer.echo("Stopped as you asked: nothing had been started.")
        code = INTERRUPTED
    raise typer.Exit(code)
