"""Schedules: who may, when they fire, what was missed, and what cannot be submitted."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from desk import Desk

from jobroom.domain import timetext
from jobroom.domain.records import MICROSECONDS, Caller, Job, Schedule, Task
from jobroom.errors import Forbidden, NotFound, ValidationFailed
from jobroom.service import firing, scheduling, sweeping
from jobroom.service.queue import JobQueue
from jobroom.service.standing import StandingTask

HOUR, DAY = 3600, 24 * 3600
NEEDS_AXIS = '{"type": "object", "required": ["axis"]}'


def put(desk: Desk, caller: Caller, job: Job, name: str = "nightly", **said: Any) -> scheduling.Put:
    """Put a schedule as the door does: every hour, unless something else is said."""
    task = {key: said.pop(key) for key in ("payload", "priority", "max_attempts") if key in said}
    times = {} if said.get("cron") else {"every_seconds": 3600.0}
    spec = scheduling.ScheduleSpec(
        name=name,
        task=StandingTask(**task, checked_version=job.schema_version),
        **{**times, **said},
    )
    return desk.queue.run(scheduling.put_schedule, caller=caller, room_id="r1", job=job, spec=spec)


def shown(desk: Desk, name: str = "nightly", caller: Caller | None = None) -> Any:
    return desk.queue.run(
        scheduling.show_schedule, caller=caller or Caller("alice"), room_id="r1", name=name
    )


def stored(desk: Desk, name: str = "nightly") -> Schedule:
    found: Schedule = shown(desk, name).schedule
    return found


def tasks(desk: Desk) -> list[Task]:
    """What was submitted in the room, the newest first."""
    views, _ = desk.list(Caller("alice"), limit=500)
    return [view.task for view in views]


def set_clock(desk: Desk, text: str) -> None:
    """Let the store's clock show this time."""
    desk.queue.clock_offset += timetext.parse_time(text) - desk.now()


def fire(desk: Desk) -> int:
    """The step of the sweep alone."""
    return desk.queue.run(sweeping.fire_schedules).fired_schedules


# --- putting ----------------------------------------------------------------------------------


def test_a_schedule_fires_when_its_time_has_come_and_not_before(
    desk: Desk, alice: Caller, rotate: Job
) -> None:
    made = put(desk, alice, rotate, payload='{"angle": 1.0}', priority=7)
    assert made.created
    desk.wait(HOUR - 60)
    assert desk.sweep().fired_schedules == 0
    desk.wait(120)
    assert desk.sweep().fired_schedules == 1
    [task] = tasks(desk)
    assert (task.payload, task.priority, task.created_by_id) == ('{"angle": 1.0}', 7, "alice")
    assert (task.key, task.run_at) == ("nightly", made.view.schedule.next_at)
    after = stored(desk)
    assert after.last_task_id == task.id
    assert after.last_at == task.created_at
    assert after.next_at == made.view.schedule.next_at + HOUR * MICROSECONDS
    assert desk.sweep().fired_schedules == 0
    assert desk.claim_one(alice).id == task.id


def test_putting_the_same_again_changes_nothing(desk: Desk, alice: Caller, rotate: Job) -> None:
    first = put(desk, alice, rotate, payload='{"a": 1}')
    again = put(desk, alice, rotate, payload='{"a": 1}')
    assert not again.created
    assert again.view.schedule == first.view.schedule


def test_other_times_are_reckoned_from_now(desk: Desk, alice: Caller, rotate: Job) -> None:
    set_clock(desk, "2027-06-01T12:00:00Z")
    put(desk, alice, rotate, cron="0 3 * * *")
    changed = put(desk, alice, rotate, cron="0 13 * * *", timezone="Europe/Berlin")
    assert not changed.created
    found = changed.view.schedule
    assert timetext.format_time(found.next_at) == "2027-06-02T11:00:00.000000Z"
    assert found.version == 2


def test_five_next_times_are_told_and_none_of_a_paused_one(
    desk: Desk, alice: Caller, rotate: Job
) -> None:
    set_clock(desk, "2027-01-01T12:00:00Z")
    made = put(desk, alice, rotate, cron="0 3 * * *")
    days = [timetext.format_time(each) for each in shown(desk).upcoming]
    assert days == [f"2027-01-0{day}T03:00:00.000000Z" for day in range(2, 7)]
    put(desk, alice, rotate, cron="0 3 * * *", paused=True)
    assert shown(desk).upcoming == ()
    assert stored(desk).next_at == made.view.schedule.next_at


