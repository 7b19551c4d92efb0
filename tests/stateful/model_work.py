"""The model's rules for jobs, workers, claims and lists."""

from __future__ import annotations

from typing import NamedTuple

from model import (
    GLOBAL,
    IDLE_CLAIMS,
    NOTICE_LIFE,
    OPEN,
    ModelJob,
    ModelTask,
    ModelWorker,
    Policy,
    Said,
    State,
    check_room,
    refuse,
)
from model_ends import begin, expire, lose

from jobroom.domain.records import Caller


class Registered(NamedTuple):
    """A registration's outcome."""

    job: ModelJob
    worker: ModelWorker
    created: bool


# --- workers --------------------------------------------------------------------------------


def create_worker(state: State, caller: Caller, worker_id: str) -> ModelWorker:
    """An instance worker, by the id that the queue chose."""
    made = ModelWorker(worker_id, caller.identity, "instance", state.now)
    state.workers[worker_id] = made
    return made


def find_worker(state: State, caller: Caller, worker_id: str) -> ModelWorker:
    """The caller's worker of that id, which has not left."""
    worker = state.workers.get(worker_id)
    if worker is None:
        refuse("worker-not-found")
    if worker.identity != caller.identity:
        refuse(*(["forbidden", "worker-not-found"] if worker.state == "gone" else ["forbidden"]))
    if worker.state == "gone":
        refuse("worker-not-found")
    return worker


def wake(state: State, worker: ModelWorker) -> None:
    """A heartbeat; one that slept is back with its jobs."""
    if worker.state != "active":
        for job in state.linked_to(worker):
            job.hidden = False
    worker.state, worker.beat = "active", state.now


def speak_for(
    state: State, caller: Caller, worker_id: str | None, *, registering: bool = False
) -> ModelWorker:
    """The worker that a claim or a registration names: unnamed, the identity worker."""
    wanted = worker_id or caller.identity
    if wanted == caller.identity:
        known = state.workers.get(wanted)
        if known is None:
            known = ModelWorker(wanted, wanted, "identity", state.now)
            state.workers[wanted] = known
        elif known.state == "gone" and registering:
            known.state = "asleep"
    worker = find_worker(state, caller, wanted)
    wake(state, worker)
    return worker


def heartbeat(state: State, caller: Caller, worker_id: str) -> tuple[set[str], set[str]]:
    """The tasks that the answer must name, and those that it may name."""
    worker = find_worker(state, caller, worker_id)
    wake(state, worker)
    fresh = {
        task_id: certain
        for task_id, (since, certain) in worker.notices.items()
        if state.now - since < NOTICE_LIFE
    }
    return {task_id for task_id, certain in fresh.items() if certain}, set(fresh)


def delete_worker(state: State, caller: Caller, worker_id: str) -> None:
    """Leave: held tasks follow the policy, orphan jobs are hidden at once."""
    worker = state.workers.get(worker_id)
    if worker is None or worker.state == "gone":
        refuse("worker-not-found")
    if worker.identity != caller.identity and not caller.is_admin:
        refuse("forbidden")
    lose(state, worker)
    left = state.linked_to(worker)
    for job in left:
        job.links.discard(worker.id)
    worker.state = "gone"
    if worker.kind == "instance":
        del state.workers[worker.id]
    for job in left:
        job.hidden = job.hidden or state.is_orphan(job)


# --- jobs -----------------------------------------------------------------------------------


def register(
    state: State,
    caller: Caller,
    room: str,
    name: str,
    *,
    schema: str,
    policy: Policy,
    worker_id: str | None = None,
    replace: bool = False,
) -> Registered:
    """Make a job known or join it; 404 comes before 403, and 403 before 409."""
    check_room(caller, room)
    if room == GLOBAL and not caller.is_admin:
        refuse("forbidden")
    found = state.jobs.get(f"{room}:modifiers:{name}")
    differs = found is not None and (found.schema == OPEN) != (schema == OPEN)
    if worker_id not in (None, caller.identity):
        find_worker(state, caller, worker_id or "")
    if found is not None and differs and not found.hidden and not replace:
        refuse("schema-conflict")
    created = found is None or found.hidden
    worker = speak_for(state, caller, worker_id, registering=True)
    if found is None:
        found = state.jobs[f"{room}:modifiers:{name}"] = ModelJob(room, name, schema, policy)
    if differs:
        found.schema, found.schema_version = schema, found.schema_version + 1
    found.policy, found.hidden = policy, False
    found.links.add(worker.id)
    return Registered(found, worker, created)


