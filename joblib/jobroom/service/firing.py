"""Firing: what is due by a schedule is submitted, once however many sweeps there are.

One transaction moves the schedule to its next time, guarded by the time and the version that were
read, and submits the tasks; a sweep that is cut off leaves either both or nothing.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jobroom.domain import damage, jsontext, names
from jobroom.domain.records import MICROSECONDS, Caller
from jobroom.errors import JobroomError, PayloadInvalid, StoreUnavailable
from jobroom.service import planting, standing, submission, timetable
from jobroom.service.new_task import NewTask
from jobroom.service.planning import Asked
from jobroom.service.timetable import Timing
from jobroom.store import edges, schedules, state, weaving

if TYPE_CHECKING:
    from jobroom.domain.records import Job, Schedule
    from jobroom.service.standing import StandingTask
    from jobroom.store.transaction import Transaction

GRACE_SECONDS = 300
"""With ``skip``, what was missed by more is left out; or by three intervals of the sweep."""
OUTAGE_INTERVALS = 3
SET_BACK_SECONDS = 3600
"""A clock set back by more: next times are reckoned anew, or some would lie years ahead."""
TRY_AGAIN_SECONDS = 3600
"""When a schedule whose times cannot be read is looked at again: it may be this host alone."""
ROUNDS = 10
MOST_CHECKS = 10
"""So many payloads one transaction holds against a schema that has changed: others wait for it."""
LONGEST_ERROR = 1000


class _Due(NamedTuple):
    """What is to be done for a schedule that is due."""

    times: list[int]
    """For which of its times a task is submitted now."""
    next_at: int | None
    error: str | None = None


class _Checks:
    """How many payloads may still be checked in this transaction."""

    def __init__(self) -> None:
        self.left = MOST_CHECKS


def fire_due(tx: Transaction) -> int:
    """Submit what is due, at most ``tx.batch`` tasks; how many there were."""
    _follow_clock(tx)
    fired, checks = 0, _Checks()
    for _ in range(ROUNDS):
        limit = tx.batch - fired
        due = schedules.list_due(tx, limit=limit)
        if due:
            edges.lock(tx)
        # Each comes once before one catches up; and less than a batch, or the sweep would go on.
        more = limit - 1 - len(due)
        for each in due:
            count = _fire(tx, each, more=max(0, more), checks=checks)
            more -= max(0, count - 1)
            fired += count
        if len(due) < limit or fired >= tx.batch or not checks.left:
            break
    return fired


def _fire(tx: Transaction, schedule: Schedule, *, more: int, checks: _Checks) -> int:
    """Submit what one schedule owes; how many tasks that is."""
    due = _owed(tx, schedule, more=more)
    task, job, fault = _look(tx, schedule, checks) if due.times else (None, None, None)
    if due.times and fault is None and task is None:
        return 0  # its payload is checked by the next sweep
    ids = [names.new_uuid7() for _ in due.times] if job is not None and fault is None else []
    after = schedule._replace(
        next_at=due.next_at,
        task=schedule.task if task is None else standing.write(task),
        last_error=due.error or fault if due.times or due.error else schedule.last_error,
    )
    if ids:
        after = after._replace(last_at=tx.now, last_task_id=ids[-1])
    if not schedules.advance(tx, schedule, after):
        return 0
    if ids and job is not None and task is not None:
        _submit(tx, schedule, job, task, dict(zip(ids, due.times, strict=True)))
    return len(ids)


def _owed(tx: Transaction, schedule: Schedule, *, more: int) -> _Due:
    """For which of its times a schedule fires now, and when next."""
    due_at = schedule.next_at or 0
    timing = Timing.of(schedule)
    # What it did last, which this writes over, hinders nobody.
    fault = damage.schedule_flaw(schedule._replace(**_PAST))
    try:
        if fault is not None:
            return _put_right(tx, schedule, fault)
        if schedule.catch_up == "all":
            return _all_owed(tx, timing, due_at, more)
        if schedule.catch_up == "skip":
            earliest = tx.now - _grace(tx)
            if due_at < earliest:
                found = timetable.next_after(timing, earliest - 1)
                if found is None or found > tx.now:
                    return _Due([], found)
                due_at = found
        return _Due([due_at], timetable.next_after(timing, tx.now))
    except (JobroomError, LookupError, OSError, TypeError, ValueError) as fault:
        reason = str(fault) if isinstance(fault, JobroomError) else "its times cannot be read"
        error = f"The schedule did not fire: {reason.rstrip('.')}; put it again."
        return _Due([], tx.now + TRY_AGAIN_SECONDS * MICROSECONDS, error)


_PAST: dict[str, Any] = {"version": 0, "last_at": None, "last_task_id": None, "last_error": None}


def _put_right(tx: Transaction, schedule: Schedule, fault: str) -> _Due:
    """A damaged row fires nothing; if it is its next time alone, that is reckoned anew."""
    if damage.schedule_flaw(schedule._replace(**_PAST, next_at=None)) is None:
        story = f"The stored schedule was damaged ({fault}); its next time was reckoned anew."
        return _Due([], timetable.next_after(Timing.of(schedule), tx.now), story)
    later = tx.now + TRY_AGAIN_SECONDS * MICROSECONDS
    return _Due([], later, damage.schedule_story(fault))


def _all_owed(tx: Transaction, timing: Timing, due_at: int, more: int) -> _Due:
    times = [due_at]
    following = timetable.next_after(timing, due_at)
    while following is not None and following <= tx.now and len(times) <= more:
        times.append(following)
        following = timetable.next_after(timing, following)
    return _Due(times, following)


def _grace(tx: Transaction) -> int:
    intervals = tx.settings.sweeper_interval_seconds * OUTAGE_INTERVALS
    return int(max(GRACE_SECONDS, intervals) * MICROSECONDS)


def _look(
    tx: Transaction, schedule: Schedule, checks: _Checks
) -> tuple[StandingTask | None, Job | None, str | None]:
    """What is to be submitted, to which job, or why nothing can be.

    A payload is checked once for each version of the schema; what came out is kept with it.
    """
    try:
        task = standing.read(schedule.task)
    except standing.UNREADABLE:
        return None, None, damage.schedule_story(standing.FLAW)
    job = weaving.current_jobs(tx, [schedule.job_seq]).get(schedule.job_seq)
    if job is None:
        return task, None, "The job of the schedule is gone; register it and put the schedule anew."
    if not job.validate:
        return task._replace(checked_version=0, fault=None), job, None
    if task.checked_version != job.schema_version:
        if not checks.left:
            return None, None, None
        checks.left -= 1
        fault = _misfit(job, task.payload)
        task = task._replace(checked_version=job.schema_version, fault=fault)
    return task, job, task.fault


def _misfit(job: Job, payload: str) -> str | None:
    """Why a payload does not fit the job's schema as it is now."""
    from jobroom.service import payloads

    try:
        check = payloads.compile_schema(job.schema)
        check.check(json.loads(payload), characters=len(payload), at="/payload")
    except PayloadInvalid as fault:
        place = f"{fault.errors[0].pointer}: {fault.errors[0].message}" if fault.errors else ""
        said = f"The payload does not fit the schema of {job.full_name} any more: {place or fault}"
        return jsontext.cut_text(jsontext.escape_nul(said), LONGEST_ERROR)
    except (JobroomError, ValueError) as fault:
        return jsontext.cut_text(f"The payload cannot be checked: {fault}", LONGEST_ERROR)
    return None


