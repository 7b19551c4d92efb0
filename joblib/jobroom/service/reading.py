"""Reading tasks: one, its result, and pages of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobroom.domain.lifecycle import HELD, TaskStatus
from jobroom.domain.records import MICROSECONDS, Caller, Logged, Task, TaskView
from jobroom.service import access, registration
from jobroom.service.use_case import reads
from jobroom.store import lists, task_logs, tasks
from jobroom.store.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Sequence


@reads
def get_task(tx: Transaction, *, caller: Caller, task_id: str) -> TaskView:
    """A task with its place in the queue and the end of its lease. Raises TaskNotFound."""
    found = tasks.get_placed(tx, task_id)
    if found is None or not access.sees_task(caller, found[0].task, found[2]):
        raise access.task_not_found(task_id)
    view, last_beat, _ = found
    if last_beat is None or view.task.status not in HELD:
        return view
    lease = last_beat + int(tx.settings.worker_timeout_seconds * MICROSECONDS)
    return view._replace(lease_expires_at=lease)


@reads
def find_changed(
    tx: Transaction, *, known: dict[str, int], logs: dict[str, tuple[int, int]]
) -> list[Task | Logged]:
    """Those of the tasks (id -> row version) that have another version now.

    And those whose newest log goes on behind where it was (id -> attempt and end).
    """
    now = tasks.versions(tx, known)
    changed = (tasks.get(tx, task_id) for task_id, seen in now.items() if seen != known[task_id])
    appended = (
        each for each in task_logs.ends(tx, logs) if (each.attempt, each.upto) > logs[each.id]
    )
    return [*(found[0].task for found in changed if found is not None), *appended]


@reads
def list_tasks(
    tx: Transaction,
    *,
    caller: Caller,
    room_id: str,
    full_name: str | None,
    statuses: Sequence[str],
    created_by_id: str | None,
    before: int | None,
    limit: int,
    offset: int,
) -> tuple[list[TaskView], int]:
    """A page of the tasks submitted in a room, newest first, and how many there are.

    The count is exact to ``lists.COUNT_LIMIT`` and one more beyond it.
    """
    access.check_sight_of_room(caller, room_id)
    access.check_admin_for_global(caller, room_id, "Listing the tasks submitted")
    job_seq = None
    if full_name is not None:
        job = registration.find_job(tx, caller=caller, room_id=room_id, full_name=full_name)
        job_seq = job.seq
    wanted = statuses or tuple(TaskStatus)
    scope = {"room_id": room_id, "statuses": wanted, "job_seq": job_seq}
    total = lists.count_tasks(tx, **scope, created_by_id=created_by_id)  # type: ignore[arg-type]  # a dict of mixed values
    page = (
        lists.list_tasks(
            tx,
            room_id=room_id,
            statuses=wanted,
            job_seq=job_seq,
            created_by_id=created_by_id,
            before=before,
            limit=limit,
            offset=offset,
        )
        if limit
        else []
    )
    places = tasks.queue_positions(tx, [view.task for view in page])
    return [view._replace(queue_position=places.get(view.task.seq)) for view in page], total
