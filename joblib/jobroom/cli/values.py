"""What is typed for one field, turned into the value that the job's schema asks for."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from jobroom.domain.schemas import target_of

INTEGER = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
KINDS = ("integer", "number", "boolean", "array", "object", "string", "null")
"""In the order in which they are tried: the stricter ones first, text where nothing else fits."""
A_KIND = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean (true or false)",
    "array": "a list (write it as JSON: [1, 2])",
    "object": "an object (write it as JSON, or its fields as a.b=1)",
    "string": "a text",
    "null": "null",
}
MOST_DEPTH = 30
LISTS = ("anyOf", "oneOf", "allOf", "enum")


class NotConvertible(ValueError):
    """The text is nothing that the schema takes; the message goes on ``is not ...``."""


def resolve(schema: Any, root: Any) -> dict[str, Any]:
    """Follow references; what is no schema object, or no keyword's value, allows anything."""
    for _ in range(MOST_DEPTH):
        if not isinstance(schema, dict):
            return {}
        if not isinstance(schema.get("$ref"), str):
            return {key: value for key, value in schema.items() if _is_readable(key, value)}
        found = target_of(root, schema["$ref"])
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**found, **beside} if isinstance(found, dict) and found is not root else {}
    return {}


def _is_readable(keyword: str, value: Any) -> bool:
    if keyword == "required":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return keyword not in LISTS or isinstance(value, list)


def alternatives(schema: Any, root: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the plain schemas one of which a value must fit, references followed."""
    plain = resolve(schema, root)
    found = [one for key in ("anyOf", "oneOf") for one in plain.get(key, ())]
    if depth > MOST_DEPTH or not found:
        yield _with_all(plain, root)
        return
    for one in found:
        yield from alternatives(one, root, depth + 1)


def kinds_of(schema: dict[str, Any]) -> tuple[str, ...]:
    """Return the types that a plain schema allows; none if it does not say."""
    said = schema.get("type")
    if isinstance(said, str):
        return (said,)
    if isinstance(said, list):
        return tuple(str(one) for one in said)
    if "properties" in schema:
        return ("object",)
    return ("array",) if "items" in schema or "prefixItems" in schema else ()


def convert(text: str, schema: Any, root: Any) -> Any:
    """Return the value; ``NotConvertible`` says what it is not."""
    plain = list(alternatives(schema, root))
    choices = [choice for one in plain for choice in _choices(one)]
    for choice in choices:
        if text == (choice if isinstance(choice, str) else json.dumps(choice)):
            return choice
    open_ones = [one for one in plain if not _choices(one)]
    if choices and not open_ones:
        shown = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
        raise NotConvertible(f"is none of {shown}")
    if any(not kinds_of(one) for one in open_ones):
        return _anything(text)
    wanted = {kind: one for one in reversed(open_ones) for kind in kinds_of(one)}
    for kind in KINDS:
        if kind in wanted:
            with contextlib.suppress(NotConvertible):
                return READERS[kind](text)
    if "array" in wanted and not text.lstrip().startswith("["):
        return [convert(text, wanted["array"].get("items", {}), root)]
    named = [A_KIND[kind] for kind in KINDS if kind in wanted]
    raise NotConvertible(f"is not {' or '.join(named)}")


def is_text(schema: Any, root: Any) -> bool:
    """Whether a text is taken as it is."""
    return any("string" in kinds_of(one) for one in alternatives(schema, root))


def _with_all(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """Return the schema with what ``allOf`` adds, as pydantic writes a field with a default."""
    merged = schema
    for one in schema.get("allOf", ()):
        merged = {**resolve(one, root), **merged}
    return merged


def _choices(schema: dict[str, Any]) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    found = schema.get("enum", [])
    return found if isinstance(found, list) else []


def _anything(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text


def _no_number(name: str) -> None:
    raise ValueError(name)


def _boolean(text: str) -> bool:
    try:
        return BOOLEANS[text.strip().lower()]
    except KeyError:
        raise NotConvertible from None


def _null(text: str) -> None:
    if text.strip() != "null":
        raise NotConvertible


def _list(text: str) -> Any:
    return _json_of(text, list)


def _object(text: str) -> Any:
    return _json_of(text, dict)


def _json_of(text: str, expected: type) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise NotConvertible from None
    if not isinstance(found, expected):
        raise NotConvertible
    return found


def _number(text: str) -> int | float:
    plain = text.strip()
    if INTEGER.fullmatch(plain):
        return _digits(plain)
    if NUMBER.fullmatch(plain) and math.isfinite(found := float(plain)):
        return found
    raise NotConvertible


def _integer(text: str) -> int:
    """Read an integer, also one that is written with a fraction or an exponent: 90.0, 1e3."""
    plain = text.strip()
    if INTEGER.fullmatch(plain):
        return _digits(plain)
    if NUMBER.fullmatch(plain) and math.isfinite(float(plain)):
        exact = Decimal(plain)
        if exact == exact.to_integral_value():
            return int(exact)
    raise NotConvertible


def _digits(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # more digits than Python reads
        raise NotConvertible from None


READERS: dict[str, Callable[[str], Any]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "array": _list,
    "object": _object,
    "string": str,
    "null": _null,
}