def find_job(state: State, caller: Caller, room: str, full_name: str) -> ModelJob:
    """The job that a room sees under a name, hidden or not."""
    check_room(caller, room)
    job = state.jobs.get(full_name)
    if job is None or job.room not in (room, GLOBAL):
        refuse("job-not-found")
    return job


def live_workers(state: State, job: ModelJob) -> list[str]:
    """The ids of a job's workers, lost ones left out."""
    return sorted(w for w in job.links if state.is_alive(state.workers[w]))


# --- claim ----------------------------------------------------------------------------------


def claim(
    state: State,
    caller: Caller,
    worker_id: str | None,
    *,
    limit: int = 1,
    start: bool = False,
    request_id: str | None = None,
) -> list[ModelTask]:
    """The best tasks over the worker's jobs; the same again for a repeated ``request_id``.

    A token of some rooms gets tasks of the jobs of these alone, and sees again no others.
    """
    worker = speak_for(state, caller, worker_id)
    held = [
        task
        for task in state.held_by(worker)
        if task.request_id == request_id and caller.sees(task.room)
    ]
    if request_id is not None and held:
        return sorted(held, key=lambda task: (-task.order.priority, task.seq))
    jobs = state.linked_to(worker)
    if caller.rooms is not None:
        jobs = [job for job in jobs if job.room in caller.rooms - {GLOBAL}]
    for task in state.tasks:
        # What is due joins the line when a claim of its job looks (design, *Cost*).
        due = task.status == "pending" and task.run_at is not None and task.run_at <= state.now
        task.ready = task.ready or (due and task.job in jobs)
    claimed: list[ModelTask] = []
    while len(claimed) < limit and (heads := _heads(state, jobs)):
        best = heads[0]
        if state.is_expired(best):
            for head in filter(state.is_expired, heads):
                expire(state, head)
            continue
        if best.idle >= IDLE_CLAIMS and not start:
            state.end(best, "failed", Said("never started"))
            continue
        _give(state, best, worker, start=start, request_id=request_id)
        claimed.append(best)
    return claimed


def _heads(state: State, jobs: list[ModelJob]) -> list[ModelTask]:
    """Between jobs heads are compared by priority, then by sequence, also for fair jobs."""
    lines = (state.in_line(job) for job in jobs)
    heads = (line[0] for line in lines if line)
    return sorted(heads, key=lambda task: (-task.order.priority, task.seq))


def _give(
    state: State, task: ModelTask, worker: ModelWorker, *, start: bool, request_id: str | None
) -> None:
    task.worker, task.request_id = worker.id, request_id
    task.attempt += 1
    worker.notices.pop(task.id, None)  # what it was told is about an attempt that is over
    if start:
        begin(state, task)
        return
    task.status = "claimed"
    task.idle += 1
    claim_timeout = task.job.policy.claim_timeout
    limit = task.timeout if claim_timeout is None else claim_timeout
    task.due = None if limit is None else state.now + limit


# --- lists ----------------------------------------------------------------------------------


def list_tasks(
    state: State,
    caller: Caller,
    room: str,
    *,
    job: str | None,
    statuses: tuple[str, ...],
    created_by_id: str | None,
) -> list[ModelTask]:
    """The tasks submitted in a room that fit the filters, newest first."""
    check_room(caller, room)
    if room == "@global" and not caller.is_admin:
        refuse("forbidden")
    if job is not None and (job not in state.jobs or state.jobs[job].room not in (room, "@global")):
        refuse("job-not-found")
    found = [
        task
        for task in state.tasks
        if task.room == room
        and job in (None, task.job.full_name)
        and (not statuses or task.status in statuses)
        and created_by_id in (None, task.creator)
    ]
    return found[::-1]
