"""Who may see and do what (contract, *Identity*; rules, *Who sees what*)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jobroom.domain import names
from jobroom.errors import Forbidden, JobNotFound, NotFound, TaskNotFound

if TYPE_CHECKING:
    from jobroom.domain.records import Caller, Task
    from jobroom.store.planned import Dependency


def is_admin_in(caller: Caller, room_id: str) -> bool:
    """An admin's rights end where the rooms of the token end."""
    return caller.is_admin and caller.sees(room_id)


def check_room(caller: Caller, room_id: str) -> None:
    """Refuse a room that is malformed or reserved, or that the token may not see (404, not 403)."""
    names.check_room(room_id)
    check_sight_of_room(caller, room_id)


def check_sight_of_room(caller: Caller, room_id: str) -> None:
    """As ``check_room``, for who only looks: an admin may, into ``@local`` too."""
    if room_id != names.LOCAL_ROOM:
        names.check_room(room_id)
    if room_id != names.GLOBAL_ROOM and not caller.sees(room_id):
        message = f"There is no room {room_id!r} that this token may see."
        raise NotFound(message)


def is_admin_everywhere(caller: Caller) -> bool:
    """What reaches over rooms needs an admin whose token is not bound to some of them."""
    return caller.is_admin and caller.rooms is None


def check_admin_for_global(caller: Caller, room_id: str, doing: str) -> None:
    """What happens in ``@global`` concerns every room: it needs an admin."""
    if room_id == names.GLOBAL_ROOM and not is_admin_in(caller, room_id):
        message = f"{doing} in @global needs an admin token."
        raise Forbidden(message)


def check_admin(caller: Caller, doing: str) -> None:
    """Refuse whoever is no admin of all rooms."""
    if not is_admin_everywhere(caller):
        message = f"{doing} needs an admin token that is not bound to rooms."
        raise Forbidden(message)


def claims_from(caller: Caller, room_id: str) -> bool:
    """Whether a claim takes tasks of a job of this room.

    A global job's come from every room, so no token that is bound to rooms gets them.
    """
    return caller.rooms is None or (room_id in caller.rooms and not names.name_fault(room_id))


def rooms_to_claim_from(caller: Caller) -> str | None:
    """The rooms of ``claims_from`` as the store is given them; None where they are all."""
    if caller.rooms is None:
        return None
    return json.dumps(sorted(each for each in caller.rooms if claims_from(caller, each)))


def rooms_seen(caller: Caller) -> str | None:
    """The rooms of the token as the store is given them; None where they are all."""
    if caller.rooms is None:
        return None
    # A token may name what can be no room; not every store could be asked for it.
    named = (each for each in caller.rooms if each in _SPECIAL or not names.name_fault(each))
    return json.dumps(sorted(each for each in named if caller.sees(each)))


_SPECIAL = (names.GLOBAL_ROOM, names.LOCAL_ROOM)


def job_not_found(full_name: str) -> JobNotFound:
    """The one answer for a job that is malformed, another room's, or unknown."""
    return JobNotFound(
        f"There is no job {full_name!r} in this room; GET the room's jobs lists what there is."
    )


def task_not_found(task_id: str) -> TaskNotFound:
    """The one answer for a task that is unknown or may not be seen."""
    return TaskNotFound(f"There is no task {task_id!r} that this token may see.")


def sees_task(caller: Caller, task: Task | Dependency, holder: str | None) -> bool:
    """The creator always, the holder whatever his rooms, else whoever sees the room.

    Who made or holds a task of ``@local`` is a process: a token may only be spelled like it.
    """
    if task.room_id != names.LOCAL_ROOM and caller.identity in (task.created_by_id, holder):
        return True
    return caller.sees(task.room_id)
