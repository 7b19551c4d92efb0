"""The overview: which rooms there are and what goes on in them."""

from __future__ import annotations

from typing import NamedTuple

from jobroom.domain import names
from jobroom.domain.lifecycle import TaskStatus
from jobroom.domain.names import GLOBAL_ROOM, LOCAL_ROOM
from jobroom.domain.records import MICROSECONDS, Caller
from jobroom.service import access, workers
from jobroom.service.use_case import reads
from jobroom.store import room_jobs, rooms
from jobroom.store.lists import COUNT_LIMIT
from jobroom.store.transaction import Transaction

MOST_COUNTED = 1_000
"""So far the tasks of each status are counted for each room of a page."""
SHOWN = ("blocked", "pending", "claimed", "running", "failed")
"""The statuses that a list of rooms tells."""
ALL = tuple(status.value for status in TaskStatus)


class Room(NamedTuple):
    """A room in a list; ``by_status`` None: whoever asks may not see what was submitted there."""

    room_id: str
    jobs: int
    alive_workers: int
    by_status: dict[str, int] | None


class JobStats(NamedTuple):
    """What a job has to do in a room."""

    full_name: str
    alive_workers: int
    by_status: dict[str, int]
    oldest_seconds: float | None


class RoomStats(NamedTuple):
    """What goes on in a room. ``counted_to``: how far the tasks of one job are counted."""

    room_id: str
    job_count: int
    alive_workers: int
    by_status: dict[str, int]
    oldest_seconds: float | None
    jobs: list[JobStats]
    counted_to: int
    has_more_jobs: bool


@reads
def list_rooms(
    tx: Transaction, *, caller: Caller, limit: int, offset: int = 0, after: str = ""
) -> tuple[list[Room], int]:
    """A page of the rooms that the caller may see and that have jobs or tasks; with their total.

    The total is exact to ``COUNT_LIMIT`` and one more beyond it, the counts to ``MOST_COUNTED``.
    """
    found, total = _some(tx, caller, limit + offset, after)
    page = found[offset : offset + limit]
    counts = rooms.count_in(
        tx, page, statuses=SHOWN, alive_after=workers.alive_after(tx), most=MOST_COUNTED + 1
    )
    return [_room(caller, counts[room_id]) for room_id in page if room_id in counts], total


def _some(tx: Transaction, caller: Caller, most: int, after: str) -> tuple[list[str], int]:
    """The first rooms behind one, at least so many where there are, and how many there are."""
    if caller.rooms is not None:
        # A token may name what can be no room; not every store could be asked for it.
        able = {each for each in caller.rooms if not names.name_fault(each)}
        local = {LOCAL_ROOM} if caller.sees(LOCAL_ROOM) else set()
        named = rooms.present(tx, sorted({*able, *local, GLOBAL_ROOM}))
        return sorted(room_id for room_id in named if room_id > after), len(named)
    # One more each: @local is found, and not an ordinary user's to see.
    found = rooms.rooms_after(tx, after, most=most + 1) if most else []
    total = rooms.count_rooms(tx, most=COUNT_LIMIT + 2)
    hidden = () if caller.sees(LOCAL_ROOM) else (LOCAL_ROOM,)
    total -= len(rooms.present(tx, hidden))
    return [room_id for room_id in found if room_id not in hidden], min(total, COUNT_LIMIT + 1)


def _room(caller: Caller, counts: rooms.RoomCounts) -> Room:
    sees_tasks = counts.room_id != GLOBAL_ROOM or access.is_admin_in(caller, GLOBAL_ROOM)
    by_status = counts.by_status if sees_tasks else None
    return Room(counts.room_id, counts.jobs, counts.alive_workers, by_status)


@reads
def room_stats(tx: Transaction, *, caller: Caller, room_id: str) -> RoomStats:
    """What goes on in a room, by job and status; a room that has nothing yet is all zeros.

    Raises NotFound (a room out of sight) and Forbidden (``@global`` needs an admin).
    """
    access.check_sight_of_room(caller, room_id)
    access.check_admin_for_global(caller, room_id, "Counting the tasks submitted")
    alive_after = workers.alive_after(tx)
    whole = rooms.count_in(
        tx, [room_id], statuses=ALL, alive_after=alive_after, most=COUNT_LIMIT + 1
    )[room_id]
    jobs, counted_to, has_more = room_jobs.count_by_job(tx, room_id, alive_after=alive_after)
    told = [
        JobStats(
            each.full_name,
            each.alive_workers,
            each.by_status,
            None if each.since is None else max(0.0, (tx.now - each.since) / MICROSECONDS),
        )
        for each in jobs
    ]
    ages = [each.oldest_seconds for each in told if each.oldest_seconds is not None]
    return RoomStats(
        room_id,
        whole.jobs,
        whole.alive_workers,
        whole.by_status,
        max(ages, default=None),
        told,
        counted_to,
        has_more,
    )
