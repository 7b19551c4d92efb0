"""The states of a task and the moves between them."""

from __future__ import annotations

from enum import StrEnum


class TaskStatus(StrEnum):
    """Where a task stands; the seed's six, and ``blocked`` for one that waits for others."""

    BLOCKED = "blocked"
    PENDING = "pending"
    CLAIMED = "claimed"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED})
HELD = frozenset({TaskStatus.CLAIMED, TaskStatus.RUNNING})
UNFINISHED = frozenset(TaskStatus) - TERMINAL

TRANSITIONS: dict[TaskStatus, frozenset[TaskStatus]] = {
    TaskStatus.RUNNING: frozenset({TaskStatus.CLAIMED, TaskStatus.RUNNING}),
    TaskStatus.COMPLETED: frozenset({TaskStatus.RUNNING}),
    TaskStatus.FAILED: HELD,
    TaskStatus.PENDING: HELD,
    TaskStatus.CANCELLED: UNFINISHED,
}
"""What a report may ask for -> the states it may be asked in (contract, *States*).

``pending -> claimed`` is missing on purpose: it happens by a claim alone. ``running`` again
by its holder is a repeat, not a move; ``pending`` is the holder handing a task back.
"""


def is_terminal(status: str) -> bool:
    """Whether a task in this state has ended for good (only ``retry`` leads out again)."""
    return status in TERMINAL
