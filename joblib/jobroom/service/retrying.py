"""Retrying a task that failed or was cancelled, with those that failed because of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobroom.domain import damage, graph
from jobroom.domain.graph import EdgeState
from jobroom.domain.lifecycle import TaskStatus, is_terminal
from jobroom.domain.records import Change
from jobroom.errors import Forbidden, InvalidTaskTransition
from jobroom.service import access
from jobroom.service.use_case import reads, writes
from jobroom.store import edges, fallen, jobs, planned, reruns, tasks
from jobroom.store.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobroom.domain.records import Caller, Task, TaskView

_AGAIN = (TaskStatus.PENDING, TaskStatus.BLOCKED)


class _Plan(NamedTuple):
    """What a retry of a task would change; tasks by their ids, with the row's version."""

    root: Task
    status: TaskStatus
    """What it becomes."""
    edges: dict[str, EdgeState] = {}  # noqa: RUF012 - a named tuple's default, never changed
    """Those of its own edges that do not stand as stored, by the dependency."""
    undone: dict[str, int] = {}  # noqa: RUF012 - as above
    """Failed because of it: blocked again."""
    held_back: dict[str, int] = {}  # noqa: RUF012 - as above
    """Freed by its end, and not claimed yet: blocked again."""
    others: dict[str, int] = {}  # noqa: RUF012 - as above
    """Failed because of it and of another one as well: the other one is to blame now."""

    jobs: frozenset[int] = frozenset()
    """Whose the undone are."""

    @property
    def again(self) -> list[str]:
        """What runs again, or for the first time."""
        return [self.root.id, *self.undone]


class RetryPlan(NamedTuple):
    """The tasks whose status a retry would change; ``hidden`` more may not be seen by who asks."""

    ids: list[str]
    hidden: int


@reads
def plan_retry(tx: Transaction, *, caller: Caller, task_id: str) -> RetryPlan:
    """The tasks whose status a retry would change, the task itself first.

    Raises what ``retry_task`` would raise.
    """
    view = _check_may_retry(tx, caller, task_id)
    plan = _plan(tx, caller, _check_ended(view), locking=False)
    others = [*plan.undone, *plan.held_back]
    known = planned.find(tx, others, locking=False)
    seen = [each for each in others if _sees(caller, known.get(each))]
    return RetryPlan([plan.root.id, *seen], len(others) - len(seen))


def _sees(caller: Caller, found: planned.Dependency | None) -> bool:
    return found is not None and access.sees_task(caller, found, found.holder)


@writes
def retry_task(tx: Transaction, *, caller: Caller, task_id: str) -> TaskView:
    """Make a failed or cancelled task pending again, for its creator or an admin.

    It is blocked where a dependency of it has still to end. ``starts`` begins again at 0,
    ``attempt`` goes on, an ``expires_at`` that has passed is cleared (rules, *Retry*, *Time
    fields*). What failed because of it alone is blocked again, whoever made that.
    Raises TaskNotFound, Forbidden, InvalidTaskTransition.
    """
    edges.lock(tx)
    view = _check_may_retry(tx, caller, task_id)
    if tx.is_repeat and view.task.status in _AGAIN:
        # Done a moment ago; the answer was lost on its way from the store.
        return view
    plan = _plan(tx, caller, _check_ended(view), locking=True)
    for dependency_id, state in plan.edges.items():
        reruns.set_edge(tx, dependency_id=dependency_id, dependent_seq=plan.root.seq, state=state)
    done = reruns.retry(tx, plan.root, status=plan.status)
    if done is None:
        message = f"Task {task_id} was changed at the same moment; look again."
        raise InvalidTaskTransition(message)
    _carry_out(tx, plan)
    if done.task.status == TaskStatus.PENDING and done.task.ready:
        tx.claimable[done.task.job_seq] = None
    return done


def _check_may_retry(tx: Transaction, caller: Caller, task_id: str) -> TaskView:
    found = tasks.get(tx, task_id)
    if found is None or not access.sees_task(caller, found[0].task, found[2]):
        raise access.task_not_found(task_id)
    task = found[0].task
    if task.created_by_id != caller.identity and not access.is_admin_in(caller, task.room_id):
        message = f"Only its creator or an admin may retry task {task.id}."
        raise Forbidden(message)
    return found[0]


