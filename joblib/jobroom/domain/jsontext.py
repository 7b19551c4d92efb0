"""JSON as text: strict reading that keeps the source of each member, and canonical writing."""

from __future__ import annotations

import hashlib
import re
from itertools import accumulate
from json import JSONDecodeError, JSONDecoder, JSONEncoder
from json.decoder import scanstring  # type: ignore[attr-defined]  # missing in the stubs
from math import isinf
from typing import Any, NoReturn

from jobroom.errors import FieldError, ValidationFailed

MAX_DEPTH = 100
TEXT_LIMIT = 64 * 1024
_TOKEN_LIMIT = 255

_SPACES = frozenset(" \t\n\r")
_SPACE = re.compile(r"[ \t\n\r]*")
_USUAL_NAME = re.compile(r'[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*')
_USUAL_MARK = re.compile(r"[ \t\n\r]*([,}])")
_STRING_BYTES = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|([\[{])|[\]}]', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


class JsonObject:
    """A parsed body: ``values`` to read, ``raw`` to store what came, character by character."""

    __slots__ = ("_spans", "_text", "values")

    def __init__(
        self, values: dict[str, Any], text: str, spans: dict[str, tuple[int, int]]
    ) -> None:
        self.values = values
        self._text = text
        self._spans = spans

    def raw(self, name: str) -> str:
        """The source text of a top-level member's value, without the space around it."""
        start, end = self._spans[name]
        return self._text[start:end]

    def source(self, name: str) -> str | None:
        """As ``raw``; None where the member is absent or null."""
        return None if self.values.get(name) is None else self.raw(name)

    def objects(self, name: str) -> list[JsonObject]:
        """The objects of a top-level member that is an array of objects, each with its source."""
        found: list[JsonObject] = []
        position, mark = _next(self._text, self._spans[name][0] + 1)
        while mark == "{":
            values: dict[str, Any] = {}
            spans: dict[str, tuple[int, int]] = {}
            start = position + 1
            end = _scan_usual(self._text, start, values, spans)
            if not end:  # an odd name: the whole was read before, so there is no fault
                values, spans = {}, {}
                end = _scan_members(self._text, start, values, spans)
            found.append(JsonObject(values, self._text, spans))
            position, mark = _next(self._text, end)
            if mark == ",":
                position, mark = _next(self._text, position + 1)
        return found


class _Refused(Exception):
    """A hook of the scanner says no; where the scanner stands is known to its caller alone."""


def parse_object(body: bytes) -> JsonObject:
    """Read a body that must be one JSON object; ``ValidationFailed`` names the place of a fault."""
    text = _decode(body)
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _check_depth(body, text)
    position, mark = _next(text, 0)
    if mark != "{":
        _refuse_no_object(text, mark)
    values: dict[str, Any] = {}
    spans: dict[str, tuple[int, int]] = {}
    end = _scan_usual(text, position + 1, values, spans)
    if not end:
        values, spans = {}, {}
        end = _scan_members(text, position + 1, values, spans)
    position, mark = _next(text, end)
    if mark:
        _refuse_at(text, position, "Nothing may follow the object")
    if "\\ud" in text or "\\uD" in text:
        _check_surrogates(text, spans)
    return JsonObject(values, text, spans)


def pointer_to(*tokens: str | int) -> str:
    """A JSON Pointer (RFC 6901) from its unescaped tokens.

    >>> pointer_to("payload", "a/b", 0)
    '/payload/a~1b/0'
    """
    return "".join(f"/{_token(str(token))}" for token in tokens)


def shown(text: str, limit: int = 60) -> str:
    """A caller's text as a message may carry it: quoted, escaped, and not longer than it helps."""
    return repr(text if len(text) <= limit else f"{text[:limit]}…")


def canonical(value: Any) -> str:
    """One text for one value: sorted keys, no spaces, ASCII; ``1`` and ``1.0`` stay different."""
    return _ENCODER.encode(value)


def fingerprint(method: str, path: str, body_values: Any) -> str:
    """What says that two requests are the same: 32 hex digits."""
    request = canonical([method, path, body_values])
    return hashlib.sha256(request.encode("ascii")).hexdigest()[:32]


def escape_nul(text: str) -> str:
    """NUL as U+2400, its visible symbol (not every store keeps NUL). Use before ``cut_text``."""
    return text.replace("\0", "\u2400")


def cut_text(text: str, limit_bytes: int = TEXT_LIMIT, *, whole_bytes: int = 0) -> str:
    """The text in at most ``limit_bytes`` of UTF-8, a mark at its end if something is missing.

    A lone surrogate, which UTF-8 cannot carry, becomes ``?``. ``whole_bytes``: how long a text was
    of which this is the beginning, more than ``limit_bytes`` of it.
    """
    if text.isascii() and len(text) <= limit_bytes and not whole_bytes:
        return text
    encoded = text.encode("utf-8", "replace")
    size = whole_bytes or len(encoded)
    if size <= limit_bytes:
        return encoded.decode("utf-8")
    mark = f"… [cut from {size} bytes]".encode()
    mark = mark if len(mark) <= limit_bytes else b""
    kept = encoded[: limit_bytes - len(mark)].decode("utf-8", "ignore")
    return kept + mark.decode("utf-8")


