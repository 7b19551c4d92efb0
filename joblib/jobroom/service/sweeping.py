"""The sweep: one bounded pass over what nobody reports (contract, *The sweep*).

Each step is a transaction of its own over at most ``tx.batch`` rows, guarded row by row, so a sweep
may run twice at once and be cut off anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobroom.domain import damage
from jobroom.domain.graph import why_failed
from jobroom.domain.lifecycle import TERMINAL, TaskStatus
from jobroom.domain.records import MICROSECONDS, NOTICE_LIFE, SweepReport, Worker
from jobroom.service import claiming, firing, losing
from jobroom.service.use_case import UseCase, writes
from jobroom.service.workers import alive_after
from jobroom.store import edges, jobs, notices, overdue, reports, state, stuck, workers
from jobroom.store.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobroom.store.stuck import Stuck

OUTAGE_INTERVALS = 3
"""A sweep that comes so many intervals after the last one follows an outage: it fails nobody."""
LOOKED_AT = 1000
"""So many blocked tasks a sweep looks at, whether they are stuck; the next one at the next."""


@writes
def begin_sweep(tx: Transaction) -> bool:
    """Whether this sweep may judge workers.

    After an outage (of the sweeper, or of everything) workers could not beat; they get one
    worker timeout from the first sweep on before they are judged as usual. A clock that was set
    back makes nobody immortal: no heartbeat, and no grace, may lie further ahead than it could.
    """
    workers.clamp_heartbeats(tx)
    state.put(tx, state.SWEPT_AT, tx.now)
    grace = _grace(tx)
    again_at = state.get(tx, state.JUDGE_AGAIN_AT)
    if again_at:
        # The grace is given once: a schedule slower than the setting says must not mean never.
        if tx.now >= again_at:
            state.put(tx, state.JUDGE_AGAIN_AT, 0)
        elif again_at > tx.now + grace:
            state.put(tx, state.JUDGE_AGAIN_AT, tx.now + grace)
        return tx.now >= again_at
    finished = state.get(tx, state.SWEEP_FINISHED_AT)
    outage = tx.settings.sweeper_interval_seconds * OUTAGE_INTERVALS * MICROSECONDS
    if finished is None or not outage or tx.now - finished <= outage:
        return True
    state.put(tx, state.JUDGE_AGAIN_AT, tx.now + grace)
    return False


def _grace(tx: Transaction) -> int:
    return int(tx.settings.worker_timeout_seconds * MICROSECONDS)


def _comes_late(tx: Transaction) -> bool:
    """Whether there was an outage since this sweep's last transaction; who is alive gets grace.

    The file may have been locked, the process frozen or the clock set in the middle of a sweep.
    """
    swept_at = state.get(tx, state.SWEPT_AT)
    # Workers beat at least three times in a timeout: what is shorter makes no live one stale.
    late = swept_at is not None and tx.now - swept_at > _grace(tx) * 2 // 3
    if late:
        state.put(tx, state.JUDGE_AGAIN_AT, tx.now + _grace(tx))
    return late


def _judges(rule: Callable[[Transaction], SweepReport]) -> UseCase[[], SweepReport]:
    """A step that fails somebody, and after an outage nobody."""

    def guarded(tx: Transaction) -> SweepReport:
        tx.serialize()
        # Whoever ends something may have to settle what waits for it: first this, then rows.
        edges.lock(tx)
        if _comes_late(tx):
            return SweepReport()
        done = rule(tx)
        state.put(tx, state.SWEPT_AT, tx.now)
        return done

    return writes(guarded)


def _tidies(rule: Callable[[Transaction], SweepReport]) -> UseCase[[], SweepReport]:
    """A step that fails nobody for being late."""

    def marked(tx: Transaction) -> SweepReport:
        tx.serialize()
        if not _comes_late(tx):
            state.put(tx, state.SWEPT_AT, tx.now)
        return rule(tx)

    return writes(marked)


@_judges
def lose_workers(tx: Transaction) -> SweepReport:
    """(1) Workers whose last heartbeat is too old, and what they hold."""
    before = alive_after(tx)
    lost = requeued = failed = 0
    for worker in workers.list_stale(tx, before=before, limit=tx.batch):
        if requeued + failed >= tx.batch:
            break
        if not workers.put_to_sleep(tx, worker_id=worker.id, before=before):
            continue
        timeout = tx.settings.worker_timeout_seconds
        # What is more than a batch is left for the next step: its worker is not active now.
        outcome = losing.lose_tasks(
            tx,
            worker.id,
            why=f"sent no heartbeat for {timeout:g} s",
            most=tx.batch - requeued - failed,
        )
        _let_go(tx, worker)
        lost += 1
        requeued += outcome.requeued
        failed += outcome.failed
    return SweepReport(lost_workers=lost, requeued_tasks=requeued, failed_tasks=failed)


def _let_go(tx: Transaction, worker: Worker) -> None:
    """An instance worker is gone for good; an identity worker sleeps and keeps its links."""
    for job_seq in jobs.linked_to(tx, worker.id):
        jobs.note_seen(tx, job_seq=job_seq, at=worker.last_heartbeat)
    if worker.kind == "instance":
        workers.remove(tx, worker.id)


@_judges
def free_tasks_of_vanished(tx: Transaction) -> SweepReport:
    """(2) Tasks held by workers that no longer exist."""
    requeued = failed = 0
    for worker_id in workers.list_vanished(tx, limit=tx.batch):
        outcome = losing.lose_tasks(
            tx, worker_id, why="no longer exists", most=tx.batch - requeued - failed
        )
        requeued += outcome.requeued
        failed += outcome.failed
        if requeued + failed >= tx.batch:
            break
    return SweepReport(requeued_tasks=requeued, failed_tasks=failed)


@_judges
def end_overdue(tx: Transaction) -> SweepReport:
    """(3) Held tasks past their own timeout: that task alone is lost, its worker stays."""
    ends: list[bool | None] = []
    for status in (TaskStatus.RUNNING, TaskStatus.CLAIMED):
        for found in overdue.list_due(tx, status=status, limit=tx.batch - len(ends)):
            why = f"Task timed out while {status} by worker {found.task.worker_id}"
            ends.append(losing.take_away(tx, found.task, why=why))
    requeued, failed = ends.count(True), ends.count(False)
    return SweepReport(
        timed_out_tasks=requeued + failed, requeued_tasks=requeued, failed_tasks=failed
    )


@_judges
def end_expired(tx: Transaction) -> SweepReport:
    """(3) Pending tasks that nobody started before their ``expires_at``."""
    expired = 0
    for status in (TaskStatus.PENDING, TaskStatus.BLOCKED):
        for found in overdue.list_due(tx, status=status, limit=tx.batch - expired):
            expired += reports.fail(tx, found.task, error=claiming.EXPIRED) is not None
    return SweepReport(expired_tasks=expired)


@_tidies
def fail_unreachable(tx: Transaction) -> SweepReport:
    """(3) Damaged rows that would stay for ever: of a job, or in a state, that there is not."""
    failed = 0
    while failed < tx.batch and (unreachable := overdue.list_nowhere(tx, limit=tx.batch - failed)):
        for found in unreachable:
            error = f"{damage.STORY} ({damage.flaw(found.task)}). Submit it again."
            reports.fail(tx, found.task, error=error)
            failed += 1
    return SweepReport(failed_tasks=failed)


@_tidies
def hide_orphans(tx: Transaction) -> SweepReport:
    """(4) Jobs with no live worker and no unfinished task: hidden from lists."""
    hidden = sum(jobs.hide_if_orphan(tx, seq) for seq in jobs.list_orphans(tx, limit=tx.batch))
    return SweepReport(hidden_jobs=hidden)


@_tidies
def settle_stuck(tx: Transaction) -> SweepReport:
    """(5) Blocked tasks whose dependencies have ended, or are gone, and nobody has settled it.

    Each time the next ``LOOKED_AT`` of them, so it does not take longer with each that waits.
    """
    edges.lock(tx)
    after = state.get(tx, state.STUCK_AFTER) or 0
    count, last = stuck.find_window(tx, after=after, most=LOOKED_AT)
    seen: dict[Stuck, None] = {}
    while last is not None and len(seen) < tx.batch:
        # One may be stuck twice; whom nothing helps comes as before, and is left.
        listed = stuck.list_stuck(tx, after=after, last=last, limit=tx.batch - len(seen))
        found = [each for each in listed if each not in seen]
        if not found:
            break
        _settle(tx, found)
        seen.update(dict.fromkeys(found))
    if len(seen) >= tx.batch:
        reached = max(each.seq for each in seen)
    else:
        # Those at the end were looked at: the next sweep begins anew.
        reached = last if last is not None and count == LOOKED_AT else 0
    if reached != after:
        state.put(tx, state.STUCK_AFTER, reached)
    return SweepReport(stuck_tasks=len(seen))


def _settle(tx: Transaction, found: list[Stuck]) -> None:
    settled: set[str] = set()
    for each in found:
        if each.broken is not None:
            error = why_failed(each.broken, each.cause)
            stuck.fail(tx, each, failed_by=each.broken, error=error)
        elif each.gone is not None:
            error = f"dependency {each.gone} is gone"
            stuck.fail(tx, each, failed_by=each.gone, error=error)
        elif each.ended is None:
            stuck.free(tx, each)
        elif each.ended not in settled:
            settled.add(each.ended)
            edges.settle(tx, each.ended)


@_tidies
def remove_old(tx: Transaction) -> SweepReport:
    """(6) Finished tasks past their retention, and notices that nobody asked for."""
    removed = 0
    for status in sorted(TERMINAL):
        removed += overdue.remove_past_retention(tx, status=status, limit=tx.batch - removed)
    notices.drop_old(tx, before=tx.now - NOTICE_LIFE, limit=tx.batch)
    return SweepReport(removed_tasks=removed)


@_tidies
def fire_schedules(tx: Transaction) -> SweepReport:
    """(7) Schedules whose time has come: what they say is submitted."""
    return SweepReport(fired_schedules=firing.fire_due(tx))


@writes
def finish_sweep(tx: Transaction) -> None:
    """Remember that a sweep came to its end; an outage just before it is one all the same."""
    _comes_late(tx)
    state.put(tx, state.SWEEP_FINISHED_AT, tx.now)


JUDGING: tuple[UseCase[[], SweepReport], ...] = (
    lose_workers,
    free_tasks_of_vanished,
    end_overdue,
    end_expired,
)
TIDYING: tuple[UseCase[[], SweepReport], ...] = (
    fail_unreachable,
    hide_orphans,
    settle_stuck,
    remove_old,
    fire_schedules,
)


def add(total: SweepReport, step: SweepReport) -> SweepReport:
    """The counts of two steps together."""
    counts = (a + b for a, b in zip(total[1:], step[1:], strict=True))
    return SweepReport(total.judged, *counts)


def rows_of(step: SweepReport) -> int:
    """How many rows a step dealt with: a full batch means that there may be more."""
    return sum(step[1:])