def test_a_schedule_whose_times_are_all_over_is_refused(
    desk: Desk, alice: Caller, rotate: Job
) -> None:
    with pytest.raises(ValidationFailed):
        put(desk, alice, rotate, end_at=desk.soon(60))


def test_a_schedule_ends_with_its_last_time(desk: Desk, alice: Caller, rotate: Job) -> None:
    put(desk, alice, rotate, end_at=desk.soon(1.5 * HOUR))
    desk.wait(HOUR + 1)
    assert fire(desk) == 1
    assert (stored(desk).next_at, shown(desk).upcoming) == (None, ())
    desk.wait(DAY)
    assert fire(desk) == 0


def test_its_creator_or_an_admin_may_change_and_remove_it(
    desk: Desk, alice: Caller, bob: Caller, admin: Caller, rotate: Job
) -> None:
    put(desk, alice, rotate)
    remove = {"room_id": "r1", "name": "nightly"}
    with pytest.raises(Forbidden):
        put(desk, bob, rotate, every_seconds=1.0)
    with pytest.raises(Forbidden):
        desk.queue.run(scheduling.remove_schedule, caller=bob, **remove)
    changed = put(desk, admin, rotate, every_seconds=60.0).view.schedule
    assert changed.created_by_id == "alice"
    desk.queue.run(scheduling.remove_schedule, caller=admin, **remove)
    with pytest.raises(NotFound):
        shown(desk)
    desk.wait(DAY)
    assert fire(desk) == 0


def test_another_rooms_schedules_are_not_seen(desk: Desk, alice: Caller, rotate: Job) -> None:
    put(desk, alice, rotate)
    for use_case, more in (
        (scheduling.show_schedule, {"name": "nightly"}),
        (scheduling.remove_schedule, {"name": "nightly"}),
        (scheduling.list_schedules, {"limit": 5}),
    ):
        fenced = Caller("alice", rooms=frozenset({"r2"}))
        with pytest.raises(NotFound):
            desk.queue.run(use_case, caller=fenced, room_id="r1", **more)


def test_a_list_is_by_name_in_parts(desk: Desk, alice: Caller, rotate: Job) -> None:
    for name in ("b", "a", "c"):
        put(desk, alice, rotate, name)
    page = {"caller": alice, "room_id": "r1", "limit": 2}
    found, total = desk.queue.run(scheduling.list_schedules, **page)
    assert ([each.schedule.name for each in found], total) == (["a", "b"], 3)
    found, _ = desk.queue.run(scheduling.list_schedules, after="b", **page)
    assert [each.schedule.name for each in found] == ["c"]


# --- what was missed --------------------------------------------------------------------------


def test_one_task_makes_up_for_all_that_were_missed(desk: Desk, alice: Caller, rotate: Job) -> None:
    put(desk, alice, rotate, catch_up="one")
    desk.wait(30 * DAY + 60)
    assert fire(desk) == 1
    assert stored(desk).next_at > desk.now()


def test_skip_leaves_out_what_was_missed_by_more_than_the_grace(
    desk: Desk, alice: Caller, rotate: Job
) -> None:
    first = put(desk, alice, rotate, catch_up="skip").view.schedule
    desk.wait(30 * HOUR + firing.GRACE_SECONDS + 60)
    assert fire(desk) == 0
    after = stored(desk)
    assert after.next_at == first.next_at + 30 * HOUR * MICROSECONDS
    assert after.last_error is None
    desk.wait(HOUR - 120)
    assert fire(desk) == 1
    assert [task.run_at for task in tasks(desk)] == [after.next_at]


def test_skip_fires_the_one_time_that_is_within_the_grace(
    desk: Desk, alice: Caller, rotate: Job
) -> None:
    first = put(desk, alice, rotate, catch_up="skip").view.schedule
    desk.wait(31 * HOUR + 60)
    assert fire(desk) == 1
    [task] = tasks(desk)
    assert task.run_at == first.next_at + 30 * HOUR * MICROSECONDS


