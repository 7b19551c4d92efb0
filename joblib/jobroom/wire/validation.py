"""From decoded JSON to a request, or to the list of its faults."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from jobroom.domain.jsontext import pointer_to
from jobroom.errors import FieldError, ValidationFailed

MAX_ERRORS = 20

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], values: object) -> Model:
    """Read decoded JSON as ``model``.

    Raises ``ValidationFailed`` with a JSON Pointer for each fault; nothing of the input is in it.

    >>> from jobroom.wire import ClaimTasks
    >>> validate(ClaimTasks, {"limit": 3}).limit
    3
    """
    try:
        return model.model_validate(values)
    except ValidationError as fault:
        found = fault.errors(include_url=False, include_input=False)
    errors = tuple(_field_error(entry) for entry in found[:MAX_ERRORS])
    more = f" ({len(found)} faults in all)" if len(found) > 1 else ""
    place = errors[0].pointer or "the body"
    raise ValidationFailed(
        f"The body does not fit the contract: {place} {errors[0].message}{more}.", errors=errors
    )


def _field_error(entry: ErrorDetails) -> FieldError:
    return FieldError(pointer_to(*entry["loc"]), _message(entry))


_MESSAGES = {
    "missing": "is required",
    "model_type": "must be a JSON object",
    "dict_type": "must be a JSON object",
    "value_error": "{error}",
    "too_long": "must have at most {max_length:,} items",
    "too_short": "must have at least {min_length} of them",
    "string_pattern_mismatch": "must hold no control character",
}


def _message(entry: ErrorDetails) -> str:
    """Pydantic's words for an author of Python, as words for a client."""
    known = _MESSAGES.get(entry["type"])
    if known is not None:
        return known.format(**entry.get("ctx", {}))
    return entry["msg"].replace("Input should", "must", 1).replace("String should", "must", 1)
