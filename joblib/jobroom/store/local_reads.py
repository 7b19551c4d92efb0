"""Reading the tasks of the embedded queue: room ``@local``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import ColumnElement, Text, bindparam, case, exists, func, or_, select

from jobroom.domain.local import ROOM
from jobroom.store.local import IS_LOCAL, NAMED
from jobroom.store.schema import task
from jobroom.store.statement import Statement, literal
from jobroom.store.views import HELD

if TYPE_CHECKING:
    from jobroom.store.transaction import Transaction


class State(NamedTuple):
    """A task as the rules see it."""

    seq: int
    id: str
    key: str
    status: str
    has_dependencies: int
    has_dependents: int


_GET = Statement(
    select(
        task.c.seq,
        task.c.id,
        task.c.key,
        task.c.status,
        task.c.has_dependencies,
        task.c.has_dependents,
    ).where(*NAMED)
)


def get(tx: Transaction, task_id: str) -> State | None:
    """Find a task by its id."""
    row = tx.row(_GET, id=task_id)
    return None if row is None else State._make(row)


def _has(status: str) -> ColumnElement[bool]:
    one = task.alias(f"one_{status}")
    return exists(
        select(literal(1)).where(one.c.room_id == literal(ROOM), one.c.status == literal(status))
    )


_IS_BUSY = or_(*(_has(status) for status in ("pending", "running", "claimed")))
_IS_UNDER_WAY = Statement(select(case((or_(_IS_BUSY, _has("blocked")), literal(1)))))
_MOVES = Statement(select(case((_IS_BUSY, literal(1)))))


def is_under_way(tx: Transaction) -> bool:
    """Whether there is any task that has not ended."""
    row = tx.row(_IS_UNDER_WAY)
    return row is not None and row[0] == 1


def moves(tx: Transaction) -> bool:
    """Whether any task is ready or running."""
    row = tx.row(_MOVES)
    return row is not None and row[0] == 1


_HELD_BY = Statement(
    select(task.c.id, task.c.key)
    .where(task.c.worker_id == bindparam("worker_id"), HELD, IS_LOCAL)
    .order_by(task.c.seq)
)


def held_by(tx: Transaction, worker_id: str) -> list[tuple[str, str]]:
    """What a worker runs: id and name, in order of insertion."""
    return [(row[0], _name(*row)) for row in tx.rows(_HELD_BY, worker_id=worker_id)]


class Said(NamedTuple):
    """What is known of a task: its status, and what was said of it."""

    name: str
    status: str
    failed_by: str | None
    error: str | None
    message: str | None


_SAID = (task.c.id, task.c.key, task.c.status, task.c.failed_by, task.c.error, task.c.message)
_SAID_OF = Statement(select(*_SAID).where(*NAMED))
_IN_STATUS = (IS_LOCAL, task.c.status == bindparam("status", type_=Text))
_SAID_IN = Statement(select(*_SAID).where(*_IN_STATUS))
_NAMES_IN = Statement(select(task.c.id, task.c.key).where(*_IN_STATUS))
_COUNT = Statement(select(task.c.status, func.count()).where(IS_LOCAL).group_by(task.c.status))


def said_of(tx: Transaction, task_id: str) -> Said | None:
    """What is known of a task."""
    row = tx.row(_SAID_OF, id=task_id)
    return None if row is None else Said(_name(row[0], row[1]), *row[2:])


def said_in(tx: Transaction, status: str) -> list[Said]:
    """What is known of all tasks of a status."""
    rows = tx.rows(_SAID_IN, status=status)
    return [Said(_name(task_id, key), *said) for task_id, key, *said in rows]


def names_in(tx: Transaction, status: str) -> list[str]:
    """The names of all tasks of a status, as they were given."""
    return [_name(*row) for row in tx.rows(_NAMES_IN, status=status)]


def _name(task_id: str, key: object) -> str:
    # Of a damaged row, which must not keep the others from being listed, the id is left.
    return key if isinstance(key, str) else task_id


def count(tx: Transaction) -> dict[str, int]:
    """How many tasks there are in each status."""
    return {row[0]: row[1] for row in tx.rows(_COUNT)}
