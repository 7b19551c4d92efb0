"""``jobroom db``: make the database ready, look at it, copy it, back it up."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobroom.cli.import_pyantz import import_pyantz
from jobroom.cli.sentences import one_sentence_errors
from jobroom.errors import ConfigurationError, StoreUnavailable

if TYPE_CHECKING:
    from jobroom.service.inspection import Inspection
    from jobroom.settings import JobLibSettings
    from jobroom.store.copy_end import End
    from jobroom.store.copying import Copying

INTERRUPTED = 130
"""The exit code that shells give to Ctrl-C: 128 and the signal's number."""
PATIENT_SECONDS = 30.0
"""A copy's batches are larger than a request, and nobody waits at the other end."""
ROWS = {
    "task": "tasks",
    "job": "jobs",
    "job_schema": "job schemas",
    "worker": "workers",
    "worker_job_link": "links of workers",
    "edge": "dependencies",
    "task_log": "pieces of logs",
    "schedule": "schedules",
    "fair_turn": "fair turns",
    "notice": "notices",
    "queue_state": "notes of sweeps",
}
"""The rows of each table, in words."""
BACKUP_TOOLS = {
    "libsql": "turso db shell URL .dump > FILE",
    "postgresql": "pg_dump --format=custom --file=FILE URL",
}
"""What backs up a server's database, by the name of its spelling."""

app = typer.Typer(help="The database of the queue.", no_args_is_help=True)
app.command("import-pyantz")(import_pyantz)


@app.command()
def upgrade() -> None:
    """Bring the database to the schema of this version; safe to run twice, and two at once."""
    with one_sentence_errors():
        from jobroom.settings import read_settings
        from jobroom.store import dialect, migrate

        settings = read_settings()
        with closing(dialect.open_database(settings)) as opened:
            before = migrate.current(opened)
            if before != migrate.HEAD:
                migrate.upgrade(opened)
            elif opened.is_at_hand:
                # Nothing was to be written: is this a database to work with?
                opened.connect(read_only=False).close()
            typer.echo(f"{opened.location}: {before or 'empty'} -> {migrate.HEAD}")


