"""Values and statements as Hrana writes them in JSON.

A float of up to 15 digits, 22 of them after the point, is kept exactly; of others, sqld reads one
in ten as its neighbour (measured): its JSON parser is made for speed.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from typing import Any

from jobroom.store.hrana.errors import DataError, ProgrammingError
from jobroom.store.hrana.transport import Step

_LARGEST = 2**63 - 1
_SMALLEST = -(2**63)


def statement(step: Step) -> str:
    """The JSON of one statement; raises DataError for what SQLite or JSON cannot hold.

    Nothing that passes here makes the server refuse the request as a whole: other threads'
    statements may travel in the same one.
    """
    made = {"sql": step.sql, "args": [encode(value) for value in step.args], "want_rows": True}
    text = json.dumps(made, ensure_ascii=False, separators=(",", ":"))
    check_text(text)
    return text


def encode(value: object) -> dict[str, Any]:
    """One parameter."""
    known = plain(value)
    if known is None:
        return {"type": "null"}
    if isinstance(known, int):
        return {"type": "integer", "value": str(known)}
    if isinstance(known, float):
        return {"type": "float", "value": known}
    if isinstance(known, str):
        return {"type": "text", "value": known}
    return {"type": "blob", "base64": b64encode(known).decode()}


def plain(value: object) -> str | int | float | bytes | None:
    """A parameter as one of SQLite's five types; raises for what is none or does not fit."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        if not _SMALLEST <= value <= _LARGEST:
            raise DataError("An integer does not fit into 64 bits.", code="VALUE_INVALID")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DataError("Infinity and NaN cannot be stored.", code="VALUE_INVALID")
        return float(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    message = f"A parameter of type {type(value).__name__} cannot be stored; convert it first."
    raise ProgrammingError(message, code="VALUE_INVALID")


def check_text(text: str) -> None:
    """Refuse half a surrogate pair, which UTF-8 cannot say."""
    try:
        text.encode()
    except UnicodeEncodeError:
        message = "A text holds half a surrogate pair, which cannot be stored."
        raise DataError(message, code="VALUE_INVALID") from None


def decode(value: dict[str, Any]) -> Any:
    """One value of a row; an infinite float, which the server cannot write, is read as NaN."""
    kind = value["type"]
    if kind == "text":
        return value["value"]
    if kind == "integer":
        return int(value["value"])
    if kind == "null":
        return None
    if kind == "float":
        number = value["value"]
        return math.nan if number is None else float(number)
    if kind == "blob":
        text = value["base64"]
        return b64decode(text + "=" * (-len(text) % 4))
    raise ValueError(kind)
