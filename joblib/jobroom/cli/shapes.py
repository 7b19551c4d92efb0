"""What the verbs read from the server's answers; another shape is not the job queue's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobroom.cli import exits
from jobroom.domain.lifecycle import TaskStatus

Fits = Callable[[Any], bool]

LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""What no terminal and no address can carry."""


def _text(value: Any) -> bool:
    return isinstance(value, str) and LONE_SURROGATE.search(value) is None


def _number(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _time(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _status(value: Any) -> bool:
    return isinstance(value, str) and value in set(TaskStatus)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _anything(_: Any) -> bool:
    return True


def _or_null(fits: Fits) -> Fits:
    return lambda value: value is None or fits(value)


def _list_of(fits: Fits) -> Fits:
    return lambda value: isinstance(value, list) and all(fits(one) for one in value)


@dataclass(frozen=True, slots=True)
class Shape:
    """The members that are read: those that must be there, and those that may be."""

    needed: Mapping[str, Fits]
    optional: Mapping[str, Fits]

    def misfits(self, document: Any, before: str = "") -> Iterator[str]:
        """Yield in words what of a document is not as the contract has it."""
        if not isinstance(document, dict):
            yield f"{before.rstrip('.') or 'it'} is no object"
            return
        for name, fits in self.needed.items():
            if name not in document:
                yield f"it has no {before}{name}"
            elif not fits(document[name]):
                yield f"its {before}{name} is of another type"
        for name, fits in self.optional.items():
            if name in document and not fits(document[name]):
                yield f"its {before}{name} is of another type"

    def __call__(self, value: Any) -> bool:
        """Whether a value has this shape."""
        return next(self.misfits(value), None) is None


ME = Shape(
    needed={"id": _text},
    optional={"is_admin": _flag, "rooms": _or_null(_list_of(_text))},
)
MADE = Shape(needed={"id": lambda value: _text(value) and value != ""}, optional={})
TASK = Shape(
    needed={
        "id": _text,
        "status": _status,
        "job_name": _text,
        "created_at": _time,
        "created_by_id": _text,
    },
    optional={
        "room_id": _text,
        "progress": _or_null(_number),
        "message": _or_null(_text),
        "error": _or_null(_text),
        "queue_position": _or_null(_count),
        "attempt": _or_null(_count),
        "depends_on": _or_null(_list_of(_text)),
        "payload_bytes": _or_null(_count),
        "result_bytes": _or_null(_count),
        **dict.fromkeys(
            ("run_at", "claimed_at", "started_at", "completed_at", "expires_at"), _or_null(_time)
        ),
    },
)
JOB = Shape(
    needed={"name": _text, "full_name": _text, "alive_workers": _count},
    optional={"description": _or_null(_text), "validate": _flag},
)
JOB_WITH_SCHEMA = Shape(needed={**JOB.needed, "schema": _anything}, optional=JOB.optional)
WORKER = Shape(
    needed={
        "id": _text,
        "alive": _flag,
        "running_tasks": _count,
        "job_count": _count,
        "last_heartbeat": _or_null(_time),
        "identity": _text,
    },
    optional={"name": _or_null(_text)},
)
ROOM = Shape(
    needed={"room_id": _text, "jobs": _count, "alive_workers": _count},
    optional={
        "capped": _list_of(_text),
        **dict.fromkeys(("blocked", "pending", "claimed", "running", "failed"), _or_null(_count)),
    },
)
COUNTS = Shape(needed={status.value: _count for status in TaskStatus}, optional={})
JOB_STATS = Shape(
    needed={"full_name": _text, "alive_workers": _count, "tasks": COUNTS},
    optional={"capped": _list_of(_text)},
)
STATS = Shape(
    needed={
        "room_id": _text,
        "alive_workers": _count,
        "jobs": _list_of(JOB_STATS),
        "tasks": COUNTS,
    },
    optional={"oldest_pending_seconds": _or_null(_number), "capped": _list_of(_text)},
)
SCHEDULE = Shape(
    needed={
        **dict.fromkeys(("name", "room_id", "job", "timezone", "catch_up"), _text),
        "created_by_id": _text,
        "payload": _or_null(_object),
        "paused": _flag,
        "priority": _count,
        "max_attempts": _or_null(_count),
        **dict.fromkeys(("every_seconds", "timeout_seconds"), _or_null(_number)),
        **dict.fromkeys(("cron", "last_task_id", "last_error"), _or_null(_text)),
        **dict.fromkeys(("next_at", "start_at", "end_at", "last_at"), _or_null(_time)),
    },
    optional={"upcoming": _list_of(_time)},
)
SCHEDULE_SHOWN = Shape(needed={**SCHEDULE.needed, "upcoming": _list_of(_time)}, optional={})
LOG = Shape(
    needed={"text": _text, "next_offset": _count, "ended": _flag, "attempt": _or_null(_count)},
    optional={},
)
REASON = Shape(needed={"status": _status, "reason": _text}, optional={})
RETRIED = Shape(needed={"id": _text, "status": _status}, optional={})
PLAN = Shape(needed={"tasks": _list_of(_text)}, optional={"hidden": _count})
ITEMS = {"tasks": TASK, "jobs": JOB, "workers": WORKER, "rooms": ROOM, "schedules": SCHEDULE}
"""What a list holds, by the last word of its path."""


def page_of(kind: str) -> Shape:
    """Return the shape of a page of a list."""
    return Shape(
        needed={"items": _list_of(ITEMS[kind]), "total": _count},
        optional={"next_cursor": _or_null(_text), "total_capped": _flag},
    )


def check(document: Any, shape: Shape, where: str) -> None:
    """Raise ``Away`` for an answer that is not the job queue's."""
    wrong = next(shape.misfits(document), None)
    if wrong is not None:
        raise exits.Away(
            f"{where} was answered by what is not the job queue: {wrong}; check the server's"
            " address."
        )
