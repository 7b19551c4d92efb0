"""Schedules: to put, show, list and remove what is submitted again and again."""

from __future__ import annotations

from typing import Any, NamedTuple

from jobroom.domain import damage, names
from jobroom.domain.records import Caller, Job, Schedule
from jobroom.errors import Conflict, Forbidden, JobroomError, NotFound
from jobroom.service import access, standing, submission, timetable
from jobroom.service.standing import StandingTask
from jobroom.service.timetable import Timing
from jobroom.service.use_case import reads, writes
from jobroom.store import schedules
from jobroom.store.schedules import Found
from jobroom.store.transaction import Transaction

UPCOMING = 5
"""So many of its next times a schedule tells."""
MOST_LOOKED_AT = 1_000_000
MOST_TOLD = 5
LOOKING = "Looking at schedules"


class ScheduleSpec(NamedTuple):
    """What a request says of a schedule; name, times and payload were checked by the door."""

    name: str
    task: StandingTask = StandingTask()
    cron: str | None = None
    every_seconds: float | None = None
    timezone: str = "UTC"
    catch_up: str = "one"
    paused: bool = False
    start_at: int | None = None
    end_at: int | None = None

    def timing(self, since: int = 0) -> Timing:
        """What it says of its times."""
        return Timing(
            self.cron, self.every_seconds, self.timezone, self.start_at, self.end_at, since
        )


class ScheduleView(NamedTuple):
    """A schedule as a reader sees it; ``task`` is None where that cannot be read."""

    schedule: Schedule
    job_name: str | None
    task: StandingTask | None
    upcoming: tuple[int, ...] = ()


class Put(NamedTuple):
    """The schedule as it is now, and whether it is new."""

    view: ScheduleView
    created: bool


@writes
def put_schedule(
    tx: Transaction, *, caller: Caller, room_id: str, job: Job, spec: ScheduleSpec
) -> Put:
    """Make a schedule, or bring the one of that name to what is said.

    Its next time is reckoned anew where what it says of its times has changed; else what was
    missed while it was paused is still to be caught up. Who made it stays its creator. Raises
    ValidationFailed (no time ever comes), NotFound, Forbidden and Conflict.
    """
    names.check_name(spec.name)
    submission.check_may_submit(caller, room_id)
    tx.serialize()
    found = schedules.get(tx, room_id=room_id, name=spec.name)
    if found is None:
        added = schedules.add(tx, _new(tx, caller, room_id, job, spec))
        return Put(_view(tx, Found(added, job.full_name)), created=True)
    _check_owner(caller, found.schedule)
    if damage.schedule_flaw(found.schedule) is not None:
        mended = _write_anew(tx, caller, found.schedule, _new(tx, caller, room_id, job, spec))
        return Put(_view(tx, Found(mended, job.full_name)), created=False)
    changed = _changed(tx, found.schedule, job, spec)
    written: Schedule | None = found.schedule
    if changed != found.schedule:
        written = schedules.replace(tx, changed)
    if written is None:
        message = f"The schedule {spec.name} was changed at the same moment; put it again."
        raise Conflict(message)
    # The answer to it may have been lost on the way from the store: then it is still the first.
    created = tx.token is not None and written.id == tx.token
    return Put(_view(tx, Found(written, job.full_name)), created)


def _new(tx: Transaction, caller: Caller, room_id: str, job: Job, spec: ScheduleSpec) -> Schedule:
    return Schedule(
        seq=0,
        id=tx.token or names.new_uuid7(),
        room_id=room_id,
        name=spec.name,
        job_seq=job.seq,
        created_by_id=caller.identity,
        task=standing.write(spec.task),
        **_times(spec),
        created_at=tx.now,
        next_at=timetable.first_after(spec.timing(tx.now), tx.now),
        last_at=None,
        last_task_id=None,
        last_error=None,
        version=1,
    )


def _write_anew(tx: Transaction, caller: Caller, found: Schedule, new: Schedule) -> Schedule:
    """Put a sound row in the place of a damaged one; what can be read of its past is kept."""
    left = damage.mended_schedule(found)
    schedules.remove(tx, found.seq)
    kept = new._replace(
        id=left.id or new.id,
        created_by_id=left.created_by_id or caller.identity,
        last_at=left.last_at,
        last_task_id=left.last_task_id,
    )
    return schedules.add(tx, kept)


