"""Claiming: the best task of a worker's jobs, now or when there is one."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from jobroom.domain import damage, sizes
from jobroom.domain.lifecycle import TaskStatus
from jobroom.domain.records import MICROSECONDS, Caller, Task, TaskView
from jobroom.errors import AnswerTooLarge, StoreUnavailable
from jobroom.service import access, losing
from jobroom.service import workers as crew
from jobroom.service.use_case import reads, writes
from jobroom.store import claims, jobs, notices, outlook, prospects, reports, workers
from jobroom.store.lane import Parked, Refused
from jobroom.store.session import Contended
from jobroom.store.transaction import Transaction

MOST_SKIPPED = 1000
"""How many tasks that cannot be run one claim ends before it asks to be repeated."""


PROMOTED = 1000
"""How many due tasks are made claimable at a time."""


class Wish(NamedTuple):
    """What a claim asks for; kept while it waits. ``job_seqs``: the jobs it waits at.

    ``most_bytes``: how long the answer may be through which the tasks go; None is any length.
    """

    caller: Caller
    worker_id: str
    job_seqs: tuple[int, ...] = ()
    limit: int = 1
    start: bool = False
    request_id: str | None = None
    most_bytes: int | None = None

    @property
    def rooms(self) -> str | None:
        """What binds the claim to rooms, as the store is given it."""
        return access.rooms_to_claim_from(self.caller)


@writes
def claim_tasks(
    tx: Transaction,
    *,
    caller: Caller,
    worker_id: str | None = None,
    limit: int = 1,
    start: bool = False,
    request_id: str | None = None,
    wait: bool = False,
    most_bytes: int | None = None,
) -> list[TaskView]:
    """Claim up to ``limit`` tasks: highest priority first, then oldest.

    A token's ``rooms`` bind it: then they are of jobs of these rooms alone.

    An empty list means that nothing was claimable at that moment; with ``wait`` the request is
    kept instead until something is. Repeating a ``request_id`` gives what it gave before.
    No more is claimed than an answer of ``most_bytes`` can carry.
    Raises WorkerNotFound and Forbidden, and AnswerTooLarge where the first task, which is left
    as it is, cannot be carried alone.
    """
    # A claim whose answer is lost on the way from the store is found again by the token.
    wish = Wish(
        caller, worker_id or caller.identity, (), limit, start, request_id or tx.token, most_bytes
    )
    if request_id is None and tx.token is not None:
        tx.undo = partial(take_back, worker_id=wish.worker_id, token=tx.token, started=start)
    claimed = claim(tx, wish)
    if not claimed and wait:
        linked = tuple(jobs.linked_to(tx, wish.worker_id, rooms=wish.rooms))
        raise Parked(wish._replace(job_seqs=linked), otherwise=[])
    tx.unserved += not claimed
    return claimed


def claim(tx: Transaction, wish: Wish) -> list[TaskView]:
    """Claim, or give again what an earlier claim of the same ``request_id`` holds."""
    if wish.limit == 1 and (plain := claim_plainly(tx, wish)):
        return [plain]
    if is_idle(tx, wish):
        return []
    crew.speak_for(tx, wish.caller, wish.worker_id)
    return claimed_before(tx, wish) or take(tx, wish)


def is_idle(tx: Transaction, wish: Wish) -> bool:
    """Whether there is nothing at all for this worker, by one query; most empty claims go so."""
    heard = prospects.idle_since(
        tx,
        worker_id=wish.worker_id,
        identity=wish.caller.identity,
        repeat_of=_repeat_of(tx, wish),
        rooms=wish.rooms,
    )
    if heard is None:
        return False
    workers.note_heard(tx, worker_id=wish.worker_id, last=heard)
    return True


def claimed_before(tx: Transaction, wish: Wish) -> list[TaskView]:
    """What the worker still holds of an earlier claim with this ``request_id``.

    Another token may have made it: what that got in rooms that are not of this one is left out.
    """
    request_id = _repeat_of(tx, wish)
    if request_id is None:
        return []
    claims.lock_request(tx, worker_id=wish.worker_id, request_id=request_id)
    before = claims.claimed_by_request(tx, worker_id=wish.worker_id, request_id=request_id)
    shown = [found for found in before if _is_shown(wish.caller, found)]
    held = [leased(tx, found) for found in shown if _can_be_run(found, started=True)]
    return held if wish.most_bytes is None else _keep_what_fits(tx, held, wish.most_bytes)


def _is_shown(caller: Caller, found: TaskView) -> bool:
    return caller.rooms is None or caller.sees(found.task.room_id)


def _keep_what_fits(tx: Transaction, held: list[TaskView], most_bytes: int) -> list[TaskView]:
    """What this answer can carry; the rest, claimed through one that carries more, goes back."""
    fit = sizes.fitting(most_bytes, held)
    for found in held[fit:]:
        is_running = found.task.status == TaskStatus.RUNNING
        give_back.rule(tx, claimed=[found], started=is_running)
    if held and not fit:
        first = held[0].task
        raise Refused(_too_large(first.id, len(first.payload.encode()), most_bytes))
    return held[:fit]


def _repeat_of(tx: Transaction, wish: Wish) -> str | None:
    """The request id by which an earlier claim may have been served; a new token served none."""
    is_new = wish.request_id == tx.token and not tx.is_repeat
    return None if is_new else wish.request_id


def claim_plainly(tx: Transaction, wish: Wish, *, is_new: bool = False) -> TaskView | None:
    """Claim one task by one statement, which is how nearly all of them go; None: do all steps.

    ``is_new``: no earlier claim can have been served by this request id.
    """
    taken = claims.claim_plainly(
        tx,
        worker_id=wish.worker_id,
        identity=wish.caller.identity,
        start=wish.start,
        request_id=wish.request_id,
        repeat_of=None if is_new else _repeat_of(tx, wish),
        most_payload=None if wish.most_bytes is None else sizes.largest_payload(wish.most_bytes),
        rooms=wish.rooms,
    )
    if taken is None:
        return None
    found, heard = taken
    if heard is not None:
        workers.note_heard(tx, worker_id=wish.worker_id, last=heard)
    return _accept(tx, found, wish)


def take(tx: Transaction, wish: Wish) -> list[TaskView]:
    """Claim for a worker that is known to be alive; what is due by now counts as claimable."""
    more_are_due = _promote(tx, wish)
    claimed: list[TaskView] = []
    skipped = 0
    most_payload = None
    while len(claimed) < wish.limit and skipped < MOST_SKIPPED:
        if wish.most_bytes is not None:
            most_payload = sizes.largest_payload(wish.most_bytes, claimed)
        found = claims.claim_next(
            tx,
            worker_id=wish.worker_id,
            start=wish.start,
            request_id=wish.request_id,
            most_payload=most_payload,
            rooms=wish.rooms,
        )
        if found is None:
            dead = _end_dead_heads(tx, wish)
            if not dead and not more_are_due:
                if not claimed:
                    _check_not_too_large(tx, wish)
                    _check_not_passed_over(tx, wish)
                break
            more_are_due = _promote(tx, wish) if not dead else more_are_due
            skipped += dead
        elif accepted := _accept(tx, found, wish):
            claimed.append(accepted)
        else:
            skipped += 1
    if skipped >= MOST_SKIPPED and not claimed:
        raise Refused(
            StoreUnavailable("Many tasks that cannot be run were cleared away; claim again.")
        )
    return claimed


def _check_not_too_large(tx: Transaction, wish: Wish) -> None:
    """An empty claim must be true: a task that no answer can carry is there all the same."""
    if wish.most_bytes is None:
        return
    most_payload = sizes.largest_payload(wish.most_bytes)
    found = prospects.find_too_large(
        tx, worker_id=wish.worker_id, most_payload=most_payload, rooms=wish.rooms
    )
    if found is not None:
        raise Refused(_too_large(*found, wish.most_bytes))


def _too_large(task_id: str, size: int, most_bytes: int) -> AnswerTooLarge:
    return AnswerTooLarge(
        f"Task {task_id} is next, with a payload of {size} bytes; a claim here can bring at most"
        f" {sizes.largest_payload(most_bytes)}. It stays pending: claim it through a server"
        " without that limit, or cancel it."
    )


def _check_not_passed_over(tx: Transaction, wish: Wish) -> None:
    """An empty claim must be true: what others held just then may be free, or taken, by now."""
    if tx.skips_locked and prospects.has_claimable(tx, wish.worker_id, rooms=wish.rooms):
        raise Contended


def _accept(tx: Transaction, found: TaskView, wish: Wish) -> TaskView | None:
    """The claimed task, to be handed out; None where it cannot be run and has failed instead."""
    if not _can_be_run(found, started=wish.start):
        reports.fail(tx, found.task, error=_damaged(found.task, started=wish.start))
        return None
    if found.task.idle_claims > losing.IDLE_CLAIMS:
        never = f"The task was claimed {losing.IDLE_CLAIMS} times and never started."
        reports.fail(tx, found.task, error=never)
        return None
    _forget_notice(tx, found)
    tx.granted += (found.task,)
    return leased(tx, found)


def _promote(tx: Transaction, wish: Wish) -> bool:
    """Make due tasks claimable; True if there may be more of them."""
    promoted = prospects.promote_due(tx, worker_id=wish.worker_id, limit=PROMOTED, rooms=wish.rooms)
    return promoted == PROMOTED


def _end_dead_heads(tx: Transaction, wish: Wish) -> int:
    """Fail those of the first tasks that cannot be claimed any more; how many."""
    dead = prospects.dead_heads(tx, wish.worker_id, rooms=wish.rooms)
    for head in dead:
        is_damaged = head.task.completed_at is not None
        reports.fail(
            tx, head.task, error=_damaged(head.task, started=False) if is_damaged else EXPIRED
        )
    return len(dead)


def _can_be_run(found: TaskView, *, started: bool) -> bool:
    """Whether a claimed row is sound; one that is not must not hold up those behind it."""
    task = found.task
    return (
        bool(found.job_name)
        and damage.is_sound(task)
        and (started or task.starts < task.max_attempts)
    )


def _damaged(task: Task, *, started: bool) -> str:
    if damage.is_sound(task) and task.starts - started >= task.max_attempts:
        why = f"it had {task.starts - started} starts of at most {task.max_attempts}"
    else:
        why = damage.flaw(task)
    return f"{damage.STORY} ({why}); it cannot be run. Submit it again."


def _forget_notice(tx: Transaction, found: TaskView) -> None:
    """The worker was to stop an earlier attempt; now the task is its own again."""
    if found.task.attempt > 1 and found.task.worker_id is not None:
        notices.drop(tx, worker_id=found.task.worker_id, task_id=found.task.id)


EXPIRED = "The task expired: nobody started it before its expires_at."


def leased(tx: Transaction, found: TaskView) -> TaskView:
    """A task of a worker that was heard of just now."""
    lease = int(tx.settings.worker_timeout_seconds * MICROSECONDS)
    return found._replace(lease_expires_at=tx.now + lease)


@reads
def find_ready(tx: Transaction, *, job_seqs: list[int]) -> outlook.Outlook:
    """Those of the jobs that have something to claim, and when another one will have."""
    return outlook.of_jobs(tx, job_seqs)


@reads
def find_served(tx: Transaction, *, worker_ids: list[str]) -> list[str]:
    """Those of the workers for whom there is something to claim."""
    return outlook.served(tx, worker_ids)


@writes
def offer(tx: Transaction, *, job_seqs: set[int]) -> None:
    """Let the claims that wait at these jobs try again: another process or the time has acted."""
    tx.claimable.update(dict.fromkeys(job_seqs))


def take_back(tx: Transaction, *, worker_id: str, token: str, started: bool) -> None:
    """Undo a claim that the store may have kept, and that no request id leads back to."""
    held = claims.claimed_by_request(tx, worker_id=worker_id, request_id=token)
    sound = [found for found in held if _can_be_run(found, started=True)]
    give_back.rule(tx, claimed=sound, started=started)


@writes
def give_back(tx: Transaction, *, claimed: list[TaskView], started: bool) -> None:
    """Undo a claim whose answer reached nobody; nothing is charged and no place is lost."""
    for found in claimed:
        task = found.task
        back = reports.requeue(
            tx,
            task,
            error=task.error,
            starts=task.starts - int(started),
            idle_claims=max(0, task.idle_claims - 1),  # nobody has had it
        )
        if back is not None:
            tx.claimable[task.job_seq] = None
