"""A task to be submitted, from what a program says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from jobroom.client import options as job_options
from jobroom.client import plan as plans
from jobroom.client import result as results
from jobroom.client.extension import category_of
from jobroom.client.options import Registration
from jobroom.client.plan import Dependency
from jobroom.client.transport import Json
from jobroom.domain.names import GLOBAL_ROOM
from jobroom.errors import JobNotFound, ValidationFailed


def task_of(
    registered: Mapping[str, Registration],
    job: str | type[BaseModel] | BaseModel,
    payload: Mapping[str, Any] | None,
    *,
    room: str | None,
    priority: int = 0,
    run_at: datetime | None = None,
    expires_at: datetime | None = None,
    max_attempts: int | None = None,
    timeout_seconds: float | None = None,
    depends_on: Iterable[Dependency] = (),
    parent: Dependency | None = None,
    **fields: Any,
) -> tuple[str, Json]:
    """The full name of a task's job, and the task as a request has it.

    ``fields`` are payload given as keywords. Raises JobNotFound for a class that is registered
    elsewhere only, ValidationFailed for a time without a zone.
    """
    if room is not None:
        job_options.check_room(room)
    full_name, arguments = _job_and_payload(registered, job, payload, fields, room)
    options = {
        "priority": priority or None,
        "run_at": _instant("run_at", run_at),
        "expires_at": _instant("expires_at", expires_at),
        "max_attempts": max_attempts,
        "timeout_seconds": timeout_seconds,
        "depends_on": plans.dependencies(depends_on) or None,
        "parent": None if parent is None else plans.id_of(parent),
    }
    given = {key: value for key, value in options.items() if value is not None}
    return full_name, {"payload": arguments, **given}


def _job_and_payload(
    registered: Mapping[str, Registration],
    job: str | type[BaseModel] | BaseModel,
    payload: Mapping[str, Any] | None,
    fields: Mapping[str, Any],
    room: str | None,
) -> tuple[str, dict[str, Any]]:
    given = dict(payload or {})
    if isinstance(job, BaseModel):
        given, job = {**results.plain(job), **given}, type(job)
    if not isinstance(job, str):
        job = _name_of(registered, job, room)
    return job, {**given, **fields}


def _name_of(registered: Mapping[str, Registration], cls: type[BaseModel], room: str | None) -> str:
    known = {one.room: name for name, one in registered.items() if one.cls is cls}
    if room is None and len(known) > 1:
        raise JobNotFound(f"{cls.__name__} is registered in several rooms: name one of them.")
    # A room sees its own jobs and the global ones.
    seen = [known[one] for one in (room, GLOBAL_ROOM) if one in known]
    if room is not None and known and not seen:
        raise JobNotFound(
            f"{cls.__name__} is not registered in room {room!r}, only in {', '.join(known)}:"
            " register it there, or submit it where it is."
        )
    names = seen or list(known.values())
    return names[0] if names else f"{GLOBAL_ROOM}:{category_of(cls)}:{cls.__name__}"


def _instant(name: str, at: object) -> str | None:
    if at is None:
        return None
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise ValidationFailed(f"{name} is a datetime with a time zone, as datetime.now(UTC) is.")
    return at.isoformat()
