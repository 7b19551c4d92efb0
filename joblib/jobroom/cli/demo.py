"""``jobroom demo``: see the whole thing work on a real molecule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    tasks: Annotated[int, typer.Option(min=1, max=200, help="How many scans to submit.")] = 20,
    workers: Annotated[int, typer.Option(min=1, max=16, help="How many worker processes.")] = 2,
    keep: Annotated[
        Path | None,
        typer.Option(help="A new folder to keep the database, the logs and the results in."),
    ] = None,
) -> None:
    """Run a server, workers and twenty real tasks on caffeine, then remove every trace of them."""
    from jobroom.demo.run import Options, run

    raise typer.Exit(run(Options(tasks=tasks, workers=workers, keep=keep)))
