"""Taking a task from who holds it: a lost worker, a timeout (contract, *Losing a worker*)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobroom.domain import damage
from jobroom.store import jobs, notices, overdue, reports

if TYPE_CHECKING:
    from jobroom.domain.records import Job, Task
    from jobroom.store.transaction import Transaction

IDLE_CLAIMS = 10
"""After so many claims without a start a task fails (contract, *Losing a worker*)."""


class Lost(NamedTuple):
    """How many tasks went back, and how many failed."""

    requeued: int = 0
    failed: int = 0


def lose_tasks(tx: Transaction, worker_id: str | None, *, why: str, most: int | None = 100) -> Lost:
    """Requeue or fail what a worker holds, by each job's policy; ``most`` None takes it all."""
    requeued = failed = 0
    limit = 100 if most is None else min(100, most)
    story = f"Worker disconnected: worker {worker_id} {why}"
    while held := overdue.list_held_by(tx, worker_id, limit=limit):
        ends = [take_away(tx, found.task, why=story) for found in held]
        requeued += ends.count(True)
        failed += ends.count(False)
        if ends.count(None) == len(ends) or (most is not None and requeued + failed >= most):
            break
    return Lost(requeued, failed)


def take_away(tx: Transaction, task: Task, *, why: str) -> bool | None:
    """End one attempt by the job's policy; True if the task is pending again.

    None where the task has changed since it was read, and is left as it is. A damaged row is
    never run again, whatever the policy. The worker is told by a notice, should it still be alive.
    """
    job = jobs.get_by_seq(tx, task.job_seq)
    is_sound = damage.is_sound(task)
    goes_back = is_sound and job is not None and _goes_back(tx, task, job)
    if goes_back:
        done = reports.requeue(tx, task, error=task.error, starts=task.starts)
    elif is_sound:
        done = reports.fail(tx, task, error=_story(task, why))
    else:
        done = reports.fail(tx, task, error=f"{damage.STORY} ({damage.flaw(task)}). {why}.")
    if done is None:
        return None
    if goes_back:
        tx.claimable[task.job_seq] = None
    if task.worker_id is not None:
        notices.add(tx, worker_id=task.worker_id, task_id=task.id)
    return goes_back


def _goes_back(tx: Transaction, task: Task, job: Job) -> bool:
    return (
        job.on_worker_lost == "requeue"
        and task.starts < task.max_attempts
        and task.idle_claims < IDLE_CLAIMS
        and (task.expires_at is None or task.expires_at > tx.now)
    )


def _story(task: Task, why: str) -> str:
    """What happened, how often, and who: the text of a lost task's error."""
    if task.idle_claims >= IDLE_CLAIMS:
        return f"{why}; the task was claimed {task.idle_claims} times and never started."
    started = f"start {task.starts} of {task.max_attempts}" if task.starts else "never started"
    return f"{why} ({started}, attempt {task.attempt})."
