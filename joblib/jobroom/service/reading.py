"""Reading tasks: one, its result, pages of them, and retrying one that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobroom.domain import damage
from jobroom.domain.lifecycle import HELD, TaskStatus
from jobroom.domain.records import MICROSECONDS, Caller, TaskView
from jobroom.errors import Forbidden, InvalidTaskTransition
from jobroom.service import access, registration
from jobroom.service.use_case import reads, writes
from jobroom.store import jobs, lists, reports, tasks
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
def find_changed(tx: Transaction, *, known: dict[str, int]) -> list[TaskView]:
    """Those of the tasks (id -> row version) that have another version now."""
    now = tasks.versions(tx, known)
    changed = (tasks.get(tx, task_id) for task_id, seen in now.items() if seen != known[task_id])
    return [found[0] for found in changed if found is not None]


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
    access.check_room(caller, room_id)
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


@reads
def check_retry(tx: Transaction, *, caller: Caller, task_id: str) -> TaskView:
    """The task that a retry would make pending; raises what ``retry_task`` would raise."""
    return _check_ended(_check_may_retry(tx, caller, task_id))


def _check_may_retry(tx: Transaction, caller: Caller, task_id: str) -> TaskView:
    found = tasks.get(tx, task_id)
    if found is None or not access.sees_task(caller, found[0].task, found[2]):
        raise access.task_not_found(task_id)
    task = found[0].task
    if task.created_by_id != caller.identity and not access.is_admin_in(caller, task.room_id):
        message = f"Only its creator or an admin may retry task {task.id}."
        raise Forbidden(message)
    return found[0]


def _check_ended(view: TaskView) -> TaskView:
    task = view.task
    if task.status not in (TaskStatus.FAILED, TaskStatus.CANCELLED):
        message = f"Task {task.id} is {task.status}; only a failed or cancelled task is retried."
        raise InvalidTaskTransition(message)
    return view


@writes
def retry_task(tx: Transaction, *, caller: Caller, task_id: str) -> TaskView:
    """Make a failed or cancelled task pending again, for its creator or an admin.

    ``starts`` begins again at 0, ``attempt`` goes on, an ``expires_at`` that has passed is
    cleared (rules, *Retry*, *Time fields*). Raises TaskNotFound, Forbidden, InvalidTaskTransition.
    """
    view = _check_may_retry(tx, caller, task_id)
    if tx.is_repeat and view.task.status == TaskStatus.PENDING:
        # Done a moment ago; the answer was lost on its way from the store.
        return view
    task = _check_ended(view).task
    if not damage.is_sound(task):
        message = f"{damage.STORY} ({damage.flaw(task)}); submit it again instead."
        raise InvalidTaskTransition(message)
    expires_at = task.expires_at
    if expires_at is not None and expires_at <= tx.now:
        expires_at = None
    ready = task.run_at is None or task.run_at <= tx.now
    done = reports.retry(tx, task, ready=ready, expires_at=expires_at)
    if done is None:
        message = f"Task {task.id} was changed at the same moment; look again."
        raise InvalidTaskTransition(message)
    # A job with a task that waits is listed, as after a submission.
    jobs.show(tx, task.job_seq)
    if ready:
        tx.claimable[task.job_seq] = None
    return done
