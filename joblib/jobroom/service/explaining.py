"""Why a task is where it is: one sentence for whoever waits for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from jobroom.domain import damage, jsontext
from jobroom.domain.graph import EdgeState
from jobroom.domain.lifecycle import TERMINAL, TaskStatus
from jobroom.domain.records import MICROSECONDS, Caller, TaskView
from jobroom.domain.timetext import format_time
from jobroom.service import access, reading, workers
from jobroom.service.use_case import reads
from jobroom.store import crews, jobs, tasks
from jobroom.store.transaction import Transaction

if TYPE_CHECKING:
    from jobroom.domain.records import Task

MOST_NAMED = 3
"""So many of the tasks that another one waits for are named."""
MOST_ERROR_BYTES = 300
UNITS = ((86_400, "days"), (3_600, "h"), (60, "min"))


class Explanation(NamedTuple):
    """A task's status and why it is that."""

    status: str
    reason: str


@reads
def explain_task(tx: Transaction, *, caller: Caller, task_id: str) -> Explanation:
    """Why the task is not running, or what else it is at. Raises TaskNotFound."""
    view: TaskView = reading.get_task(tx, caller=caller, task_id=task_id)
    # Also of a row that is as ours may be: what stands in it as a past time need not be one.
    task = damage.mended(view.task)
    if view.task.error is None and damage.is_sound(view.task):
        task = task._replace(error=None)
    view = view._replace(task=task, job_name=view.job_name or "its job")
    status = task.status
    if status == TaskStatus.PENDING:
        said = _pending(tx, caller, view)
    elif status == TaskStatus.BLOCKED:
        said = f"waits for {_waited_for(view)}"
    elif status in TERMINAL:
        said = _ended(tx, task)
    else:
        said = _held(tx, view)
    return Explanation(status, f"{status}: {said}")


def _pending(tx: Transaction, caller: Caller, view: TaskView) -> str:
    task = view.task
    if task.run_at is not None and task.run_at > tx.now:
        said = f"not before {format_time(task.run_at)}, in {_span(task.run_at - tx.now)} (run_at)"
        if task.attempt:
            said += f"; it has been claimed {_times(task.attempt)} and will be tried again"
    else:
        said = f"{_place(view.queue_position)}; {_crew(tx, caller, view)}"
    if task.expires_at is not None:
        said += f"; it expires at {format_time(task.expires_at)} if it has not started by then"
    return said


def _place(position: int | None) -> str:
    if position is None:
        return "in line"
    if position >= tasks.MOST_PLACES:
        return f"{_ordinal(position)} in line, or behind that"
    return f"{_ordinal(position)} in line"


def _crew(tx: Transaction, caller: Caller, view: TaskView) -> str:
    """Who could claim the task."""
    rooms = access.rooms_seen(caller)
    alive_after = workers.alive_after(tx)
    crew = crews.crew_of(tx, view.task.job_seq, alive_after=alive_after, rooms=rooms)
    name = view.job_name
    if crew.alive:
        are_alive = "is alive" if crew.alive == 1 else "are alive"
        said = f"{crew.alive} of {crew.workers} workers for {name} {are_alive}"
        if rooms is not None:
            # Who is idle, and who is busy in another room, is not for this token to know.
            return f"{said}, {crew.busy} busy in rooms of this token"
        if crew.alive == 1:
            return f"{said}, and {'busy' if crew.busy else 'idle'}"
        return f"{said}, {crew.busy} of them busy"
    job = jobs.get_by_seq(tx, view.task.job_seq)
    beats = [crew.last_heartbeat, job and job.last_seen]
    seen = max((beat for beat in beats if beat is not None), default=None)
    said = f"0 of {crew.workers} workers for {name} are alive"
    if seen is None:
        return f"{said}, and none has been seen; start one"
    return f"{said}, the last was seen {_span(tx.now - seen)} ago; start one"


def _waited_for(view: TaskView) -> str:
    try:
        edges = json.loads(view.edges or "[]")
        waiting = [edge for edge in edges if edge[2] == EdgeState.WAITING]
    except (TypeError, ValueError, LookupError):
        waiting = []  # somebody else has written to the tables
    if not waiting:
        return "tasks that end in this moment; look again"
    said = ", ".join(_dependency(edge) for edge in waiting[:MOST_NAMED])
    more = len(waiting) - MOST_NAMED
    return said if more <= 0 else f"{said} and {more} more"


def _dependency(edge: list[str | None]) -> str:
    task_id, _, _, _, job_name, status = edge
    told = [part for part in (job_name, status) if part]
    return f"task {task_id} ({', '.join(told)})" if told else f"task {task_id}"


def _held(tx: Transaction, view: TaskView) -> str:
    task = view.task
    if task.status == TaskStatus.RUNNING and task.started_at is not None:
        said = f"on worker {task.worker_id} for {_span(tx.now - task.started_at)}"
    else:
        since = _span(tx.now - (task.claimed_at or tx.now))
        said = f"worker {task.worker_id} took it {since} ago and has not started it"
    said += f", attempt {task.attempt}"
    lease = view.lease_expires_at
    if lease is not None and lease <= tx.now:
        silent = tx.now - lease + int(tx.settings.worker_timeout_seconds * MICROSECONDS)
        said += f"; the worker is silent for {_span(silent)}, the next sweep takes the task from it"
    return said


def _ended(tx: Transaction, task: Task) -> str:
    said = f"ended {_span(tx.now - (task.completed_at or tx.now))} ago"
    if task.failed_by is not None:
        said += f", unstarted, for the task {task.failed_by} did not end as it had to"
    elif task.status == TaskStatus.FAILED and task.error:
        words = " ".join(jsontext.cut_text(task.error, MOST_ERROR_BYTES).split())
        said += f": {words}"
    return said


def _span(microseconds: int) -> str:
    """A span of time as one says it, in whole units.

    >>> _span(4 * 60 * 1_000_000), _span(59_400_000), _span(-1)
    ('4 min', '59 s', '0 s')
    """
    seconds = max(0, microseconds // MICROSECONDS)
    for size, unit in UNITS:
        if seconds >= 2 * size or (seconds >= size and unit != "days"):
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _ordinal(number: int) -> str:
    """A place in line.

    >>> [_ordinal(n) for n in (1, 2, 3, 4, 11, 12, 21, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '21st', '113th']
    """
    is_teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
