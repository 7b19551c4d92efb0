"""Judging new tasks that depend on others, or on one another, before anything is written."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from jobroom.domain import graph, names
from jobroom.domain.graph import Beginning, Need
from jobroom.domain.jsontext import pointer_to, shown
from jobroom.domain.lifecycle import HELD, is_terminal
from jobroom.errors import (
    DependencyCycle,
    DependencyNotFound,
    FieldError,
    Forbidden,
    InvalidTaskTransition,
    ValidationFailed,
)
from jobroom.service import access
from jobroom.store import planned, weaving

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobroom.domain.records import Caller, Job
    from jobroom.service.new_task import NewTask
    from jobroom.store.planned import Dependency
    from jobroom.store.transaction import Transaction
    from jobroom.store.weaving import Heir

MOST_NAMED = 10
"""How many tasks of a cycle an error names."""
MOST_INHERITED = 20_000
"""How many edges the children of one request bring to those that wait for their parents."""


class Asked(NamedTuple):
    """A new task: what is said of it, its job as it was read, and where the request has it."""

    new: NewTask
    job: Job
    place: tuple[str | int, ...] = ()


class Node(NamedTuple):
    """A new task that has its id, what it needs (id -> condition), and where it says so."""

    id: str
    asked: Asked
    needs: dict[str, str]
    places: dict[str, int]

    @property
    def label(self) -> str:
        """What the client can call it: there is no task of that id, unless it has chosen one."""
        new = self.asked.new
        return new.key or new.id or self.pointer() or "the new task"

    def pointer(self, *member: str | int) -> str:
        """Where the request has a member of this task."""
        return pointer_to(*self.asked.place, *member)


class Plan(NamedTuple):
    """New tasks that may be added: what they begin as, and who will wait for them."""

    nodes: tuple[Node, ...]
    known: dict[str, Dependency]
    """The stored tasks that they name."""
    heirs: dict[str, list[Heir]]
    begun: dict[str, Beginning]

    def status(self, task_id: str) -> str:
        """The status of a task that is named in it."""
        new = self.begun.get(task_id)
        return self.known[task_id].status if new is None else new.status


def new_ids(tx: Transaction, news: Iterable[NewTask]) -> list[str]:
    """The ids that the tasks of a request get; the same whenever the request is run again."""
    first = tx.token or names.new_uuid7()
    return [new.id or names.nth_uuid7(first, n) for n, new in enumerate(news)]


def make_plan(tx: Transaction, caller: Caller, asked: Sequence[Asked]) -> Plan:
    """What becomes of new tasks that are added now.

    Before this comes ``edges.lock``: nothing that is read here changes until the transaction ends.
    Raises ValidationFailed, DependencyNotFound, DependencyCycle, Forbidden and
    InvalidTaskTransition.
    """
    nodes = _nodes(new_ids(tx, (each.new for each in asked)), asked)
    known = _find(tx, caller, nodes)
    _check_parents(caller, nodes, known)
    heirs = _heirs(tx, nodes)
    _check_not_too_many(nodes, heirs)
    _check_no_cycle(tx, nodes, heirs)
    return Plan(tuple(nodes), known, heirs, _begin(nodes, known))


def _nodes(ids: Sequence[str], asked: Sequence[Asked]) -> list[Node]:
    nodes = [Node(task_id, each, {}, {}) for task_id, each in zip(ids, asked, strict=True)]
    for node in nodes:
        for place, (named, condition) in enumerate(node.asked.new.depends_on):
            needed = ids[named] if isinstance(named, int) else named
            node.places.setdefault(needed, place)
            if node.needs.setdefault(needed, condition) != condition:
                pointer = node.pointer("depends_on", place)
                message = f"It depends on {shown(needed)} twice, with different conditions."
                raise ValidationFailed(message, errors=(FieldError(pointer, message),))
    return nodes


def _find(tx: Transaction, caller: Caller, nodes: Sequence[Node]) -> dict[str, Dependency]:
    """The stored tasks that the new ones name; the caller sees them all."""
    own = {node.id for node in nodes}
    places: dict[str, str] = {}
    for node in nodes:
        for needed, place in node.places.items():
            if needed not in own:
                places.setdefault(needed, node.pointer("depends_on", place))
        if node.asked.new.parent is not None:
            places.setdefault(node.asked.new.parent, node.pointer("parent"))
    found = planned.find(tx, places)
    missing = [
        FieldError(pointer, f"There is no task {task_id} that this token may see.")
        for task_id, pointer in places.items()
        if task_id not in found or not _sees(caller, found[task_id])
    ]
    if missing:
        more = f" ({len(missing)} such tasks in all)" if len(missing) > 1 else ""
        message = f"{missing[0].message[:-1]}{more}; submit first what must come first."
        raise DependencyNotFound(message, errors=tuple(missing[:MOST_NAMED]))
    return found


def _sees(caller: Caller, dependency: Dependency) -> bool:
    return access.sees_task(caller, dependency, dependency.holder)


def _check_parents(caller: Caller, nodes: Sequence[Node], known: dict[str, Dependency]) -> None:
    parents = [(node, known[node.asked.new.parent]) for node in nodes if node.asked.new.parent]
    for node, parent in parents:
        is_held = parent.status in HELD or is_terminal(parent.status)
        if parent.holder != caller.identity or not is_held:
            message = f"Only who holds task {parent.id} may name it as a parent."
            raise Forbidden(message, errors=(FieldError(node.pointer("parent"), message),))
    for node, parent in parents:
        if is_terminal(parent.status):
            message = (
                f"Task {parent.id} has ended ({parent.status}): what waited for it goes on"
                " already, so it can be no parent."
            )
            fault = FieldError(node.pointer("parent"), message)
            raise InvalidTaskTransition(message, errors=(fault,))


def _heirs(tx: Transaction, nodes: Sequence[Node]) -> dict[str, list[Heir]]:
    """The stored tasks that will wait for a new one, by its id.

    What waits for its parent; and what waited, in the embedded queue, for a task with its id.
    """
    named = {node.asked.new.parent for node in nodes} | {node.asked.new.id for node in nodes}
    waiting: dict[str, list[Heir]] = {}
    for heir in weaving.heirs(tx, sorted(each for each in named if each is not None)):
        waiting.setdefault(heir.parent_id, []).append(heir)
    return {
        node.id: waiting.get(node.asked.new.parent or "", []) + waiting.get(node.id, [])
        for node in nodes
        if node.asked.new.parent in waiting or node.id in waiting
    }


def _check_not_too_many(nodes: Sequence[Node], heirs: dict[str, list[Heir]]) -> None:
    """Refuse children that would hold up everything else while they are added.

    One child is always taken, however much waits for its parent.
    """
    if len(nodes) > 1 and sum(map(len, heirs.values())) > MOST_INHERITED:
        node = next(node for node in nodes if node.id in heirs)
        message = (
            f"What waits for the parents would wait for these tasks by more than"
            f" {MOST_INHERITED:,} dependencies; send them in parts."
        )
        raise ValidationFailed(message, errors=(FieldError(node.pointer("parent"), message),))


def _check_no_cycle(tx: Transaction, nodes: Sequence[Node], heirs: dict[str, list[Heir]]) -> None:
    own = {node.id: node for node in nodes}
    waits_for: dict[str, list[str]] = {node.id: list(node.needs) for node in nodes}
    if heirs:
        # Only then can a stored task come to wait for a new one.
        stored = {needed for node in nodes for needed in node.needs if needed not in own}
        for task_id, needed in weaving.above(tx, stored).items():
            waits_for.setdefault(task_id, []).extend(needed)
        for task_id, waiting in heirs.items():
            for heir in waiting:
                waits_for.setdefault(heir.id, []).append(task_id)
    cycle = graph.find_cycle(waits_for)
    if cycle is None:
        return
    labels = [own[each].label if each in own else each for each in cycle]
    message = f"The dependencies form a cycle: {_path(labels)}; remove one of them."
    raise DependencyCycle(message, errors=tuple(_faults(cycle, own))[:MOST_NAMED])


def _path(labels: Sequence[str]) -> str:
    named = [shown(label) for label in labels]
    if len(named) > MOST_NAMED + 1:
        named[MOST_NAMED - 1 : -1] = [f"… ({len(named) - MOST_NAMED} more)"]
    return " → ".join(named)


def _faults(cycle: Sequence[str], own: dict[str, Node]) -> Iterable[FieldError]:
    for waiting, needed in pairwise(cycle):
        if waiting in own:
            yield FieldError(
                own[waiting].pointer("depends_on", own[waiting].places[needed]),
                "is a part of the cycle",
            )
        elif needed in own:
            yield FieldError(own[needed].pointer("parent"), "is a part of the cycle")


def _begin(nodes: Sequence[Node], known: dict[str, Dependency]) -> dict[str, Beginning]:
    """What each new task begins as, by its id."""
    by_id = {node.id: node for node in nodes}
    begun: dict[str, Beginning] = {}
    for task_id in graph.in_order({node.id: node.needs for node in nodes}):
        begun[task_id] = graph.begin(
            Need(needed, condition, _status(needed, begun, known))
            for needed, condition in by_id[task_id].needs.items()
        )
    return begun


def _status(task_id: str, begun: dict[str, Beginning], known: dict[str, Dependency]) -> str:
    return begun[task_id].status if task_id in begun else known[task_id].status
