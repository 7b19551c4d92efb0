"""Several tasks followed at once, each on a long-poll of its own, until all have ended."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from jobroom.cli.server import Server, pause_out
from jobroom.domain.lifecycle import HELD, TaskStatus, is_terminal
from jobroom.errors import ValidationFailed

Json = dict[str, Any]

MOST_TASKS = 50
"""Each holds a connection; more of them are better looked at as a room."""
LOOK_SECONDS = 1.0
"""Between two looks at a room, of which no one long-poll tells."""
NEWEST = 50
SIGNALS_SECONDS = 0.25


def tasks(server: Server, ids: Sequence[str], *, until: float | None = None) -> Iterator[Json]:
    """Yield each task as it is now and at each change, till all have ended or time is over."""
    if len(ids) > MOST_TASKS:
        raise ValidationFailed(
            f"At most {MOST_TASKS} tasks are followed at once; jobroom watch ROOM follows a room."
        )
    found: queue.SimpleQueue[Json | Exception | None] = queue.SimpleQueue()
    for task_id in ids:
        threading.Thread(target=_follow, args=(server, task_id, until, found), daemon=True).start()
    left = len(ids)
    while left:
        try:
            # Not without a timeout: a Ctrl-C that comes just before the wait would be lost.
            one = found.get(timeout=SIGNALS_SECONDS)
        except queue.Empty:
            continue
        if isinstance(one, Exception):
            raise one
        left -= one is None
        if one is not None:
            yield one


def _follow(
    server: Server,
    task_id: str,
    until: float | None,
    found: queue.SimpleQueue[Json | Exception | None],
) -> None:
    try:
        for task in server.changes(task_id, until=until):
            found.put(task)
        found.put(None)
    except Exception as failure:  # noqa: BLE001  # raised where the tasks are waited for
        found.put(failure)


def room(server: Server, room_id: str, *, until: float | None = None) -> Iterator[list[Json]]:
    """Yield, look by look, those of a room's tasks that have changed since the last one.

    The first look brings what has not ended. What is looked at are the tasks that workers hold
    and the newest ones; of others, one that begins and ends between two looks is not seen.
    """
    known: dict[str, tuple[Any, ...]] | None = None
    while until is None or time.monotonic() < until:
        began = time.monotonic()
        looked = {task["id"]: task for task in _live_and_newest(server, room_id)}
        held = {task_id for task_id, news in (known or {}).items() if news[0] in HELD}
        looked |= {task_id: server.task(task_id) for task_id in held - looked.keys()}
        yield [
            task
            for task_id, task in looked.items()
            if (known is None and not is_terminal(task["status"]))
            or (known is not None and known.get(task_id) != _news(task))
        ]
        known = {task_id: _news(task) for task_id, task in looked.items()}
        left = LOOK_SECONDS if until is None else until - began
        pause_out(began, min(left, LOOK_SECONDS))


def _live_and_newest(server: Server, room_id: str) -> Iterator[Json]:
    where = ("rooms", room_id, "tasks")
    for status in (TaskStatus.RUNNING, TaskStatus.CLAIMED):
        yield from server.items(*where, most=NEWEST, status=status.value)
    yield from server.items(*where, most=NEWEST)


def _news(task: Json) -> tuple[Any, ...]:
    return tuple(task.get(name) for name in ("status", "progress", "message", "attempt"))
