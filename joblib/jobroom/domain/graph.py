"""The rules of dependencies, over plain values: what an end means, what a new task begins as."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from jobroom.domain.lifecycle import TaskStatus, is_terminal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


class Condition(StrEnum):
    """How a dependency must have ended: completed, failed or cancelled, or just ended."""

    AFTEROK = "afterok"
    AFTERNOTOK = "afternotok"
    AFTERANY = "afterany"


class EdgeState(StrEnum):
    """Where an edge stands: its dependency has not ended, has as it was to, or otherwise."""

    WAITING = "waiting"
    MET = "met"
    BROKEN = "broken"


class Need(NamedTuple):
    """A dependency of a new task, and how the edge to it begins.

    ``status`` is the dependency's; None where it is not there (yet).
    """

    dependency_id: str
    condition: str
    status: str | None = None
    name: str | None = None

    @property
    def state(self) -> EdgeState:
        """Where the edge stands, by the status of the dependency."""
        return edge_state(self.condition, self.status)


class Beginning(NamedTuple):
    """What a new task begins as; ``failed_by`` and ``error`` where it has failed already."""

    status: TaskStatus
    failed_by: str | None = None
    error: str | None = None


def edge_state(condition: str, status: str | None) -> EdgeState:
    """What an edge of that condition is, while its dependency has that status.

    >>> edge_state("afterok", "running"), edge_state("afternotok", "cancelled")
    (<EdgeState.WAITING: 'waiting'>, <EdgeState.MET: 'met'>)
    """
    if status is None or not is_terminal(status):
        return EdgeState.WAITING
    is_ok = status == TaskStatus.COMPLETED
    is_met = condition == Condition.AFTERANY or (condition == Condition.AFTEROK) == is_ok
    return EdgeState.MET if is_met else EdgeState.BROKEN


def begin(needs: Iterable[Need]) -> Beginning:
    """What a task with these dependencies begins as.

    >>> begin([Need("a", "afterok", "completed"), Need("b", "afterok", "pending")]).status
    <TaskStatus.BLOCKED: 'blocked'>
    """
    waits = False
    for need in needs:
        state = need.state
        if state == EdgeState.BROKEN:
            story = why_failed(need.dependency_id, need.status)
            return Beginning(TaskStatus.FAILED, need.dependency_id, story)
        waits = waits or state == EdgeState.WAITING
    return Beginning(TaskStatus.BLOCKED if waits else TaskStatus.PENDING)


def why_failed(dependency_id: str, status: str | None) -> str:
    """The error of a task whose dependency ended otherwise than it was to (rules, *Cancel*)."""
    ended = {"cancelled": "was cancelled", "completed": "completed, and was to fail"}
    return f"dependency {dependency_id} {ended.get(status or '', 'failed')}"


def find_cycle(depends_on: Mapping[str, Collection[str]]) -> list[str] | None:
    """A cycle among nodes, from one of them back to itself; None where there is none.

    What depends on nothing of ``depends_on`` leads nowhere, and may be left out.

    >>> find_cycle({"a": ["b"], "b": ["c"], "c": ["a"]})
    ['a', 'b', 'c', 'a']
    >>> find_cycle({"a": ["b"], "b": []}) is None
    True
    """
    left = _unordered(depends_on)
    if not left:
        return None
    # Whoever is left waits for somebody that is left: walk until one comes twice.
    path: dict[str, int] = {}
    node = min(left)
    while node not in path:
        path[node] = len(path)
        node = min(each for each in depends_on[node] if each in left)
    return [*list(path)[path[node] :], node]


def in_order(depends_on: Mapping[str, Collection[str]]) -> list[str]:
    """The nodes, each behind all that it depends on; there must be no cycle."""
    order: list[str] = []
    _unordered(depends_on, order)
    return order


def _unordered(
    depends_on: Mapping[str, Collection[str]], order: list[str] | None = None
) -> set[str]:
    """What is left when everything that waits for nothing is taken away, again and again."""
    waits_for = {
        node: {each for each in needed if each in depends_on} for node, needed in depends_on.items()
    }
    dependents: dict[str, list[str]] = {node: [] for node in depends_on}
    for node, needed in waits_for.items():
        for each in needed:
            dependents[each].append(node)
    count = {node: len(needed) for node, needed in waits_for.items()}
    free = deque(node for node, waiting in count.items() if not waiting)
    while free:
        node = free.popleft()
        if order is not None:
            order.append(node)
        del count[node]
        for dependent in dependents[node]:
            count[dependent] -= 1
            if not count[dependent]:
                free.append(dependent)
    return set(count)


def undone_with(root: str, broken: Iterable[tuple[str, str]]) -> list[str]:
    """What failed because of ``root`` alone, all the way down, in an order from the top.

    ``broken`` are pairs (dependency, dependent) of broken edges. Whoever failed because of another
    one as well, that is not undone with it, stays failed.

    >>> undone_with("a", [("a", "b"), ("b", "c"), ("a", "d"), ("x", "d")])
    ['b', 'c']
    """
    dependents: dict[str, list[str]] = {}
    causes: dict[str, int] = {}
    for dependency, dependent in broken:
        dependents.setdefault(dependency, []).append(dependent)
        causes[dependent] = causes.get(dependent, 0) + 1
    undone: list[str] = []
    reached = deque([root])
    while reached:
        for dependent in dependents.get(reached.popleft(), ()):
            causes[dependent] -= 1
            if not causes[dependent]:
                undone.append(dependent)
                reached.append(dependent)
    return undone
