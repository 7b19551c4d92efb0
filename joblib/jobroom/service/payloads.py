"""Payloads against the JSON Schema (2020-12) of their job, in bounded time and memory.

Nothing outside the schema is ever fetched. ``format`` is an annotation and refuses nothing, as
2020-12 has it; ``$schema`` is not followed. A pattern runs in linear time or, where it looks
around or refers back, under a limit on backtracking; beyond that it does not match.

A schema whose references multiply (a few hundred bytes can ask for 2^99 steps) is *guarded*: each
reference takes steps from an allowance. What ``unevaluated…`` makes of levels and references is
counted before anything is compiled. And to explain a fault may cost far more than to find it, so
faults are listed in full for small payloads only.
"""

from __future__ import annotations

import json
import math
import threading
from itertools import islice
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

import jsonschema_rs

from jobroom.domain.costs import Ceiling, Estimate, burden, weight_in_memory
from jobroom.domain.jsontext import pointer_to, shown
from jobroom.domain.places import Places
from jobroom.domain.schemas import REFERENCES, references
from jobroom.domain.weights import UNEVALUATED, Weights
from jobroom.errors import FieldError, PayloadInvalid, ValidationFailed
from jobroom.service import steps

MAX_ERRORS = 20
MAX_MESSAGE = 300
MAX_SUBSCHEMAS = 30_000
MAX_PATTERNS = 3_000
MAX_VALUES = 20_000
MAX_COPIES = 2_000
MAX_REPEATS = 10_000

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
_REPEATS_IN_A_STEP = 32
_TOO_MANY_STEPS = "It takes too many steps to check; make the payload or the schema simpler."
_TOO_MANY_COPIES = (
    "Too many subschemas are repeated for it: levels and references below it multiply; use it"
    " at fewer levels, or additionalProperties and items."
)
_TYPES = "array, boolean, integer, null, number, object, string"


def check_schema(schema: Any, *, at: str = "") -> None:
    """Raise ``ValidationFailed`` unless it can check payloads; ``at`` is put before pointers."""
    if not isinstance(schema, dict):
        _refuse_schema(FieldError(at, "A schema must be a JSON object."))
    measured = _measure(Places(schema), at)
    try:
        if measured.weight > _UNGUARDED_WEIGHT:
            # A guarded schema has other places to tell of.
            plain = steps.without_drafts(measured.places)
            _compile(plain, steps.Steps(), measured.patterns)
        PayloadCheck(measured)
    except jsonschema_rs.ValidationError as fault:
        named = _schema_fault(schema, fault)
        _refuse_schema(FieldError(at + named.pointer, named.message))


def compile_schema(text: str) -> PayloadCheck:
    """The check of a stored schema, which ``check_schema`` let in, perhaps under other limits."""
    try:
        return _check_of(json.loads(text))
    except ValueError:
        _refuse_schema(FieldError("", "The stored schema of the job is damaged; register it anew."))


def _check_of(schema: Any) -> PayloadCheck:
    if not isinstance(schema, dict):
        raise ValueError(schema)  # noqa: TRY004  # as for any other text that is no schema
    return PayloadCheck(_measure(Places(schema)))


