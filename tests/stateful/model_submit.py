"""The model's rules for submissions, of one task or of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import model_graph as graph
from model import (
    GLOBAL,
    KEY_LIFE,
    OPEN,
    ModelJob,
    ModelTask,
    Order,
    Refusal,
    State,
    check_room,
    refuse,
)
from model_work import find_job

from jobroom.domain.records import Caller


class Submitted(NamedTuple):
    """The task, and whether an earlier request had made it."""

    task: ModelTask
    replayed: bool


def submit(state: State, caller: Caller, room: str, full_name: str, order: Order) -> Submitted:
    """Add a task, once per idempotency key and client-chosen id."""
    job = find_job(state, caller, room, full_name)
    is_forbidden = room == GLOBAL and not caller.is_admin
    unfit = job.schema != OPEN and isinstance(dict(order.payload).get("n"), str)
    known = _known(state, caller, room, full_name, order)
    if unfit:
        also = known.slugs if isinstance(known, Refusal) else ()
        # A repeat of a request that fitted an older schema is still a repeat.
        if not isinstance(known, ModelTask):
            refuse("payload-invalid", *also, *(["forbidden"] if is_forbidden else []))
    if is_forbidden:
        refuse("forbidden")
    if isinstance(known, Refusal):
        raise known
    if known is not None:
        job.maybe_hidden = job.hidden  # a repeat submits nothing, and may list the job again
        return Submitted(known, replayed=True)
    graph.check(state, caller, [order])
    [task] = _add(state, caller, room, [(job, order)])
    if order.key is not None:
        state.keys[caller.identity, order.key] = task
    return Submitted(task, replayed=False)


def submit_many(
    state: State, caller: Caller, room: str, wanted: Sequence[tuple[str, Order]], key: str | None
) -> list[ModelTask]:
    """Add tasks that may depend on one another, all or none; a key comes once in a test."""
    check_room(caller, room)
    jobs = [find_job(state, caller, room, full_name) for full_name, _ in wanted]
    if room == GLOBAL and not caller.is_admin:
        refuse("forbidden")
    orders = [order for _, order in wanted]
    graph.check(state, caller, orders)
    made = _add(state, caller, room, list(zip(jobs, orders, strict=True)))
    if key is not None:
        state.keys.update({(caller.identity, f"{key} {n}"): t for n, t in enumerate(made)})
    return made


def _add(
    state: State, caller: Caller, room: str, wanted: Sequence[tuple[ModelJob, Order]]
) -> list[ModelTask]:
    made = []
    for job, order in wanted:
        job.hidden = False
        made.append(_new_task(state, caller, room, job, order))
    graph.join(state, made)
    for task in made:
        task.turn = _take_turn(state, task)
    return made


def _known(
    state: State, caller: Caller, room: str, full_name: str, order: Order
) -> ModelTask | Refusal | None:
    request = (room, full_name, order)
    found = state.keys.get((caller.identity, order.key or ""))
    if found is not None and state.now - found.created < KEY_LIFE:
        same = (found.room, found.job.full_name, found.order) == request
        return found if same else Refusal("idempotency-key-reused")
    for task in state.tasks:
        if order.id is not None and task.order.id == order.id:
            same = (task.room, task.job.full_name, task.order) == request
            return task if same and task.creator == caller.identity else Refusal("task-exists")
    return None


def _new_task(state: State, caller: Caller, room: str, job: ModelJob, order: Order) -> ModelTask:
    state.count += 1
    return ModelTask(
        seq=state.count,
        job=job,
        room=room,
        creator=caller.identity,
        order=order,
        created=state.now,
        run_at=None if order.run_in is None else state.now + order.run_in,
        expires_at=None if order.expires_in is None else state.now + order.expires_in,
        max_attempts=order.max_attempts or job.policy.attempts(),
        timeout=job.policy.timeout if order.timeout is None else order.timeout,
        turn=0,
        ready=order.run_in is None or order.run_in <= 0,
        schema_version=job.schema_version,
        id=f"new-{state.count}",
    )


def _take_turn(state: State, new: ModelTask) -> int:
    """Start-time fair queueing, inside one job and one priority (rules, *Claim*)."""
    job, room, priority = new.job, new.room, new.order.priority
    if job.policy.order != "fair":
        return 0
    before = (task for task in state.in_line(job) if task.seq < new.seq)
    line = [task.turn for task in before if task.order.priority == priority]
    nexts = [turn for (at, _), turn in job.next_turn.items() if at == priority]
    now_served = line[0] if line else max(nexts, default=0)
    turn = max(now_served, job.next_turn.get((priority, room), 0))
    job.next_turn[priority, room] = turn + 1
    return turn
