"""A job's schema as a table of the fields that ``submit`` takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobroom.cli import printing, values

HEADS = ("FIELD", "TYPE", "DEFAULT", "DESCRIPTION")
MOST_DEPTH = 4


def rows(schema: Any) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, default (or ``required``) and description; nested ones as ``a.b``."""
    return _rows(schema, schema, "", 0)


def type_of(schema: Any, root: Any) -> str:
    """Return the type of a field in words.

    >>> type_of({"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]}, {})
    'list of number or null'
    """
    found: list[str] = []
    for one in values.alternatives(schema, root):
        found += [word for word in _words(one, root) if word not in found]
    return " or ".join(found)


def _rows(schema: Any, root: Any, before: str, depth: int) -> Iterator[tuple[str, str, str, str]]:
    for plain in values.alternatives(schema, root):
        required = plain.get("required", ())
        properties = plain.get("properties")
        for name, field in (properties if isinstance(properties, dict) else {}).items():
            known = values.resolve(field, root)
            said = known.get("description")
            yield (
                f"{before}{name}",
                type_of(field, root),
                _default(known, required=name in required),
                said if isinstance(said, str) else "",
            )
            if depth < MOST_DEPTH:
                yield from _rows(field, root, f"{before}{name}.", depth + 1)


def _default(field: dict[str, Any], *, required: bool) -> str:
    if required:
        return "required"
    return printing.short(field["default"], 24) if "default" in field else ""


def _words(schema: dict[str, Any], root: Any) -> list[str]:
    if "const" in schema:
        return [printing.short(schema["const"], 24)]
    if isinstance(choices := schema.get("enum"), list):
        return [printing.short(choice, 24) for choice in choices]
    return [_word(kind, schema, root) for kind in values.kinds_of(schema)] or ["anything"]


def _word(kind: str, schema: dict[str, Any], root: Any) -> str:
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"list of {type_of(schema['items'], root)}"
    limits = [
        f"{sign} {schema[key]}"
        for key, sign in (
            ("minimum", ">="),
            ("exclusiveMinimum", ">"),
            ("maximum", "<="),
            ("exclusiveMaximum", "<"),
        )
        if key in schema
    ]
    names = {"array": "list", "string": "text"}
    return " ".join([names.get(kind, kind), *limits])