class PayloadCheck:
    """One compiled schema; threads may share it."""

    def __init__(self, measured: _Measured) -> None:
        self._measured = measured
        self._weight = measured.weight
        self._is_guarded = self._weight > _UNGUARDED_WEIGHT
        self._steps = steps.Steps()
        self._built = self._guarded() if self._is_guarded else steps.without_drafts(measured.places)
        self._validator = _compile(self._built, self._steps, measured.patterns)
        self._estimate = Estimate(measured.places, measured.excess)
        self._ceiling = Ceiling(measured.places, self._weight)
        self._estimating = threading.Lock()
        self._terse: jsonschema_rs.Validator | None = None
        self._limited: dict[int, jsonschema_rs.Validator] = {}

    def weigh_in_memory(self, characters: int) -> int:
        """About how many bytes it takes, for a schema whose text has so many characters."""
        return weight_in_memory(self._measured.places, self._measured.copies, characters)

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
            validator = _compile(self._built, self._steps, self._measured.patterns, limit)
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
        with self._steps.allowing(allowance) as spent:
            is_valid = validator.is_valid(payload)
            return None if spent.are_spent else is_valid, allowance

    def _first_fault(self, payload: Any, at: str, allowance: int, backtracking: int) -> FieldError:
        """One fault, by a schema whose alternatives do not collect the faults inside them."""
        with self._steps.allowing(allowance) as spent:
            try:
                self._compiled_terse(backtracking).validate(payload)
            except jsonschema_rs.ValidationError as fault:
                if fault.kind.name not in REFERENCES and not spent.are_spent:
                    return _payload_fault(fault, at)
        return FieldError(at, "It does not fit the schema.")

    def _compiled_terse(self, backtracking: int) -> jsonschema_rs.Validator:
        if self._terse is not None and backtracking == _BACKTRACKING:
            return self._terse
        built = self._guarded(is_terse=True)
        compiled = _compile(built, self._steps, self._measured.patterns, backtracking)
        if backtracking == _BACKTRACKING:
            self._terse = compiled
        return compiled

    def _guarded(self, *, is_terse: bool = False) -> Any:
        return steps.with_steps(self._measured.places, self._price, is_terse=is_terse)

    def _price(self, schema: dict[str, Any], keyword: str) -> int:
        """How many steps a reference takes: one, and more where levels of its target multiply."""
        found = self._measured.places.targets(schema, keyword) or ()
        return 1 + sum(
            int(self._measured.weights.excess(one)) // _REPEATS_IN_A_STEP for one in found
        )


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


class _Measured(NamedTuple):
    """What a schema asks for, within the limits."""

    places: Places
    weights: Weights
    weight: float
    excess: float
    copies: int
    patterns: int


def _measure(places: Places, at: str = "") -> _Measured:
    """What it asks for; refuse it where that is too much, or a reference leads nowhere."""
    burdens = burden(places)
    for limit, found, what in zip(_LIMITS, burdens, _COUNTED, strict=True):
        if found > limit:
            message = f"It has {found} {what}, which is too large: at most {limit} are allowed."
            _refuse_schema(FieldError(at, message))
    if places.unresolved is not None:
        schema, keyword = places.unresolved
        if isinstance(schema[keyword], str):
            pointer = at + pointer_to(*places.path_of(schema), keyword)
            _refuse_schema(FieldError(pointer, _not_found(schema[keyword])))
    weights = Weights(places)
    excess, costliest = weights.costliest()
    copies, largest = weights.unfold(MAX_COPIES + 2 * burdens[0])
    if excess > MAX_REPEATS + 4 * burdens[0]:
        largest = costliest
    if largest is not None:
        keyword = min(UNEVALUATED & largest.keys())
        pointer = at + pointer_to(*places.path_of(largest), keyword)
        _refuse_schema(FieldError(pointer, _TOO_MANY_COPIES))
    weight = weights.whole(places.root)
    return _Measured(places, weights, weight, excess, copies, burdens[1])


def _compile(
    schema: Any, taken: steps.Steps, patterns: int, backtracking: int = _BACKTRACKING
) -> jsonschema_rs.Validator:
    each = _ALL_PATTERN_BYTES // max(1, patterns)
    return jsonschema_rs.Draft202012Validator(
        schema,
        validate_formats=False,
        retriever=_refuse_reference,
        pattern_options=jsonschema_rs.FancyRegexOptions(
            backtrack_limit=backtracking, size_limit=min(each, _PATTERN_BYTES)
        ),
        # Only needs to be callable.
        keywords={steps.STEP: taken.keyword},  # type: ignore[dict-item]
    )


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(uri)


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
            return FieldError(pointer_to(*path, keyword), _not_found(uri))
    return FieldError("", _cut(message))


def _not_found(uri: str) -> str:
    return f"{shown(uri)} is not found in the schema; references out of it are refused."


def _cut(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 1]}…"


def _refuse_schema(fault: FieldError) -> NoReturn:
    place = f" at {fault.pointer}" if fault.pointer else ""
    raise ValidationFailed(f"The schema cannot be used{place}: {fault.message}", errors=(fault,))


def _refuse_payload(faults: list[FieldError]) -> NoReturn:
    places = ", ".join(dict.fromkeys(fault.pointer or "the top" for fault in faults[:3]))
    message = f"The payload does not fit the job's schema, at {places}; errors says why."
    raise PayloadInvalid(message, errors=tuple(faults))
