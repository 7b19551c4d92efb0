"""Several tasks that depend on one another, submitted in one request."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from jobroom.client.transport import Json
from jobroom.errors import ValidationFailed


class Identified(Protocol):
    """What has a task's id: a handle."""

    @property
    def id(self) -> str:
        """The task's id."""
        ...


Dependency: TypeAlias = str | Mapping[str, Any] | Identified
"""A task's id, a key of the same plan, a task as the server showed it, a handle, or ``when``."""

LARGEST_PLAN = 1000


def when(task: Dependency, condition: Literal["afterok", "afternotok", "afterany"]) -> Json:
    """A dependency that is met otherwise than by success.

    ``afternotok``: by a task that failed or was cancelled; ``afterany``: by any end.

    >>> when("prepare", "afterany")
    {'id': 'prepare', 'condition': 'afterany'}
    """
    return {"id": id_of(task), "condition": condition}


def dependencies(depends_on: Iterable[Dependency]) -> list[str | Json]:
    """What a task depends on, as the contract writes it."""
    if isinstance(depends_on, str | Mapping):
        raise TypeError("depends_on is a list: put the one task into brackets.")
    return [_written(each) for each in depends_on]


def _written(task: Dependency) -> str | Json:
    if isinstance(task, Mapping) and "condition" in task:
        return {"id": id_of(task), "condition": task["condition"]}
    return id_of(task)


def id_of(task: Dependency) -> str:
    """The id, or the key, of what a task is to depend on."""
    found = task.get("id") if isinstance(task, Mapping) else getattr(task, "id", task)
    if not isinstance(found, str):
        raise TypeError("A dependency is a task's id, a key of the plan, or a submitted task.")
    return found


class Plan:
    """Tasks to be submitted together: all of them or none.

    Made by ``JobManager.plan``. Each ``add`` returns the key by which later tasks of the plan
    may depend on that one; ``submit`` sends them, once.
    """

    def __init__(
        self,
        describe: Callable[..., tuple[str, Json]],
        send: Callable[[list[Json], str], list[Json]],
    ) -> None:
        self._describe = describe
        self._send = send
        self._tasks: dict[str, Json] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def add(
        self,
        job: Any,
        payload: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        **options: Any,
    ) -> str:
        """Add a task; takes what ``JobManager.submit`` takes, save the room. Returns its key."""
        full_name, task = self._describe(job, payload, **options)
        name = f"{len(self._tasks) + 1}" if key is None else key
        if name in self._tasks:
            raise ValidationFailed(f"The plan has a task with the key {name!r} already.")
        self._tasks[name] = {"job": full_name, "key": name, **task}
        return name

    def submit(self, *, idempotency_key: str | None = None) -> list[Json]:
        """Submit all tasks in one transaction; return them in the order of their keys' adding.

        A lost answer is asked for again with the same idempotency key: one call never makes
        the tasks twice.
        """
        if not self._tasks:
            return []
        if len(self._tasks) > LARGEST_PLAN:
            raise ValidationFailed(f"A plan has at most {LARGEST_PLAN} tasks; submit it in parts.")
        return self._send(list(self._tasks.values()), idempotency_key or uuid.uuid4().hex)
