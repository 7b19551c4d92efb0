"""Workers: who they are, their heartbeats, and leaving in good order."""

from __future__ import annotations

from typing import NamedTuple

from jobroom.domain import names
from jobroom.domain.records import MICROSECONDS, NOTICE_LIFE, Caller, Worker, WorkerView
from jobroom.errors import Forbidden, WorkerNotFound
from jobroom.service import access, losing
from jobroom.service.use_case import reads, writes
from jobroom.store import edges, jobs, notices, rosters
from jobroom.store import workers as rows
from jobroom.store.transaction import Transaction


class Heartbeat(NamedTuple):
    """A worker after its beat, and the ids of the tasks it should stop."""

    worker: Worker
    cancel: list[str]


def alive_after(tx: Transaction) -> int:
    """The time by the store's clock after which a last heartbeat counts as alive."""
    return tx.now - int(tx.settings.worker_timeout_seconds * MICROSECONDS)


@writes
def create_worker(tx: Transaction, *, caller: Caller, name: str | None) -> WorkerView:
    """Make an instance worker: a UUID owned by the caller's identity."""
    made = Worker(
        id=tx.token or names.new_uuid7(),
        identity=caller.identity,
        kind="instance",
        state="active",
        name=name,
        created_at=tx.now,
        last_heartbeat=tx.now,
    )
    rows.add(tx, made)
    return WorkerView(made, alive=True, job_count=0, running_tasks=0)


@writes
def heartbeat(tx: Transaction, *, caller: Caller, worker_id: str) -> Heartbeat:
    """Note that a worker is alive; tell it what to stop.

    Raises WorkerNotFound (swept or deleted: register again) and Forbidden (somebody else's).
    """
    beat = rows.beat(tx, worker_id=worker_id, identity=caller.identity)
    if beat is not None:
        return Heartbeat(*beat)
    worker = _wake(tx, _not_active(tx, caller, worker_id))
    return Heartbeat(worker, notices.list_for(tx, worker_id=worker.id, since=tx.now - NOTICE_LIFE))


@writes
def delete_worker(tx: Transaction, *, caller: Caller, worker_id: str) -> None:
    """Leave in good order: unfinished tasks follow their job's policy, orphan jobs are hidden."""
    worker = rows.get(tx, worker_id)
    if worker is None or worker.state == "gone":
        if tx.is_repeat:
            return  # gone a moment ago; the answer was lost on its way from the store
        raise _worker_not_found(worker_id)
    if worker.identity != caller.identity and not access.is_admin_everywhere(caller):
        raise _not_yours(worker_id)
    tx.serialize()
    edges.lock(tx)  # before any row: so do all that may end tasks
    losing.lose_tasks(tx, worker.id, why="was deleted", most=None)
    left = jobs.unlink_all(tx, worker.id)
    if worker.kind == "identity":
        # The row stays as a mark: a claim without body must not bring the worker back.
        rows.set_state(tx, worker_id=worker.id, expect=worker.state, state="gone")
    else:
        rows.remove(tx, worker.id)
    for job_seq in left:
        jobs.note_seen(tx, job_seq=job_seq, at=worker.last_heartbeat)
        jobs.hide_if_orphan(tx, job_seq)


@reads
def list_workers(
    tx: Transaction, *, caller: Caller, limit: int, offset: int = 0, after: str = ""
) -> tuple[list[WorkerView], int]:
    """The caller's own workers, an admin's all; with their total.

    Of what a worker serves and holds, only what lies in the rooms of the token is counted.
    """
    everyone = access.is_admin_everywhere(caller)
    found, total = rosters.list_of(
        tx,
        identity=None if everyone else caller.identity,
        after=after,
        limit=limit,
        offset=offset,
        rooms=access.rooms_seen(caller),
    )
    return [_view(tx, *row) for row in found], total


@reads
def list_room_workers(
    tx: Transaction,
    *,
    caller: Caller,
    room_id: str,
    limit: int,
    offset: int = 0,
    after: str = "",
) -> tuple[list[WorkerView], int]:
    """The workers linked to jobs visible in a room; with their total.

    They are counted as in ``list_workers``.
    """
    access.check_sight_of_room(caller, room_id)
    found, total = rosters.list_serving(
        tx,
        room_id=room_id,
        after=after,
        limit=limit,
        offset=offset,
        rooms=access.rooms_seen(caller),
    )
    return [_view(tx, *row) for row in found], total


def speak_for(
    tx: Transaction, caller: Caller, worker_id: str | None, *, registering: bool = False
) -> Worker:
    """The worker that a claim or a registration names, alive from now on.

    Without a name it is the identity worker, made at its first use. After its owner deleted it
    only a registration brings it back (contract, *Losing a worker*).
    """
    wanted = caller.identity if worker_id is None else worker_id
    worker = rows.speaking(tx, worker_id=wanted, identity=caller.identity)
    if worker is not None:
        return worker
    if wanted == caller.identity:
        made = Worker(wanted, wanted, "identity", "active", None, tx.now, tx.now)
        if rows.add(tx, made):
            return made
        found = rows.get(tx, wanted)
        if registering and found is not None and found.identity == wanted:
            return _wake(tx, found)
    return _wake(tx, _not_active(tx, caller, wanted))


def check_owner(tx: Transaction, caller: Caller, worker_id: str) -> None:
    """Refuse to speak for a worker that is not there (404) or somebody else's (403)."""
    found = rows.get(tx, worker_id)
    if found is None and worker_id != caller.identity:
        raise _worker_not_found(worker_id)
    if found is not None and found.identity != caller.identity:
        raise _not_yours(worker_id)


def _not_active(tx: Transaction, caller: Caller, worker_id: str) -> Worker:
    """The sleeping worker of that id, or the error that says why there is none to speak for."""
    found = rows.get(tx, worker_id)
    if found is None:
        raise _worker_not_found(worker_id)
    if found.identity != caller.identity:
        raise _not_yours(worker_id)
    if found.state == "gone":
        raise _worker_not_found(worker_id)
    return found


def _wake(tx: Transaction, worker: Worker) -> Worker:
    """A sleeping worker is back, and so are the jobs that were hidden for want of it."""
    tx.serialize()
    rows.wake(tx, worker.id)
    for job_seq in jobs.linked_to(tx, worker.id):
        jobs.show(tx, job_seq)
    return worker._replace(state="active", last_heartbeat=tx.now)


def _view(tx: Transaction, worker: Worker, job_count: int, running: int) -> WorkerView:
    return WorkerView(worker, worker.last_heartbeat > alive_after(tx), job_count, running)


def _worker_not_found(worker_id: str) -> WorkerNotFound:
    return WorkerNotFound(
        f"There is no worker {worker_id!r}; it was deleted or swept. Register again."
    )


def _not_yours(worker_id: str) -> Forbidden:
    return Forbidden(f"Worker {worker_id!r} belongs to another identity.")
