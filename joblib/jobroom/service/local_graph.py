"""Where a job of the embedded queue comes in: what it waits for, and who will wait for it."""

from __future__ import annotations

from typing import NamedTuple

from jobroom.domain import graph
from jobroom.domain.lifecycle import TaskStatus, is_terminal
from jobroom.domain.local import task_id_of
from jobroom.store import edges, planned
from jobroom.store import local_graph as links
from jobroom.store.local_reads import State
from jobroom.store.transaction import Transaction

MOST_NAMED = 20
"""So many jobs of a cycle are named; those in the middle of a longer one are left out."""


class Refusal(NamedTuple):
    """Why a job is not added; None as reason where its id is simply taken."""

    reason: str | None


class Plan(NamedTuple):
    """How a job begins. ``parent``: the id of the task whose dependents will wait for it too."""

    begins: graph.Beginning
    needs: tuple[graph.Need, ...] = ()
    parent: str | None = None
    unaware: tuple[str, ...] = ()
    """Of what it needs, the tasks that nothing depended on before."""


NO_PLAN = Plan(graph.Beginning(TaskStatus.PENDING))


def make_plan(
    tx: Transaction,
    job_id: str,
    depends_on: tuple[str, ...],
    *,
    condition: str,
    parent: str | None,
) -> Plan | Refusal:
    """See how a new job begins; nothing is written.

    Nobody else adds or settles edges from here to the end of the transaction.
    """
    task_id, parent_id = task_id_of(job_id), None if parent is None else task_id_of(parent)
    names = {task_id_of(name): name for name in depends_on}
    if task_id in names:
        return Refusal(f"it depends on itself: {job_id} -> {job_id}")
    edges.lock(tx)
    found = links.find(tx, task_id, [*names, *([parent_id] if parent_id else ())])
    if task_id in found:
        return Refusal(None)
    if parent_id == task_id:
        parent_id = None  # whoever waits for a job by its name does so already
    if parent_id and (ran := _heir_that_ran(tx, parent_id, found.get(parent_id))):
        state = "has ended" if parent_id in found else "is not there"
        return Refusal(f"its parent {parent} {state}, and {ran}, which depends on that, has begun")
    there = [found[each] for each in names if each in found]
    if cycle := _find_cycle(tx, task_id, job_id, parent_id=parent_id, needed=there):
        return Refusal(f"its dependencies form a cycle: {_shown(cycle)}")
    needs = tuple(
        graph.Need(each, condition, found[each].status)
        if each in found
        else graph.Need(each, condition, name=name)
        for each, name in names.items()
    )
    unaware = tuple(each.id for each in there if not each.has_dependents)
    return Plan(graph.begin(needs), needs, parent_id, unaware)


def _heir_that_ran(tx: Transaction, parent_id: str, parent: links.Needed | None) -> str | None:
    """Who has begun already, and was to wait for the parent and all that it submits."""
    if parent is not None and not is_terminal(parent.status):
        return None
    return links.heir_that_ran(tx, parent_id)


def _find_cycle(
    tx: Transaction, task_id: str, job_id: str, *, parent_id: str | None, needed: list[links.Needed]
) -> list[str] | None:
    """The names around a cycle that a new job would close; that takes somebody who awaits it."""
    live = [each.id for each in needed if not is_terminal(each.status)]
    if not live:
        return None
    is_named = any(each.is_named for each in needed)
    if not is_named and (parent_id is None or not links.has_heirs(tx, parent_id)):
        return None
    if not links.depends_on_new(tx, task_id, parent=parent_id, needed=live):
        return None
    found = links.links_above(tx, live)
    if parent_id:
        found += links.links_of_heirs(tx, task_id, parent=parent_id)
    depends_on: dict[str, list[str]] = {task_id: live}
    for each in found:
        depends_on.setdefault(each.dependent_id, []).append(each.dependency_id)
    names = {each.dependent_id: each.key or each.dependent_id for each in found}
    names[task_id] = job_id
    around = (graph.find_cycle(depends_on) or [task_id])[1:]
    first = around.index(task_id) if task_id in around else 0
    return [names[each] for each in (*around[first:], *around[:first], task_id)]


def _shown(cycle: list[str]) -> str:
    if len(cycle) > MOST_NAMED:
        half = MOST_NAMED // 2
        cycle = [*cycle[:half], f"({len(cycle) - MOST_NAMED} more)", *cycle[-half:]]
    return " -> ".join(cycle)


def tie(tx: Transaction, task_id: str, seq: int, plan: Plan) -> None:
    """Add the edges of a job that has been added; if it begins as failed, settle what awaits it."""
    links.add_edges(tx, seq, plan.needs)
    planned.expect_dependents(tx, plan.unaware)
    if plan.begins.status == TaskStatus.FAILED:
        edges.settle(tx, task_id)


def begin_again(tx: Transaction, was: State) -> graph.Beginning:
    """What a job that is queued again begins as, by where its dependencies stand now."""
    if was.has_dependencies:
        broken = links.judge_again(tx, was.seq)
        if broken is not None:
            story = graph.why_failed(broken.dependency_id, broken.status)
            return graph.Beginning(TaskStatus.FAILED, broken.dependency_id, story)
        if links.waits(tx, was.seq):
            return graph.Beginning(TaskStatus.BLOCKED)
    return graph.Beginning(TaskStatus.PENDING)
