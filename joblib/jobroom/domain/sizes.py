"""How long an answer with tasks in it may become, told before the tasks are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobroom.domain.records import TaskView

SHOWN_TEXT_BYTES = 1024
"""How much of an error or a message is shown where a task is one of many, or must be short."""

SHOWN_DEPENDENCIES = 20
"""How many dependencies are shown there."""

FRAME_BYTES = 25 * 1024
"""What a held task takes beside its payload, whatever its names, with its texts cut.

An error and a message of ``SHOWN_TEXT_BYTES`` may be six times as long in JSON; names have up to
255 characters each, of up to six bytes.
"""

_ENVELOPE_BYTES = 64
_BARE_BYTES = 2048
"""Member names, times and numbers of a task in JSON, and the ids of the dependencies shown."""

_LONGEST_CHARACTER = 6


def largest_payload(most_bytes: int, taken: Sequence[TaskView] = ()) -> int:
    """How large the next payload of a claim may be, beside those taken, in bytes.

    The first task of a claim is in its answer twice. Which of them that is may be another one when
    the claim is repeated, so it counts as if it were the largest.
    """
    costs = [cost(view) for view in taken]
    largest = max(costs, default=0)
    left = most_bytes - _ENVELOPE_BYTES - sum(costs)
    return max(left // 2 if left // 2 > largest else left - largest, 0) - FRAME_BYTES


def fitting(most_bytes: int, views: Sequence[TaskView]) -> int:
    """How many of these tasks, from the first on, the answer to a claim can carry."""
    costs = [cost(view) for view in views]
    fit = len(costs)
    while fit and sum(costs[:fit]) + max(costs[:fit]) + _ENVELOPE_BYTES > most_bytes:
        fit -= 1
    return fit


def cost(view: TaskView) -> int:
    """How many bytes of JSON a held task takes at most, with its texts cut."""
    task = view.task
    names = (view.job_name, task.room_id, task.worker_id, task.created_by_id, task.key)
    texts = (task.error, task.message)
    characters = sum(len(name or "") for name in names)
    characters += sum(min(len(text or ""), SHOWN_TEXT_BYTES) for text in texts)
    return len(task.payload.encode()) + _BARE_BYTES + _LONGEST_CHARACTER * characters
