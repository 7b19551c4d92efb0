"""The payload of a submission, built from what is typed after the job's name."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobroom.cli import exits, values
from jobroom.domain.jsontext import parse_object, pointer_to
from jobroom.errors import FieldError, PayloadInvalid, ValidationFailed

MISSING = "is missing"
TWICE = "is given twice"
COMBINING = ("allOf", "if", "dependentSchemas", "patternProperties")


@dataclass(frozen=True, slots=True)
class Assignment:
    """``name=text``, or ``name:=json`` (``is_json``)."""

    name: str
    text: str
    is_json: bool


def payload_of(typed: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload; ``PayloadInvalid`` names each field that cannot be read.

    ``@file`` and ``-`` (stdin) are whole payloads, as is JSON text that begins with ``{``; fields
    named after one change it.
    """
    payload: dict[str, Any] = {}
    faults: list[FieldError] = []
    given: set[tuple[str, ...]] = set()
    for word in typed:
        whole = _whole_payload(word)
        if whole is not None:
            twice = sorted({path[0] for path in given} & whole.keys())
            faults += [FieldError(pointer_to(name), TWICE) for name in twice]
            payload |= whole
            continue
        assignment = _assignment(word)
        try:
            _assign(payload, assignment, schema, given)
        except values.NotConvertible as fault:
            path = _path_of(assignment.name, schema)[0]
            faults.append(FieldError(pointer_to(*path), str(fault)))
    if faults:
        _refuse(faults)
    return payload


def check(payload: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raise ``PayloadInvalid`` for required fields that are missing, and for unknown ones.

    A schema that says nothing of further fields takes them, and the worker ignores them: one
    that was mistyped would be lost without a word. Only what the schema allows is taken here.
    """
    faults = list(_faults(payload, schema, schema, ()))
    if faults:
        _refuse(faults)


def alike(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a mistyped one is like."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)), None)


def _refuse(faults: Sequence[FieldError]) -> None:
    count = "one field is" if len(faults) == 1 else f"{len(faults)} fields are"
    raise PayloadInvalid(
        f"Nothing was submitted: {count} not as the job's schema wants.", errors=tuple(faults)
    )


def _faults(
    payload: Mapping[str, Any], schema: Any, root: Any, path: tuple[str, ...]
) -> Iterator[FieldError]:
    plain = values.alternatives(schema, root)
    found = [one for one in plain if values.kinds_of(one) != ("null",)]
    if len(found) != 1 or not isinstance(found[0].get("properties"), dict):
        return
    known, further = found[0]["properties"], found[0].get("additionalProperties", False)
    for name in found[0].get("required", ()):
        if name not in payload:
            yield FieldError(pointer_to(*path, name), _missing(known.get(name), root))
    takes_more = further is not False or _is_combined(values.resolve(schema, root), found[0])
    for name, value in payload.items():
        if name not in known and not takes_more:
            meant = alike(name, [one for one in known if one not in payload])
            names = f"the fields are {', '.join(known) or 'none'}"
            hint = names if meant is None else f"did you mean {meant}?"
            yield FieldError(pointer_to(*path, name), f"is no field of this job; {hint}")
        elif isinstance(value, dict) and name in known:
            yield from _faults(value, known[name], root, (*path, name))


def _is_combined(schema: dict[str, Any], plain: dict[str, Any]) -> bool:
    """Whether other parts of the schema may name further fields."""
    if "properties" in schema and ("anyOf" in schema or "oneOf" in schema):
        return True
    return any(key in one for one in (schema, plain) for key in COMBINING)


def _missing(schema: Any, root: Any) -> str:
    said = values.resolve(schema, root).get("description")
    return f"{MISSING} ({said})" if isinstance(said, str) and said else MISSING


def _whole_payload(word: str) -> dict[str, Any] | None:
    if word == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise ValidationFailed("The payload is read from stdin: pipe it in, or name its file.")
        try:
            return _parsed(sys.stdin.buffer.read(), "stdin")
        except OSError as failure:
            why = failure.strerror or "it is not open for reading"
            raise ValidationFailed(f"stdin cannot be read: {why}.") from None
    if word.startswith("@"):
        return _parsed(_bytes_of(word[1:]), word[1:])
    return _parsed(word.encode(), "the payload") if word.lstrip().startswith("{") else None


def _parsed(body: bytes, where: str) -> dict[str, Any]:
    try:
        return dict(parse_object(body.strip()).values)
    except ValidationFailed as fault:
        places = (exits.place_of(one.pointer) for one in fault.errors)
        raise ValidationFailed(": ".join((where, *filter(None, places), str(fault)))) from None


def _bytes_of(name: str) -> bytes:
    try:
        return Path(name).expanduser().read_bytes()
    except OSError as failure:
        raise ValidationFailed(f"The file {name} cannot be read: {failure.strerror}.") from None


def _assignment(word: str) -> Assignment:
    name, sign, text = word.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not sign or not name:
        raise ValidationFailed(
            f"{word!r} is no field: write name=value, name:=JSON, name=@file, or @file.json for"
            " a whole payload."
        )
    return Assignment(name, text, is_json)


def _assign(
    payload: dict[str, Any],
    assignment: Assignment,
    schema: Mapping[str, Any],
    given: set[tuple[str, ...]],
) -> None:
    path, wanted = _path_of(assignment.name, schema)
    value = _value_of(assignment, wanted, schema)
    place = payload
    for name in path[:-1]:
        inner = place.setdefault(name, {})
        if not isinstance(inner, dict):
            raise values.NotConvertible("is in a field that is no object")
        place = inner
    # A list may be typed item by item: tags=a tags=b.
    if path in given and isinstance(value, list) and isinstance(place.get(path[-1]), list):
        value = [*place[path[-1]], *value]
    elif any(one[: len(path)] == path for one in given):
        raise values.NotConvertible(TWICE)
    place[path[-1]] = value
    given.add(path)


def _path_of(name: str, schema: Mapping[str, Any]) -> tuple[tuple[str, ...], Any]:
    """Return the path of a dotted name, and the schema there; a field may have dots of its own."""
    path: list[str] = []
    wanted: Any = schema
    rest = name
    while True:
        known = _properties(wanted, schema)
        if rest in known or "." not in rest:
            return (*path, rest), known.get(rest, _further(wanted, schema))
        head, _, rest = rest.partition(".")
        path.append(head)
        wanted = known.get(head, _further(wanted, schema))


def _properties(schema: Any, root: Any) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for one in values.alternatives(schema, root):
        found = one.get("properties")
        merged = {**found, **merged} if isinstance(found, dict) else merged
    return merged


def _further(schema: Any, root: Any) -> Any:
    """Return the schema of fields that are not named, as in a dictionary."""
    found = [one.get("additionalProperties") for one in values.alternatives(schema, root)]
    return next((one for one in found if isinstance(one, dict)), {})


def _value_of(assignment: Assignment, wanted: Any, root: Any) -> Any:
    if assignment.is_json:
        try:
            return json.loads(assignment.text)
        except (ValueError, RecursionError):
            raise values.NotConvertible(
                "is not JSON (after := comes JSON: a text is in quotes)"
            ) from None
    if not assignment.text.startswith("@"):
        return values.convert(assignment.text, wanted, root)
    try:
        text = _bytes_of(assignment.text[1:]).decode()
    except UnicodeDecodeError:
        raise ValidationFailed(f"The file {assignment.text[1:]} is no UTF-8 text.") from None
    # The end of the file's last line belongs to a text, and to nothing else.
    is_text = values.is_text(wanted, root)
    return text if is_text else values.convert(text.strip(), wanted, root)
