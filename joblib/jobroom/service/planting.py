"""Adding the tasks of a plan, with their edges: all of them or none."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from jobroom.domain.graph import Need
from jobroom.domain.lifecycle import TaskStatus
from jobroom.domain.records import KEY_LIFE, MICROSECONDS, Change
from jobroom.service import planning
from jobroom.store import edges, jobs, planned, weaving

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobroom.domain.records import Caller, Job, TaskView
    from jobroom.service.new_task import NewTask
    from jobroom.service.planning import Asked, Node, Plan
    from jobroom.store.transaction import Transaction

    Describe = Callable[[str, Job, NewTask], dict[str, Any]]


def add_tasks(
    tx: Transaction,
    *,
    caller: Caller,
    asked: Sequence[Asked],
    describe: Describe,
    old_keys: Sequence[str] = (),
) -> list[TaskView] | None:
    """Add new tasks; None if a job has changed since it was read: read it again.

    Before this come ``edges.lock`` and the look for a repeat. ``describe`` gives the columns of a
    task by its id and job; ``old_keys`` are idempotency keys that have lived their time. Raises
    what ``planning.make_plan`` raises, before anything is written.
    """
    plan = planning.make_plan(tx, caller, asked)
    current = _current_jobs(tx, asked)
    if current is None:
        return None
    if tx.token is not None and all(each.new.fingerprint is None for each in asked):
        tx.undo = partial(_withdraw, ids=[node.id for node in plan.nodes])
    weaving.forget_keys(tx, identity=caller.identity, keys=old_keys)
    needed = {each for node in plan.nodes for each in node.needs}
    for node in plan.nodes:
        job = current[node.asked.job.seq]
        given = describe(node.id, job, node.asked.new) | _beginning(tx, plan, node, job)
        given["has_dependents"] = int(node.id in needed or node.id in plan.heirs)
        planned.add(tx, given, in_turn=job.claim_order == "fair")
    _weave(tx, plan)
    return _told(tx, plan)


def _current_jobs(tx: Transaction, asked: Sequence[Asked]) -> dict[int, Job] | None:
    """The jobs as they are now, those that were hidden listed again; None if one has changed."""
    read = {each.job.seq: each.job for each in asked}
    current = weaving.current_jobs(tx, read)
    if any(current[seq].version != job.version for seq, job in read.items()):
        return None
    for seq, job in current.items():
        if job.hidden:
            current[seq] = jobs.show(tx, seq) or job
    return current


def _beginning(tx: Transaction, plan: Plan, node: Node, job: Job) -> dict[str, Any]:
    begun = plan.begun[node.id]
    seconds = job.result_ttl_seconds or tx.settings.task_retention_seconds
    kept_for = int(seconds * MICROSECONDS)
    return {
        "status": str(begun.status),
        "error": begun.error,
        "failed_by": begun.failed_by,
        "has_dependencies": int(bool(node.needs)),
        "kept_for": max(kept_for, KEY_LIFE) if node.asked.new.idempotency_key else kept_for,
    }


def _weave(tx: Transaction, plan: Plan) -> None:
    """Add the edges, and settle those that lead to a task that has failed already."""
    parents = {node.asked.new.parent: node.id for node in plan.nodes if node.id in plan.heirs}
    for parent_id in parents:
        if parent_id is not None:
            weaving.touch_heirs(tx, parent_id)
    for node in plan.nodes:
        if node.id in plan.heirs and node.asked.new.parent is not None:
            weaving.inherit(tx, parent_id=node.asked.new.parent, child_id=node.id)
    needs = (
        (node.id, Need(needed, condition, plan.status(needed)))
        for node in plan.nodes
        for needed, condition in node.needs.items()
    )
    weaving.add_edges(
        tx,
        [(need.dependency_id, task_id, need.condition, str(need.state)) for task_id, need in needs],
    )
    planned.expect_dependents(tx, plan.known)
    tx.changed += _changes(plan)
    for node in plan.nodes:
        if plan.begun[node.id].status == TaskStatus.FAILED and node.id in plan.heirs:
            edges.settle(tx, node.id)


def _changes(plan: Plan) -> list[Change]:
    """What is shown otherwise now: the tasks that wait for the parent of a new one."""
    touched: dict[str, dict[str, int]] = {}
    for node in plan.nodes:
        for heir in plan.heirs.get(node.id, ()):
            if heir.parent_id == node.asked.new.parent:
                touched.setdefault(heir.id, {})[heir.parent_id] = heir.version
    return [
        Change(task_id, max(versions.values()) + len(versions))
        for task_id, versions in touched.items()
    ]


def _told(tx: Transaction, plan: Plan) -> list[TaskView]:
    views = planned.get_all(tx, [node.id for node in plan.nodes])
    tx.submitted += len(views)
    tx.fallen += sum(view.task.status == TaskStatus.FAILED for view in views)
    for view in views:
        if view.task.ready and view.task.status == TaskStatus.PENDING:
            tx.claimable[view.task.job_seq] = None
    return views


def _withdraw(tx: Transaction, *, ids: Sequence[str]) -> None:
    """Undo a submission that the store may have kept, as far as nobody has begun with it."""
    edges.lock(tx)
    weaving.withdraw(tx, ids)
