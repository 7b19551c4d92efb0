"""What a failed run is reported as: short text for people, with the user's own frames."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import TracebackType

from pydantic import ValidationError

LONGEST_ERROR_BYTES = 64 * 1024
MARK = "\n... (cut at 64 KiB)"
MOST_FRAMES = 20
LONGEST_LINE = 300
PYDANTICS = {"value_error": "Value error, ", "assertion_error": "Assertion failed, "}
"""What pydantic puts before the words of the user's own validator."""

_PACKAGE = Path(__file__).parents[1]
_OTHERS = (
    *(f"{_PACKAGE / part}{os.sep}" for part in ("client", "worker")),
    f"{Path(traceback.__file__).parent / 'asyncio'}{os.sep}",
    f"{Path(traceback.__file__).parent / 'importlib'}{os.sep}",
    "<frozen ",
)
"""Where code is that is not the user's, but stands between him and his own."""


def text_of(failure: BaseException) -> str:
    """Return the type and message of an exception, then where in the user's code it came from."""
    return cut("\n".join([headline(failure), *user_frames(failure.__traceback__)]))


def first_line(text: str) -> str:
    """Return what a log line has room for."""
    line = text.partition("\n")[0]
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}..."


def faults_of(invalid: ValidationError) -> str:
    """Return the faults of a payload field by field, without the values."""
    faults = invalid.errors(include_url=False, include_context=False, include_input=False)
    places = (".".join(map(str, fault["loc"])) or "the whole" for fault in faults)
    said = (
        fault["msg"].removeprefix(PYDANTICS.get(fault["type"], "")) or "is not valid"
        for fault in faults
    )
    return "; ".join(f"{at}: {words}" for at, words in zip(places, said, strict=True))


def cut(text: str) -> str:
    """Return the text, shortened to what the server keeps of it."""
    # A lone surrogate (from a file name, say) is no UTF-8; the server would refuse the report.
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= LONGEST_ERROR_BYTES:
        return data.decode()
    kept = data[: LONGEST_ERROR_BYTES - len(MARK)]
    return kept.decode("utf-8", "ignore") + MARK


def headline(failure: BaseException) -> str:
    """Return the type and message of an exception, whatever its ``__str__`` does."""
    name = type(failure).__name__
    try:
        message = str(failure)
    except BaseException:  # noqa: BLE001  # a user's __str__ may do anything
        message = "(its message cannot be shown)"
    return f"{name}: {message}" if message else name


def user_frames(trace: TracebackType | None) -> list[str]:
    """Return the lines of a traceback that are the user's own, the innermost last."""
    frames = [
        frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith(_OTHERS)
    ][-MOST_FRAMES:]
    return [line.rstrip("\n") for line in traceback.format_list(frames)]
