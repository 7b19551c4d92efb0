"""Reports that need the job's policy: failing with attempts left, handing back running work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobroom.domain.lifecycle import HELD, TaskStatus
from jobroom.domain.records import MICROSECONDS, Task, TaskView
from jobroom.store import jobs, reports
from jobroom.store.transaction import Transaction

if TYPE_CHECKING:
    from jobroom.domain.records import Job
    from jobroom.service.reporting import Report

LONGEST_RETRY_DELAY_SECONDS = 3600.0


def take(tx: Transaction, task: Task, report: Report) -> TaskView | None:
    """Do as a report says by what the job allows; None where it is no such report, or too late."""
    job = jobs.get_by_seq(tx, task.job_seq) if task.status in HELD else None
    if job is None:
        return None
    if report.status == TaskStatus.FAILED:
        done = _fail(tx, task, report, job)
    elif report.status == TaskStatus.PENDING:
        done = _hand_back(tx, task, report, job)
    else:
        return None
    if done is not None and done.task.ready and not done.task.completed_at:
        tx.claimable[task.job_seq] = None
    return done


def _fail(tx: Transaction, task: Task, report: Report, job: Job) -> TaskView | None:
    starts = task.starts + (task.status == TaskStatus.CLAIMED)
    again_at = _again_at(tx, job.retry_delay_seconds, starts)
    if task.expires_at is not None and task.expires_at <= (again_at or tx.now):
        return reports.fail(tx, task, error=report.error)
    return reports.requeue(
        tx,
        task,
        error=report.error,
        starts=starts,
        again_at=again_at,
        progress=report.progress,
        message=report.message,
    )


def _hand_back(tx: Transaction, task: Task, report: Report, job: Job) -> TaskView | None:
    if job.on_worker_lost != "requeue" or task.starts >= task.max_attempts:
        return None
    return reports.requeue(
        tx,
        task,
        error=task.error,
        starts=task.starts,
        progress=report.progress,
        message=report.message,
    )


def _again_at(tx: Transaction, delay_seconds: float | None, starts: int) -> int | None:
    if not delay_seconds:
        return None
    grown = delay_seconds * 2 ** min(starts - 1, 32)
    return tx.now + int(min(grown, LONGEST_RETRY_DELAY_SECONDS) * MICROSECONDS)