def test_all_gives_one_task_for_each_and_no_more_than_a_hundred_a_sweep(
    desk: Desk, alice: Caller, rotate: Job
) -> None:
    first = put(desk, alice, rotate, catch_up="all").view.schedule
    desk.wait(60 * HOUR + 60)
    counts = []
    while count := fire(desk):
        counts.append(count)
        assert count <= 100
    assert sum(counts) == 60
    times = [first.next_at + n * HOUR * MICROSECONDS for n in range(60)]
    assert [task.run_at for task in reversed(tasks(desk))] == times
    assert stored(desk).next_at == times[-1] + HOUR * MICROSECONDS


def test_who_catches_up_does_not_keep_the_others_waiting(
    desk: Desk, alice: Caller, rotate: Job
) -> None:
    put(desk, alice, rotate, "a", catch_up="all", every_seconds=1.0)
    put(desk, alice, rotate, "b")
    desk.wait(HOUR + 60)
    assert 2 <= fire(desk) <= 100
    assert stored(desk, "b").last_at is not None


def test_what_was_missed_in_a_pause_is_caught_up_when_it_goes_on(
    desk: Desk, alice: Caller, rotate: Job
) -> None:
    put(desk, alice, rotate)
    put(desk, alice, rotate, paused=True)
    desk.wait(5 * HOUR)
    assert fire(desk) == 0
    put(desk, alice, rotate, paused=False)
    assert fire(desk) == 1


def test_a_clock_set_forward_by_years_is_one_missed_time(
    desk: Desk, alice: Caller, rotate: Job
) -> None:
    put(desk, alice, rotate, cron="* * * * *")
    desk.wait(3 * 365 * DAY)
    assert fire(desk) == 1
    assert desk.now() < stored(desk).next_at <= desk.now() + 60 * MICROSECONDS


def test_a_clock_set_back_by_years_silences_nobody(desk: Desk, alice: Caller, rotate: Job) -> None:
    put(desk, alice, rotate, cron="0 3 * * *")
    desk.wait(3 * 365 * DAY)
    fire(desk)
    desk.wait(-3 * 365 * DAY)
    fire(desk)
    assert stored(desk).next_at <= desk.now() + DAY * MICROSECONDS
    desk.wait(DAY)
    assert fire(desk) == 1


def test_a_clock_set_back_a_little_fires_nothing_twice(
    desk: Desk, alice: Caller, rotate: Job
) -> None:
    set_clock(desk, "2027-01-01T02:50:00Z")
    put(desk, alice, rotate, cron="0 3 * * *")
    fired = []
    for seconds in (900, -900, 900):
        desk.wait(seconds)
        fired.append(fire(desk))
    assert fired == [1, 0, 0]


def test_a_night_that_comes_twice_fires_once(desk: Desk, alice: Caller, rotate: Job) -> None:
    """Berlin, 31 October 2027: 02:30 comes at 00:30 and at 01:30 (UTC)."""
    set_clock(desk, "2027-10-31T00:00:00Z")
    put(desk, alice, rotate, cron="30 2 * * *", timezone="Europe/Berlin")
    fired = []
    for _ in range(6):
        desk.wait(1200)
        fired.append(fire(desk))
    assert fired == [0, 1, 0, 0, 0, 0]


# --- what cannot be submitted -----------------------------------------------------------------


def test_a_payload_that_no_longer_fits_is_told_and_the_next_time_comes(
    desk: Desk, alice: Caller, rotate: Job
) -> None:
    first = put(desk, alice, rotate).view.schedule
    desk.register(alice, schema=NEEDS_AXIS, replace=True)
    desk.wait(HOUR + 1)
    assert fire(desk) == 0
    after = stored(desk)
    assert "does not fit the schema of r1:modifiers:Rotate" in (after.last_error or "")
    assert after.next_at == first.next_at + HOUR * MICROSECONDS
    assert tasks(desk) == []
    desk.register(alice, schema="{}", replace=True)
    desk.wait(HOUR)
    assert fire(desk) == 1
    assert stored(desk).last_error is None


def test_a_job_that_checks_nothing_takes_any_payload(desk: Desk, alice: Caller) -> None:
    job = desk.job(alice, "Loose", schema=NEEDS_AXIS, validate=False)
    put(desk, alice, job)
    desk.wait(HOUR + 1)
    assert fire(desk) == 1


