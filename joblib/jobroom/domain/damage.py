"""What nothing of ours leaves behind: rows of tasks and schedules damaged, or written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobroom.domain.lifecycle import TERMINAL, TaskStatus
from jobroom.domain.records import Schedule, Task

if TYPE_CHECKING:
    from collections.abc import Callable

    _Kinds = tuple[tuple[tuple[str, ...], str, Callable[[object], bool], Any], ...]

EARLIEST = -62_135_596_800_000_000
LATEST = 253_402_300_799_999_999
"""The last microsecond of the year 9999: what a time can be written as."""
_BEYOND = 1 << 59
CATCH_UP = ("one", "skip", "all")
_ENDED: dict[str, bool] = {status.value: status in TERMINAL for status in TaskStatus}


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
    found = _strange(task._asdict(), _TASK)
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
    values = _harmless(task._asdict(), _TASK)
    if values["status"] not in _ENDED:
        values["status"] = TaskStatus.FAILED.value
    shown = Task(**values)
    if shown.error is None:
        shown = shown._replace(error=f"{STORY} ({flaw(task)}).")
    return shown


STORY = "The stored task is damaged"


def schedule_flaw(schedule: Schedule) -> str | None:
    """The first fault of a schedule's row, told as ``flaw`` tells a task's; None if it is sound.

    That its task, its cron and its time zone can be read is for whoever uses them to see.
    """
    for name, problem in _strange(schedule._asdict(), _SCHEDULE):
        return f"{name} {problem}"
    if (schedule.cron is None) is (schedule.every_seconds is None):
        return "cron and every_seconds deny each other"
    return None


def mended_schedule(schedule: Schedule) -> Schedule:
    """As ``mended``, of a schedule; its ``last_error`` tells of the damage."""
    fault = schedule_flaw(schedule)
    if fault is None:
        return schedule
    shown = Schedule(**_harmless(schedule._asdict(), _SCHEDULE))
    return shown._replace(last_error=schedule_story(fault))


def schedule_story(fault: str) -> str:
    """What is wrong with a schedule, and what to do."""
    return f"The stored schedule is damaged ({fault}); put it again."


def _strange(values: dict[str, Any], kinds: _Kinds) -> list[tuple[str, str]]:
    """The columns whose values are of a wrong kind, each with what is wrong."""
    return [
        (name, f"is no {kind}")
        for names, kind, is_right, _ in kinds
        for name in names
        if not is_right(values[name])
    ]


def _harmless(values: dict[str, Any], kinds: _Kinds) -> dict[str, Any]:
    """The values, with another one for each that is of a wrong kind."""
    for names, _, is_right, harmless in kinds:
        values.update((name, harmless) for name in names if not is_right(values[name]))
    return values


def _or_null(is_right: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or is_right(value)


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
    return isinstance(value, int | float)


def _is_catch_up(value: object) -> bool:
    return value in CATCH_UP


def _is_span(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < float("inf")


# Columns, what each must be, how that is seen, and what is shown where it is not.
_TASK: _Kinds = (
    (("id", "room_id", "created_by_id", "status", "payload"), "text", _is_text, ""),
    (
        ("worker_id", "message", "error", "result", "key", "failed_by"),
        "text",
        _or_null(_is_text),
        None,
    ),
    (
        (
            "turn",
            "schema_version",
            "attempt",
            "starts",
            "idle_claims",
            "max_attempts",
            "version",
        ),
        "count",
        _is_count,
        0,
    ),
    (("created_at",), "time", _is_time, 0),
    (
        ("run_at", "expires_at", "claimed_at", "started_at", "completed_at"),
        "time",
        _or_null(_is_time),
        None,
    ),
    (("timeout_seconds", "progress"), "number", _or_null(_is_number), None),
    (("priority",), "integer", _is_integer, 0),
)
_SCHEDULE: _Kinds = (
    (
        ("id", "room_id", "name", "created_by_id", "task", "timezone"),
        "text",
        _is_text,
        "",
    ),
    (("catch_up",), "way to catch up", _is_catch_up, CATCH_UP[0]),
    (("cron", "last_task_id", "last_error"), "text", _or_null(_is_text), None),
    (("job_seq", "paused", "version"), "count", _is_count, 0),
    (("created_at",), "time", _is_time, 0),
    (("start_at", "end_at", "next_at", "last_at"), "time", _or_null(_is_time), None),
    (("every_seconds",), "number of seconds", _or_null(_is_span), None),
)
