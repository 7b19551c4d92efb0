"""Waiting for a task: through outages, until it has ended or the caller's time is over."""

from __future__ import annotations

import math
import time
from typing import Any

from pydantic import TypeAdapter

from jobroom.client import endpoints, outcome, problems
from jobroom.client.call import Json
from jobroom.client.flow import Flow, pause
from jobroom.client.transport import CALL, Patience, Transport
from jobroom.domain.lifecycle import is_terminal
from jobroom.errors import StoreUnavailable, TooManyRequests

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
            self.left,
            timeout=LONGEST_POLL_SECONDS + SPARE_SECONDS,
            outlive_seconds=min(self.left, OUTLIVE_SECONDS),
            longest_delay=LONGEST_DELAY_SECONDS,
            ends_at=self._at,
        )


def wait(line: Transport, task_id: str, *, timeout: float | None) -> Flow[Json]:
    """Return the task when it has ended; raises ``WaitTimeout``."""
    deadline = Deadline(timeout)
    status = "not known yet"
    while True:
        began = time.monotonic()
        try:
            call = endpoints.task(task_id, wait=deadline.poll_seconds)
            task = yield from line.ask(call, patience=deadline.patience())
        except problems.TokenUnavailable:
            raise  # what to mend is here, not at the server
        except (StoreUnavailable, TooManyRequests) as trouble:
            if deadline.left <= 0:
                raise _too_late(task_id, deadline, status) from trouble
            # The next try would come too late: one last look when the time is over.
            yield from pause(deadline.left)
            continue
        else:
            status = task["status"]
            if is_terminal(status):
                return task
            if deadline.left <= 0:
                raise _too_late(task_id, deadline, status)
        # A server that does not hold the request open must not be asked without end.
        shortest = SHORTEST_LOOK_SECONDS if deadline.poll_seconds else LAST_LOOKS_SECONDS
        rest = min(deadline.left, shortest) - (time.monotonic() - began)
        yield from pause(max(0.0, rest))


def result(
    line: Transport, task_id: str, *, timeout: float | None, returns: TypeAdapter[Any] | None
) -> Flow[Any]:
    """Return what the task came to; raises for a task that did not complete."""
    task = yield from wait(line, task_id, timeout=timeout)
    return (yield from result_of(line, task, returns=returns))


def result_of(line: Transport, task: Json, *, returns: TypeAdapter[Any] | None) -> Flow[Any]:
    """Return the result of a terminal task, fetched by itself if the answer had no room for it."""
    if (wrong := outcome.failure_of(task)) is not None:
        raise wrong
    found = task.get("result")
    if found is None and task.get("result_bytes"):
        found = yield from line.ask(endpoints.result(task["id"]), patience=CALL)
    return outcome.typed(found, returns, task["id"])


def _too_late(task_id: str, deadline: Deadline, status: str) -> outcome.WaitTimeout:
    return outcome.WaitTimeout(
        f"Task {task_id} has not ended within {deadline.seconds:g} s; its status is {status}."
        " It goes on: wait again, or cancel it."
    )
