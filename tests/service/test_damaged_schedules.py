"""Schedules that another hand has written to: shown, told, put right, and in nobody's way."""

from __future__ import annotations

from typing import Any

import pytest
from desk import Desk

from jobroom.domain.records import MICROSECONDS, Caller, Job, Schedule
from jobroom.errors import Forbidden
from jobroom.service import scheduling, sweeping
from jobroom.service.standing import StandingTask

MINUTE, HOUR = 60, 3600
# What any store's columns take, and the column that is named for it.
ANYWHERE = {
    "next_at beyond all calendars": ("next_at = 9000000000000000000", "next_at"),
    "end_at beyond all calendars": ("end_at = 9000000000000000000", "end_at"),
    "created_at before all calendars": ("created_at = -9000000000000000000", "created_at"),
    "every_seconds negative": ("every_seconds = -1", "every_seconds"),
    "paused negative": ("paused = -1", "paused"),
    "task no JSON": ("task = 'x'", "task"),
    "task empty": ("task = '{}'", "task"),
    "task with a priority that is text": (
        """task = replace(task, '"priority": 0', '"priority": "high"')""",
        "task",
    ),
}
# SQLite's columns take what is not of their type.
UNTYPED = {
    "next_at text": ("next_at = 'soon'", "next_at"),
    "start_at text": ("start_at = 'soon'", "start_at"),
    "end_at text": ("end_at = 'late'", "end_at"),
    "end_at a blob": ("end_at = x'ff'", "end_at"),
    "created_at text": ("created_at = 'once'", "created_at"),
    "last_at text": ("last_at = 'just now'", "last_at"),
    "every_seconds text": ("every_seconds = 'often'", "every_seconds"),
    "paused text": ("paused = 'yes'", "paused"),
    "version text": ("version = 'newest'", "version"),
    "task a blob": ("task = x'ff'", "task"),
    "timezone a blob": ("timezone = x'ff'", "timezone"),
    "creator a blob": ("created_by_id = x'ff'", "created_by_id"),
    "id a blob": ("id = x'ff'", "id"),
}


def put(desk: Desk, caller: Caller, job: Job, name: str, **said: Any) -> Schedule:
    spec = scheduling.ScheduleSpec(
        name, StandingTask(checked_version=1), **{"every_seconds": 60.0, **said}
    )
    done = desk.queue.run(scheduling.put_schedule, caller=caller, room_id="r1", job=job, spec=spec)
    return done.view.schedule


def shown(desk: Desk, name: str = "broken") -> Schedule:
    view = desk.queue.run(scheduling.show_schedule, caller=Caller("alice"), room_id="r1", name=name)
    return view.schedule


def fire(desk: Desk) -> int:
    return desk.queue.run(sweeping.fire_schedules).fired_schedules


def breaks(desk: Desk, how: str) -> None:
    desk.write(f"UPDATE schedule SET {how} WHERE name = 'broken'")  # noqa: S608 - our own


@pytest.fixture
def both(desk: Desk, alice: Caller, rotate: Job) -> Job:
    """A schedule that will be damaged, and one that will not."""
    put(desk, alice, rotate, "broken")
    put(desk, alice, rotate, "sound")
    return rotate


def check_is_told_and_put_right(desk: Desk, alice: Caller, job: Job, column: str) -> None:
    told = shown(desk).last_error or ""
    assert told.startswith(f"The stored schedule is damaged ({column} is no ")
    assert told.endswith("put it again.")
    views, total = desk.queue.run(scheduling.list_schedules, caller=alice, room_id="r1", limit=9)
    assert [view.schedule.name for view in views] == ["broken", "sound"]
    assert (views[0].schedule.last_error, total) == (told, 2)
    [line] = desk.queue.run(scheduling.damaged)
    assert line.startswith(f"The schedule 'broken' of room 'r1' is damaged ({column} is no ")
    desk.wait(MINUTE + 1)
    assert fire(desk) >= 1
    assert shown(desk, "sound").last_task_id is not None
    put(desk, Caller("root", is_admin=True), job, "broken")
    assert "put it again" not in (shown(desk).last_error or "")
    assert desk.queue.run(scheduling.damaged) == []
    desk.wait(2 * MINUTE + 1)
    before = shown(desk).last_task_id
    assert fire(desk) == 2
    assert shown(desk).last_task_id != before
    assert shown(desk).last_error is None


