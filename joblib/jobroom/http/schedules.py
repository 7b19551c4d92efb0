"""Endpoints of schedules: put, show, list, remove."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from anyio import to_thread

from jobroom import wire
from jobroom.domain import names
from jobroom.domain.timetext import format_time
from jobroom.errors import PayloadTooLarge
from jobroom.http import fitting, paging, tasks
from jobroom.http.exchange import Call, Reply, reply
from jobroom.http.fitting import Left
from jobroom.service import access, scheduling, timetable
from jobroom.service.standing import StandingTask

if TYPE_CHECKING:
    from jobroom.domain.records import Job
    from jobroom.http.render import Document
    from jobroom.service.scheduling import ScheduleView

LARGEST_PAYLOAD = 64 * 1024
"""A sweep reads a hundred schedules at once; what is larger is better sent as a reference."""
LISTED_PAYLOAD = 4 * 1024
"""In a list a longer one is left out, as that of a task is."""


async def put_schedule(call: Call) -> Reply:
    """Make a schedule, or change the one of that name."""
    body = await call.body(wire.PutSchedule, limit=call.door.settings.max_body_bytes)
    room_id, payload = call.path("room_id"), call.raw("payload") or "{}"
    names.check_name(body.name)
    _check_size(payload)
    tasks.check_can_be_claimed(call, payload)
    spec = scheduling.ScheduleSpec(
        name=body.name,
        cron=body.cron,
        every_seconds=body.every_seconds,
        timezone=body.timezone,
        catch_up=body.catch_up,
        paused=body.paused,
        start_at=body.start_at,
        end_at=body.end_at,
    )
    timetable.check(spec.timing())
    access.check_room(call.caller, room_id)
    job = await tasks.find_job(call, room_id, body.job)
    # One that is paused is checked when it is resumed: what no longer fits may be stopped.
    is_checked = job.validate and not body.paused
    if is_checked:
        await _check_payload(call, job, payload)
    task = StandingTask(
        payload=payload,
        priority=body.priority,
        max_attempts=body.max_attempts,
        timeout_seconds=body.timeout_seconds,
        checked_version=job.schema_version if is_checked else 0,
    )
    done: scheduling.Put = await call.run(
        scheduling.put_schedule,
        caller=call.caller,
        room_id=room_id,
        job=job,
        spec=spec._replace(task=task),
    )
    return _shown(call, done.view, status=201 if done.created else 200)


def _check_size(payload: str) -> None:
    if len(payload.encode()) > LARGEST_PAYLOAD:
        raise PayloadTooLarge(
            f"The payload is over the {LARGEST_PAYLOAD} bytes that a schedule keeps; send a"
            " reference to it."
        )


async def _check_payload(call: Call, job: Job, text: str) -> None:
    check = call.door.schemas.get(job.seq, job.schema_version, job.schema)
    payload = call.values().get("payload") or {}
    judge = partial(check.check, payload, characters=len(text), at="/payload")
    if len(text) > LARGEST_PAYLOAD // 4:
        await to_thread.run_sync(judge)
    else:
        judge()


async def show_schedule(call: Call) -> Reply:
    """A schedule with its next times."""
    view = await call.run(
        scheduling.show_schedule,
        caller=call.caller,
        room_id=call.path("room_id"),
        name=call.path("schedule_name"),
    )
    return _shown(call, view)


async def remove_schedule(call: Call) -> Reply:
    """A schedule is taken away."""
    await call.run(
        scheduling.remove_schedule,
        caller=call.caller,
        room_id=call.path("room_id"),
        name=call.path("schedule_name"),
    )
    return Reply(204, b"", ())


async def list_schedules(call: Call) -> Reply:
    """The schedules of a room."""
    asked = paging.page(call, "schedules")
    views, total = await call.run(
        scheduling.list_schedules,
        caller=call.caller,
        room_id=call.path("room_id"),
        limit=asked.limit + 1 if asked.limit else 0,
        offset=asked.offset,
        after=asked.after or "",
    )
    document = paging.page_document(
        "schedules",
        asked,
        views,
        total,
        key=lambda view: view.schedule.name,
        show=partial(schedule_document, most_bytes=LISTED_PAYLOAD),
        shorter=partial(schedule_document, most_bytes=0),
        most_bytes=call.most_answer_bytes,
    )
    return reply(document)


def _shown(call: Call, view: ScheduleView, *, status: int = 200) -> Reply:
    def document(left: Left | None = None) -> Document:
        most_bytes = LARGEST_PAYLOAD if left is None or left < Left.PAYLOAD else 0
        upcoming = [format_time(at) for at in view.upcoming]
        return {**schedule_document(view, most_bytes=most_bytes), "upcoming": upcoming}

    return fitting.fitting_reply(call, document(), document, status=status)


def schedule_document(view: ScheduleView, *, most_bytes: int) -> Document:
    """A schedule as the contract writes it, with its payload where that is not longer."""
    stored, task = view.schedule, view.task or StandingTask(payload="null")
    size = len(task.payload.encode())
    document: dict[str, Any] = {
        "id": stored.id,
        "name": stored.name,
        "room_id": stored.room_id,
        "job": view.job_name or "",
        "payload": orjson.Fragment(task.payload) if size <= most_bytes else None,
        "cron": stored.cron,
        "every_seconds": stored.every_seconds,
        "timezone": stored.timezone,
        "catch_up": stored.catch_up,
        "paused": bool(stored.paused),
        "start_at": format_time(stored.start_at),
        "end_at": format_time(stored.end_at),
        "priority": task.priority,
        "max_attempts": task.max_attempts,
        "timeout_seconds": task.timeout_seconds,
        "created_by_id": stored.created_by_id,
        "created_at": format_time(stored.created_at),
        "next_at": None if stored.paused else format_time(stored.next_at),
        "last_at": format_time(stored.last_at),
        "last_task_id": stored.last_task_id,
        "last_error": stored.last_error,
    }
    if size > most_bytes:
        document["payload_bytes"] = size
    return document
