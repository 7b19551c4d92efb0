"""Payloads against the JSON Schema (2020-12) of their job, in bounded time and memory.

Nothing outside the schema is ever fetched. ``format`` is an annotation and refuses nothing, as
2020-12 has it; ``$schema`` is not followed. A pattern runs in linear time or, where it looks
around or refers back, under a limit on backtracking; beyond that it does not match.

A schema whose references multiply (a few hundred bytes can ask for 2^99 steps) is *guarded*: each
reference takes steps from an allowance. And to explain a fault may
cost far more than to find it, so faults are listed in full for small payloads only.
"""

from __future__ import annotations

import json
import math
import threading
from functools import partial
from itertools import islice
from typing import Any, NoReturn, Self
from urllib.parse import unquote

import jsonschema_rs

from jobroom.domain.costs import Ceiling, Estimate, burden, weight_in_memory
from jobroom.domain.jsontext import pointer_to, shown
from jobroom.domain.schemas import REFERENCES, rebuild, references, subschemas, weigh
from jobroom.errors import FieldError, PayloadInvalid, ValidationFailed

MAX_ERRORS = 20
MAX_MESSAGE = 300
MAX_SUBSCHEMAS = 30_000
MAX_PATTERNS = 3_000
MAX_VALUES = 20_000

_UNGUARDED_WEIGHT = 1_000
_EXPLAINED_SIZE = 10_000
_STEPS = 10_000
_MAX_STEPS = 400_000
_BUDGET = 300e6
_BACKTRACKING_BUDGET = 200e6
_LEAST_BACKTRACKING = 20
_BACKTRACKING = 100_000
_PATTERN_BYTES = 10 * 1024 * 1024
_ALL_PATTERN_BYTES = 64 * 1024 * 1024

_LIMITS = (MAX_SUBSCHEMAS, MAX_PATTERNS, MAX_VALUES)
_COUNTED = ("subschemas", "patterns", "values in enum, const and required")
_STEP = "x-jobroom-step"
_ALTERNATIVES = ("anyOf", "oneOf")
_TOO_MANY_STEPS = "It takes too many steps to check; make the payload or the schema simpler."
_TYPES = "array, boolean, integer, null, number, object, string"


def check_schema(schema: Any, *, at: str = "") -> None:
    """Raise ``ValidationFailed`` unless it can check payloads; ``at`` is put before pointers."""
    if not isinstance(schema, dict):
        _refuse_schema(FieldError(at, "A schema must be a JSON object."))
    for limit, found, what in zip(_LIMITS, burden(schema), _COUNTED, strict=True):
        if found > limit:
            message = f"It has {found} {what}, which is too large: at most {limit} are allowed."
            _refuse_schema(FieldError(at, message))
    try:
        _compile(schema, _Steps())
    except jsonschema_rs.ValidationError as fault:
        named = _schema_fault(schema, fault)
        _refuse_schema(FieldError(at + named.pointer, named.message))
    PayloadCheck(schema)


def compile_schema(text: str) -> PayloadCheck:
    """The check of a stored schema, which ``check_schema`` let in once."""
    try:
        return PayloadCheck(json.loads(text))
    except ValueError:
        _refuse_schema(FieldError("", "The stored schema of the job is damaged; register it anew."))


