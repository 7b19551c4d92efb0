"""Endpoints of the overview: the rooms, what goes on in one, and why a task is not running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobroom.errors import FieldError, ValidationFailed
from jobroom.http import fitting, paging, render, tasks
from jobroom.http.exchange import reply
from jobroom.service import explaining, overview
from jobroom.store.lists import COUNT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobroom.http.exchange import Call, Reply

LARGEST_OFFSET = COUNT_LIMIT
"""A list of rooms is walked room by room; who goes further takes the cursor."""


async def list_rooms(call: Call) -> Reply:
    """The rooms that the token may see and that have jobs or tasks, by name."""
    asked = paging.page(call, "rooms")
    if asked.offset > LARGEST_OFFSET:
        fault = FieldError("/offset", f"must be at most {LARGEST_OFFSET} here; use the cursor")
        raise ValidationFailed(f"The query parameter offset {fault.message}.", errors=(fault,))
    found, total = await call.run(
        overview.list_rooms,
        caller=call.caller,
        limit=asked.limit + 1 if asked.limit else 0,
        offset=asked.offset,
        after=asked.after or "",
    )
    page = paging.page_document(
        "rooms",
        asked,
        found,
        min(total, COUNT_LIMIT),
        key=lambda room: room.room_id,
        show=_room,
        most_bytes=call.most_answer_bytes,
    )
    return reply({**page, "total_capped": total > COUNT_LIMIT})


def _room(room: overview.Room) -> render.Document:
    counts, capped = _counted(room.by_status or {}, overview.MOST_COUNTED)
    shown: dict[str, Any] = dict.fromkeys(overview.SHOWN) | counts
    return {
        "room_id": room.room_id,
        "jobs": min(room.jobs, overview.MOST_COUNTED),
        "alive_workers": room.alive_workers,
        **shown,
        "capped": capped,
    }


def _counted(by_status: Mapping[str, int], most: int) -> tuple[dict[str, int], list[str]]:
    """The counts up to a limit, and the names of those that go beyond it."""
    told = {status: min(count, most) for status, count in by_status.items()}
    return told, [status for status, count in by_status.items() if count > most]


async def show_stats(call: Call) -> Reply:
    """What goes on in a room."""
    found: overview.RoomStats = await call.run(
        overview.room_stats, caller=call.caller, room_id=call.path("room_id")
    )
    counts, capped = _counted(found.by_status, COUNT_LIMIT)
    jobs = [_job(job, found.counted_to) for job in found.jobs]
    fitting_ones = fitting.how_many((len(render.dump(job)) for job in jobs), call.most_answer_bytes)
    return reply(
        {
            "room_id": found.room_id,
            "job_count": min(found.job_count, COUNT_LIMIT),
            "alive_workers": found.alive_workers,
            "oldest_pending_seconds": found.oldest_seconds,
            "tasks": counts,
            "capped": capped,
            "jobs": jobs[:fitting_ones],
            "jobs_left_out": found.has_more_jobs or fitting_ones < len(jobs),
            "counted_to": found.counted_to,
        }
    )


def _job(job: overview.JobStats, most: int) -> render.Document:
    counts, capped = _counted(job.by_status, most)
    return {
        "full_name": job.full_name,
        "alive_workers": job.alive_workers,
        "oldest_pending_seconds": job.oldest_seconds,
        "tasks": counts,
        "capped": capped,
    }


async def explain_task(call: Call) -> Reply:
    """Why a task is not running, in one sentence."""
    said: explaining.Explanation = await call.run(
        explaining.explain_task, caller=call.caller, task_id=tasks.task_id_of(call)
    )
    return reply({"status": said.status, "reason": said.reason})
