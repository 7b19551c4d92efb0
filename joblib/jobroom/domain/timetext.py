"""Times as text: RFC 3339 outside, integer microseconds since 1970 (UTC) inside."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import overload

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_RFC_3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?"
    r"(?:(?P<utc>[Zz])|(?P<sign>[+-])(?P<hours>[01]\d|2[0-3]):(?P<minutes>[0-5]\d))?",
    re.ASCII,
)
_LEAP_SECOND = 60


@overload
def format_time(us: None) -> None: ...
@overload
def format_time(us: int) -> str: ...
@overload
def format_time(us: int | None) -> str | None: ...
def format_time(us: int | None) -> str | None:
    """The time with microseconds and ``Z``; None stays None.

    >>> format_time(1)
    '1970-01-01T00:00:00.000001Z'
    """
    if us is None:
        return None
    seconds, rest = divmod(us, 1_000_000)
    return f"{_second_text(seconds)}.{rest:06d}Z"


def parse_time(text: str) -> int:
    """The microseconds of an RFC 3339 time, which must carry an offset; else ``ValueError``.

    Digits beyond microseconds are dropped. A leap second counts as the second after it.
    """
    found = _RFC_3339.fullmatch(text)
    if found is None:
        raise ValueError("This is not an RFC 3339 time such as 2026-11-29T13:37:12Z.")
    if not found["utc"] and not found["sign"]:
        raise ValueError("The time has no offset; add Z for UTC, or one such as +01:00.")
    try:
        return (_moment(found) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        raise ValueError("There is no such time between the years 1 and 9999 (UTC).") from None


@lru_cache(maxsize=1024)
def _second_text(seconds: int) -> str:
    """A page of tasks shares few seconds; the cache is bounded and safe between threads."""
    moment = _EPOCH + timedelta(seconds=seconds)
    return moment.replace(tzinfo=None).isoformat(timespec="seconds")


def _moment(found: re.Match[str]) -> datetime:
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    fraction = int((found[7] or "")[:6].ljust(6, "0"))
    is_leap = second == _LEAP_SECOND
    local = datetime(year, month, day, hour, minute, second - is_leap, fraction, tzinfo=UTC)
    moment = local - _offset(found)
    if not is_leap:
        return moment
    if (moment.hour, moment.minute) != (23, 59):
        raise ValueError("A leap second ends a day.")
    return moment + _SECOND


def _offset(found: re.Match[str]) -> timedelta:
    if found["utc"]:
        return timedelta()
    size = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"]))
    return -size if found["sign"] == "-" else size
