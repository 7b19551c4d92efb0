"""The next task of a worker, claimed and started beside a report that ends its last one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobroom.domain import sizes
from jobroom.domain.records import Caller, Task, TaskView
from jobroom.errors import AnswerTooLarge
from jobroom.service import claiming
from jobroom.store import tasks, workers
from jobroom.store.lane import Refused
from jobroom.store.transaction import Transaction

if TYPE_CHECKING:
    from jobroom.service.reporting import Report


def claim(
    tx: Transaction, caller: Caller, ended: Task, speaker: str, report: Report, *, is_new: bool
) -> TaskView | None:
    """Claim and start the worker's next task; for a repeated report the same one again."""
    wish = _wish(caller, speaker, _request_id(ended.id, ended.attempt), report)
    if is_new and (plain := claiming.claim_plainly(tx, wish, is_new=True)):
        return plain
    if is_new and claiming.is_idle(tx, wish):
        return None
    if workers.speaking(tx, worker_id=speaker, identity=caller.identity) is None:
        return None
    try:
        claimed = [] if is_new else claiming.claimed_before(tx, wish)
        # A client's repeat takes nothing new: the report that ended the task has claimed already.
        # One of the lane's may not have come so far: across a network the two are kept one after
        # the other.
        if not claimed and (tx.is_repeat or is_new):
            claimed = claiming.take(tx, wish)
    except Refused as refused:
        _check_too_large(refused)
        return None
    return claimed[0] if claimed else None


def _wish(caller: Caller, speaker: str, request_id: str, report: Report) -> claiming.Wish:
    most_bytes = None
    if report.most_bytes is not None:
        # It is in the answer once, beside the task that ended; in one of a claim it is twice.
        most_bytes = 2 * (report.most_bytes - sizes.FRAME_BYTES)
    return claiming.Wish(caller, speaker, start=True, request_id=request_id, most_bytes=most_bytes)


def _check_too_large(refused: Refused) -> None:
    """The report is taken, whatever the next task is; who claims that by itself is told more."""
    if not isinstance(refused.error, AnswerTooLarge):
        raise refused


def of_lost_answer(
    tx: Transaction, caller: Caller, task_id: str, report: Report
) -> tuple[TaskView, TaskView] | None:
    """A report whose answer was lost, though its task has gone on to another attempt since.

    What it claimed is held by the worker and known to nobody; refused, it would stay so for ever.
    The task as it is now, and that one.
    """
    found = tasks.get(tx, task_id)
    if found is None or report.attempt is None or report.attempt >= found[0].task.attempt:
        return None
    speaker = report.worker_id or found[0].task.worker_id
    if speaker is None or workers.speaking(tx, worker_id=speaker, identity=caller.identity) is None:
        return None
    wish = _wish(caller, speaker, _request_id(task_id, report.attempt), report)
    try:
        claimed = claiming.claimed_before(tx, wish)
    except Refused as refused:
        _check_too_large(refused)
        return None
    return (found[0], claimed[0]) if claimed else None


def _request_id(task_id: str, attempt: int) -> str:
    """What the claim beside a report is remembered by; no client can send that."""
    return f"\x1fnext:{task_id}:{attempt}"
