"""What a task depends on, in the model: how an edge stands, and what an end means for all others.

Written from the rules, over plain records, and always by looking at everything again: no counting,
and no walk from the task that has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from model import ModelTask, State

ENDS = {
    "afterok": ("completed",),
    "afternotok": ("failed", "cancelled"),
    "afterany": ("completed", "failed", "cancelled"),
}
"""How a dependency must end, by the condition."""
CONDITIONS = tuple(ENDS)


@dataclass(slots=True)
class Need:
    """One dependency of a task: the condition, and how it stood when that was looked at last."""

    condition: str
    state: str = "waiting"


def stands(condition: str, status: str) -> str:
    """How an edge stands while its dependency has that status."""
    if status in ENDS[condition]:
        return "met"
    return "broken" if status in ENDS["afterany"] else "waiting"


def broken(task: ModelTask) -> set[str]:
    """The dependencies that ended otherwise than they were to."""
    return {each for each, need in task.needs.items() if need.state == "broken"}


def statuses(state: State) -> dict[str, str]:
    """The status of each task, removed ones as they ended."""
    return {task.id: task.status for task in (*state.removed, *state.tasks)}


def settle(state: State) -> None:
    """Let every task that waits be what its dependencies say, until nothing changes any more."""
    fallen: list[ModelTask] = []
    while moved := _look_again(state):
        fallen += [task for task in moved if task.status == "failed"]
    ended = statuses(state)
    for task in fallen:
        task.blame = {each: _how_it_ended(ended[each]) for each in broken(task)}


def _look_again(state: State) -> list[ModelTask]:
    """The tasks whose status is another one now."""
    now = statuses(state)
    return [task for task in state.tasks if task.needs and _has_moved(state, task, now)]


def _has_moved(state: State, task: ModelTask, now: dict[str, str]) -> bool:
    for each, need in task.needs.items():
        if need.state == "waiting":
            need.state = stands(need.condition, now[each])
    if task.status != "blocked":
        return False
    if broken(task):
        state.finish(task, "failed", None)
    elif all(need.state == "met" for need in task.needs.values()):
        task.status = "pending"
        task.ready = task.run_at is None or task.run_at <= state.now
    return task.status != "blocked"


def _how_it_ended(status: str) -> str:
    """The end of the error of a task that fails because of a dependency (rules, *Cancel*)."""
    return {"cancelled": "was cancelled", "completed": "completed, and was to fail"}.get(
        status, "failed"
    )


def rename(state: State, task: ModelTask, task_id: str) -> None:
    """From now on a new task is known by the id that the queue gave it."""
    old, task.id = task.id, task_id
    for other in state.tasks:
        if old in other.needs:
            other.needs = {task_id if each == old else each: n for each, n in other.needs.items()}
        if old in other.blame:
            other.blame = {task_id if each == old else each: w for each, w in other.blame.items()}


def narrow(task: ModelTask, seen: object) -> None:
    """Of several that it may have failed for, the queue's choice is the one from now on."""
    if isinstance(seen, str) and seen in task.blame:
        task.blame = {seen: task.blame[seen]}


def view_of_needs(state: State, task: ModelTask) -> dict[str, Any]:
    """What a reader must see of a task's dependencies, and of its failure for one of them."""
    failed_by = min(task.blame, default=None)
    told = {} if failed_by is None else {"error": f"dependency {failed_by} {task.blame[failed_by]}"}
    # Who reads a task need not see the rooms of those that it depends on.
    now = {each.id: each.status for each in state.tasks if each.room == task.room}
    waiting = [
        {"id": each, "condition": need.condition, "status": now.get(each)}
        for each, need in sorted(task.needs.items())
        if task.status == "blocked" and need.state == "waiting"
    ]
    return {
        **told,
        "failed_by": failed_by,
        "depends_on": sorted(task.needs),
        "waiting_on": waiting,
    }
