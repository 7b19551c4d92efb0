"""What every statement on tasks is made of: the columns read, and the words of the conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, bindparam, cast, func, select

from jobroom.domain.records import Task, TaskView
from jobroom.store.schema import job, task
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
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
HELD = task.c.status.in_([literal("claimed"), literal("running")])
UNFINISHED = task.c.status.in_(
    [literal("blocked"), literal("pending"), literal("claimed"), literal("running")]
)
NEXT_VERSION = task.c.version + literal(1)


def view(row: Row) -> TaskView:
    """A row of ``VIEW`` as a record."""
    return TaskView(Task._make(row[:-1]), row[-1])


def changed(tx: Transaction, statement: Statement, **params: object) -> TaskView | None:
    """Run a guarded change of one task; the task after it, or None if the guard did not hold."""
    rows = tx.returning(statement, **params)
    if not rows:
        return None
    found = view(rows[0])
    tx.changed.append(found.task)
    return found


def after(seconds: ColumnElement[Any]) -> ColumnElement[Any]:
    """The time so many seconds after the parameter ``now``."""
    return bindparam("now", type_=BigInteger) + cast(seconds * SECOND, BigInteger)
