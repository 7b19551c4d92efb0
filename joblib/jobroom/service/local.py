"""The rules of the embedded queue: its jobs are tasks of the room ``@local``.

A job may depend on one that comes later, hands its dependents on to those that it submits, and
may be queued again after its end; otherwise the rules are those of any task.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from jobroom.domain import graph
from jobroom.domain.lifecycle import TaskStatus, is_terminal
from jobroom.domain.local import CATEGORY, ROOM, task_id_of
from jobroom.domain.names import new_uuid7
from jobroom.domain.records import Job
from jobroom.service import local_graph
from jobroom.service.use_case import writes
from jobroom.store import edges, jobs, local, local_deadlocks, local_reads
from jobroom.store import local_graph as links
from jobroom.store.transaction import Transaction

IS_DAMAGED = "The stored job is damaged; add it again under another id"


class Outcome(Enum):
    """What became of a report on a job."""

    DONE = "done"
    UNKNOWN = "unknown"
    ENDED_BEFORE = "ended before"


class Config(NamedTuple):
    """What a job runs. ``text`` is its whole config, JSON, as it is given back.

    ``job_seq``: the number of the function's row, where it is known already.
    """

    text: str
    function: str
    max_attempts: int = 1
    timeout_seconds: float | None = None
    job_seq: int | None = None


class Added(NamedTuple):
    """Whether a job was added, or what stands against it; ``job_seq`` of its function."""

    is_added: bool
    refusal: str | None = None
    job_seq: int | None = None


@writes
def add_job(
    tx: Transaction,
    *,
    job_id: str,
    config: Config,
    depends_on: tuple[str, ...] = (),
    condition: str = graph.Condition.AFTEROK,
    parent: str | None = None,
) -> Added:
    """Add a job, unless its id is taken, or it would wait for itself, or come too late.

    ``depends_on`` and ``parent`` are names of jobs, which may be unknown.
    """
    task_id = task_id_of(job_id)
    plan = local_graph.NO_PLAN
    if depends_on or parent is not None:
        made = local_graph.make_plan(tx, job_id, depends_on, condition=condition, parent=parent)
        if isinstance(made, local_graph.Refusal):
            return Added(is_added=False, refusal=made.reason)
        plan = made
    elif config.job_seq is None and local_reads.get(tx, task_id) is not None:
        return Added(is_added=False)
    job_seq = config.job_seq or job_seq_of(tx, config.function)
    if plan.parent is not None:
        links.inherit(tx, task_id, parent=plan.parent)
    begins = plan.begins
    seq = local.add(
        tx,
        {
            "id": task_id,
            "key": job_id,
            "job_seq": job_seq,
            "payload": config.text,
            "max_attempts": config.max_attempts,
            "timeout_seconds": config.timeout_seconds,
            "status": str(begins.status),
            "has_dependencies": 1 if plan.needs else 0,
            "failed_by": begins.failed_by,
            "error": begins.error,
        },
    )
    if seq is not None and plan.needs:
        local_graph.tie(tx, task_id, seq, plan)
    return Added(seq is not None, job_seq=job_seq)


def job_seq_of(tx: Transaction, function: str) -> int:
    """The number of a function's row, made if there is none."""
    found = jobs.get(tx, room_id=ROOM, category=CATEGORY, name=function)
    return (found or jobs.add(tx, _new_job(function, tx.now))).seq


def _new_job(function: str, now: int) -> Job:
    return Job(
        seq=0,
        id=new_uuid7(),
        room_id=ROOM,
        category=CATEGORY,
        name=function,
        schema="{}",
        schema_version=1,
        version=1,
        hidden=0,
        description=None,
        max_attempts=1,
        on_worker_lost="fail",
        claim_order="fifo",
        retry_delay_seconds=None,
        timeout_seconds=None,
        claim_timeout_seconds=None,
        result_ttl_seconds=None,
        validate=0,
        created_at=now,
        last_seen=None,
    )


class Taken(NamedTuple):
    """The job that was taken: its name, and its config as it was stored."""

    job_id: str
    config: str


class Idle(NamedTuple):
    """Nothing is ready; ``is_complete``: and nothing will be, as all jobs have ended."""

    is_complete: bool


@writes
def take_job(tx: Transaction, *, worker_id: str) -> Taken | Idle:
    """Take the first job that is ready; what is damaged fails, and the next one is taken."""
    while True:
        taken = local.take(tx, worker_id=worker_id)
        if taken is None:
            failed = local.fail_head(tx, error=IS_DAMAGED)
            if failed is None:
                return Idle(is_complete=not local_reads.is_under_way(tx))
            edges.settle(tx, failed)
        elif isinstance(taken.key, str) and isinstance(taken.config, str):
            return Taken(taken.key, taken.config)
        else:
            _end(tx, taken.id, status=TaskStatus.FAILED, error=IS_DAMAGED)


