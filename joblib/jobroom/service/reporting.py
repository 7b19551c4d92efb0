"""Reports on a task: started, progress, ended, handed back, cancelled (contract, *Tasks*).

Each report is first tried as one guarded UPDATE. Where its guard did not hold, the row is read to
say why: not to be seen (404), a repeat of what is stored (200), not yours (403), too late (409).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from jobroom.domain.lifecycle import HELD, TRANSITIONS, TaskStatus, is_terminal
from jobroom.domain.records import Caller, Task, TaskView
from jobroom.errors import (
    FieldError,
    Forbidden,
    InvalidTaskTransition,
    JobroomError,
    ValidationFailed,
)
from jobroom.service import access, claiming, logging_tasks, next_task, requeueing
from jobroom.service.use_case import writes
from jobroom.store import notices, reports, tasks, workers
from jobroom.store.lane import Refused
from jobroom.store.statement import Statement
from jobroom.store.transaction import Transaction


class Report(NamedTuple):
    """What a report says. ``result`` is JSON text; ``status`` None is progress alone.

    ``attempt`` is the fence and ``worker_id`` the holder, each checked where it was sent.
    ``most_bytes`` is how long the answer may be in which the next task comes. ``log`` is text for
    the task's log, and ``log_offset`` where in it that begins; ``entry`` is what becomes of it.
    """

    status: str | None = None
    error: str | None = None
    result: str | None = None
    progress: float | None = None
    message: str | None = None
    attempt: int | None = None
    worker_id: str | None = None
    claim_next: bool = False
    final: bool = False
    most_bytes: int | None = None
    log: str | None = None
    log_offset: int | None = None
    entry: logging_tasks.Entry | None = None


class Reported(NamedTuple):
    """The task after the report, and the next one where ``claim_next`` asked for it.

    ``log_bytes`` is how far the log of the attempt reaches, where a text for it came.
    """

    view: TaskView
    next_task: TaskView | None = None
    log_bytes: int | None = None


@writes
def report(tx: Transaction, *, caller: Caller, task_id: str, report: Report) -> Reported:
    """Take a report on a task.

    Raises TaskNotFound, Forbidden, and InvalidTaskTransition where the report comes too late or
    asks for a move that there is not; nothing is changed then but the notice it answers.
    """
    _check_sense(report)
    if report.log is not None:
        said = logging_tasks.entry(tx, report.log, report.log_offset)
        report = report._replace(entry=said)
    done = None
    if report.status != TaskStatus.PENDING:
        done = _try(tx, caller, task_id, report, is_admin=False)
    if done is not None:
        worker_id = done.task.worker_id
    elif report.claim_next and (again := next_task.of_lost_answer(tx, caller, task_id, report)):
        reach = logging_tasks.reach_of(tx, task_id, report.entry, attempt=report.attempt)
        return Reported(*again, log_bytes=reach)
    else:
        done, worker_id = _answer_other(tx, caller, task_id, report)
        if worker_id is not None and report.status != TaskStatus.CANCELLED:
            workers.speaking(tx, worker_id=worker_id, identity=caller.identity)
    log_bytes = following = None
    is_new = (report.entry is not None or report.claim_next) and _has_just_changed(tx, done)
    if report.entry is not None:
        kind = {"is_cancelled": report.status == TaskStatus.CANCELLED}
        log_bytes = logging_tasks.finish(tx, caller, done, report.entry, is_new=is_new, **kind)
    if done.task.status in HELD:
        done = claiming.leased(tx, done)
    speaker = worker_id or report.worker_id
    if report.claim_next and speaker is not None:
        following = next_task.claim(tx, caller, done.task, speaker, report, is_new=is_new)
    return Reported(done, following, log_bytes)


def _check_sense(report: Report) -> None:
    """Refuse a report that says two things at once."""
    ends = report.status is not None and is_terminal(report.status)
    if report.result is not None and report.status != TaskStatus.COMPLETED:
        fault = FieldError("/result", "goes with the status completed only")
    elif report.error is not None and report.status not in (
        TaskStatus.FAILED,
        TaskStatus.CANCELLED,
    ):
        fault = FieldError("/error", "goes with the status failed or cancelled only")
    elif report.claim_next and not ends:
        fault = FieldError("/claim_next", "goes with completed, failed or cancelled only")
    else:
        return
    message = f"The report does not fit the contract: {fault.pointer} {fault.message}."
    raise ValidationFailed(message, errors=(fault,))


def _try(
    tx: Transaction, caller: Caller, task_id: str, report: Report, *, is_admin: bool
) -> TaskView | None:
    """The report as one guarded statement; None if its guard did not hold."""
    statement = _STATEMENTS.get(report.status)
    if statement is None:
        return None
    take = reports.report
    if report.entry is not None and report.status != TaskStatus.CANCELLED:
        take = partial(logging_tasks.take, said=report.entry)
        if (report.status, report.progress, report.message) == (None, None, None):
            statement = logging_tasks.LOG_ALONE
    said = take(
        tx,
        statement,
        key=task_id,
        identity=caller.identity,
        is_admin=int(is_admin),
        attempt_sent=report.attempt,
        worker_sent=report.worker_id,
        told_progress=report.progress,
        told_message=report.message,
        told_error=report.error,
        told_result=report.result,
        final=int(report.final),
        retention=tx.settings.task_retention_seconds,
    )
    if said is None:
        return None
    done, heard = said
    speaker = done.task.worker_id
    if speaker and heard and not is_admin and report.status != TaskStatus.CANCELLED:
        workers.note_heard(tx, worker_id=speaker, last=heard)
    if report.status == TaskStatus.PENDING:
        tx.claimable[done.task.job_seq] = None
    elif report.status == TaskStatus.CANCELLED and done.task.worker_id not in (
        None,
        report.worker_id,  # the worker itself says so and need not be told
    ):
        notices.add(tx, worker_id=done.task.worker_id, task_id=done.task.id)
    return done


_STATEMENTS: dict[str | None, Statement] = {
    None: reports.NOTE_PROGRESS,
    TaskStatus.RUNNING: reports.START,
    TaskStatus.COMPLETED: reports.COMPLETE,
    TaskStatus.FAILED: reports.FAIL_FOR_GOOD,
    TaskStatus.PENDING: reports.HAND_BACK,
    TaskStatus.CANCELLED: reports.CANCEL,
}
"""One guarded statement for each report; each takes what it needs of all that was said."""


def _answer_other(
    tx: Transaction, caller: Caller, task_id: str, report: Report
) -> tuple[TaskView, str | None]:
    """Answer a report whose one statement did not apply, or that takes the worker from the row.

    The second of the two is the worker that held the task when the report came.
    """
    found = tasks.get(tx, task_id)
    if found is None or not access.sees_task(caller, found[0].task, found[2]):
        raise access.task_not_found(task_id)
    view, _, holder = found
    task = view.task
    admin = access.is_admin_in(caller, task.room_id)
    if admin or report.status == TaskStatus.PENDING:
        done = _try(tx, caller, task_id, report, is_admin=admin)
        if done is not None:
            return done, task.worker_id
    mine = admin or holder == caller.identity
    if report.status == TaskStatus.CANCELLED:
        mine = mine or task.created_by_id == caller.identity
    # Whose it was cannot be told any more: a lost worker's report is late (409), not forbidden.
    was_lost = holder is None and task.status not in HELD and task.attempt > 0
    may_repeat = mine or (was_lost and report.status != TaskStatus.CANCELLED)
    if may_repeat and _is_repeat(task, report, answer_lost=tx.is_repeat):
        return _repeated(tx, caller, view, report, is_admin=admin), task.worker_id
    # Who names an earlier attempt may have held it: that report is late (409), not forbidden.
    is_late = report.attempt is not None and report.attempt < task.attempt
    if not mine and not is_late and (not was_lost or report.status == TaskStatus.CANCELLED):
        message = f"Task {task.id} is not held by a worker of {caller.identity!r}."
        raise Forbidden(message)
    _check_fence(tx, caller, task, report)
    if report.worker_id is not None and report.worker_id != task.worker_id and task.worker_id:
        message = f"Task {task.id} is held by another worker than {report.worker_id!r}."
        raise _refused(tx, caller, task, report, InvalidTaskTransition(message))
    done = requeueing.take(tx, task, report)
    if done is None:
        raise _refused(tx, caller, task, report, _impossible(task, report))
    return done, task.worker_id


def _is_repeat(task: Task, report: Report, *, answer_lost: bool) -> bool:
    """Whether this very report is what the row already says (rules, *Reports*).

    ``answer_lost``: it may have been taken a moment ago, and its answer lost on the way from the
    store; it needs no attempt to be known by.
    """
    if report.attempt not in (None, task.attempt):
        return False
    if task.worker_id is not None and report.worker_id not in (None, task.worker_id):
        return False
    if report.status in (TaskStatus.RUNNING, TaskStatus.CANCELLED):
        return task.status == report.status
    if answer_lost and report.status == task.status == TaskStatus.PENDING:
        return True
    says_the_same = (report.error, report.result) == (task.error, task.result)
    if not says_the_same or (report.attempt is None and not answer_lost):
        return False
    retried = task.status == TaskStatus.PENDING and task.error is not None
    return task.status == report.status or (report.status == TaskStatus.FAILED and retried)


def _repeated(
    tx: Transaction, caller: Caller, view: TaskView, report: Report, *, is_admin: bool
) -> TaskView:
    if report.status == TaskStatus.RUNNING:
        note = report._replace(status=None)
        return _try(tx, caller, view.task.id, note, is_admin=is_admin) or view
    if report.worker_id is not None:
        # The worker that is named knows now; without a name this may be the creator again.
        notices.drop_of(
            tx, identity=caller.identity, worker_id=report.worker_id, task_id=view.task.id
        )
    return view


def _check_fence(tx: Transaction, caller: Caller, task: Task, report: Report) -> None:
    if report.attempt is not None and report.attempt != task.attempt:
        message = (
            f"Attempt {report.attempt} of task {task.id} is over: the task is {task.status},"
            f" at attempt {task.attempt}. Drop this work and claim again."
        )
        raise _refused(tx, caller, task, report, InvalidTaskTransition(message))


def _impossible(task: Task, report: Report) -> InvalidTaskTransition:
    if report.status is None:
        said = f"Task {task.id} is {task.status}; without a status a report needs a held task."
    elif is_terminal(task.status):
        said = f"Task {task.id} has ended as {task.status}; it cannot become {report.status}."
    elif report.status == TaskStatus.PENDING and task.status == TaskStatus.RUNNING:
        said = (
            f"Task {task.id} is running and its job does not requeue it (or its attempts are"
            " used up); report it failed instead."
        )
    elif report.status == TaskStatus.BLOCKED:
        said = f"Task {task.id} is {task.status}; only what a task depends on makes it blocked."
    else:
        allowed = sorted(TRANSITIONS.get(TaskStatus(report.status), ()))
        way = f"only from {' or '.join(allowed)}" if allowed else "only by claiming it"
        said = f"Task {task.id} is {task.status}; it becomes {report.status} {way}."
    return InvalidTaskTransition(said)


def _refused(
    tx: Transaction, caller: Caller, task: Task, report: Report, error: JobroomError
) -> Refused:
    """Refuse a report. Its worker knows now that it should stop: the notice is answered."""
    notices.drop_of(tx, identity=caller.identity, worker_id=report.worker_id, task_id=task.id)
    return Refused(error)


def _has_just_changed(tx: Transaction, done: TaskView) -> bool:
    return any(each is done.task for each in reversed(tx.changed))