@pytest.mark.parametrize(("how", "column"), ANYWHERE.values(), ids=ANYWHERE)
def test_a_damaged_schedule_is_told_stops_nobody_and_is_put_right_by_putting_it(
    how: str, column: str, desk: Desk, alice: Caller, both: Job
) -> None:
    breaks(desk, how)
    check_is_told_and_put_right(desk, alice, both, column)


@pytest.mark.only_on("sqlite", "libsql")
@pytest.mark.parametrize(("how", "column"), UNTYPED.values(), ids=UNTYPED)
def test_so_is_one_with_what_is_not_of_its_columns_type(
    how: str, column: str, desk: Desk, alice: Caller, both: Job
) -> None:
    breaks(desk, how)
    check_is_told_and_put_right(desk, alice, both, column)


@pytest.mark.only_on("sqlite")
def test_so_is_one_with_a_text_that_is_no_utf_8(desk: Desk, alice: Caller, both: Job) -> None:
    """A libSQL server answers 500 to whoever asks for such a text, and nobody can read it."""
    breaks(desk, "last_error = CAST(x'61ff' AS TEXT)")
    check_is_told_and_put_right(desk, alice, both, "last_error")


def test_a_next_time_that_is_none_is_reckoned_anew_and_fires_nothing(
    desk: Desk, alice: Caller, rotate: Job
) -> None:
    made = put(desk, alice, rotate, "broken", every_seconds=float(HOUR))
    breaks(desk, "next_at = 9000000000000000000")
    assert fire(desk) == 0
    after = shown(desk)
    assert after.next_at == made.next_at
    assert "next_at is no time" in (after.last_error or "")
    desk.wait(HOUR + 1)
    assert fire(desk) == 1
    assert shown(desk).last_error is None


def test_what_cannot_be_reckoned_fires_nothing_and_is_looked_at_again_each_hour(
    desk: Desk, alice: Caller, rotate: Job
) -> None:
    put(desk, alice, rotate, "broken")
    breaks(desk, "end_at = 9000000000000000000")
    desk.wait(MINUTE + 1)
    assert fire(desk) == 0
    in_an_hour = desk.now() + HOUR * MICROSECONDS
    assert in_an_hour - MINUTE * MICROSECONDS < (shown(desk).next_at or 0) <= in_an_hour
    desk.wait(HOUR)
    assert fire(desk) == 0
    assert "end_at is no time" in (shown(desk).last_error or "")


@pytest.mark.only_on("sqlite", "libsql")
def test_a_clock_set_back_brings_the_others_nearer(desk: Desk, alice: Caller, rotate: Job) -> None:
    put(desk, alice, rotate, "broken")
    put(desk, alice, rotate, "sound", cron="* * * * *", every_seconds=None)
    fire(desk)
    breaks(desk, "next_at = 'soon'")
    desk.wait(-3 * HOUR)
    fire(desk)
    assert (shown(desk, "sound").next_at or 0) <= desk.now() + MINUTE * MICROSECONDS


def test_putting_a_damaged_one_again_keeps_what_is_left_of_it(
    desk: Desk, alice: Caller, bob: Caller, rotate: Job
) -> None:
    put(desk, alice, rotate, "broken")
    desk.wait(MINUTE + 1)
    fire(desk)
    before = shown(desk)
    breaks(desk, "end_at = 9000000000000000000")
    with pytest.raises(Forbidden):
        put(desk, bob, rotate, "broken")
    after = put(desk, Caller("root", is_admin=True), rotate, "broken")
    kept = ("id", "name", "created_by_id", "last_at", "last_task_id")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert after.end_at is None


def test_of_many_damaged_schedules_a_few_are_told(desk: Desk, alice: Caller, rotate: Job) -> None:
    for number in range(scheduling.MOST_TOLD + 2):
        put(desk, alice, rotate, f"n{number}")
    desk.write("UPDATE schedule SET task = 'x'")
    assert len(desk.queue.run(scheduling.damaged)) == scheduling.MOST_TOLD
