"""When a schedule is due: five fields of cron in a time zone, or a fixed interval.

Times are reckoned from where they are asked for, never counted up one by one, so one that was
missed for years costs as much as one that was not. The part that knows calendars, APScheduler, is
imported when a schedule is put or due, not before: the cold start of a function counts.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from jobroom.domain import crontext
from jobroom.domain.jsontext import shown
from jobroom.domain.records import MICROSECONDS
from jobroom.errors import FieldError, NotFound, ValidationFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

    from jobroom.domain.records import Schedule

HORIZON = timedelta(days=3660)
"""What does not come within ten years never comes: a 29th of February is eight away at most."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND

_FIELDS = {
    "minute": "minute",
    "hour": "hour",
    "day": "day of the month",
    "month": "month",
    "day_of_week": "day of the week",
}
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_SUNDAY = 7
_DAYS_PART = re.compile(r"(?P<first>\*|[0-7]|[a-z]{3})(?:-(?P<last>[0-7]|[a-z]{3}))?(?:/(\d+))?")
_OF_THIS_HOST = ("localtime", "posixrules", "posix/", "right/")
"""What a host's folder of time zones holds beside those that have an IANA name."""


class Timing(NamedTuple):
    """What a schedule says of its times; ``since`` is when its intervals begin, if nothing else."""

    cron: str | None
    every_seconds: float | None
    timezone: str
    start_at: int | None
    end_at: int | None
    since: int

    @classmethod
    def of(cls, schedule: Schedule) -> Timing:
        """That of a stored schedule."""
        return cls(
            schedule.cron,
            schedule.every_seconds,
            schedule.timezone,
            schedule.start_at,
            schedule.end_at,
            schedule.created_at,
        )


def check(timing: Timing) -> None:
    """Raise ``ValidationFailed`` with the place of what cannot be read or can never be."""
    if not _is_zone(timing.timezone):
        message = f"{shown(timing.timezone)} is no IANA time zone, such as Europe/Berlin or UTC."
        raise _refused("/timezone", message)
    if timing.cron is not None:
        for fields in _alternatives(timing.cron):
            _check_fields(timing.cron, fields)
    start_at, end_at = timing.start_at, timing.end_at
    if start_at is not None and end_at is not None and end_at < start_at:
        raise _refused("/end_at", "The schedule would end before it starts; move end_at behind.")


def first_after(timing: Timing, at: int) -> int:
    """As ``next_after``; raises ``ValidationFailed`` where no time comes any more."""
    found = next_after(timing, at)
    if found is None and timing.end_at is not None:
        raise _refused("/end_at", "No time of the schedule comes before its end; move end_at.")
    if found is None:
        place = "/every_seconds" if timing.cron is None else "/cron"
        raise _refused(place, "No such time comes within ten years; name one that does.")
    return found


def next_after(timing: Timing, at: int) -> int | None:
    """The first time later than ``at``; None where none comes any more. The timing was checked."""
    found = _next_interval(timing, at) if timing.cron is None else _next_of_cron(timing, at)
    if found is None or found > _LAST or (timing.end_at is not None and found > timing.end_at):
        return None
    return found


def list_after(timing: Timing, at: int, count: int) -> Iterator[int]:
    """The next so many times later than ``at``, as far as there are so many."""
    for _ in range(count):
        found = next_after(timing, at)
        if found is None:
            return
        yield found
        at = found