class PayloadCheck:
    """One compiled schema; threads may share it."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._weight = weigh(schema)
        self._is_guarded = self._weight > _UNGUARDED_WEIGHT
        self._steps = _Steps()
        built = _guarded(schema) if self._is_guarded else schema
        self._built = built
        self._validator = _compile(built, self._steps)
        self._estimate = Estimate(schema)
        self._ceiling = Ceiling(schema, self._weight)
        self._estimating = threading.Lock()
        self._terse: jsonschema_rs.Validator | None = None
        self._limited: dict[int, jsonschema_rs.Validator] = {}

    def weigh_in_memory(self, characters: int) -> int:
        """About how many bytes it takes, for a schema whose text has so many characters."""
        return weight_in_memory(self._schema, characters)

    def check(self, payload: Any, *, characters: float = math.inf, at: str = "") -> None:
        """Raise ``PayloadInvalid`` unless it fits; ``at`` is put before each pointer.

        ``characters`` is how long its text is, where that is known: it spares an estimate.
        """
        validator, backtracking = self._affordable(payload, characters, at)
        if self._is_guarded:
            self._check_guarded(validator, payload, at, backtracking)
        elif not validator.is_valid(payload):
            size = _size(payload, limit=_EXPLAINED_SIZE)
            if size * self._weight > _EXPLAINED_SIZE:
                _refuse_payload([self._first_fault(payload, at, _STEPS, backtracking)])
            faults = islice(validator.iter_errors(payload), MAX_ERRORS)
            _refuse_payload([_payload_fault(fault, at) for fault in faults])

    def _affordable(
        self, payload: Any, characters: float, at: str
    ) -> tuple[jsonschema_rs.Validator, int]:
        """A validator that ends in time, and its limit on backtracking; or refuse the payload."""
        if self._ceiling.of(characters) <= _BUDGET:
            return self._validator, _BACKTRACKING
        with self._estimating:
            price = self._estimate.price(payload, _BUDGET)
        if price is None:
            _refuse_payload([FieldError(at, _TOO_MANY_STEPS)])
        step = 100 * price.backtracking_texts + 4 * price.backtracking_characters
        if step * _BACKTRACKING <= _BACKTRACKING_BUDGET:
            return self._validator, _BACKTRACKING
        limit = int(_BACKTRACKING_BUDGET / step)
        if limit < _LEAST_BACKTRACKING:
            _refuse_payload([FieldError(at, _TOO_MANY_STEPS)])
        # To compile may take a second: one for each power of two, and the last one is kept.
        limit = 1 << (limit.bit_length() - 1)
        validator = self._limited.get(limit)
        if validator is None:
            validator = _compile(self._built, self._steps, limit)
            self._limited = {limit: validator}
        return validator, limit

    def _check_guarded(
        self, validator: jsonschema_rs.Validator, payload: Any, at: str, backtracking: int
    ) -> None:
        is_valid, allowance = self._try(validator, payload, _STEPS)
        if is_valid is None:
            is_valid, allowance = self._try(validator, payload, _MAX_STEPS)
        if is_valid is None:
            _refuse_payload([FieldError(at, _TOO_MANY_STEPS)])
        if not is_valid:
            _refuse_payload([self._first_fault(payload, at, allowance, backtracking)])

    def _try(
        self, validator: jsonschema_rs.Validator, payload: Any, allowance: int
    ) -> tuple[bool | None, int]:
        """Whether it fits, None where the allowance was too small to tell; and the allowance."""
        with self._steps.allowing(allowance) as steps:
            is_valid = validator.is_valid(payload)
            return None if steps.are_spent else is_valid, allowance

    def _first_fault(self, payload: Any, at: str, allowance: int, backtracking: int) -> FieldError:
        """One fault, by a schema whose alternatives do not collect the faults inside them."""
        with self._steps.allowing(allowance) as steps:
            try:
                self._compiled_terse(steps, backtracking).validate(payload)
            except jsonschema_rs.ValidationError as fault:
                if fault.kind.name not in REFERENCES and not steps.are_spent:
                    return _payload_fault(fault, at)
        return FieldError(at, "It does not fit the schema.")

    def _compiled_terse(self, steps: _Steps, backtracking: int) -> jsonschema_rs.Validator:
        if backtracking != _BACKTRACKING:
            return _compile(_guarded(self._schema, is_terse=True), steps, backtracking)
        if self._terse is None:
            self._terse = _compile(_guarded(self._schema, is_terse=True), steps, backtracking)
        return self._terse


class SchemaCache:
    """The compiled schemas of the jobs in use, bounded by number and by weight in memory."""

    def __init__(self, limit: int = 1024, limit_bytes: int = 40 * 1024 * 1024) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._kept: dict[tuple[int, int], tuple[PayloadCheck, int]] = {}
        self._lock = threading.Lock()

    def get(self, job_seq: int, schema_version: int, text: str) -> PayloadCheck:
        """The check of that version of the job's schema, compiled from ``text`` if need be."""
        key = (job_seq, schema_version)
        kept = self._kept.get(key)
        if kept is not None:
            return kept[0]
        check = compile_schema(text)
        with self._lock:
            if key not in self._kept:
                weight = check.weigh_in_memory(len(text))
                self._kept[key] = (check, weight)
                self._bytes += weight
                self._drop_oldest()
        return check

    def _drop_oldest(self) -> None:
        while len(self._kept) > 1 and (
            len(self._kept) > self._limit or self._bytes > self._limit_bytes
        ):
            _, weight = self._kept.pop(next(iter(self._kept)))
            self._bytes -= weight