def _check_ended(view: TaskView) -> Task:
    task = view.task
    if task.status not in (TaskStatus.FAILED, TaskStatus.CANCELLED):
        message = f"Task {task.id} is {task.status}; only a failed or cancelled task is retried."
        raise InvalidTaskTransition(message)
    if not damage.is_sound(task):
        message = f"{damage.STORY} ({damage.flaw(task)}); submit it again instead."
        raise InvalidTaskTransition(message)
    return task


def _plan(tx: Transaction, caller: Caller, task: Task, *, locking: bool) -> _Plan:
    plan = _Plan(task, TaskStatus.PENDING)
    if task.has_dependencies:
        plan = _with_needs(tx, caller, plan)
    if task.has_dependents:
        plan = _with_dependents(tx, plan, locking=locking)
    return plan


def _with_needs(tx: Transaction, caller: Caller, plan: _Plan) -> _Plan:
    """Where its own edges stand now: of what ran again since it ended, as that is now."""
    task = plan.root
    stand: dict[str, EdgeState] = {}
    wrong: dict[str, EdgeState] = {}
    for need, stored in fallen.list_needs(tx, task.seq):
        # What retention has removed ended as the edge says.
        state = EdgeState(stored) if need.status is None else need.state
        stand[need.dependency_id] = state
        if state != stored:
            wrong[need.dependency_id] = state
    broken = sorted(each for each, state in stand.items() if state == EdgeState.BROKEN)
    if broken:
        to_blame = task.failed_by if task.failed_by in broken else broken[0]
        raise _not_before(tx, caller, task, to_blame)
    waits = EdgeState.WAITING in stand.values()
    return plan._replace(status=TaskStatus.BLOCKED if waits else TaskStatus.PENDING, edges=wrong)


def _not_before(
    tx: Transaction, caller: Caller, task: Task, dependency_id: str
) -> InvalidTaskTransition:
    """The refusal that says what to retry instead: where the failure came from."""
    cause = fallen.find_cause(tx, dependency_id)
    # The task itself names what it depends on; what lies behind that may be out of sight.
    if cause.id != dependency_id and cause.status is not None:
        known = planned.find(tx, [cause.id], locking=False)
        if not _sees(caller, known.get(cause.id)):
            message = (
                f"Task {task.id} cannot run: dependency {dependency_id} failed because of a task"
                " that this token may not see; that one has to be retried first."
            )
            return InvalidTaskTransition(message)
    story = graph.why_failed(cause.id, cause.status)
    if cause.status in (TaskStatus.FAILED, TaskStatus.CANCELLED):
        what = (
            f"retry task {cause.id} instead, and what failed because of it waits for it again"
            if task.failed_by
            else f"retry task {cause.id} first, then this one"
        )
    elif cause.status is not None and not is_terminal(cause.status):
        story, what = f"dependency {dependency_id} failed", f"retry task {dependency_id} instead"
    elif cause.status is None:
        story, what = f"dependency {cause.id} is gone", "submit it again instead"
    else:
        what = "submit it again instead"
    return InvalidTaskTransition(f"Task {task.id} cannot run: {story}; {what}.")


def _with_dependents(tx: Transaction, plan: _Plan, *, locking: bool) -> _Plan:
    root = plan.root.id
    broken = fallen.list_broken(tx, root, locking=locking)
    versions = {each.dependent_id: each.version for each in broken}
    pairs = [(each.dependency_id, each.dependent_id) for each in broken]
    undone = {each: versions[each] for each in graph.undone_with(root, pairs)}
    again = {root, *undone}
    freed = fallen.list_freed(tx, root, locking=locking)
    return plan._replace(
        undone=undone,
        jobs=frozenset(each.job_seq for each in broken if each.dependent_id in undone),
        held_back={
            each.dependent_id: each.version for each in freed if each.dependency_id in again
        },
        others={
            each.dependent_id: each.version
            for each in broken
            if each.failed_by in again and each.dependent_id not in undone
        },
    )


def _carry_out(tx: Transaction, plan: _Plan) -> None:
    """Write what becomes of the dependents; their edges first, by what they are still."""
    if plan.root.has_dependents:
        reruns.expect_again(tx, plan.again)
    reruns.block_again(tx, plan.undone)
    reruns.hold_back(tx, plan.held_back)
    reruns.blame_others(tx, plan.others)
    jobs.show_too(tx, sorted({plan.root.job_seq, *plan.jobs}))
    for group in (plan.undone, plan.held_back, plan.others):
        tx.changed += _changes(group)


def _changes(versions: dict[str, int]) -> Iterable[Change]:
    return (Change(task_id, version + 1) for task_id, version in versions.items())