def test_a_hidden_job_is_listed_again(desk: Desk, alice: Caller, rotate: Job) -> None:
    """Rules, *Jobs*: submitting to a hidden job lists it."""
    put(desk, alice, rotate)
    desk.leave(alice)
    assert desk.listed(alice) == []
    desk.wait(HOUR + 1)
    assert fire(desk) == 1
    assert desk.listed(alice) == ["r1:modifiers:Rotate"]


def test_a_fair_job_gives_its_turns_to_schedules_too(desk: Desk, alice: Caller) -> None:
    job = desk.job(alice, "Fair", claim_order="fair")
    put(desk, alice, job, catch_up="all")
    desk.wait(3 * HOUR + 1)
    assert fire(desk) == 3
    assert [task.turn for task in reversed(tasks(desk))] == [0, 1, 2]


@pytest.mark.parametrize(
    "damage", ["task = 'x'", "task = '{}'", "timezone = 'Mars/X'", "cron = '?'"]
)
def test_a_damaged_schedule_is_told_and_stops_nobody(
    damage: str, desk: Desk, alice: Caller, rotate: Job
) -> None:
    put(desk, alice, rotate, "broken", cron="* * * * *")
    put(desk, alice, rotate, "sound", every_seconds=60.0)
    desk.write(f"UPDATE schedule SET {damage} WHERE name = 'broken'")  # noqa: S608 - our own
    desk.wait(61)
    assert fire(desk) == 1
    broken = stored(desk, "broken")
    assert "put it again" in (broken.last_error or "")
    assert broken.next_at > desk.now()


def test_a_hundred_payloads_to_check_are_checked_by_and_by(
    desk: Desk, alice: Caller, rotate: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firing, "MOST_CHECKS", 2)
    for n in range(5):
        put(desk, alice, rotate, f"n{n}")
    desk.register(alice, schema='{"type": "object"}', replace=True)
    desk.wait(HOUR + 1)
    assert [fire(desk) for _ in range(4)] == [2, 2, 1, 0]


# --- once -------------------------------------------------------------------------------------


def test_four_sweepers_fire_each_time_once(
    queue: JobQueue, desk: Desk, alice: Caller, rotate: Job
) -> None:
    """Each with connections of its own, all at the same moment."""
    for n in range(4):
        put(desk, alice, rotate, f"n{n}")
    desk.wait(HOUR + 1)
    fired: list[int] = []
    barrier = threading.Barrier(4)

    def race() -> None:
        with JobQueue.open(queue.settings, clock_offset=queue.clock_offset) as own:
            barrier.wait(30)
            fired.append(own.run(sweeping.fire_schedules).fired_schedules)

    racers = [threading.Thread(target=race) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    assert sum(fired) == 4
    assert sorted(task.key or "" for task in tasks(desk)) == ["n0", "n1", "n2", "n3"]


def test_a_sweep_that_is_cut_off_leaves_nothing_half(
    desk: Desk, alice: Caller, rotate: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = put(desk, alice, rotate).view.schedule
    desk.wait(HOUR + 1)

    def cut_off(*_: Any, **__: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(firing.planting, "add_tasks", cut_off)
        with pytest.raises(RuntimeError):
            fire(desk)
    assert stored(desk) == before
    assert fire(desk) == 1


def test_a_schedule_that_was_put_anew_at_the_same_moment_is_not_fired(
    desk: Desk, alice: Caller, rotate: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard: what was read is out of date, so nothing is submitted."""
    put(desk, alice, rotate)
    desk.wait(HOUR + 1)
    due = firing.schedules.list_due

    def outdated(*args: Any, **kwargs: Any) -> Any:
        found = due(*args, **kwargs)
        return [each._replace(version=9) for each in found]

    monkeypatch.setattr(firing.schedules, "list_due", outdated)
    assert fire(desk) == 0
    assert tasks(desk) == []


def test_its_tasks_are_in_the_list_of_its_creator(desk: Desk, alice: Caller, rotate: Job) -> None:
    put(desk, alice, rotate)
    desk.wait(HOUR + 1)
    fire(desk)
    found, total = desk.list(alice, created_by_id="alice")
    assert (total, found[0].task.key) == (1, "nightly")
    assert found[0].task.id == stored(desk).last_task_id
