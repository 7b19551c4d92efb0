"""The seam between the slots, which claim and report, and what runs a task: thread or process."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from jobroom.client.task import ClaimedTask

Ended = Literal["completed", "failed", "cancelled", "handed_back"]


class TaskCancelled(BaseException):
    """Raised inside a task that was cancelled or taken away: clean up, and let it pass.

    No ``Exception``, so that ``except Exception`` in the task's code does not swallow it.
    """


class TaskStopped(BaseException):
    """Raised inside a task whose worker ends at once; the task is handed back."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to; ``error`` is text for people, ``final`` leaves no further attempt."""

    status: Ended
    result: Any = None
    error: str | None = None
    final: bool = False


def text_only(text: object) -> str:
    """Return what a log is to be given; raises ``TypeError`` for what is no text."""
    if isinstance(text, str):
        return text
    raise TypeError(f"log() takes text, not {type(text).__name__}: write  log(str(...))")


class Tell(Protocol):
    """What a running task says, and hears; nothing here waits for the server."""

    @property
    def cancelled(self) -> threading.Event:
        """Set when the work is in vain: the task was cancelled, or taken away."""
        ...

    def progress(self, fraction: float | None, message: str | None = None) -> None:
        """Say how far the work is (0 to 1); only the newest is sent."""
        ...

    def log(self, text: str) -> None:
        """Append to the task's log; ``TypeError`` for what is no text."""
        ...


class Runner(Protocol):
    """Runs one task of a slot; called by several slots at once."""

    def run(self, task: ClaimedTask, tell: Tell) -> Outcome:
        """Run the task to its end. Never raises: what goes wrong in there is the outcome.

        When ``tell.cancelled`` is set the work is to be stopped, and ``cancelled`` returned.
        """
        ...

    def close(self) -> None:
        """Stop at once whatever still runs: at the second signal, and when serving has ended.

        What was stopped so is ``handed_back``. May be called twice.
        """
        ...
