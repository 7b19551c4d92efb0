"""Logs: lines for people, or one JSON object a line for machines.

A message says ``event key=value``; the formatter makes fields of that, so no call needs to know
how it will be written.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

TEXT = "%(asctime)s %(levelname)s %(message)s"

_KEY = r"[A-Za-z_]\w*"
_CONVERSION = r"%[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]"
_PAIR = re.compile(rf"({_KEY})=(.*)", re.DOTALL)
_ONE_CONVERSION = re.compile(_CONVERSION)
_AS_IT_IS = ("%s", "%r", "%d", "%g")
_RESERVED = frozenset({"timestamp", "level", "logger", "event", "message", "error_type", "trace"})


def let_logs_be_seen(log_format: str) -> None:
    """Write the server's log where nobody has said what becomes of it; a second call does nothing.

    Text goes to stderr, unless the host has a handler. JSON goes to stdout by a handler of its
    own and no further: what the platform's would print again is not one object a line.
    """
    log = logging.getLogger("jobroom")
    if log.handlers or (log_format == "text" and log.hasHandlers()):
        return
    handler: logging.Handler
    if log_format == "json":
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(JsonFormatter())
        log.propagate = False
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(TEXT))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    if log_format == "json":
        _take_over(logging.getLogger("uvicorn"), handler)


def _take_over(server: logging.Logger, handler: logging.Handler) -> None:
    """Write what the server itself has to tell in the same way, unless somebody has chosen another.

    Its line of a request is another logger's, and stays what it is.
    """
    if any(type(each.formatter).__module__ == "uvicorn.logging" for each in server.handlers):
        server.handlers = [handler]


class JsonFormatter(logging.Formatter):
    """One JSON object for each record, in ASCII: whatever a text holds, it is one line.

    >>> record = logging.makeLogRecord(
    ...     {"msg": "sweep.failed reason=%r again_in=%gs", "args": ("no store", 30.0)}
    ... )
    >>> found = json.loads(JsonFormatter().format(record))
    >>> found["event"], found["reason"], found["again_in"]
    ('sweep.failed', 'no store', '30s')
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        at = datetime.fromtimestamp(record.created, UTC)
        told: dict[str, Any] = {
            "timestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z",
            "level": record.levelname,
            "logger": record.name,
        }
        for name, value in _fields(record).items():
            told[name + "_" if name in told else name] = value
        if record.exc_info and record.exc_info[1] is not None:
            told |= _trace(record.exc_info[1])
        return json.dumps(told, default=str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    given = record.args or ()
    args = given if isinstance(given, tuple) else (given,)
    try:
        template = _template(str(record.msg))
        if template is None or len(args) != template.takes:
            return _of_text(record.getMessage())
        return template.fill(args)
    except Exception:  # noqa: BLE001 - a log line must never be what fails
        return {"message": str(record.msg)}


class _Part(NamedTuple):
    """One word of a message; ``key`` None: it is no pair. ``takes``: how many arguments."""

    key: str | None
    text: str
    takes: int


class _Template(NamedTuple):
    parts: tuple[_Part, ...]
    takes: int

    def fill(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """The fields of a message, by its arguments."""
        told: dict[str, Any] = {}
        rest = list(args)
        for n, part in enumerate(self.parts):
            given, rest = tuple(rest[: part.takes]), rest[part.takes :]
            value = given[0] if part.text in _AS_IT_IS else part.text % given
            if n == 0:
                told["event"] = str(value)
            elif part.key is not None:
                told[part.key + "_" if part.key in _RESERVED else part.key] = _plain(value)
            else:
                told |= _pairs(str(value))
        return told


@lru_cache(maxsize=512)
def _template(message: str) -> _Template | None:
    """The words of a message and what they take; None where it is no ``event key=value``."""
    parts: list[_Part] = []
    for n, word in enumerate(message.split(" ")):
        pair = _PAIR.fullmatch(word)
        text = pair[2] if pair and n else word
        takes = len(_ONE_CONVERSION.findall(text))
        if "%%" in word or "(" in word or not (pair or takes or n == 0):
            return None
        parts.append(_Part(pair[1] if pair and n else None, text, takes))
    return _Template(tuple(parts), sum(part.takes for part in parts))


def _of_text(message: str) -> dict[str, Any]:
    event, _, rest = message.partition(" ")
    told: dict[str, Any] = {"event": event} if re.fullmatch(r"[\w.]+", event) else {}
    found = _pairs(rest)
    return {**told, **found} if told and "message" not in found else {"message": message}


def _pairs(text: str) -> dict[str, Any]:
    """``key=value`` words as fields; any other text as a message."""
    found = [_PAIR.fullmatch(word) for word in text.split()]
    if not all(found):
        return {"message": text}
    pairs = [(each[1], each[2]) for each in found if each]
    return {
        key + "_" if key in _RESERVED else key: int(value) if value.isdecimal() else value
        for key, value in pairs
    }


def _plain(value: Any) -> Any:
    """A value that JSON has, or its text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return str(value)


def _trace(error: BaseException) -> dict[str, str]:
    """An error with where it was raised; of its words the first line.

    PostgreSQL puts the row, with the payload in it, into the lines that follow.
    """
    frames = "".join(traceback.format_tb(error.__traceback__))
    words = str(error).splitlines()
    return {
        "error_type": type(error).__qualname__,
        "error_message": words[0] if words else "",
        "trace": frames,
    }