def _end(
    tx: Transaction,
    task_id: str,
    *,
    status: TaskStatus,
    error: str | None = None,
    message: str | None = None,
) -> bool:
    """End a job, if it has not ended, and settle what waits for it."""
    ended = local.end(tx, task_id, status=str(status), error=error, message=message)
    if ended is None:
        return False
    if ended.has_dependents:
        if status == TaskStatus.COMPLETED and not ended.is_to_fail:
            links.meet(tx, task_id)
        else:
            edges.settle(tx, task_id)
    return True


@writes
def end_job(tx: Transaction, *, job_id: str, succeeded: bool, details: str | None) -> Outcome:
    """End a job, whatever it is doing; its dependents are promoted or fail, all the way down."""
    task_id = task_id_of(job_id)
    if succeeded:
        is_done = _end(tx, task_id, status=TaskStatus.COMPLETED, message=details)
    else:
        is_done = _end(tx, task_id, status=TaskStatus.FAILED, error=details)
    if is_done:
        return Outcome.DONE
    return Outcome.UNKNOWN if local_reads.get(tx, task_id) is None else Outcome.ENDED_BEFORE


@writes
def run_job(tx: Transaction, *, job_id: str, worker_id: str, details: str | None) -> Outcome:
    """Say that a job runs. One that was not taken is taken by its name, whatever it waits for."""
    was = local_reads.get(tx, task_id_of(job_id))
    if was is None:
        return Outcome.UNKNOWN
    if is_terminal(was.status):
        return Outcome.ENDED_BEFORE
    if was.status in {TaskStatus.PENDING, TaskStatus.BLOCKED}:
        local.run(tx, was.id, worker_id=worker_id, message=details)
    else:
        local.note(tx, was.id, message=details)
    return Outcome.DONE


@writes
def queue_job(tx: Transaction, *, job_id: str, details: str | None) -> Outcome:
    """Put a job back in the queue, in its old place; it is ready when its dependencies are met.

    Of those that depend on it, who has not begun waits for it again; who has ended stays so.
    """
    was = local_reads.get(tx, task_id_of(job_id))
    if was is None:
        return Outcome.UNKNOWN
    if was.status in {TaskStatus.PENDING, TaskStatus.BLOCKED}:
        local.note(tx, was.id, message=details)
        return Outcome.DONE
    begins = local_graph.begin_again(tx, was)
    local.queue_again(
        tx,
        was.seq,
        expect=was.status,
        status=str(begins.status),
        message=details,
        failed_by=begins.failed_by,
        error=begins.error,
    )
    if was.has_dependents and is_terminal(was.status):
        links.reopen(tx, was.id)
    if begins.status == TaskStatus.FAILED:
        edges.settle(tx, was.id)
    return Outcome.DONE


@writes
def change_config(tx: Transaction, *, job_id: str, config: Config) -> int | None:
    """Store another config for a job; the number of its function's row, None if it is unknown."""
    task_id = task_id_of(job_id)
    if config.job_seq is None and local_reads.get(tx, task_id) is None:
        return None
    job_seq = config.job_seq or job_seq_of(tx, config.function)
    is_there = local.replace(
        tx,
        task_id,
        config=config.text,
        job_seq=job_seq,
        max_attempts=config.max_attempts,
        timeout_seconds=config.timeout_seconds,
    )
    return job_seq if is_there else None


@writes
def set_worker(tx: Transaction, *, job_id: str, worker_id: str) -> bool:
    """Remember who runs a job; False if it is unknown."""
    task_id = task_id_of(job_id)
    local.set_worker(tx, task_id, worker_id=worker_id)
    return local_reads.get(tx, task_id) is not None


@writes
def fail_jobs_of(tx: Transaction, *, worker_id: str, details: str) -> list[str]:
    """Fail what a worker runs, and what waits for that; the names of its own jobs, in order."""
    held = local_reads.held_by(tx, worker_id)
    for task_id, _ in held:
        _end(tx, task_id, status=TaskStatus.FAILED, error=details)
    return [job_id for _, job_id in held]


@writes
def fail_deadlocked(tx: Transaction) -> list[str]:
    """Fail the jobs that wait in vain, if nothing is ready or runs; their names, in order.

    What was to run if one of them failed is ready then, and what waits for that goes on waiting.
    """
    failed: list[local_deadlocks.Failed] = []
    while not local_reads.moves(tx) and not local_deadlocks.waits_elsewhere(tx):
        some = local_deadlocks.fail_blocked(tx)
        if not some:
            break
        failed += some
    return [each.key or each.id for each in sorted(failed) if each.room_id == ROOM]
