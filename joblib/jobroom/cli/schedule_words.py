"""When a schedule fires, in words: ``Daily at 03:00 Europe/Berlin; next in 4 h``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jobroom.cli import printing
from jobroom.domain import crontext

_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NUMBER = re.compile(r"\d{1,2}")
_STEP = re.compile(r"\*/(\d{1,2})")
_DAYS_OF_WEEK = re.compile(r"\w{1,3}(-\w{1,3})?(,\w{1,3}(-\w{1,3})?)*")
_SIZES = ((86_400, "day", "days"), (3600, "hour", "h"), (60, "minute", "min"), (1, "second", "s"))
_MINUTES, _HOURS = 60, 24


def told(schedule: Mapping[str, Any]) -> str:
    """Return when a schedule fires, and how soon it does next."""
    return f"{times(schedule)}; {soon(schedule)}"


def times(schedule: Mapping[str, Any]) -> str:
    """Return when a schedule fires.

    >>> times({"cron": "0 3 * * *", "timezone": "Europe/Berlin"})
    'Daily at 03:00 Europe/Berlin'
    >>> times({"cron": "30 6 * * 1-5", "timezone": "UTC"})
    'Mon-Fri at 06:30 UTC'
    >>> times({"cron": None, "every_seconds": 900.0})
    'Every 15 min'
    """
    cron = schedule.get("cron")
    if not cron:
        return _interval(float(schedule.get("every_seconds") or 0))
    words = _cron_words(*crontext.fields_of(cron))
    return printing.clean_line(f"{words or 'cron ' + cron} {schedule.get('timezone') or 'UTC'}")


def soon(schedule: Mapping[str, Any]) -> str:
    """Return how soon it fires next, by this machine's clock."""
    if schedule.get("paused"):
        return "paused"
    if schedule.get("next_at") is None:
        return "over"
    seconds = -printing.seconds_since(schedule["next_at"])
    return "due now" if seconds <= 0 else f"next in {printing.span(seconds)}"


def _interval(seconds: float) -> str:
    for size, one, many in _SIZES:
        if seconds == size:
            return f"Every {one}"
        if seconds > size and seconds % size == 0:
            return f"Every {int(seconds // size)} {many}"
    return f"Every {seconds:g} s"


def _cron_words(
    minute: str = "", hour: str = "", day: str = "", month: str = "", weekday: str = "", *_more: str
) -> str | None:
    """Return the five fields in words; None where they say more than a few words do."""
    if (day, month, weekday) == ("*", "*", "*") and hour == "*":
        return _each_hour(minute)
    step = _STEP.fullmatch(hour)
    if minute == "0" and step and int(step[1]) and (day, month, weekday) == ("*", "*", "*"):
        return f"Every {step[1]} h" if _HOURS % int(step[1]) == 0 else None
    if not (_NUMBER.fullmatch(minute) and _NUMBER.fullmatch(hour)):
        return None
    at = f"at {int(hour):02}:{int(minute):02}"
    if month == "*" and day == "*":
        days = _weekdays(weekday)
        return None if days is None else f"{days} {at}"
    if weekday == "*" and _NUMBER.fullmatch(day):
        return _on_day(day, month, at)
    return None


def _each_hour(minute: str) -> str | None:
    if minute == "*":
        return "Every minute"
    step = _STEP.fullmatch(minute)
    if step and int(step[1]) and _MINUTES % int(step[1]) == 0:
        return f"Every {step[1]} min"
    return f"Every hour at :{int(minute):02}" if _NUMBER.fullmatch(minute) else None


def _on_day(day: str, month: str, at: str) -> str | None:
    if month == "*":
        return f"On day {int(day)} of each month {at}"
    if not _NUMBER.fullmatch(month) or (int(day), int(month)) == (29, 2):
        return None
    return f"Each year on {int(day)}.{int(month)}. {at}"


def _weekdays(text: str) -> str | None:
    if text == "*":
        return "Daily"
    if _DAYS_OF_WEEK.fullmatch(text) is None:
        return None
    return re.sub(r"\w+", lambda found: _weekday(found[0]), text).replace(",", ", ")


def _weekday(text: str) -> str:
    is_number = text.isdigit() and int(text) < len(_DAYS)
    return _DAYS[int(text)] if is_number else text.capitalize()
