"""What no transition leaves behind: rows of tasks that were damaged, or written by hand."""

from __future__ import annotations

from typing import Any

from jobroom.domain.lifecycle import TERMINAL, TaskStatus
from jobroom.domain.records import Task

EARLIEST = -62_135_596_800_000_000
LATEST = 253_402_300_799_999_999
"""The last microsecond of the year 9999: what a time can be written as."""
_BEYOND = 1 << 59
_ENDED: dict[str, bool] = {status.value: status in TERMINAL for status in TaskStatus}

_TEXTS = ("id", "room_id", "created_by_id", "status", "payload")
_TEXTS_OR_NULL = ("worker_id", "message", "error", "result", "key", "failed_by")
_COUNTS = ("turn", "schema_version", "attempt", "starts", "idle_claims", "max_attempts", "version")
_TIMES = ("created_at",)
_TIMES_OR_NULL = ("run_at", "expires_at", "claimed_at", "started_at", "completed_at")
_NUMBERS_OR_NULL = ("timeout_seconds", "progress")


def is_sound(task: Task) -> bool:
    """Whether a row is as our own statements leave it; this costs less than a microsecond.

    That payload and result are JSON, and past times are times, is for whoever shows them to see.
    """
    # Each claim asks this: unpacking is four times faster than looking up names.
    # fmt: off
    (
        _, task_id, _, room_id, created_by_id, status, _, priority, turn, payload, schema_version,
        created_at, run_at, expires_at, _, _, completed_at, _, attempt, starts,
        idle_claims, max_attempts, timeout_seconds, _, _, _, _, progress, _, _, _,
        _, _, _, _, version,
    ) = task
    # fmt: on
    try:
        # Bits of integers alone can be joined, and of a negative or huge one it shows.
        joined = (
            turn | schema_version | attempt | starts | idle_claims | max_attempts | version
            | created_at | (run_at or 0) - EARLIEST | (expires_at or 0) - EARLIEST
        )  # fmt: skip
        return (
            0 <= joined < _BEYOND
            and attempt >= starts <= max_attempts
            and _ENDED.get(status) == (completed_at is not None)
            and (timeout_seconds or 0) + (progress or 0) >= 0
            and type(priority) is int
            and type(task_id) is type(room_id) is type(created_by_id) is type(payload) is str
            and payload[:1] == "{"
            and "\0" not in payload
        )
    except TypeError:
        return False


def flaw(task: Task) -> str:
    """The first fault of a row, as a part of a sentence; it names columns and shows no text."""
    for name, problem in _flaws(task):
        return f"{name} {problem}"
    return "payload is no JSON object, or its job or schema_version is unknown"


def _flaws(task: Task) -> list[tuple[str, str]]:
    values = task._asdict()
    found = [(name, "is no text") for name in _TEXTS if not _is_text(values[name])]
    found += [(name, "is no text") for name in _TEXTS_OR_NULL if not _is_text(values[name] or "")]
    found += [(name, "is no count") for name in _COUNTS if not _is_count(values[name])]
    found += [(name, "is no time") for name in _TIMES if not _is_time(values[name])]
    found += [(name, "is no time") for name in _TIMES_OR_NULL if not _is_time(values[name] or 0)]
    found += [(name, "is no number") for name in _NUMBERS_OR_NULL if not _is_number(values[name])]
    if type(task.priority) is not int:
        found.append(("priority", "is no integer"))
    if found:
        return found
    if task.status not in _ENDED:
        found.append(("status", "is none that there is"))
    elif _ENDED[task.status] != (task.completed_at is not None):
        found.append(("status", f"is {task.status}, which completed_at denies"))
    if task.starts > min(task.attempt, task.max_attempts):
        found.append(
            ("starts", f"is {task.starts} at attempt {task.attempt} of at most {task.max_attempts}")
        )
    return found


def mended(task: Task) -> Task:
    """The row as it can be shown: each value of a wrong kind is replaced by a harmless one."""
    values = task._asdict()
    kinds: list[tuple[tuple[str, ...], Any, Any]] = [
        (_TEXTS, _is_text, ""),
        (_TEXTS_OR_NULL, _is_text, None),
        (_COUNTS, _is_count, 0),
        (_TIMES, _is_time, 0),
        (_TIMES_OR_NULL, _is_time, None),
        (_NUMBERS_OR_NULL, _is_number, None),
        (("priority",), _is_integer, 0),
    ]
    for names, is_right, harmless in kinds:
        values.update((name, harmless) for name in names if not is_right(values[name]))
    if values["status"] not in _ENDED:
        values["status"] = TaskStatus.FAILED.value
    shown = Task(**values)
    if shown.error is None:
        shown = shown._replace(error=f"{STORY} ({flaw(task)}).")
    return shown


STORY = "The stored task is damaged"


def _is_text(value: object) -> bool:
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_integer(value: object) -> bool:
    return type(value) is int


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < _BEYOND


def _is_time(value: object) -> bool:
    return isinstance(value, int) and EARLIEST <= value <= LATEST


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float)
