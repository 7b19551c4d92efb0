"""Task rows: adding one, and reading it."""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, bindparam, func, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.domain.records import Task, TaskView
from jobroom.store.schema import job, task, worker
from jobroom.store.statement import Statement, literal
from jobroom.store.transaction import Transaction
from jobroom.store.views import HELD, NEXT_VERSION, NULL, VIEW, view

if TYPE_CHECKING:
    from collections.abc import Collection

# What a new task always is, in the text; the columns that are NULL then are left out.
_AT_FIRST = {
    "status": literal("pending"),
    "attempt": literal(0),
    "starts": literal(0),
    "idle_claims": literal(0),
    "version": literal(1),
}
_GIVEN = (
    "id",
    "job_seq",
    "room_id",
    "created_by_id",
    "ready",
    "priority",
    "turn",
    "payload",
    "created_at",
    "run_at",
    "expires_at",
    "max_attempts",
    "timeout_seconds",
    "due_at",
    "idempotency_key",
    "fingerprint",
)
_INSERT = Statement(
    upsert(task)
    .from_select(
        [*_GIVEN, *_AT_FIRST, "schema_version"],
        select(
            *(bindparam(name, type_=task.c[name].type).label(name) for name in _GIVEN),
            *(constant.label(name) for name, constant in _AT_FIRST.items()),
            job.c.schema_version,
        ).where(job.c.seq == bindparam("job_seq"), job.c.version == bindparam("job_version")),
    )
    .on_conflict_do_nothing()
)

_given = itemgetter(*(Task._fields.index(name) for name in _GIVEN))


def add(tx: Transaction, new: Task, *, job_version: int) -> int | None:
    """Insert a new pending task if the job is still at that version; its ``seq``.

    None where the job has changed since it was read, or where the id or the idempotency key is
    taken.
    """
    return tx.insert(_INSERT, (*_given(new), new.job_seq, job_version))


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


MOST_AT_ONCE = 512
"""How many ids one statement looks up."""


@cache
def _versions(count: int) -> Statement:
    wanted = [bindparam(f"id_{n}", type_=task.c.id.type) for n in range(count)]
    return Statement(select(task.c.id, task.c.version).where(task.c.id.in_(wanted)))


def versions(tx: Transaction, ids: Collection[str]) -> dict[str, int]:
    """The row version of each of these tasks that exists."""
    found: dict[str, int] = {}
    left = list(ids)
    while left:
        some, left = left[:MOST_AT_ONCE], left[MOST_AT_ONCE:]
        # Padded to a power of two, so that there are few different statements.
        count = 1 << (len(some) - 1).bit_length()
        some += some[-1:] * (count - len(some))
        named = {f"id_{n}": task_id for n, task_id in enumerate(some)}
        found.update(dict(tx.rows(_versions(count), **named)))
    return found


_IN_LINE = (
    _ahead.c.job_seq == bindparam("job_seq"),
    _ahead.c.status == literal("pending"),
    _ahead.c.ready == literal(1),
)


def _counted(*where: ColumnElement[bool]) -> ColumnElement[int]:
    some = select(literal(1).label("one")).where(*_IN_LINE, *where).limit(bindparam("cap"))
    return select(func.count()).select_from(some.subquery()).scalar_subquery()


_same_priority = _ahead.c.priority == bindparam("priority")
_same_turn = _ahead.c.turn == bindparam("turn")
# Three ranges of the index instead of a comparison of each entry: half the price.
_POSITION = Statement(
    select(
        _counted(_ahead.c.priority > bindparam("priority"))
        + _counted(_same_priority, _ahead.c.turn < bindparam("turn"))
        + _counted(_same_priority, _same_turn, _ahead.c.seq < bindparam("seq"))
    )
)
MOST_PLACES = 1000
"""Nobody is told a later place in the queue than this one."""


def queue_position(tx: Transaction, of: Task, *, cap: int = MOST_PLACES) -> int | None:
    """1-based place of a claimable task among those of its job, at most ``cap``; else None."""
    if of.status != "pending" or not of.ready:
        return None
    ahead = tx.rows(
        _POSITION,
        job_seq=of.job_seq,
        priority=of.priority,
        turn=of.turn,
        seq=of.seq,
        cap=cap,
    )[0][0]
    return min(int(ahead) + 1, cap)


_LINE = Statement(
    select(_ahead.c.seq)
    .where(*_IN_LINE)
    .order_by(_ahead.c.priority.desc(), _ahead.c.turn, _ahead.c.seq)
    .limit(bindparam("cap"))
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
