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
from jobroom.domain.sizes import SHOWN_DEPENDENCIES, SHOWN_TEXT_BYTES
from jobroom.store.functions import byte_length, is_json, json_row, json_rows, with_tables
from jobroom.store.schema import edge, job, task, worker
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
MOST_EDGES = 1000
"""How many dependencies of a task are shown beside it; its graph has all."""
_edge = edge.alias("needed")
_dependency = task.alias("dependency")
_job = job.alias("dependency_job")
_its_job_name = (
    select(_job.c.room_id + literal(":") + _job.c.category + literal(":") + _job.c.name)
    .where(_job.c.seq == _dependency.c.job_seq)
    .correlate(_dependency)
    .scalar_subquery()
)
_told = (_edge.c.dependency_id, _edge.c.condition, _edge.c.state)
# Who reads a task need not see the rooms of those that it depends on.
_is_seen = _dependency.c.room_id == task.c.room_id
# Looked up for each edge: of a join PostgreSQL may make one that reads all tasks.
_known = (
    select(
        json_row(
            *_told,
            case((_is_seen, func.coalesce(_dependency.c.key, _edge.c.name))),
            case((_is_seen, _its_job_name)),
            case((_is_seen, _dependency.c.status)),
        )
    )
    .where(_dependency.c.id == _edge.c.dependency_id)
    .correlate(_edge, task)
    .scalar_subquery()
)


def _edges(most: int) -> ColumnElement[str]:
    needed = func.coalesce(_known, json_row(*_told, _edge.c.name, NULL, NULL))
    # Not in the order of the key, which a planner may take for an index to find them by.
    dependency_id = _edge.c.dependency_id.concat(literal("")).label("dependency_id")
    needs = (
        select(needed.label("needed"), dependency_id)
        .where(_edge.c.dependent_seq == task.c.seq)
        # Of too many those that are waited for are told.
        .order_by(
            case((_edge.c.state == literal("waiting"), literal(0)), else_=literal(1)),
            dependency_id,
        )
        .limit(literal(most))
        .correlate(task)
        .subquery("needs")
    )
    ordered = select(needs.c.needed).order_by(needs.c.dependency_id).subquery("ordered")
    has_some = task.c.has_dependencies == literal(1)
    shown = select(json_rows(ordered.c.needed)).correlate(task).scalar_subquery()
    return with_tables(case((has_some, shown)))


EDGES = _edges(MOST_EDGES)
"""What a task depends on (``TaskView.edges``); most depend on nothing."""
VIEW = (*task.c, JOB_NAME, EDGES)
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
SOUND_VIEW = (*task.c, _SOUND_JOB_NAME, EDGES)
"""As ``VIEW``, but without a job name where the payload is no JSON or the schema is unknown."""
LIST_LIMIT_BYTES = 4096
_how_many = (
    select(func.count())
    .select_from(_edge)
    .where(_edge.c.dependent_seq == task.c.seq)
    .correlate(task)
    .scalar_subquery()
)


def _if_short(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((byte_length(column) <= literal(LIST_LIMIT_BYTES), column))


def beginning(column: ColumnElement[Any]) -> ColumnElement[str]:
    """As much of a text as a list shows; a character more, or a few, for who cuts it to bytes."""
    return func.substr(column, literal(1), literal(SHOWN_TEXT_BYTES))


def size_if_long(column: ColumnElement[Any], limit: int = SHOWN_TEXT_BYTES) -> ColumnElement[int]:
    """How many bytes a text has that a list does not show whole; 0 for others."""
    size = byte_length(column)
    return case((size > literal(limit), size), else_=literal(0))


_SHORT = {
    "error": beginning(task.c.error),
    "message": beginning(task.c.message),
    "payload": func.coalesce(_if_short(task.c.payload), literal("")),
    "result": _if_short(task.c.result),
}
LISTED = (
    *(_SHORT.get(column.name, column) for column in task.c),
    JOB_NAME,
    _edges(SHOWN_DEPENDENCIES),
    size_if_long(task.c.payload, LIST_LIMIT_BYTES),
    size_if_long(task.c.result, LIST_LIMIT_BYTES),
    case((task.c.has_dependencies == literal(1), _how_many), else_=literal(0)),
    size_if_long(task.c.error),
    size_if_long(task.c.message),
)
"""As ``VIEW``, without a payload or result over 4 KiB: a page of results could be gigabytes.

The store still walks them to know their size, one at a time. Of many dependencies the first are
there, and how many there are.
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
    return TaskView(Task._make(row[:-2]), row[-2], row[-1])


def listed(row: Row) -> TaskView:
    """A row of ``LISTED`` as a record."""
    count = len(Task._fields)
    job_name, edges, *sizes = row[count:]
    return TaskView(Task._make(row[:count]), job_name, edges, None, None, *sizes)


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
    return noted(tx, rows[0])


def noted(tx: Transaction, row: Row) -> tuple[TaskView, int | None]:
    """What a statement of ``changed_of_holder`` has returned, told to those who wait."""
    tx.learn(row[-1])
    found = view(row[:-2])
    tx.changed.append(found.task)
    return found, row[-2]


def after(seconds: ColumnElement[Any]) -> ColumnElement[Any]:
    """The time so many seconds after the parameter ``now``."""
    return bindparam("now", type_=BigInteger) + cast(seconds * SECOND, BigInteger)
