"""The model's rules for reports, cancelling, losing workers, and the sweep."""

from __future__ import annotations

from collections.abc import Collection

from model import (
    HELD,
    IDLE_CLAIMS,
    KEY_LIFE,
    SWEEP_INTERVAL,
    WORKER_TIMEOUT,
    ModelTask,
    ModelWorker,
    Refusal,
    Said,
    State,
    Word,
    refuse,
)

from jobroom.domain.records import Caller

LONGEST_DELAY = 3600


# --- reports --------------------------------------------------------------------------------


def find_task(state: State, caller: Caller, task_id: str) -> ModelTask:
    """A task that the caller sees."""
    task = next((task for task in state.tasks if task.id == task_id), None)
    if task is None or not state.sees_task(caller, task):
        refuse("task-not-found")
    return task


def report(state: State, caller: Caller, task_id: str, word: Word) -> ModelTask:
    """Take a report; a refused one changes nothing but that its worker knows."""
    task = find_task(state, caller, task_id)
    is_holder = state.owner_of(task) == caller.identity
    holder = state.workers.get(task.worker or "")
    try:
        _take(state, caller, task, word)
    except Refusal as refusal:
        # 409 tells all workers of the caller, or the one that it names.
        told = [] if "forbidden" in refusal.slugs else list(state.workers)
        _hear(state, caller, task, word, told)
        raise
    _hear(state, caller, task, word, [holder.id] if holder else [])
    if is_holder and holder is not None and word.status != "cancelled":
        holder.beat = state.now
    return task


def _take(state: State, caller: Caller, task: ModelTask, word: Word) -> None:
    is_admin = caller.is_admin and caller.sees(task.room)
    may = is_admin or state.owner_of(task) == caller.identity
    may = may or (word.status == "cancelled" and task.creator == caller.identity)
    is_over = word.attempt is not None and word.attempt < task.attempt
    if is_over or (may and word.attempt not in (None, task.attempt)):
        # Who held an earlier attempt is not known any more: 409 to all who name one.
        refuse("invalid-task-transition")
    if task.status == word.status == "pending" and word.attempt == task.attempt:
        # Handed back again: nothing to do, or too late; the rules name terminal reports alone.
        state.may_refuse = "invalid-task-transition"
        return
    if not may and not _is_repeat_of_retried(task, word):
        _refuse_stranger(state, task, word)
    _apply(state, task, word)


def _refuse_stranger(state: State, task: ModelTask, word: Word) -> None:
    """403 while somebody holds it; the fence of an attempt that is over answers 409."""
    if state.owner_of(task) is not None:
        refuse("forbidden")
    if word.status != "cancelled" and word.attempt == task.attempt:
        refuse("invalid-task-transition")
    refuse("forbidden", "invalid-task-transition")


def _hear(state: State, caller: Caller, task: ModelTask, word: Word, told: Collection[str]) -> None:
    """Whoever reports on a task knows that it should stop."""
    for worker in state.workers.values():
        is_named = word.worker_id == worker.id
        if worker.identity != caller.identity or task.id not in worker.notices:
            continue
        is_meant = is_named or (word.worker_id is None and word.status != "cancelled")
        if worker.id in told and is_meant:
            del worker.notices[task.id]
        elif is_named or word.worker_id is None:
            # A creator or a worker, a stranger or one that lost it? Both answers are right.
            worker.notices[task.id] = (worker.notices[task.id][0], False)


def _apply(state: State, task: ModelTask, word: Word) -> None:
    if word.status == "cancelled":
        _cancel(state, task, word)
        return
    names_other = word.worker_id is not None and word.worker_id != task.worker
    if names_other and not _is_repeat_of_retried(task, word):
        refuse("invalid-task-transition")
    if _is_repeat(task, word):
        return
    if task.status not in HELD or (word.status == "completed" and task.status != "running"):
        refuse("invalid-task-transition")
    if word.status == "pending":
        _hand_back(state, task)
        return
    if word.status == "running" and task.status == "claimed":
        begin(state, task)
    elif word.status == "completed":
        state.end(task, "completed", None)
        task.result = word.result
    elif word.status == "failed":
        _fail(state, task, word)
    if task.status != "pending":
        _note(task, word)


def _note(task: ModelTask, word: Word) -> None:
    task.progress = task.progress if word.progress is None else word.progress
    task.message = task.message if word.message is None else word.message


def _is_repeat(task: ModelTask, word: Word) -> bool:
    """Exactly the same terminal report with the same attempt."""
    if word.attempt is None or word.status not in {"completed", "failed"}:
        return False
    said = (word.error, word.result)
    same = task.status == word.status and (task.error, task.result) == said
    return same or _is_repeat_of_retried(task, word)


def _is_repeat_of_retried(task: ModelTask, word: Word) -> bool:
    """The same failure again, of a task that went back to try again."""
    is_failure = word.status == "failed" and word.attempt == task.attempt
    failed_so = task.error is not None and word.error == task.error
    return is_failure and failed_so and task.status == "pending"


def _cancel(state: State, task: ModelTask, word: Word) -> None:
    if task.status == "cancelled":
        if word.worker_id not in (None, task.worker):
            # Said again in another worker's name: the same wish, or not the holder's.
            state.may_refuse = "invalid-task-transition"
        return
    if task.is_terminal:
        refuse("invalid-task-transition")
    if task.is_held:
        _tell(state, task)
    state.end(task, "cancelled", word.error or task.error)
    _note(task, word)


