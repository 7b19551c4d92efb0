"""How a command ends: its exit codes, and errors as one sentence each, never a trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer

from jobroom import errors
from jobroom.errors import FieldError, JobroomError


class Code(IntEnum):
    """The exit codes; the same number means the same for every verb."""

    OK = 0
    FAILED = 1
    """The task failed or was cancelled, or the answer is no."""
    USAGE = 2
    """What was typed cannot be sent: an option, a field, a payload."""
    NOT_FOUND = 3
    REFUSED = 4
    """The token is missing, refused, or may not do this."""
    AWAY = 5
    """Nobody answers, or not the job queue."""
    TIMED_OUT = 124
    INTERRUPTED = 130


class Away(JobroomError):
    """No server of ours answers at this address."""


class TimedOut(JobroomError):
    """What was waited for did not come in the time that was given."""


class Negative(JobroomError):
    """The answer is no: nothing is wrong with the request."""


_CODES: tuple[tuple[type[JobroomError], Code], ...] = (
    (TimedOut, Code.TIMED_OUT),
    (errors.NotFound, Code.NOT_FOUND),
    (errors.Unauthorized, Code.REFUSED),
    (errors.Forbidden, Code.REFUSED),
    (errors.StoreUnavailable, Code.AWAY),
    (errors.TooManyRequests, Code.AWAY),
    (errors.InvalidInput, Code.USAGE),
    (errors.PayloadTooLarge, Code.USAGE),
    (errors.ConfigurationError, Code.USAGE),
    (errors.Conflict, Code.FAILED),
    (errors.AnswerTooLarge, Code.FAILED),
    (Negative, Code.FAILED),
)


def code_of(error: JobroomError) -> Code:
    """Return the exit code of an error; an answer that the contract does not name is no server."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), Code.AWAY)


def say(sentence: str) -> None:
    """Tell people something, on stderr: stdout is for what was asked for."""
    # What a server or a driver says may be several lines.
    typer.echo(f"jobroom: {' '.join(sentence.split())}", err=True)


@contextmanager
def told(*, interrupted: Callable[[], str] | None = None) -> Iterator[None]:
    """End with the code of what goes wrong in here, and one sentence that says what to do.

    ``interrupted`` says what Ctrl-C leaves behind.
    """
    try:
        yield
    except JobroomError as error:
        say(str(error))
        for fault in _untold(error):
            typer.echo(f"  {line_of(fault)}", err=True)
        sys.exit(code_of(error))
    except KeyboardInterrupt:
        say("interrupted." if interrupted is None else interrupted())
        sys.exit(Code.INTERRUPTED)


def _untold(error: JobroomError) -> tuple[FieldError, ...]:
    """Return the faults, but not the only one where the sentence has told it already."""
    told_already = len(error.errors) == 1 and error.errors[0].message in str(error)
    return () if told_already else error.errors


def line_of(fault: FieldError) -> str:
    """Return a fault as people read it: ``angle: is not a number``."""
    place = place_of(fault.pointer)
    return f"{place}: {fault.message}" if place else fault.message


def place_of(pointer: str) -> str:
    """Return a JSON Pointer as it is typed on the command line.

    >>> place_of("/payload/axis/0/x~1y")
    'axis[0].x/y'
    """
    tokens = [one.replace("~1", "/").replace("~0", "~") for one in pointer.split("/")[1:]]
    # A submission's fields are all in its payload, and people have typed none of that name.
    tokens = tokens[tokens[:1] == ["payload"] :]
    place = "".join(f"[{token}]" if token.isdecimal() else f".{token}" for token in tokens)
    return place.removeprefix(".")
