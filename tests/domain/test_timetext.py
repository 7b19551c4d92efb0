"""Times outside are RFC 3339 UTC with microseconds (contract; rules, *Time fields*)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobroom.domain.timetext import format_time, parse_time

SAMPLE = 1_795_959_432_000_001
FIRST = -62_135_596_800_000_000
LAST = 253_402_300_799_999_999


def test_a_time_has_microseconds_and_z():
    assert format_time(SAMPLE) == "2026-11-29T13:37:12.000001Z"
    assert format_time(0) == "1970-01-01T00:00:00.000000Z"
    assert format_time(-1) == "1969-12-31T23:59:59.999999Z"
    assert format_time(None) is None


@settings(max_examples=200)
@given(st.integers(FIRST, LAST))
def test_times_round_trip(us):
    text = format_time(us)
    assert parse_time(text) == us
    assert datetime.fromisoformat(text) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        microseconds=us
    )


@settings(max_examples=100)
@given(
    st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)),  # noqa: DTZ001 - the zone is drawn apart
    st.integers(-1439, 1439),
)
def test_an_offset_is_taken_off(local, minutes):
    moment = local.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert (
        format_time(parse_time(moment.isoformat()))
        == moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    )


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-11-29T13:37:12.000001+00:00", SAMPLE),
        ("2026-11-29T13:37:12.000001-00:00", SAMPLE),
        ("2026-11-29t13:37:12.000001z", SAMPLE),
        ("2026-11-29 13:37:12.000001Z", SAMPLE),
        ("2026-11-29T15:07:12.0000019999+01:30", SAMPLE),
        ("2026-11-29T13:37:12Z", SAMPLE - 1),
        ("2026-11-29T13:37:12.5Z", SAMPLE - 1 + 500_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000_000),
        ("2017-01-01T00:59:60.5+01:00", 1_483_228_800_500_000),
        ("0001-01-01T00:00:00Z", FIRST),
        ("9999-12-31T23:59:59.999999Z", LAST),
    ],
)
def test_every_form_of_rfc_3339_is_read(text, same):
    assert parse_time(text) == same


@pytest.mark.parametrize("text", ["2026-11-29T13:37:12", "2026-11-29T13:37:12.5"])
def test_a_time_without_an_offset_is_refused_and_the_answer_says_so(text):
    """Rules, *Time fields*: times without an offset are 422."""
    with pytest.raises(ValueError, match="no offset"):
        parse_time(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "2026-11-29",
        "2026-11-29T13:37Z",
        "2026-11-29T13:37:12.Z",
        "20261129T133712Z",
        "2026-11-29T13:37:12Z\n",
        " 2026-11-29T13:37:12Z",
        "2026-11-29T13:37:12+0100",
        "1795959432",
        "2026-11-29T13:37:12+24:00",
        "2026-11-29T13:37:12+01:60",
        "٢٠٢٦-11-29T13:37:12Z",
        "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:61Z",
        "2026-01-01T12:00:60Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "9999-12-31T23:59:60Z",
    ],
)
def test_nonsense_and_times_out_of_range_are_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match=r"^[A-Z].*\.$"):
        parse_time(text)


@settings(max_examples=100)
@given(st.text() | st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"))
def test_any_text_is_a_time_or_a_value_error(text):
    try:
        us = parse_time(text)
    except ValueError:
        return
    assert FIRST <= us <= LAST
