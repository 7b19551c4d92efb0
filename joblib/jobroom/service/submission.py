"""Submitting a task: once per idempotency key, in its room's turn."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from jobroom.domain import names
from jobroom.domain.records import KEY_LIFE, Caller, Job, TaskView
from jobroom.errors import IdempotencyKeyReused, TaskExists
from jobroom.service import access, planning, planting
from jobroom.service.new_task import NewTask
from jobroom.service.use_case import reads, writes
from jobroom.store import edges, jobs, late_keys, tasks
from jobroom.store.session import Contended
from jobroom.store.transaction import Transaction


class Submitted(NamedTuple):
    """The task, and whether an earlier request had made it already.

    ``has_new_key``: that one had no idempotency key, and the one of this is yet to be kept.
    """

    view: TaskView
    replayed: bool = False
    has_new_key: bool = False


@writes
def submit_task(
    tx: Transaction, *, caller: Caller, room_id: str, job: Job, new: NewTask
) -> Submitted | None:
    """Add a task to a job; None if the job has changed since it was read: read it again.

    The payload was checked against ``job.schema_version`` before, outside the transaction; that
    the job is still at ``job.version`` guards that check. Raises NotFound, Forbidden,
    IdempotencyKeyReused and TaskExists; for one that depends on others, or has a parent, also what
    ``planning.make_plan`` raises.
    """
    check_may_submit(caller, room_id)
    if new.depends_on or new.parent is not None:
        return _submit_planned(tx, caller=caller, room_id=room_id, job=job, new=new)
    if job.hidden:
        shown = jobs.show(tx, job.seq)
        if shown is None or shown.schema_version != job.schema_version:
            return _known_from_now_on(tx, caller, new)
        job = shown
    add = tasks.add_in_turn if job.claim_order == "fair" else tasks.add
    task_id = new.id or tx.token or names.new_uuid7()
    given = columns(task_id, job, new, caller=caller, room_id=room_id)
    if tx.token is not None and new.fingerprint is None:
        tx.undo = partial(_withdraw, task_id=tx.token)
    task = add(tx, given)
    if task is None:
        known = _known_from_now_on(tx, caller, new)
        if known is not None or not _forget_old_key(tx, caller, new):
            return known
        task = add(tx, given)
        if task is None:
            return None
    tx.submitted += 1
    if task.ready:
        tx.claimable[job.seq] = None
    return Submitted(TaskView(task, job.full_name))


@reads
def find_repeat(tx: Transaction, *, caller: Caller, new: NewTask) -> Submitted | None:
    """The task that the same request made before, whatever became of its job since."""
    return _known(tx, caller, new)


@writes
def keep_key(tx: Transaction, *, caller: Caller, new: NewTask) -> Submitted | None:
    """As ``find_repeat``; a key that is new with a task known by its id is kept (``has_new_key``).

    It is kept as long as if it had come with the task: for the 24 hours after that was submitted.
    Where the task has another key already, that one is kept.
    """
    return _known_from_now_on(tx, caller, new)


def check_may_submit(caller: Caller, room_id: str) -> None:
    """Refuse a room that the caller may not submit in."""
    access.check_room(caller, room_id)
    access.check_admin_for_global(caller, room_id, "Submitting a task")


def columns(
    task_id: str, job: Job, new: NewTask, *, caller: Caller, room_id: str
) -> dict[str, Any]:
    """What the store is given of a new task; the rest of it is the store's."""
    return {
        "id": task_id,
        "job_seq": job.seq,
        "job_version": job.version,
        "schema_version": job.schema_version,
        "room_id": room_id,
        "created_by_id": caller.identity,
        "priority": new.priority,
        "payload": new.payload,
        "run_at": new.run_at,
        "expires_at": new.expires_at,
        "max_attempts": new.max_attempts or job.max_attempts,
        "timeout_seconds": (
            job.timeout_seconds if new.timeout_seconds is None else new.timeout_seconds
        ),
        "idempotency_key": new.idempotency_key,
        "fingerprint": new.fingerprint,
        "key": new.key,
    }


def _submit_planned(
    tx: Transaction, *, caller: Caller, room_id: str, job: Job, new: NewTask
) -> Submitted | None:
    """As ``submit_task``, for a task that others end before, or wait for."""
    edges.lock(tx)
    known = _known_from_now_on(tx, caller, new)
    if known is not None:
        return known
    added = planting.add_tasks(
        tx,
        caller=caller,
        asked=[planning.Asked(new, job)],
        describe=partial(columns, caller=caller, room_id=room_id),
        # Had it not lived its time, the task that has it would be known.
        old_keys=[] if new.idempotency_key is None else [new.idempotency_key],
    )
    return None if added is None else Submitted(added[0])


def _withdraw(tx: Transaction, *, task_id: str) -> None:
    """Undo a submission that the store may have kept, unless somebody has claimed it by now.

    Its client has neither a key nor an id, and so sends it again as another task.
    """
    tasks.withdraw(tx, task_id)


def _known(tx: Transaction, caller: Caller, new: NewTask) -> Submitted | None:
    """The task that the same request made before, or the error that it was another request."""
    if new.idempotency_key is not None:
        found = tasks.get_by_key(tx, identity=caller.identity, key=new.idempotency_key)
        if found is not None and found.task.created_at > tx.now - KEY_LIFE:
            if found.task.fingerprint != new.fingerprint:
                raise key_reused()
            return Submitted(found, replayed=found.task.id != tx.token)
    if tx.is_repeat and tx.token is not None and (own := tasks.get(tx, tx.token)) is not None:
        # Our own, whose answer was lost between the store and us.
        tx.submitted += 1
        return Submitted(own[0])
    if new.id is not None and (read := tasks.get(tx, new.id)) is not None:
        known = read[0]
        same_caller = known.task.created_by_id == caller.identity
        if not same_caller or known.task.fingerprint != new.fingerprint:
            message = f"A task with the id {new.id} exists already, from another request."
            raise TaskExists(message)
        return Submitted(known, replayed=True, has_new_key=_takes_key(tx, known, new))
    return None


def _takes_key(tx: Transaction, known: TaskView, new: NewTask) -> bool:
    has_none = new.idempotency_key is not None and known.task.idempotency_key is None
    return has_none and known.task.created_at > tx.now - KEY_LIFE


def _known_from_now_on(tx: Transaction, caller: Caller, new: NewTask) -> Submitted | None:
    """What is known of the request; a key that has just come with it is known with it."""
    known = _known(tx, caller, new)
    if known is None or not known.has_new_key or new.idempotency_key is None:
        return known
    kept = late_keys.keep(tx, known.view.task, key=new.idempotency_key)
    if kept is None:
        raise Contended
    return Submitted(kept, replayed=True)


def key_reused() -> IdempotencyKeyReused:
    """The one answer for an idempotency key that came with another request before."""
    return IdempotencyKeyReused(
        "This Idempotency-Key came with another request in the last 24 hours;"
        " use a new key for a new request."
    )


def _forget_old_key(tx: Transaction, caller: Caller, new: NewTask) -> bool:
    """Free an idempotency key that has lived its 24 hours; False if there is none."""
    if new.idempotency_key is None:
        return False
    found = tasks.get_by_key(tx, identity=caller.identity, key=new.idempotency_key)
    if found is None:
        return False
    tasks.forget_key(tx, found.task.seq)
    return True