def _tell(state: State, task: ModelTask) -> None:
    """The worker that had the task is told with its next heartbeats."""
    worker = state.workers.get(task.worker or "")
    if worker is not None:
        worker.notices[task.id] = (state.now, True)


def begin(state: State, task: ModelTask) -> None:
    """The task goes to running."""
    task.status, task.idle = "running", 0
    task.starts += 1
    task.due = None if task.timeout is None else state.now + task.timeout


def _fail(state: State, task: ModelTask, word: Word) -> None:
    """Failing with attempts left goes back; a task that fails unstarted is charged a start."""
    starts = task.starts + (task.status == "claimed")
    delay = task.job.policy.retry_delay
    again = state.now
    if delay is not None:
        again += min(delay * 2 ** (starts - 1), LONGEST_DELAY)
    outlives = task.expires_at is not None and task.expires_at <= again
    if word.final or starts >= task.max_attempts or outlives:
        state.end(task, "failed", word.error)
        return
    state.put_back(task)
    task.error, task.starts = word.error, starts
    if delay is not None:
        task.run_at, task.ready = again, False


def _hand_back(state: State, task: ModelTask) -> None:
    """Claimed: nothing charged. Running: only if the job requeues and attempts are left."""
    if task.status == "claimed":
        task.idle -= 1
    elif task.job.policy.on_worker_lost != "requeue" or task.starts >= task.max_attempts:
        refuse("invalid-task-transition")
    state.put_back(task)


# --- losing, and the sweep ------------------------------------------------------------------


def take_away(state: State, task: ModelTask, why: str) -> bool:
    """End one attempt by the job's policy; True if the task waits again."""
    _tell(state, task)
    is_late = task.expires_at is not None and task.expires_at <= state.now
    goes_back = (
        task.job.policy.on_worker_lost == "requeue"
        and task.starts < task.max_attempts
        and task.idle < IDLE_CLAIMS
        and not is_late
    )
    if goes_back:
        state.put_back(task)
    else:
        state.end(task, "failed", Said(why))
    return goes_back


def lose(state: State, worker: ModelWorker) -> tuple[int, int]:
    """Take away all that a worker holds: how many went back, how many failed."""
    back = [take_away(state, task, "Worker disconnected") for task in state.held_by(worker)]
    return sum(back), len(back) - sum(back)


def sweep(state: State) -> dict[str, int | bool]:
    """One pass; after an outage it fails nobody."""
    judges = _may_judge(state)
    state.swept_at = state.now
    counts: dict[str, int | bool] = {
        "judged": judges,
        "lost_workers": 0,
        "requeued_tasks": 0,
        "failed_tasks": 0,
        "timed_out_tasks": 0,
        "expired_tasks": 0,
    }
    if judges:
        _lose_stale(state, counts)
        _end_overdue(state, counts)
    orphans = [job for job in state.jobs.values() if not job.hidden and state.is_orphan(job)]
    for job in orphans:
        job.hidden = True
    counts["stuck_tasks"] = 0  # our own statements leave none
    counts["fired_schedules"] = 0  # the model has none
    return {**counts, "hidden_jobs": len(orphans), "removed_tasks": _remove_old(state)}


def _may_judge(state: State) -> bool:
    """After an outage nobody is judged until a sweep comes one worker timeout later."""
    if state.judge_at is not None:
        judges = state.now >= state.judge_at
        state.judge_at = None if judges else state.judge_at
        return judges
    is_outage = state.swept_at is not None and state.now - state.swept_at > 3 * SWEEP_INTERVAL
    if is_outage:
        state.judge_at = state.now + WORKER_TIMEOUT
    return not is_outage


def _lose_stale(state: State, counts: dict[str, int | bool]) -> None:
    for worker in list(state.workers.values()):
        if worker.state != "active" or state.is_alive(worker):
            continue
        back, failed = lose(state, worker)
        worker.state = "asleep"
        if worker.kind == "instance":
            for job in state.linked_to(worker):
                job.links.discard(worker.id)
            del state.workers[worker.id]
        counts["lost_workers"] += 1
        counts["requeued_tasks"] += back
        counts["failed_tasks"] += failed


def _end_overdue(state: State, counts: dict[str, int | bool]) -> None:
    for task in state.tasks:
        if task.is_held and task.due is not None and task.due <= state.now:
            back = take_away(state, task, "timed out")
            counts["timed_out_tasks"] += 1
            counts["requeued_tasks" if back else "failed_tasks"] += 1
    for status in ("pending", "blocked"):
        expired = [t for t in state.tasks if t.status == status and state.is_expired(t)]
        for task in sorted(expired, key=lambda task: (task.expires_at, task.seq)):
            # The end of another one may have failed it, or let it go on until the next sweep.
            if task.status == status:
                expire(state, task)
                counts["expired_tasks"] += 1


def expire(state: State, task: ModelTask) -> None:
    """Nobody started it in time."""
    state.end(task, "failed", Said("expired"))


def _remove_old(state: State) -> int:
    """Finished tasks past their retention go, but none whose idempotency key still lives."""
    old = [
        task
        for task in state.tasks
        if task.is_terminal
        and task.due is not None
        and task.due <= state.now
        and (task not in state.keys.values() or state.now - task.created >= KEY_LIFE)
    ]
    for task in old:
        state.tasks.remove(task)
        state.removed.append(task)
    state.keys = {key: task for key, task in state.keys.items() if task not in old}
    return len(old)
