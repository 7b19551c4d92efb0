"""The model's rules for tasks that depend on others: submitting, children, retrying."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from model import ModelTask, Order, State, refuse
from model_edges import Need, broken, settle, stands, statuses
from model_ends import find_task

from jobroom.domain.records import Caller

# --- submitting -----------------------------------------------------------------------------


def check(state: State, caller: Caller, orders: Sequence[Order]) -> None:
    """Refuse what depends on what is not there, on itself, or comes from a stranger or too late."""
    own = {name: n for n, order in enumerate(orders) for name in _names_of(order)}
    for order in orders:
        if len(set(order.depends_on)) > len(dict(order.depends_on)):
            refuse("validation-error")
    stored = {each for order in orders for each, _ in order.depends_on if each not in own}
    parents = [order.parent for order in orders if order.parent is not None]
    known = {task.id: task for task in state.tasks if state.sees_task(caller, task)}
    if not known.keys() >= stored.union(parents):
        refuse("dependency-not-found")
    for parent in (known[each] for each in parents):
        if state.owner_of(parent) != caller.identity or parent.status in {"pending", "blocked"}:
            refuse("forbidden")
    if any(known[each].is_terminal for each in parents):
        refuse("invalid-task-transition")
    if _has_cycle(_waits_for(state, orders, own), [f"#{n}" for n in range(len(orders))]):
        refuse("dependency-cycle")


def _names_of(order: Order) -> Iterable[str]:
    return (name for name in (order.label, order.id) if name is not None)


def _waits_for(
    state: State, orders: Sequence[Order], own: Mapping[str, int]
) -> dict[str, list[str]]:
    """All dependencies as they would be: what has ended may be retried, and is waited for again."""
    waits = {task.id: list(task.needs) for task in state.tasks}
    for n, order in enumerate(orders):
        for heir in heirs(state, order.parent):
            waits[heir.id].append(f"#{n}")
        waits[f"#{n}"] = [f"#{own[each]}" if each in own else each for each, _ in order.depends_on]
    return waits


def heirs(state: State, parent: str | None) -> list[ModelTask]:
    """The tasks that wait for a parent, and so for its children."""
    waiting = [task for task in state.tasks if task.status == "blocked" and parent in task.needs]
    return [task for task in waiting if task.needs[parent or ""].state == "waiting"]


def _has_cycle(waits: Mapping[str, Sequence[str]], starts: Iterable[str]) -> bool:
    """Whether any way from one of these leads back to where it has been."""
    left: set[str] = set()
    reached = list(starts)
    while reached:
        node = reached.pop()
        if node not in left:
            left.add(node)
            reached += waits.get(node, ())
    while free := {node for node in left if left.isdisjoint(waits.get(node, ()))}:
        left -= free
    return bool(left)


def join(state: State, made: Sequence[ModelTask]) -> None:
    """Add new tasks with their edges; what waits for a parent waits for its children too."""
    own = {name: task.id for task in made for name in _names_of(task.order)}
    of_parents = [(task, heirs(state, task.order.parent)) for task in made]
    state.tasks += made
    for task in made:
        needed = {own.get(each, each): how for each, how in task.order.depends_on}
        task.needs = {each: Need(how) for each, how in needed.items()}
        task.status = "blocked" if needed else "pending"
    settle(state)
    for task, waiting in of_parents:
        for heir in waiting:
            condition = heir.needs[task.order.parent or ""].condition
            heir.needs.setdefault(task.id, Need(condition))
    settle(state)


# --- retrying -------------------------------------------------------------------------------


def would_change(state: State, caller: Caller, task_id: str) -> tuple[list[str], list[str]]:
    """The tasks whose status a retry would change, itself first; and those out of sight."""
    root = _check_may_retry(state, caller, task_id)
    again = _again(state, root)
    moved = [*again, *_held_back(state, again)]
    seen = [task.id for task in moved if state.sees_task(caller, task)]
    return seen, [task.id for task in moved if task.id not in seen]


def retry(state: State, caller: Caller, task_id: str) -> tuple[ModelTask, list[str]]:
    """Failed or cancelled, back to pending with what failed because of it alone.

    ``attempt`` goes on, ``starts`` begins again. The second are the ids of all that is touched.
    """
    root = _check_may_retry(state, caller, task_id)
    again = _again(state, root)
    held_back = _held_back(state, again)
    names = {task.id for task in again}
    others = [t for t in state.tasks if t not in again and t.blame.keys() & names]
    for each, stand in _as_they_stand(state, root).items():
        root.needs[each].state = stand
    for task in state.tasks:
        if task.status in {"blocked", "pending"} or task.blame:
            for each in names & task.needs.keys():
                task.needs[each].state = "waiting"
    for task in again:
        _begin_again(state, task)
    for task in (*again, *held_back):
        waits = any(need.state == "waiting" for need in task.needs.values())
        task.status = "blocked" if waits else "pending"
    for task in others:
        task.blame = {each: _story(state, each) for each in broken(task)}
    return root, [task.id for task in (*again, *held_back, *others)]


def _check_may_retry(state: State, caller: Caller, task_id: str) -> ModelTask:
    task = find_task(state, caller, task_id)
    if task.creator != caller.identity and not (caller.is_admin and caller.sees(task.room)):
        refuse("forbidden")
    if task.status not in {"failed", "cancelled"}:
        refuse("invalid-task-transition")
    if "broken" in _as_they_stand(state, task).values():
        refuse("invalid-task-transition")
    return task


def _as_they_stand(state: State, task: ModelTask) -> dict[str, str]:
    """Its edges by what its dependencies are now; of removed ones what is remembered."""
    now = {each.id: each.status for each in state.tasks}
    return {
        each: stands(need.condition, now[each]) if each in now else need.state
        for each, need in task.needs.items()
    }


def _again(state: State, root: ModelTask) -> list[ModelTask]:
    """It, and whoever failed because of it and of nothing else, all the way down."""
    again = [root]
    while True:
        names = {task.id for task in again}
        fallen = [task for task in state.tasks if task.blame and task not in again]
        more = [task for task in fallen if broken(task) <= names]
        if not more:
            return again
        again += more


def _held_back(state: State, again: Sequence[ModelTask]) -> list[ModelTask]:
    """Whom an end of these has freed, unless somebody has claimed it since."""
    names = {task.id for task in again}
    return [task for task in state.tasks if task.status == "pending" and names & task.needs.keys()]


def _begin_again(state: State, task: ModelTask) -> None:
    state.put_back(task)
    task.job.hidden = False
    task.ready = task.run_at is None or task.run_at <= state.now
    task.starts = task.idle = 0
    task.error = task.progress = task.message = None
    task.blame = {}
    if task.expires_at is not None and task.expires_at <= state.now:
        task.expires_at = None


def _story(state: State, dependency: str) -> str:
    status = statuses(state)[dependency]
    if status == "cancelled":
        return "was cancelled"
    return "completed, and was to fail" if status == "completed" else "failed"