@app.command()
def check(
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """Say where the database is, whether it is whole and can be written, and what is in it.

    Exit code 1 where something is wrong.
    """
    with one_sentence_errors():
        from jobroom.service import inspection
        from jobroom.settings import read_settings
        from jobroom.store import dialect, presence

        settings = read_settings()
        with closing(dialect.open_database(settings)) as opened:
            presence.check(opened)
        found = inspection.inspect(settings)
        if as_json:
            typer.echo(json.dumps(dataclasses.asdict(found)))
        else:
            for line in check_lines(found):
                typer.echo(line)
        raise typer.Exit(1 if found.faults else 0)


def check_lines(found: Inspection) -> list[str]:
    """Tell what an inspection found, aligned."""
    ours = found.schema == found.wanted_schema
    lines = {
        "database": found.database,
        "server": found.server,
        "schema": f"{found.schema or 'none'} ({'this' if ours else 'not this'} jobroom's)",
    }
    if found.write_milliseconds is not None:
        lines["write"] = f"yes, in {found.write_milliseconds:,.1f} ms"
    elif ours:
        lines["write"] = "no"
    if found.round_trip_milliseconds is not None:
        lines["round trip"] = f"{found.round_trip_milliseconds:,.2f} ms"
    if found.clock_milliseconds is not None:
        lines["clock"] = f"{found.clock_milliseconds:+,.0f} ms from this host's"
    elif ours:
        lines["clock"] = "this host's"
    bound = " (of the first million)" if found.counts_are_bounded else ""
    for name, counts in found.counts.items():
        lines[name] = f"{_counts(counts)}{bound}"
    lines["integrity"] = f"ok ({', '.join(found.checked)})" if not found.faults else "faults"
    told = [f"{label:<12}{text}" for label, text in lines.items()]
    return [*told, *(f"fault       {fault}" for fault in found.faults)]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{rows:,} {state}" for state, rows in sorted(counts.items())) or "none"


@app.command("copy")
def copy_queue(
    source: Annotated[str, typer.Option("--from", help="The URL of the database to copy.")],
    target: Annotated[str, typer.Option("--to", help="The URL of an empty one to copy it to.")],
    from_token_file: Annotated[
        Path | None, typer.Option(help="A file with the token for a libSQL source.")
    ] = None,
    to_token_file: Annotated[
        Path | None, typer.Option(help="A file with the token for a libSQL target.")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Empty what an unfinished copy has left, and begin.")
    ] = False,
) -> None:
    """Copy a whole queue, row for row; stop its servers and workers first.

    Cut off, it goes on where it was when the same command is run again. Without an option or a
    token in the URL, a libSQL server gets the token of the settings.
    """
    with one_sentence_errors(), _to_be_run_again():
        from jobroom.settings import read_settings
        from jobroom.store import copy_end

        settings = read_settings()
        sides = {
            "--from": _side(settings, source, from_token_file),
            "--to": _side(settings, target, to_token_file),
        }
        with (
            closing(_opened(copy_end.open_source, sides, "--from")) as one,
            closing(_opened(copy_end.open_target, sides, "--to")) as other,
        ):
            _copy(one, other, restart=restart)
        for line in _next_steps(sides["--from"], sides["--to"], other.location):
            typer.echo(line)


def _side(settings: JobLibSettings, url: str, token_file: Path | None) -> JobLibSettings:
    """The settings for one end: what is said for it alone goes before what is said for all."""
    seconds = max(PATIENT_SECONDS, settings.database_busy_seconds)
    changed: dict[str, object] = {"database_url": url, "database_busy_seconds": seconds}
    changed["database_url_arn"] = None
    if token_file is not None or "authToken=" in url:
        changed["database_auth_token"] = changed["database_auth_token_arn"] = None
        changed["database_auth_token_file"] = None if token_file is None else str(token_file)
    return settings.model_copy(update=changed)


def _opened(
    opener: Callable[[JobLibSettings], End], sides: Mapping[str, JobLibSettings], option: str
) -> End:
    """One end; what its errors say of settings is meant of the option."""
    try:
        return opener(sides[option])
    except ConfigurationError as error:
        said = str(error)
        for name, meant in (
            ("ZNDRAW_JOBLIB_DATABASE_AUTH_TOKEN_FILE", f"{option}-token-file"),
            ("ZNDRAW_JOBLIB_DATABASE_URL", option),
        ):
            said = said.replace(name, meant)
        raise ConfigurationError(said) from error


@contextmanager
def _to_be_run_again() -> Iterator[None]:
    """What stops a copy without being its fault, and how it is gone on with."""
    again = "Run the same command again: it goes on where it was."
    try:
        yield
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{error} {again}") from error
    except KeyboardInterrupt:
        typer.echo(f"jobroom: stopped as you asked. {again}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _copy(source: End, target: End, *, restart: bool) -> None:
    from rich.console import Console

    from jobroom.cli import progress
    from jobroom.store.copying import Copying

    typer.echo(f"from  {source.location}\nto    {target.location}")
    began = time.monotonic()
    copying = Copying(source, target)
    with progress.meter_for(Console(), unit="rows") as meter:
        for step in copying.run(restart=restart):
            meter.show(step.stage, ROWS[step.table], step.done, step.total)
    typer.echo(_equal(copying, time.monotonic() - began))


def _equal(copying: Copying, seconds: float) -> str:
    """Only what there is; the comparison looked at every table."""
    counted = ((copying.counts[name], words) for name, words in ROWS.items())
    parts = [f"{rows:,} {words}" for rows, words in counted if rows]
    went_on = ", from where it was," if copying.resumed else ""
    return (
        f"equal: {', '.join(parts) or 'nothing on both sides'}\ncopied{went_on} in {seconds:.1f} s"
    )


def _next_steps(source: JobLibSettings, target: JobLibSettings, location: str) -> Iterator[str]:
    from jobroom import keys

    yield f"next: set ZNDRAW_JOBLIB_DATABASE_URL to the URL of {location} and start the servers."
    key = keys.local_key_path(source.database_url)
    if key is None or not key.exists() or keys.configured_keys(source) is not None:
        return
    beside = keys.local_key_path(target.database_url)
    if beside is None:
        yield (
            "      To keep the tokens valid that were made so far, set ZNDRAW_JOBLIB_JWT_SECRET to"
            f" what {key} holds."
        )
    else:
        yield f"      To keep the tokens valid that were made so far, copy {key} to {beside}."


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(help="The copy to be made; there must be none yet.")],
) -> None:
    """Copy the SQLite file while it is in use: one moment of it, whole and checked."""
    with one_sentence_errors():
        from rich.console import Console

        from jobroom.cli import progress
        from jobroom.settings import read_settings
        from jobroom.store import backup as backing
        from jobroom.store import dialect, presence

        with closing(dialect.open_database(read_settings())) as opened:
            _check_is_file(opened.location, opened.spelling.name)
            presence.check(opened)
            with progress.meter_for(Console(), unit="pages") as meter:
                size = backing.back_up(
                    opened, file, lambda pages: meter.show("copying", "pages", *pages)
                )
        typer.echo(f"{file}: {size:,} bytes, checked")


def _check_is_file(location: str, kind: str) -> None:
    if kind in BACKUP_TOOLS:
        message = (
            f"The database {location} is a server's, whose own tool backs it up:"
            f" {BACKUP_TOOLS[kind]}."
        )
        raise ConfigurationError(message)
