"""What a task came to: its result as the caller wants it, or the exception that says why not."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from jobroom.client import failure
from jobroom.client.call import Json
from jobroom.errors import JobroomError


class TaskNotCompleted(JobroomError):
    """A task that ended without a result; ``task`` is how the server shows it."""

    def __init__(self, message: str, task: Json) -> None:
        super().__init__(message)
        self.task = task
        self.task_id: str = task["id"]
        self.error: str | None = task.get("error")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.task)


class TaskFailed(TaskNotCompleted):
    """The task failed; ``error`` is what its worker, or the server, said of it."""


class TaskWasCancelled(TaskNotCompleted):
    """The task was cancelled before it completed."""


class ResultMismatch(JobroomError):
    """The result is not of the type that the caller named."""


class WaitTimeout(JobroomError, TimeoutError):
    """The caller's time was over before the task had ended; the task goes on."""


def failure_of(task: Json) -> TaskNotCompleted | None:
    """Return the exception that a terminal task stands for; None if it completed."""
    if task["status"] == "completed":
        return None
    name = f"Task {task['id']} ({task.get('job_name')})"
    error = str(task.get("error") or "").strip()
    next_step = f"Its log: jobroom log {task['id']}"
    if task["status"] == "cancelled":
        why = f": {error}" if error else ""
        return TaskWasCancelled(f"{name} was cancelled{why}. {next_step}", task)
    tries = task.get("starts") or task.get("attempt") or 0
    often = f" after {tries} attempt{'' if tries == 1 else 's'}" if tries else " before it started"
    return TaskFailed(f"{name} failed{often}: {error or 'no reason was given'}\n{next_step}", task)


def adapter_of(returns: Any) -> TypeAdapter[Any] | None:
    """Return what checks results of a type; None for None, which leaves them as JSON has them."""
    if returns is None or isinstance(returns, TypeAdapter):
        return returns
    try:
        return TypeAdapter(returns)
    except PydanticUserError as refused:
        why = str(refused).partition("\n")[0].rstrip(".")
        raise TypeError(f"returns={_name_of(returns)} cannot be checked: {why}.") from None


def typed(result: Any, returns: TypeAdapter[Any] | None, task_id: str) -> Any:
    """Return the result as the type that the caller named."""
    if returns is None:
        return result
    try:
        # As JSON: a tuple, a date or a set comes as what JSON has for it, also in strict models.
        return returns.validate_json(json.dumps(result))
    except ValidationError as invalid:
        faults = failure.faults_of(invalid)
        raise ResultMismatch(
            f"The result of task {task_id} is no {invalid.title}: {faults}"
        ) from None


def _name_of(returns: Any) -> str:
    return getattr(returns, "__name__", None) or str(returns)