def _token(token: str) -> str:
    """One token, escaped, printable as UTF-8, and cut where a name is too long to help anyone."""
    kept = token if len(token) <= _TOKEN_LIMIT else f"{token[:_TOKEN_LIMIT]}…"
    return _printable(kept.replace("~", "~0").replace("/", "~1"))


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _decode(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as fault:
        _refuse("", f"The body is not UTF-8: byte {fault.start} cannot be read.")


def _scan_usual(
    text: str, position: int, values: dict[str, Any], spans: dict[str, tuple[int, int]]
) -> int:
    """What ``_scan_members`` does, in half the time; 0 where there is a fault or an odd name."""
    try:
        while member := _USUAL_NAME.match(text, position):
            name, start = member[1], member.end()
            value, position = _SCAN(text, start)
            mark = _USUAL_MARK.match(text, position)
            if mark is None or name in values:
                return 0
            values[name], spans[name] = value, (start, position)
            position = mark.end()
            if mark[1] == "}":
                return position
    except (StopIteration, ValueError, _Refused):
        pass  # the other one says what is wrong, and where
    return 0


def _scan_members(
    text: str, position: int, values: dict[str, Any], spans: dict[str, tuple[int, int]]
) -> int:
    """Read ``"name": value, …}`` from behind the brace; the end of the object.

    The members are walked here, and not by the scanner, to learn where each value begins and ends.
    """
    name = None
    try:
        position, mark = _next(text, position)
        if mark == "}":
            return position + 1
        while True:
            name = None
            if mark != '"':
                _refuse_at(text, position, "The name of a member in double quotes must come")
            name, position = scanstring(text, position + 1)
            if name in values:
                _refuse(pointer_to(name), f"The name {shown(name)} appears twice in the object.")
            position, mark = _next(text, position)
            if mark != ":":
                _refuse_at(text, position, "A ':' must follow the name of a member", name)
            start, _ = _next(text, position + 1)
            values[name], position = _SCAN(text, start)
            spans[name] = (start, position)
            position, mark = _next(text, position)
            if mark == "}":
                return position + 1
            if mark != ",":
                _refuse_at(text, position, "A ',' or '}' must follow the value", name)
            position, mark = _next(text, position + 1)
    except (StopIteration, ValueError, _Refused) as fault:
        _refuse_value(text, fault, name)


def _next(text: str, position: int) -> tuple[int, str]:
    """The next character that is no space, and where it stands; "" at the end."""
    mark = text[position : position + 1]
    if mark in _SPACES:
        position = _SPACE.match(text, position).end()  # type: ignore[union-attr]  # always matches
        mark = text[position : position + 1]
    return position, mark


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Refused(f"The name {shown(name)} appears twice in one object.")
            seen.add(name)
    return values


def _finite(token: str) -> float:
    number = float(token)
    if isinf(number):
        raise _Refused(f"The number {shown(token)} is too large for a double.")
    return number


def _constant(token: str) -> NoReturn:
    raise _Refused(f"{token} is not JSON; send null or a number.")


_DECODER = JSONDecoder(object_pairs_hook=_pairs, parse_float=_finite, parse_constant=_constant)
_SCAN = _DECODER.scan_once  # type: ignore[attr-defined]  # missing in the stubs
_ENCODER = JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def _check_depth(body: bytes, text: str) -> None:
    """Refuse deep nesting before the scanner, which recurses, can meet it."""
    brackets = _STRING_BYTES.sub(b"", body).translate(None, _NOT_BRACKETS)
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) <= MAX_DEPTH:
        return
    depth = 0
    for match in _BRACKET.finditer(text):
        if match[0][0] != '"':
            depth += 1 if match[1] else -1
        if depth > MAX_DEPTH:
            _refuse_at(text, match.start(), f"The body is nested more than {MAX_DEPTH} deep")


def _check_surrogates(text: str, spans: dict[str, tuple[int, int]]) -> None:
    for match in _ESCAPE.finditer(text):
        if match["lone"]:
            position = match.start()
            name = next(name for name, (_, end) in spans.items() if position < end)
            _refuse_at(
                text, position, f"\\{match['lone']} is a lone surrogate and no character", name
            )


def _refuse_no_object(text: str, mark: str) -> NoReturn:
    if text.startswith("\ufeff"):
        _refuse("", "The body begins with a byte order mark; send plain UTF-8 without one.")
    if not mark:
        _refuse("", "The body is empty; send a JSON object.")
    _refuse("", "The body is not a JSON object; its first character must be '{'.")


def _refuse_value(text: str, fault: Exception, name: str | None) -> NoReturn:
    pointer = "" if name is None else pointer_to(name)
    if isinstance(fault, StopIteration):
        _refuse_at(text, fault.value, "A JSON value must come", name)
    if isinstance(fault, JSONDecodeError):
        _refuse_at(text, fault.pos, fault.msg.removesuffix(" at").removesuffix(" starting"), name)
    if isinstance(fault, _Refused):
        _refuse(pointer, str(fault))
    _refuse(pointer, "An integer has more digits than can be read; send it as a string.")


def _refuse_at(text: str, position: int, message: str, name: str | None = None) -> NoReturn:
    _refuse("" if name is None else pointer_to(name), f"{message}, at {_place(text, position)}.")


def _place(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"line {line} column {position - text.rfind(chr(10), 0, position)}"


def _refuse(pointer: str, message: str) -> NoReturn:
    raise ValidationFailed(message, errors=(FieldError(pointer, message),))