def _changed(tx: Transaction, found: Schedule, job: Job, spec: ScheduleSpec) -> Schedule:
    """The row as it is to be; the very same where nothing is said anew."""
    timing, task = spec.timing(found.created_at), standing.write(spec.task)
    next_at = found.next_at
    if timing != Timing.of(found):
        next_at = timetable.first_after(timing, tx.now)
    is_another = (job.seq, task, next_at) != (found.job_seq, found.task, found.next_at)
    return found._replace(
        job_seq=job.seq,
        task=task,
        **_times(spec),
        next_at=next_at,
        last_error=None if is_another else found.last_error,
    )


def _times(spec: ScheduleSpec) -> dict[str, Any]:
    """The columns that say when it fires, as they were said."""
    return {
        "cron": spec.cron,
        "every_seconds": spec.every_seconds,
        "timezone": spec.timezone,
        "catch_up": spec.catch_up,
        "paused": int(spec.paused),
        "start_at": spec.start_at,
        "end_at": spec.end_at,
    }


def _check_owner(caller: Caller, found: Schedule) -> None:
    if caller.identity != found.created_by_id and not access.is_admin_in(caller, found.room_id):
        message = (
            f"The schedule {found.name!r} is {found.created_by_id!r}'s; its creator or an admin"
            " may change it."
        )
        raise Forbidden(message)


@reads
def show_schedule(tx: Transaction, *, caller: Caller, room_id: str, name: str) -> ScheduleView:
    """A schedule with its next times."""
    return _view(tx, _find(tx, caller, room_id, name))


def _find(tx: Transaction, caller: Caller, room_id: str, name: str) -> Found:
    access.check_room(caller, room_id)
    access.check_admin_for_global(caller, room_id, LOOKING)
    found = None if names.name_fault(name) else schedules.get(tx, room_id=room_id, name=name)
    if found is None:
        message = (
            f"There is no schedule {name!r} in this room; GET the room's schedules lists what"
            " there is."
        )
        raise NotFound(message)
    return found


@reads
def list_schedules(
    tx: Transaction, *, caller: Caller, room_id: str, limit: int, offset: int = 0, after: str = ""
) -> tuple[list[ScheduleView], int]:
    """A room's schedules by name, without their next times; with their total."""
    access.check_room(caller, room_id)
    access.check_admin_for_global(caller, room_id, LOOKING)
    found = schedules.list_page(tx, room_id=room_id, after=after, limit=limit, offset=offset)
    return [_shown(each) for each in found], schedules.count(tx, room_id)


@reads
def damaged(tx: Transaction) -> list[str]:
    """What other hands have done to schedules: which ones, how, and what to do; a few of many."""
    told: list[str] = []
    for stored in schedules.list_all(tx, limit=MOST_LOOKED_AT):
        fault = damage.schedule_flaw(stored) or standing.flaw(stored.task)
        if fault is not None:
            told.append(
                f"The schedule {stored.name!r} of room {stored.room_id!r} is damaged ({fault}):"
                " put it again."
            )
        if len(told) == MOST_TOLD:
            break
    return told


@writes
def remove_schedule(tx: Transaction, *, caller: Caller, room_id: str, name: str) -> None:
    """Take a schedule away; what it has submitted stays. Its creator or an admin may."""
    access.check_room(caller, room_id)
    tx.serialize()
    if tx.is_repeat and schedules.get(tx, room_id=room_id, name=name) is None:
        return  # it was there before the answer was lost between the store and us
    found = _find(tx, caller, room_id, name)
    _check_owner(caller, found.schedule)
    schedules.remove(tx, found.schedule.seq)


def _view(tx: Transaction, found: Found) -> ScheduleView:
    view = _shown(found)
    return view._replace(upcoming=_upcoming(tx, view.schedule))


def _shown(found: Found) -> ScheduleView:
    """What can be shown of a row, whatever another hand has written to it."""
    schedule = damage.mended_schedule(found.schedule)
    try:
        return ScheduleView(schedule, found.job_name, standing.read(schedule.task))
    except standing.UNREADABLE:
        if schedule is found.schedule:
            schedule = schedule._replace(last_error=damage.schedule_story(standing.FLAW))
        return ScheduleView(schedule, found.job_name, None)


def _upcoming(tx: Transaction, schedule: Schedule) -> tuple[int, ...]:
    """The next times; none while it is paused, or where no time comes any more."""
    first = schedule.next_at
    if first is None or schedule.paused:
        return ()
    try:
        timing = Timing.of(schedule)
        rest = timetable.list_after(timing, max(first, tx.now), UPCOMING - 1)
        return (first, *rest)
    except (JobroomError, LookupError, OSError, TypeError, ValueError):
        return (first,)  # its time zone is gone from this host, or another hand wrote to the row
