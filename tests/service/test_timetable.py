"""When a schedule is due: cron in time zones, intervals, and the two odd nights of a year."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from jobroom.domain import timetext
from jobroom.errors import ValidationFailed
from jobroom.service import timetable
from jobroom.service.timetable import Timing

BERLIN = "Europe/Berlin"
MINUTE = 60_000_000
DAY = 24 * 60 * MINUTE


def timing(cron: str | None = None, timezone: str = "UTC", **more: object) -> Timing:
    known = {"every_seconds": None, "start_at": None, "end_at": None, "since": 0, **more}
    return Timing(cron, timezone=timezone, **known)


def at(text: str) -> int:
    return timetext.parse_time(text)


def told(found: int | None, timezone: str) -> str | None:
    """A time as the clocks of the zone show it."""
    if found is None:
        return None
    local = datetime.fromtimestamp(found / 1e6, UTC).astimezone(ZoneInfo(timezone))
    return f"{local:%Y-%m-%d %H:%M%z}"


def times(cron: str, after: str, count: int, timezone: str = "UTC") -> list[str | None]:
    found = timetable.list_after(timing(cron, timezone), at(after), count)
    return [told(each, timezone) for each in found]


def place_of(wrong: Timing) -> tuple[str, str]:
    with pytest.raises(ValidationFailed) as refusal:
        timetable.check(wrong)
    return refusal.value.errors[0].pointer, str(refusal.value)


def test_a_time_that_does_not_exist_comes_as_much_later_as_the_clock_jumps() -> None:
    """Berlin, 29 March 2026: there is nothing between 02:00 and 03:00."""
    assert times("30 2 * * *", "2026-03-28T12:00:00Z", 2, BERLIN) == [
        "2026-03-29 03:30+0200",
        "2026-03-30 02:30+0200",
    ]


def test_of_several_times_that_do_not_exist_the_first_comes_alone() -> None:
    assert times("*/20 2 * * *", "2026-03-28T12:00:00Z", 2, BERLIN) == [
        "2026-03-29 03:00+0200",
        "2026-03-30 02:00+0200",
    ]


def test_a_time_that_comes_twice_fires_the_first_time_alone() -> None:
    """Berlin, 25 October 2026: 02:00 to 03:00 comes twice."""
    assert times("30 2 * * *", "2026-10-24T12:00:00Z", 2, BERLIN) == [
        "2026-10-25 02:30+0200",
        "2026-10-26 02:30+0100",
    ]


def test_each_hour_means_each_hour_that_passes() -> None:
    assert times("30 * * * *", "2026-10-24T23:00:00Z", 4, BERLIN) == [
        "2026-10-25 01:30+0200",
        "2026-10-25 02:30+0200",
        "2026-10-25 02:30+0100",
        "2026-10-25 03:30+0100",
    ]
    assert times("30 * * * *", "2026-03-29T00:00:00Z", 2, BERLIN) == [
        "2026-03-29 01:30+0100",
        "2026-03-29 03:30+0200",
    ]


def test_a_day_keeps_its_local_hour_over_the_year() -> None:
    found = times("0 3 * * *", "2026-01-01T00:00:00Z", 365, BERLIN)
    assert len(found) == 365
    assert {each[11:16] for each in found if each} == {"03:00"}


@pytest.mark.parametrize(
    ("cron", "weekdays"),
    [
        ("0 0 * * 0", {"Sun"}),
        ("0 0 * * 7", {"Sun"}),
        ("0 0 * * 1-5", {"Mon", "Tue", "Wed", "Thu", "Fri"}),
        ("0 0 * * fri-sun", {"Fri", "Sat", "Sun"}),
        ("0 0 * * 5-7", {"Fri", "Sat", "Sun"}),
        ("0 0 * * */2", {"Sun", "Tue", "Thu", "Sat"}),
        ("0 0 * * SAT,1", {"Sat", "Mon"}),
        ("@weekly", {"Sun"}),
    ],
)
def test_weekdays_count_from_sunday_as_in_cron(cron: str, weekdays: set[str]) -> None:
    found = timetable.list_after(timing(cron), at("2026-01-01T00:00:00Z"), 20)
    assert {f"{datetime.fromtimestamp(each / 1e6, UTC):%a}" for each in found} == weekdays


def test_a_day_fits_by_number_or_by_name_where_both_are_said() -> None:
    """As in cron: the 13th, and each Friday."""
    assert times("0 0 13 * 5", "2026-01-01T00:00:00Z", 4) == [
        "2026-01-02 00:00+0000",
        "2026-01-09 00:00+0000",
        "2026-01-13 00:00+0000",
        "2026-01-16 00:00+0000",
    ]


@pytest.mark.parametrize(
    ("cron", "reason"),
    [
        ("x * * * *", "minute"),
        ("60 * * * *", "higher than the maximum value (59)"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of the month"),
        ("* * * foo *", "month"),
        ("* * * * 8", "day of the week"),
        ("* * * * 5-1", "must not end before it begins"),
        ("* * *", "has 3 fields; write five"),
        ("@nightly", "@daily"),
        ("\u0661 * * * *", "plain ASCII"),
    ],
)
def test_a_cron_expression_that_cannot_be_read_is_refused_with_its_place_and_the_reason(
    cron: str, reason: str
) -> None:
    pointer, message = place_of(timing(cron))
    assert pointer == "/cron"
    assert reason in message
    assert message.count(". ") == 0
    assert message.endswith(".")


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "../UTC", "America", "", "localtime", "utc", "U\0", "right/UTC"]
)
def test_what_is_no_iana_time_zone_is_refused(zone: str) -> None:
    assert place_of(timing("* * * * *", zone))[0] == "/timezone"


def test_a_day_that_never_comes_is_refused_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(ValidationFailed, match="ten years"):
        timetable.first_after(timing("0 0 30 2 *"), at("2026-01-01T00:00:00Z"))
    assert time.monotonic() - began < 5


def test_a_leap_day_comes_however_far_it_is() -> None:
    assert times("0 0 29 2 *", "2096-03-01T00:00:00Z", 1) == ["2104-02-29 00:00+0000"]


def test_no_time_comes_behind_the_end_or_before_the_start() -> None:
    bounded = timing(
        "0 3 * * *", start_at=at("2026-06-01T03:00:00Z"), end_at=at("2026-06-03T03:00:00Z")
    )
    found = list(timetable.list_after(bounded, at("2026-01-01T00:00:00Z"), 9))
    assert [told(each, "UTC") for each in found] == [
        "2026-06-01 03:00+0000",
        "2026-06-02 03:00+0000",
        "2026-06-03 03:00+0000",
    ]
    with pytest.raises(ValidationFailed) as refusal:
        timetable.first_after(bounded, found[-1])
    assert refusal.value.errors[0].pointer == "/end_at"
    assert place_of(bounded._replace(end_at=0))[0] == "/end_at"


def test_an_interval_keeps_its_beat_however_much_was_missed() -> None:
    every = timing(every_seconds=2.5, since=1)
    assert list(timetable.list_after(every, 1, 3)) == [2_500_001, 5_000_001, 7_500_001]
    started = every._replace(start_at=10)
    assert list(timetable.list_after(started, 1, 2)) == [10, 2_500_010]
    began = time.monotonic()
    assert timetable.next_after(every, 10**15) == 10**15 + 1
    assert time.monotonic() - began < 1


def test_years_of_missed_times_are_not_counted_up() -> None:
    """A trigger that does takes minutes for a clock that was set forward."""
    began = time.monotonic()
    found = timetable.next_after(timing("* * * * *"), at("2126-01-01T00:00:00Z"))
    assert told(found, "UTC") == "2126-01-01 00:01+0000"
    assert time.monotonic() - began < 1


def test_nothing_comes_behind_the_last_year() -> None:
    last = at("9999-12-31T23:59:59Z")
    assert timetable.next_after(timing("* * * * *"), last) is None
    assert timetable.next_after(timing(every_seconds=3600.0), last) is None


JUMPS = [
    (BERLIN, "2027-03-27T06:10"),
    (BERLIN, "2027-03-28T01:10"),  # between what is jumped over and when it comes
    (BERLIN, "2027-10-30T06:00"),
    ("America/Havana", "2027-03-13T01:00"),  # midnight is jumped over
    ("America/Havana", "2027-11-06T01:00"),
    ("America/Santiago", "2027-09-04T01:00"),
    ("Australia/Lord_Howe", "2027-10-01T05:00"),  # by half an hour
    ("Australia/Lord_Howe", "2027-04-02T05:00"),
    ("Antarctica/Troll", "2027-03-27T00:00"),  # by two hours
    ("Pacific/Apia", "2011-12-28T01:00"),  # by a day
]
# Each with the minutes and hours that it names, and the weekdays, Sunday 0.
EVERY = range(7)
FIELDS = {
    "0 0 * * *": ([0], [0], EVERY),
    "0 0 * * 0": ([0], [0], [0]),
    "0 0 * * 1": ([0], [0], [1]),
    "30 2 * * *": ([30], [2], EVERY),
    "45 1,2 * * *": ([45], [1, 2], EVERY),
    "*/30 1-2 * * *": ([0, 30], [1, 2], EVERY),
    "15 */2 * * *": ([15], range(0, 24, 2), EVERY),
    "* 2 * * *": (range(60), [2], EVERY),
    "*/15 0,4,23 * * *": (range(0, 60, 15), [0, 4, 23], EVERY),
    "*/20 * * * *": ([0, 20, 40], range(24), EVERY),
    "0 * * * 1": ([0], range(24), [1]),
}


@pytest.mark.parametrize("cron", FIELDS)
@pytest.mark.parametrize(("zone", "begin"), JUMPS)
def test_no_time_is_lost_where_the_clock_jumps(zone: str, begin: str, cron: str) -> None:
    """Held against a look at each minute that a clock shows, or would show without the jump."""
    first = datetime.fromisoformat(begin + ":00+00:00")
    last = first + timedelta(days=4)
    place = ZoneInfo(zone)
    minutes, hours, days = FIELDS[cron]
    expected: set[datetime] = set()
    jumped: set[timedelta | None] = set()
    shown = first.astimezone(place).replace(tzinfo=None, second=0) - timedelta(days=2)
    for _ in range(8 * 24 * 60):
        shown += timedelta(minutes=1)
        if (
            shown.minute not in minutes
            or shown.hour not in hours
            or shown.isoweekday() % 7 not in days
        ):
            continue
        local = shown.replace(tzinfo=place)
        found = local.astimezone(UTC)
        if found.astimezone(place).replace(tzinfo=None) == shown:
            expected.add(found)
            if cron.split()[1] == "*":  # an hour written as * is each hour that passes
                expected.add(local.replace(fold=1).astimezone(UTC))
        elif local.utcoffset() not in jumped:  # of what is jumped over the first alone, later
            jumped.add(local.utcoffset())
            expected.add(found)
    due = sorted(each for each in expected if first < each <= last)
    times = timetable.list_after(timing(cron, zone), at(begin + ":00Z"), len(due))
    assert [told(each, "UTC") for each in times] == [f"{each:%Y-%m-%d %H:%M%z}" for each in due]


def test_the_first_of_a_month_comes_in_each_month() -> None:
    """The clock jumps in the month before the first of April."""
    zone = "America/New_York"
    found = timetable.list_after(timing("@monthly", zone), at("2027-02-02T12:00:00Z"), 4)
    assert [told(each, zone)[:16] for each in found] == [
        f"2027-{month:02}-01 00:00" for month in (3, 4, 5, 6)
    ]
