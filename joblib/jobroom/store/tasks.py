"""Task rows: adding one, and reading it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    and_,
    bindparam,
    case,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.domain.lifecycle import TaskStatus
from jobroom.domain.records import Task, TaskView
from jobroom.store import chunks, line, turns
from jobroom.store.schema import job, task, worker
from jobroom.store.statement import Statement, literal
from jobroom.store.transaction import Transaction
from jobroom.store.views import HELD, NEXT_VERSION, NULL, VIEW, view

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.dialects.sqlite import Insert

# What a new task always is, in the text; the columns that are NULL then are left out.
_AT_FIRST: dict[str, ColumnElement[Any]] = {
    "status": literal("pending"),
    "attempt": literal(0),
    "starts": literal(0),
    "idle_claims": literal(0),
    "has_dependencies": literal(0),
    "has_dependents": literal(0),
    "version": literal(1),
}
_GIVEN = (
    "id",
    "job_seq",
    "room_id",
    "created_by_id",
    "priority",
    "payload",
    "run_at",
    "expires_at",
    "max_attempts",
    "timeout_seconds",
    "idempotency_key",
    "fingerprint",
)
_now = bindparam("now", type_=BigInteger)
_run_at = bindparam("run_at", type_=BigInteger)
_COMPUTED: dict[str, ColumnElement[Any]] = {
    "created_at": _now,
    "ready": case((_run_at > _now, literal(0)), else_=literal(1)),
    "due_at": bindparam("expires_at", type_=BigInteger),
}


def _insert(turn: ColumnElement[int]) -> Insert:
    return (
        upsert(task)
        .from_select(
            [*_GIVEN, *_COMPUTED, *_AT_FIRST, "turn", "schema_version"],
            select(
                *(bindparam(name, type_=task.c[name].type).label(name) for name in _GIVEN),
                *(value.label(name) for name, value in (_COMPUTED | _AT_FIRST).items()),
                turn.label("turn"),
                job.c.schema_version,
            )
            .where(job.c.seq == bindparam("job_seq"), job.c.version == bindparam("job_version"))
            # Where others write beside us: whoever hides the job meanwhile waits, and looks again.
            .with_for_update(read=True, of=job),
        )
        .on_conflict_do_nothing()
    )


_INSERT = _insert(literal(0))
_ADD = Statement(_INSERT)
_ADD_TELLING = Statement(_INSERT.returning(task.c.seq, _now))
_ADD_IN_TURN = Statement(
    _insert(func.coalesce(turns.TAKEN, literal(0))).returning(task.c.seq, _now, task.c.turn)
)


def add(tx: Transaction, given: dict[str, Any]) -> Task | None:
    """Insert a new pending task if its job is still at ``job_version``; the task as it is stored.

    ``given`` holds the columns of ``_GIVEN``, ``job_version`` and ``schema_version``. None where
    the job has changed since it was read, or where the id or the idempotency key is taken.
    """
    added = tx.insert(_ADD, _ADD_TELLING, given)
    return None if added is None else _stored(given, *added, turn=0)


def add_in_turn(tx: Transaction, given: dict[str, Any]) -> Task | None:
    """As ``add``, for a fair job: the task gets the next turn of its room."""
    rows = tx.alone(_ADD_IN_TURN, first=(turns.TAKE,), **given)
    if not rows:
        return None
    seq, created_at, turn = rows[0]
    tx.learn(created_at)
    return _stored(given, seq, created_at, turn=turn)


def _stored(given: dict[str, Any], seq: int, created_at: int, *, turn: int) -> Task:
    run_at = given["run_at"]
    # By position, in the order of the fields: a submission makes one of these in half the time.
    return Task(
        seq,
        given["id"],
        given["job_seq"],
        given["room_id"],
        given["created_by_id"],
        _PENDING,
        int(run_at is None or run_at <= created_at),
        given["priority"],
        turn,
        given["payload"],
        given["schema_version"],
        created_at,
        run_at,
        given["expires_at"],
        None,  # claimed_at
        None,  # started_at
        None,  # completed_at
        None,  # worker_id
        0,  # attempt
        0,  # starts
        0,  # idle_claims
        given["max_attempts"],
        given["timeout_seconds"],
        given["expires_at"],  # due_at
        None,  # claim_request_id
        given["idempotency_key"],
        given["fingerprint"],
        None,  # progress
        None,  # message
        None,  # error
        None,  # result
        None,  # key
        0,  # has_dependencies
        0,  # has_dependents
        None,  # failed_by
        1,  # version
    )


_PENDING = TaskStatus.PENDING.value


_BY_KEY = Statement(
    select(*VIEW).where(
        task.c.created_by_id == bindparam("identity"), task.c.idempotency_key == bindparam("key")
    )
)


def get_by_key(tx: Transaction, *, identity: str, key: str) -> TaskView | None:
    """The task that this identity submitted with that idempotency key."""
    row = tx.row(_BY_KEY, identity=identity, key=key)
    return None if row is None else view(row)


_FORGET_KEY = Statement(
    update(task)
    .where(task.c.seq == bindparam("key"))
    .values(idempotency_key=NULL, version=NEXT_VERSION)
)


def forget_key(tx: Transaction, seq: int) -> None:
    """The idempotency key of this task has lived its time."""
    tx.change(_FORGET_KEY, key=seq)


_WITHDRAW = Statement(
    delete(task).where(
        task.c.id == bindparam("key"),
        task.c.status.in_([literal("pending"), literal("blocked")]),
        task.c.attempt == literal(0),
        task.c.has_dependents == literal(0),
    )
)


def withdraw(tx: Transaction, task_id: str) -> None:
    """Remove a task that nobody has claimed yet, and that nobody waits for."""
    tx.change(_WITHDRAW, key=task_id)


_ahead = task.alias("ahead")

_LAST_BEAT = (
    select(worker.c.last_heartbeat)
    .where(worker.c.id == task.c.worker_id, HELD)
    .correlate(task)
    .scalar_subquery()
)
_HOLDER = (
    select(worker.c.identity)
    .where(worker.c.id == task.c.worker_id)
    .correlate(task)
    .scalar_subquery()
)
_GET = Statement(select(*VIEW, _LAST_BEAT, _HOLDER).where(task.c.id == bindparam("id")))


def get(tx: Transaction, task_id: str) -> tuple[TaskView, int | None, str | None] | None:
    """A task, the last heartbeat of who holds it, and the identity of its last worker."""
    row = tx.row(_GET, id=task_id)
    return None if row is None else (view(row[:-2]), row[-2], row[-1])


@cache
def _versions(count: int) -> Statement:
    return Statement(select(task.c.id, task.c.version).where(chunks.named(count)))


def versions(tx: Transaction, ids: Collection[str]) -> dict[str, int]:
    """The row version of each of these tasks that exists."""
    found: dict[str, int] = {}
    for count, named in chunks.of_ids(ids):
        found.update(dict(tx.rows(_versions(count), **named)))
    return found


def _counted(*where: ColumnElement[bool]) -> ColumnElement[int]:
    some = (
        select(literal(1).label("one"))
        .where(*line.ready(_ahead, task.c.job_seq), *where)
        .limit(bindparam("cap"))
        .correlate(task)
    )
    return select(func.count()).select_from(some.subquery()).correlate(task).scalar_subquery()


_same_priority = _ahead.c.priority == task.c.priority
_same_turn = _ahead.c.turn == task.c.turn
# Three ranges of the index instead of a comparison of each entry: half the price.
_AHEAD = (
    _counted(_ahead.c.priority > task.c.priority)
    + _counted(_same_priority, _ahead.c.turn < task.c.turn)
    + _counted(_same_priority, _same_turn, _ahead.c.seq < task.c.seq)
)
_AHEAD_IF_IN_LINE = case(
    (and_(task.c.status == literal("pending"), task.c.ready == literal(1)), _AHEAD)
)
_GET_PLACED = Statement(
    select(*VIEW, _LAST_BEAT, _HOLDER, _AHEAD_IF_IN_LINE).where(task.c.id == bindparam("id"))
)
_POSITION = Statement(select(_AHEAD_IF_IN_LINE).where(task.c.seq == bindparam("seq")))
MOST_PLACES = 1000
"""Nobody is told a later place in the queue than this one."""


def get_placed(
    tx: Transaction, task_id: str, *, cap: int = MOST_PLACES
) -> tuple[TaskView, int | None, str | None] | None:
    """As ``get``, with the 1-based place of a claimable task in its job, at most ``cap``."""
    row = tx.row(_GET_PLACED, id=task_id, cap=cap)
    if row is None:
        return None
    *viewed, last_beat, holder, ahead = row
    return view(viewed)._replace(queue_position=_place(ahead, cap)), last_beat, holder


def queue_position(tx: Transaction, of: Task, *, cap: int = MOST_PLACES) -> int | None:
    """1-based place of a claimable task among those of its job, at most ``cap``; else None."""
    if of.status != "pending" or not of.ready:
        return None
    row = tx.row(_POSITION, seq=of.seq, cap=cap)
    return None if row is None else _place(row[0], cap)


def _place(ahead: int | None, cap: int) -> int | None:
    return None if ahead is None else min(int(ahead) + 1, cap)


_LINE = Statement(
    line.in_order(_ahead, bindparam("job_seq", type_=BigInteger), _ahead.c.seq).limit(
        bindparam("cap")
    )
)


def queue_positions(tx: Transaction, of: list[Task], *, cap: int = MOST_PLACES) -> dict[int, int]:
    """``queue_position`` of those of the tasks that have one, by their ``seq``.

    A job of which there are several is read once: that costs what two positions do.
    """
    by_job: dict[int, list[Task]] = {}
    for waiting in of:
        if waiting.status == "pending" and waiting.ready:
            by_job.setdefault(waiting.job_seq, []).append(waiting)
    found: dict[int, int] = {}
    for job_seq, waiting_tasks in by_job.items():
        if len(waiting_tasks) == 1:
            [only] = waiting_tasks
            found[only.seq] = queue_position(tx, only, cap=cap) or cap
            continue
        rows = tx.rows(_LINE, job_seq=job_seq, cap=cap)
        places = {row[0]: place for place, row in enumerate(rows, 1)}
        found.update((each.seq, places.get(each.seq, cap)) for each in waiting_tasks)
    return found