def _submit(
    tx: Transaction, schedule: Schedule, job: Job, task: StandingTask, times: dict[str, int]
) -> None:
    """Add the tasks: named by the schedule's name, with the time that each is for as ``run_at``."""
    caller = Caller(schedule.created_by_id, is_admin=True)
    news = [
        NewTask(
            payload=task.payload,
            priority=task.priority,
            max_attempts=task.max_attempts,
            timeout_seconds=task.timeout_seconds,
            run_at=at,
            id=task_id,
            # No client asks for these again: whoever gives up the sweep must not withdraw them.
            fingerprint=f"{schedule.id} {at}",
            key=schedule.name,
        )
        for task_id, at in times.items()
    ]
    describe = partial(submission.columns, caller=caller, room_id=schedule.room_id)
    asked = [Asked(new, job) for new in news]
    if planting.add_tasks(tx, caller=caller, asked=asked, describe=describe) is None:
        # It was kept from changing; the step is rolled back, and the next sweep does it.
        raise StoreUnavailable(f"The job {job.full_name} keeps changing; try again in a moment.")


def _follow_clock(tx: Transaction) -> None:
    """After the store's clock was set back by hours, no next time may lie further ahead than due.

    By less, schedules wait until it is where it was, and nothing fires twice.
    """
    seen = state.get(tx, state.FIRED_AT)
    if seen is not None and seen > tx.now + SET_BACK_SECONDS * MICROSECONDS:
        after = 0
        while ahead := schedules.list_ahead(tx, after=after, limit=tx.batch):
            for each in ahead:
                _bring_nearer(tx, each)
            after = ahead[-1].seq
    elif seen is not None and seen > tx.now:
        return
    state.put(tx, state.FIRED_AT, tx.now)


def _bring_nearer(tx: Transaction, schedule: Schedule) -> None:
    if damage.schedule_flaw(schedule) is not None:
        return  # it is told when it is due
    try:
        next_at = timetable.next_after(Timing.of(schedule), tx.now)
    except (JobroomError, LookupError, OSError, ValueError):
        return  # so is this
    if next_at is not None and schedule.next_at is not None and next_at < schedule.next_at:
        schedules.advance(tx, schedule, schedule._replace(next_at=next_at))
