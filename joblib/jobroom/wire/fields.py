"""The types of single members: their bounds, and how a text becomes a value."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from jobroom.domain import names, timetext
from jobroom.domain.logtext import LARGEST_OFFSET

MAX_SECONDS = 10 * 366 * 24 * 3600
MAX_INTEGER = 2**31 - 1
LONGEST_LABEL = 255


def _as_integer(value: object) -> object:
    """``1.0`` is the integer 1 in JSON Schema, so it is one here; ``1.5`` is left to be refused."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parse_time(value: object) -> int:
    try:
        if isinstance(value, str):
            return timetext.parse_time(value)
    except ValueError:
        pass
    raise ValueError("must be an RFC 3339 time with an offset, such as 2030-01-31T12:00:00Z")


def _parse_id(value: object) -> str:
    found = names.parse_task_id(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a UUID, such as 01890a5d-ac96-774b-bcce-b302099a8057")
    return found


# A control character has no use in an id or a label, and a NUL cannot be stored everywhere.
Label = Annotated[
    str, Field(min_length=1, max_length=LONGEST_LABEL, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")
]
WorkerId = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
# The service judges names and gives them their own problem types; the lengths are for readers.
Name = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": 255})]
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]
Delay = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Priority = Annotated[int, Field(ge=-(2**31), le=MAX_INTEGER), BeforeValidator(_as_integer)]
Attempts = Annotated[int, Field(ge=1, le=1000), BeforeValidator(_as_integer)]
Attempt = Annotated[int, Field(ge=0, le=MAX_INTEGER), BeforeValidator(_as_integer)]
Offset = Annotated[int, Field(ge=0, le=LARGEST_OFFSET), BeforeValidator(_as_integer)]
Limit = Annotated[int, Field(ge=1, le=100), BeforeValidator(_as_integer)]
Microseconds = Annotated[
    int,
    BeforeValidator(_parse_time),
    PlainSerializer(timetext.format_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
TaskId = Annotated[
    str, BeforeValidator(_parse_id), WithJsonSchema({"type": "string", "format": "uuid"})
]