def _next_interval(timing: Timing, at: int) -> int:
    step = max(1, round((timing.every_seconds or 0) * MICROSECONDS))
    first = timing.since + step if timing.start_at is None else timing.start_at
    return first if at < first else first + ((at - first) // step + 1) * step


def _next_of_cron(timing: Timing, at: int) -> int | None:
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(timing.timezone)
    begin = at if timing.start_at is None else max(at, timing.start_at - 1)
    fitting = _alternatives(timing.cron or "")
    found = [_next_of_fields(fields, zone, begin) for fields in fitting]
    return min((each for each in found if each is not None), default=None)


def _next_of_fields(fields: dict[str, str], zone: ZoneInfo, at: int) -> int | None:
    """By APScheduler, which is asked for what a clock shows that never jumps.

    (In a zone that jumps it steps by hours that pass, and goes past midnights.) Of local times
    that are jumped over the first alone; of one that comes twice the first alone, but an hour
    written as ``*`` is each hour that passes.
    """
    try:
        moment = (_EPOCH + at * _MICROSECOND).astimezone(zone)
        wall = moment.replace(tzinfo=UTC)
        trigger = _trigger(**fields, timezone=UTC, end_date=wall + HORIZON)
        day_before, day_after = (
            (moment.astimezone(UTC) + days).astimezone(zone) for days in (-_DAY, _DAY)
        )
        if _offset(day_before) != _offset(day_after):
            wall -= 2 * _DAY  # what a jump moves may be still to come
        late: int | None = None
        jumped: timedelta | None = None
        while (found := trigger.get_next_fire_time(None, wall + _MICROSECOND)) is not None:
            wall, local = found, found.replace(tzinfo=zone)
            found_at = _micros(local)
            is_missing = local.astimezone(UTC).astimezone(zone).replace(tzinfo=UTC) != wall
            if is_missing and jumped == _offset(local):
                continue
            if not is_missing and found_at > at:
                return found_at if late is None else min(late, found_at)
            jumped = _offset(local) if is_missing else jumped
            if not is_missing and fields["hour"] == "*":
                found_at = _micros(local.replace(fold=1))
            if found_at > at:
                late = found_at if late is None else min(late, found_at)
        return late
    except OverflowError:
        return None  # beyond the year 9999


def _offset(local: datetime) -> timedelta:
    return local.utcoffset() or timedelta(0)


def _micros(local: datetime) -> int:
    return (local.astimezone(UTC) - _EPOCH) // _MICROSECOND


def _trigger(**fields: Any) -> Any:
    try:
        from apscheduler.triggers.cron import CronTrigger
    except ImportError:
        message = (
            "This server has no calendar; it needs APScheduler: pip install 'jobroom[server]'."
        )
        raise NotFound(message) from None
    return CronTrigger(**fields)


def _alternatives(cron: str) -> list[dict[str, str]]:
    """The fields as APScheduler reads them, once for each way in which a day may fit.

    In cron a day fits that is named by its number or by its name, where both are restricted;
    and weekdays count from Sunday, while APScheduler's count from Monday.
    """
    texts = crontext.fields_of(cron)
    if not cron.isascii():
        raise _refused("/cron", f"The cron expression {shown(cron)} must be plain ASCII.")
    if len(texts) != len(_FIELDS):
        count = f"has {len(texts)} fields" if len(texts) != 1 else "has one field"
        message = (
            f"The cron expression {shown(cron)} {count}; write five: minute, hour, day of the"
            f" month, month, day of the week; or one of {', '.join(crontext.ALIASES)}."
        )
        raise _refused("/cron", message)
    fields = dict(zip(_FIELDS, texts, strict=True))
    try:
        weekdays = _weekdays(fields["day_of_week"].lower())
    except ValueError as fault:
        raise _bad_field(cron, "day_of_week", fields["day_of_week"], str(fault)) from None
    named = fields | {"day_of_week": weekdays}
    if fields["day"].startswith("*") or fields["day_of_week"].startswith("*"):
        return [named]
    return [fields | {"day_of_week": "*"}, named | {"day": "*"}]


def _weekdays(text: str) -> str:
    """Weekdays as cron counts them, as a list of names."""
    days: set[int] = set()
    for part in text.split(","):
        found = _DAYS_PART.fullmatch(part)
        if found is None:
            message = f"{part!r} is neither a day from 0 (Sunday) to 7 nor one from sun to sat"
            raise ValueError(message)
        first, last, step = _range_of_days(found)
        if last < first or step < 1:
            raise ValueError("a range must not end before it begins, and a step is at least 1")
        days.update(day % _SUNDAY for day in range(first, last + 1, step))
    return "*" if len(days) == len(_DAYS) else ",".join(_DAYS[day] for day in sorted(days))


def _range_of_days(found: re.Match[str]) -> tuple[int, int, int]:
    first, last, step = found[1], found[2], found[3]
    if first == "*":
        return 0, len(_DAYS) - 1, int(step or 1)
    begin = _day(first)
    if last is None:
        return begin, begin if step is None else len(_DAYS) - 1, int(step or 1)
    end = _day(last)
    # From Friday to Sunday: there the week's first day is its last.
    return begin, _SUNDAY if end == 0 < begin else end, int(step or 1)


def _day(text: str) -> int:
    if text.isdigit():
        return int(text)
    if text not in _DAYS:
        message = f"{text!r} is no day of the week; write one of {', '.join(_DAYS)}"
        raise ValueError(message)
    return _DAYS.index(text)


def _check_fields(cron: str, fields: dict[str, str]) -> None:
    """One field after the other, so that the one at fault can be named."""
    for name, text in fields.items():
        try:
            _trigger(**{name: text}, timezone=UTC)
        except (ValueError, OverflowError) as fault:
            reason = str(fault).partition("expression '" + text + "': ")[2] or str(fault)
            raise _bad_field(cron, name, text, reason) from None


def _bad_field(cron: str, name: str, text: str, reason: str) -> ValidationFailed:
    field = f"its {_FIELDS[name]} {shown(text)}"
    message = f"The cron expression {shown(cron)} cannot be read: {field}: {reason.rstrip('.')}."
    return _refused("/cron", message)


def _is_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo

    if name.startswith(_OF_THIS_HOST):
        return False
    try:
        ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        return False  # a folder of zones, a path, or nothing
    return True


def _refused(pointer: str, message: str) -> ValidationFailed:
    return ValidationFailed(message, errors=(FieldError(pointer, message),))