class _Steps:
    """What a guarded check may still spend; as a custom keyword, each reference takes one."""

    def __init__(self) -> None:
        self._left = 0
        self._sizes: dict[int, int] = {}
        self._lock = threading.Lock()

    @property
    def are_spent(self) -> bool:
        return self._left < 0

    def allowing(self, steps: int) -> Self:
        self._lock.acquire()
        self._left = steps
        self._sizes = {}
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sizes = {}
        self._lock.release()

    def keyword(self, *_: object) -> Self:
        return self

    def validate(self, value: object) -> None:
        self._left -= 1 + (self._size_of(value) // 16 if isinstance(value, list | dict) else 0)
        if self._left < 0:
            raise ValueError

    def _size_of(self, value: object) -> int:
        if not isinstance(value, list | dict):
            return 1
        size = self._sizes.get(id(value))
        if size is None:
            inner = value.values() if isinstance(value, dict) else value
            size = self._sizes[id(value)] = 1 + sum(map(self._size_of, inner))
        return size


def _compile(
    schema: dict[str, Any], steps: _Steps, backtracking: int = _BACKTRACKING
) -> jsonschema_rs.Validator:
    each = _ALL_PATTERN_BYTES // max(1, _count_patterns(schema))
    return jsonschema_rs.Draft202012Validator(
        schema,
        validate_formats=False,
        retriever=_refuse_reference,
        pattern_options=jsonschema_rs.FancyRegexOptions(
            backtrack_limit=backtracking, size_limit=min(each, _PATTERN_BYTES)
        ),
        keywords={_STEP: steps.keyword},  # type: ignore[dict-item]  # it only needs to be callable
    )


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(uri)


def _count_patterns(schema: Any) -> int:
    if not isinstance(schema, dict):
        return 0
    own = ("pattern" in schema) + len(schema.get("patternProperties") or ())
    return own + sum(_count_patterns(inner) for _, inner in subschemas(schema))


def _guarded(schema: Any, *, is_terse: bool = False) -> Any:
    """The same schema with a step before each reference; terse, alternatives keep their faults."""
    if not isinstance(schema, dict):
        return schema
    built = rebuild(schema, partial(_guarded, is_terse=is_terse))
    extra: list[Any] = [
        {"if": {_STEP: True}, "then": {keyword: built.pop(keyword)}, "else": False}
        for keyword in REFERENCES
        if keyword in built
    ]
    if is_terse:
        forms = {keyword: built.pop(keyword) for keyword in _ALTERNATIVES if keyword in built}
        extra.append({"if": forms, "else": False})
    return built | {"allOf": [*built.get("allOf", ()), *extra]} if extra else built


def _size(payload: Any, *, limit: float) -> int:
    """How many values it holds, long texts counted as several; not counted on beyond ``limit``."""
    size = 0
    waiting = [payload]
    while waiting and size <= limit:
        value = waiting.pop()
        size += 1
        if isinstance(value, str):
            size += len(value) // 100
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value)
            waiting.extend(value.values())
    return size


def _payload_fault(fault: jsonschema_rs.ValidationError, at: str) -> FieldError:
    message = fault.message
    if fault.kind.name == "falseSchema":
        is_form = fault.schema_path[-1:] == ["else"]
        message = "It fits none of the forms that are allowed." if is_form else "It is not allowed."
    elif isinstance(fault.kind, jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded):
        message = "To match it with the pattern takes too many steps."
    return FieldError(at + pointer_to(*fault.instance_path), _cut(message))


def _schema_fault(schema: dict[str, Any], fault: jsonschema_rs.ValidationError) -> FieldError:
    path = fault.instance_path
    if fault.kind.name == "$ref":
        return _reference_fault(schema, fault.message)
    if path and path[-1] == "type":
        return FieldError(pointer_to(*path), f"A type must be one or a list of {_TYPES}.")
    if fault.message.endswith('is not a "regex"'):
        message = "The pattern is not a regular expression that can be run, or is too large."
        return FieldError(pointer_to(*path), message)
    return FieldError(pointer_to(*path), _cut(fault.message))


def _reference_fault(schema: dict[str, Any], message: str) -> FieldError:
    """The place of a reference that cannot be followed: the validator names only its target."""
    for path, keyword, uri in references(schema):
        fragment = uri.partition("#")[2]
        names = (f"'{fragment}'", f"'{unquote(fragment)}'") if fragment else ()
        if uri in message or any(name in message for name in names):
            found = f"{shown(uri)} is not found in the schema; references out of it are refused."
            return FieldError(pointer_to(*path, keyword), found)
    return FieldError("", _cut(message))


def _cut(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 1]}…"


def _refuse_schema(fault: FieldError) -> NoReturn:
    place = f" at {fault.pointer}" if fault.pointer else ""
    raise ValidationFailed(f"The schema cannot be used{place}: {fault.message}", errors=(fault,))


def _refuse_payload(faults: list[FieldError]) -> NoReturn:
    places = ", ".join(dict.fromkeys(fault.pointer or "the top" for fault in faults[:3]))
    message = f"The payload does not fit the job's schema, at {places}; errors says why."
    raise PayloadInvalid(message, errors=tuple(faults))
