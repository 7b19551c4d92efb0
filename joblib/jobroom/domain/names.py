"""Names and ids: the one rule for rooms, categories and names, full names, and UUIDs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from jobroom.domain.jsontext import shown
from jobroom.errors import FieldError, InvalidCategory, InvalidRoomId, ValidationFailed

GLOBAL_ROOM = "@global"
LOCAL_ROOM = "@local"
"""The room of the embedded queue: no client registers, submits or claims in it."""
RESERVED_ROOMS = frozenset({"@internal", LOCAL_ROOM})
MAX_LENGTH = 255

# U+FFFD is what bytes that are no text become on their way here: two of them would be one name.
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffd/:@]")
_VARIANT = 1 << 63
_RANDOM_BITS = (1 << 62) - 1
_HEX = "[0-9a-f]"
_BARE_UUID = f"{_HEX}{{32}}|{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
_UUID = re.compile(
    rf"(?:urn:uuid:)?(?P<plain>{_BARE_UUID})|\{{(?P<braced>{_BARE_UUID})\}}",
    re.ASCII | re.IGNORECASE,
)


class FullName(NamedTuple):
    """A job's name everywhere: ``<room>:<category>:<name>``."""

    room_id: str
    category: str
    name: str


def check_room(room: str) -> None:
    """Raise ``InvalidRoomId`` unless this is a room that clients may keep jobs and tasks in."""
    if room == GLOBAL_ROOM:
        return
    if room in RESERVED_ROOMS:
        raise InvalidRoomId(f"The room {room} is reserved; use another room or {GLOBAL_ROOM}.")
    if fault := name_fault(room):
        raise InvalidRoomId(f"The room {shown(room)} {fault}.")


def check_category(category: str, allowed: Collection[str]) -> None:
    """Raise ``InvalidCategory`` unless it keeps the rule and is one of the allowed ones."""
    if fault := name_fault(category):
        _refuse_category(f"The category {shown(category)} {fault}.")
    if category not in allowed:
        choice = ", ".join(allowed) or "none is allowed by the settings"
        _refuse_category(f"The category {shown(category)} is not allowed here; use: {choice}.")


def check_name(name: str) -> None:
    """Raise ``ValidationFailed`` at ``/name`` unless it keeps the rule."""
    if fault := name_fault(name):
        message = f"The name {shown(name)} {fault}."
        raise ValidationFailed(message, errors=(FieldError("/name", message),))


def name_fault(text: str) -> str | None:
    """What breaks the rule for names, as the end of a sentence; None when nothing does."""
    if len(text) > MAX_LENGTH:
        return f"has {len(text)} characters; at most {MAX_LENGTH} are allowed"
    return _fault_of_short(text)


# Never of a long text: what is remembered is kept, and thousands of bodies would be.
@lru_cache(maxsize=4096)
def _fault_of_short(text: str) -> str | None:
    if not text:
        return "is empty; it needs at least one character"
    if found := _FORBIDDEN.search(text):
        return f"holds {found[0]!r}; control characters and / : @ are not allowed"
    if text in {".", ".."}:
        return "means a directory; choose another"
    if text[0].isspace() or text[-1].isspace():
        return "begins or ends with a space; remove it"
    return None


def parse_full_name(text: str) -> FullName | None:
    """The three parts; None when malformed, as no job can have such a name."""
    parts = text.split(":")
    if len(parts) != len(FullName._fields):
        return None
    room, category, name = parts
    has_good_room = room in (GLOBAL_ROOM, LOCAL_ROOM) or not name_fault(room)
    if not has_good_room or name_fault(category) or name_fault(name):
        return None
    return FullName(room, category, name)


def format_full_name(full_name: FullName) -> str:
    """The inverse of ``parse_full_name``."""
    return ":".join(full_name)


def parse_task_id(text: str) -> str | None:
    """Any usual spelling of a UUID as the stored one: lower case with hyphens; None if it is none.

    >>> parse_task_id("{0190163D-8694-739B-AEA5-966C26F8AD91}")
    '0190163d-8694-739b-aea5-966c26f8ad91'
    """
    found = _UUID.fullmatch(text)
    if found is None:
        return None
    digits = (found["plain"] or found["braced"]).replace("-", "").lower()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_uuid7() -> str:
    """A new UUID of version 7 (RFC 9562): milliseconds, their fraction, then random bits.

    Later ones sort after earlier ones as far as the host's clock tells them apart (244 ns).
    """
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    clock = milliseconds << 16 | 0x7000 | (rest << 12) // 1_000_000
    chance = int.from_bytes(os.urandom(8)) & _RANDOM_BITS | _VARIANT
    return _hyphened(clock << 64 | chance)


def nth_uuid7(first: str, n: int) -> str:
    """The UUID that stands ``n`` behind another of version 7: one is drawn, many are known by it.

    >>> nth_uuid7("0190163d-8694-739b-aea5-966c26f8ad91", 2)
    '0190163d-8694-739b-aea5-966c26f8ad93'
    """
    value = int(first.replace("-", ""), 16)
    return _hyphened(value & ~_RANDOM_BITS | (value + n) & _RANDOM_BITS)


def _hyphened(value: int) -> str:
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _refuse_category(message: str) -> None:
    raise InvalidCategory(message, errors=(FieldError("/category", message),))
