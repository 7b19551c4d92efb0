"""Schedules in words, for a list that people read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobroom.cli import schedule_words
from jobroom.domain import crontext
from jobroom.service import timetable


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 3 * * *", "Daily at 03:00 UTC"),
        ("@daily", "Daily at 00:00 UTC"),
        ("@hourly", "Every hour at :00 UTC"),
        ("@monthly", "On day 1 of each month at 00:00 UTC"),
        ("@yearly", "Each year on 1.1. at 00:00 UTC"),
        ("@weekly", "Sun at 00:00 UTC"),
        ("* * * * *", "Every minute UTC"),
        ("*/15 * * * *", "Every 15 min UTC"),
        ("*/7 * * * *", "cron */7 * * * * UTC"),
        ("30 * * * *", "Every hour at :30 UTC"),
        ("0 */6 * * *", "Every 6 h UTC"),
        ("30 6 * * 1-5", "Mon-Fri at 06:30 UTC"),
        ("30 6 * * sat,0", "Sat, Sun at 06:30 UTC"),
        ("5 4 1 6 *", "Each year on 1.6. at 04:05 UTC"),
        ("5 4 13 * 5", "cron 5 4 13 * 5 UTC"),
        ("1,2 3 * * *", "cron 1,2 3 * * * UTC"),
        ("0 3 * * */2", "cron 0 3 * * */2 UTC"),
    ],
)
def test_a_cron_expression_is_told_in_words_where_they_say_it_all(cron: str, words: str) -> None:
    assert schedule_words.times({"cron": cron, "timezone": "UTC"}) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1.0, "Every second"),
        (2.5, "Every 2.5 s"),
        (90.0, "Every 90 s"),
        (60.0, "Every minute"),
        (900.0, "Every 15 min"),
        (86_400.0, "Every day"),
        (172_800.0, "Every 2 days"),
    ],
)
def test_an_interval_is_told_in_its_largest_unit(seconds: float, words: str) -> None:
    assert schedule_words.times({"cron": None, "every_seconds": seconds}) == words


def test_how_soon_it_fires_is_told() -> None:
    ahead = (datetime.now(UTC) + timedelta(hours=4, minutes=30)).isoformat()
    past = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    soon = schedule_words.soon
    assert soon({"next_at": ahead}) == "next in 4 h"
    assert soon({"next_at": past}) == "due now"
    assert soon({"next_at": None}) == "over"
    assert soon({"next_at": None, "paused": True}) == "paused"


@pytest.mark.parametrize(("short", "fields"), crontext.ALIASES.items())
def test_the_words_and_the_server_take_a_short_form_for_its_fields(short: str, fields: str) -> None:
    zone = {"timezone": "UTC"}
    assert schedule_words.times({"cron": short, **zone}) == schedule_words.times(
        {"cron": fields, **zone}
    )
    assert timetable._alternatives(short) == timetable._alternatives(fields)
