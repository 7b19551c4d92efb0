"""Waiting for a task: through outages, until it has ended or the caller's time is over."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from jobroom.client import endpoints, outcome, problems
from jobroom.client.call import Json
from jobroom.client.flow import Flow, pause
from jobroom.client.transport import CALL, Patience, Transport
from jobroom.client.tries import OutOfTime
from jobroom.domain.lifecycle import is_terminal
from jobroom.errors import JobroomError

LONGEST_POLL_SECONDS = 20.0
"""Shorter than what gateways allow (29 s), so that the server itself answers."""
SPARE_SECONDS = 10.0
SHORTEST_LOOK_SECONDS = 0.5
LAST_LOOKS_SECONDS = 0.1
"""Between two looks in the caller's last second: whole seconds are all a server can wait."""
LONGEST_DELAY_SECONDS = 2.0
OUTLIVE_SECONDS = 30.0


class Deadline:
    """Until when the caller wants to wait; for ever with None."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._at = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds that are left, 0 when it is over."""
        return max(0.0, self._at - time.monotonic())

    @property
    def poll_seconds(self) -> int:
        """How long the server is asked to hold the next answer back."""
        return math.floor(min(self.left, LONGEST_POLL_SECONDS))

    def patience(self) -> Patience:
        """Return how long an outage is borne, and one try."""
        return Patience(
            math.inf,
            timeout=LONGEST_POLL_SECONDS + SPARE_SECONDS,
            outlive_seconds=OUTLIVE_SECONDS,
            longest_delay=LONGEST_DELAY_SECONDS,
            ends_at=self._at,
        )


@dataclass(frozen=True, slots=True)
class _Looked:
    """What was seen of a task in the caller's time, and what the last look came to if it failed."""

    task: Json | None
    trouble: JobroomError | None = None

    @property
    def has_ended(self) -> bool:
        return self.task is not None and is_terminal(self.task["status"])


def wait(line: Transport, task_id: str, *, timeout: float | None) -> Flow[Json]:
    """Return the task when it has ended; raises ``WaitTimeout``."""
    return _wait(line, task_id, Deadline(timeout))


def _wait(line: Transport, task_id: str, deadline: Deadline) -> Flow[Json]:
    looked = yield from _look(line, task_id, deadline)
    if looked.task is None or not looked.has_ended:
        raise _too_late(task_id, deadline, looked) from looked.trouble
    return looked.task


def _look(line: Transport, task_id: str, deadline: Deadline) -> Flow[_Looked]:
    """Look until the task has ended, or the caller's time is over."""
    looked = _Looked(None)
    while True:
        began = time.monotonic()
        call = endpoints.task(task_id, wait=deadline.poll_seconds)
        try:
            looked = _Looked((yield from line.ask(call, patience=deadline.patience())))
        except OutOfTime as late:
            if isinstance(late.last, problems.TokenUnavailable):
                raise late.last from None  # what to mend is here, not at the server
            return _Looked(looked.task, late.last)
        if looked.has_ended or deadline.left <= 0:
            return looked
        # A server that does not hold the request open must not be asked without end.
        shortest = SHORTEST_LOOK_SECONDS if deadline.poll_seconds else LAST_LOOKS_SECONDS
        rest = min(deadline.left, shortest) - (time.monotonic() - began)
        yield from pause(max(0.0, rest))


def end_or_now(line: Transport, task_id: str, *, timeout: float | None) -> Flow[Json]:
    """Return the task when it has ended, or as it is when the time is over."""
    looked = yield from _look(line, task_id, Deadline(timeout))
    if looked.task is None:
        raise looked.trouble or AssertionError("a look comes to a task or to trouble")
    return looked.task


def result(
    line: Transport, task_id: str, *, timeout: float | None, returns: TypeAdapter[Any] | None
) -> Flow[Any]:
    """Return what the task came to; raises for a task that did not complete."""
    deadline = Deadline(timeout)
    task = yield from _wait(line, task_id, deadline)
    try:
        patience = CALL if timeout is None else deadline.patience()
        return (yield from result_of(line, task, returns=returns, patience=patience))
    except OutOfTime as late:
        raise outcome.WaitTimeout(
            f"Task {task_id} has completed, and its result did not come within"
            f" {deadline.seconds:g} s: fetch it again with more time. The last try: {late}"
        ) from late.last


def result_of(
    line: Transport,
    task: Json,
    *,
    returns: TypeAdapter[Any] | None,
    patience: Patience = CALL,
) -> Flow[Any]:
    """Return the result of a terminal task, fetched by itself if the answer had no room for it."""
    if (wrong := outcome.failure_of(task)) is not None:
        raise wrong
    found = task.get("result")
    if found is None and task.get("result_bytes"):
        found = yield from line.ask(endpoints.result(task["id"]), patience=patience)
    return outcome.typed(found, returns, task["id"])


def _too_late(task_id: str, deadline: Deadline, looked: _Looked) -> outcome.WaitTimeout:
    span = f"within {deadline.seconds:g} s"
    last = "" if looked.trouble is None else f" The last try: {looked.trouble}"
    if looked.task is None:
        return outcome.WaitTimeout(f"Nothing was heard of task {task_id} {span}.{last}")
    return outcome.WaitTimeout(
        f"Task {task_id} has not ended {span}; its status is {looked.task['status']}."
        f" It goes on: wait again, or cancel it.{last}"
    )
