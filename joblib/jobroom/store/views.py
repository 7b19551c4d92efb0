"""What every statement on tasks is made of: the columns read, and the words of the conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Text,
    bindparam,
    case,
    cast,
    exists,
    func,
    literal_column,
    not_,
    or_,
    select,
)

from jobroom.domain.records import Task, TaskView
from jobroom.store.functions import byte_length, is_json
from jobroom.store.schema import job, task, worker
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement

    from jobroom.store.transaction import Row, Transaction

NULL = func.nullif(literal(1), literal(1))
SECOND = literal(1_000_000)

JOB_NAME = (
    select(job.c.room_id + literal(":") + job.c.category + literal(":") + job.c.name)
    .where(job.c.seq == task.c.job_seq)
    .correlate(task)
    .scalar_subquery()
)
VIEW = (*task.c, JOB_NAME)
_SOUND_JOB_NAME = (
    select(job.c.room_id + literal(":") + job.c.category + literal(":") + job.c.name)
    .where(
        job.c.seq == task.c.job_seq,
        # Spelled out: in RETURNING the compiler drops tables, and a job has such a column too.
        literal_column("task.schema_version").between(literal(1), job.c.schema_version),
        is_json(task.c.payload),
    )
    .correlate(task)
    .scalar_subquery()
)
SOUND_VIEW = (*task.c, _SOUND_JOB_NAME)
"""As ``VIEW``, but without a job name where the payload is no JSON or the schema is unknown."""
LIST_LIMIT_BYTES = 4096


def _if_short(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((byte_length(column) <= literal(LIST_LIMIT_BYTES), column))


def _size_if_long(column: ColumnElement[Any]) -> ColumnElement[int]:
    size = byte_length(column)
    return case((size > literal(LIST_LIMIT_BYTES), size), else_=literal(0))


_SHORT = {
    "payload": func.coalesce(_if_short(task.c.payload), literal("")),
    "result": _if_short(task.c.result),
}
LISTED = (
    *(_SHORT.get(column.name, column) for column in task.c),
    JOB_NAME,
    _size_if_long(task.c.payload),
    _size_if_long(task.c.result),
)
"""As ``VIEW``, without a payload or result over 4 KiB: a page of results could be gigabytes.

The store still walks them to know their size, one at a time.
"""
HOLDER_HEARD = (
    select(worker.c.last_heartbeat)
    # The cast changes nothing, but without it SQLite scans the table where this is in RETURNING.
    .where(worker.c.id == cast(task.c.worker_id, Text))
    .correlate(task)
    .scalar_subquery()
)
IS_THERE = exists(
    select(literal(1)).where(
        worker.c.id == bindparam("worker_id"),
        worker.c.state == literal("active"),
        worker.c.identity == bindparam("identity"),
    )
)
"""The worker that a claim names is active, and the caller's own."""
_served = task.alias("served")
IS_NO_REPEAT = or_(
    bindparam("repeat_of", type_=Text).is_(None),
    not_(
        exists(
            select(literal(1)).where(
                _served.c.worker_id == bindparam("worker_id"),
                _served.c.status.in_([literal("claimed"), literal("running")]),
                _served.c.claim_request_id == bindparam("repeat_of"),
            )
        )
    ),
)
"""The worker holds nothing that an earlier claim with this request id has brought it.

To tell, the store reads all that the worker holds; ``repeat_of`` NULL: there was no such claim.
"""
TIME = bindparam("now", type_=BigInteger)
"""The time that a statement went by, told with its rows."""
HELD = task.c.status.in_([literal("claimed"), literal("running")])
UNFINISHED = task.c.status.in_(
    [literal("blocked"), literal("pending"), literal("claimed"), literal("running")]
)
NEXT_VERSION = task.c.version + literal(1)


def view(row: Sequence[Any]) -> TaskView:
    """A row of ``VIEW`` as a record."""
    return TaskView(Task._make(row[:-1]), row[-1])


def listed(row: Row) -> TaskView:
    """A row of ``LISTED`` as a record."""
    return TaskView(Task._make(row[:-3]), row[-3], payload_bytes=row[-2], result_bytes=row[-1])


def changed(tx: Transaction, statement: Statement, **params: Any) -> TaskView | None:
    """Run a guarded change of one task; the task after it, or None if the guard did not hold."""
    rows = tx.returning(statement, **params)
    if not rows:
        return None
    found = view(rows[0])
    tx.changed.append(found.task)
    return found


def changed_of_holder(
    tx: Transaction,
    statement: Statement,
    *,
    alone: bool = True,
    locks: Sequence[Statement] = (),
    sparing: Sequence[Statement] = (),
    **params: Any,
) -> tuple[TaskView, int | None] | None:
    """As ``changed``, for a statement that returns ``HOLDER_HEARD`` and ``TIME`` beside the task.

    With ``alone`` nothing that must be kept together with it follows (``Transaction.alone``).
    """
    if alone:
        rows = tx.alone(statement, locks=locks, sparing=sparing, **params)
    else:
        rows = tx.returning(statement, **params)
    if not rows:
        return None
    row = rows[0]
    tx.learn(row[-1])
    found = view(row[:-2])
    tx.changed.append(found.task)
    return found, row[-2]


def after(seconds: ColumnElement[Any]) -> ColumnElement[Any]:
    """The time so many seconds after the parameter ``now``."""
    return bindparam("now", type_=BigInteger) + cast(seconds * SECOND, BigInteger)
