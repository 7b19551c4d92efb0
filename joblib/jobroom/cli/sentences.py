"""What a command says when it cannot do what was asked: one sentence, never a trace."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from jobroom.errors import JobroomError, StoreUnavailable

EXTRAS = {"psycopg": "postgres", "libsql_client": "libsql-client"}
"""Which extra brings a package; all others are in ``server``."""


@contextmanager
def one_sentence_errors() -> Iterator[None]:
    """An error is one sentence on stderr and exit code 1, never a trace."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if not package:
            raise
        extra = EXTRAS.get(package, "server")
        _end(f'this command needs {package}; run: pip install "jobroom[{extra}]"')
    except (JobroomError, ValueError) as error:
        _end(str(error))


@contextmanager
def saying_what_to_check(location: str, advice: str) -> Iterator[None]:
    """To try again in a moment, as a client is told, does not help who owns the database."""
    try:
        yield
    except StoreUnavailable as error:
        message = f"The database {location} cannot be written: {advice}."
        raise StoreUnavailable(message) from error


def _end(message: str) -> None:
    # A driver's own words may be several lines.
    typer.echo(f"jobroom: {' '.join(message.split())}", err=True)
    sys.exit(1)
