"""JSON Schemas as documents: where their subschemas are, and when two of them are equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from jobroom.domain.jsontext import canonical, pointer_to

HOLDS_SCHEMA = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
HOLDS_LIST = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
HOLDS_NAMED = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
DEFINITIONS = frozenset({"$defs", "definitions"})
REFERENCES = ("$ref", "$dynamicRef")
HOLDERS = HOLDS_SCHEMA | HOLDS_LIST | HOLDS_NAMED
DATA = frozenset(
    {"$vocabulary", "const", "default", "dependentRequired", "enum", "examples", "required", "type"}
)
UNORDERED = frozenset({"required", "type"})


def first_difference(a: Any, b: Any) -> str | None:
    """The JSON Pointer of the first place where two schemas differ; None when they are equal.

    Equality is JSON's: the order of keys never matters, ``1`` equals ``1.0``, ``true`` differs
    from ``1``; the order of the keywords ``required`` and ``type`` does not matter. "First" is by
    sorted keys, so it does not depend on the order in which a schema was written.
    """
    return _difference(_normal_schema(a), _normal_schema(b), "")


def schema_key(schema: Any) -> str:
    """One text for all schemas that are equal in the sense of ``first_difference``."""
    return canonical(_normal_schema(schema))


def subschemas(schema: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The schemas directly inside a schema, each with its path of keys and indexes."""
    for keyword, value in schema.items():
        if keyword in HOLDS_LIST and isinstance(value, list):
            yield from (((keyword, index), item) for index, item in enumerate(value))
        elif keyword in HOLDS_NAMED and isinstance(value, dict):
            yield from (((keyword, name), item) for name, item in value.items())
        elif keyword in HOLDS_SCHEMA:
            yield (keyword,), value


def containers(schema: dict[str, Any], *, all_of: bool = False) -> Iterator[tuple[str, Any]]:
    """The keywords whose values are no schemas but may hold some, for references to lead to.

    With ``all_of``, all of them: in a value of an unknown keyword, each name may be a keyword or
    merely a name.
    """
    for keyword, value in schema.items():
        is_sought = all_of or keyword not in DATA | HOLDERS
        if is_sought and isinstance(value, dict | list):
            yield keyword, value


def rebuild(
    schema: dict[str, Any],
    change: Callable[[Any], Any],
    other: Callable[[str, Any], Any] = lambda _, value: value,
) -> dict[str, Any]:
    """A copy with ``change`` made to each direct subschema and ``other`` to all other keywords."""
    return {keyword: _rebuilt(keyword, value, change, other) for keyword, value in schema.items()}


def references(
    schema: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Each URI in a schema that may have to be resolved: path of its schema, keyword, URI."""
    if isinstance(schema, dict):
        for keyword in ("$id", *REFERENCES):
            if isinstance(schema.get(keyword), str):
                yield path, keyword, schema[keyword]
        for step, inner in subschemas(schema):
            yield from references(inner, path + step)


def target_of(root: Any, reference: str) -> Any:
    """What a plain pointer refers to; the root for all others, and where it leads nowhere."""
    target: Any = root
    tokens = unquote(reference[2:]).split("/") if reference.startswith("#/") else []
    for token in tokens:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict) and name in target:
            target = target[name]
        elif isinstance(target, list) and name.isdecimal() and int(name) < len(target):
            target = target[int(name)]
        else:
            return root
    return target


def _rebuilt(
    keyword: str, value: Any, change: Callable[[Any], Any], other: Callable[[str, Any], Any]
) -> Any:
    if keyword in HOLDS_LIST and isinstance(value, list):
        return [change(item) for item in value]
    if keyword in HOLDS_NAMED and isinstance(value, dict):
        return {name: change(item) for name, item in value.items()}
    if keyword in HOLDS_SCHEMA:
        return change(value)
    return other(keyword, value)


def _normal_schema(schema: Any) -> Any:
    """The schema with equal things written alike; an unordered list becomes a sorted tuple."""
    if isinstance(schema, dict):
        return rebuild(schema, _normal_schema, _normal_keyword)
    return _normal(schema)


def _normal_keyword(keyword: str, value: Any) -> Any:
    is_list = keyword in UNORDERED and isinstance(value, list)
    if is_list and all(isinstance(item, str) for item in value):
        return tuple(sorted(value))
    return _normal(value)


def _normal(value: Any) -> Any:
    """A value whose floats without a fraction became integers, by their shortest decimal text.

    So ``1e23`` equals the integer that another program writes for it.
    """
    if isinstance(value, dict):
        return {name: _normal(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(Decimal(repr(value)))
    return value


def _difference(a: Any, b: Any, place: str) -> str | None:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted(a.keys() | b.keys()):
            here = place + pointer_to(name)
            if name not in a or name not in b:
                return here
            if (found := _difference(a[name], b[name], here)) is not None:
                return found
        return None
    if isinstance(a, list) and isinstance(b, list):
        for index, (left, right) in enumerate(zip(a, b, strict=False)):
            if (found := _difference(left, right, place + pointer_to(index))) is not None:
                return found
        return None if len(a) == len(b) else place + pointer_to(min(len(a), len(b)))
    return None if type(a) is type(b) and a == b else place
