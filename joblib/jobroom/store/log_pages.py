"""Pages of a task's log, with what is to be known of the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import BigInteger, and_, bindparam, func, select

from jobroom.store.edges import KEY
from jobroom.store.planned import Dependency
from jobroom.store.schema import task, task_log, worker
from jobroom.store.statement import Statement, literal
from jobroom.store.task_logs import WANTED, end_of

if TYPE_CHECKING:
    from sqlalchemy import Select

    from jobroom.store.transaction import Transaction

ROWS_OF_A_PAGE = 1000
"""Of pieces that are smaller than they need be an answer has no more."""
_BEYOND_ALL = literal(2**62)


class Kept(NamedTuple):
    """A part of a log, with what is to be known of its task; ``reach`` is where the log ends."""

    task: Dependency
    newest: int
    version: int
    attempt: int
    reach: int
    pieces: list[tuple[int, str]]


_HOLDER = (
    select(worker.c.identity)
    .where(worker.c.id == task.c.worker_id)
    .correlate(task)
    .scalar_subquery()
)


def _read() -> Select[Any]:
    last = task_log.alias("last_shown")
    # The piece in which the page ends; those behind it may be as many megabytes as there are.
    last_upto = (
        select(last.c.upto)
        .where(
            last.c.task_seq == task.c.seq,
            last.c.attempt == WANTED,
            last.c.upto >= bindparam("log_until", type_=BigInteger),
        )
        .order_by(last.c.upto)
        .limit(literal(1))
        .correlate(task)
        .scalar_subquery()
    )
    is_shown = and_(
        task_log.c.task_seq == task.c.seq,
        task_log.c.attempt == WANTED,
        task_log.c.upto > bindparam("log_from", type_=BigInteger),
        task_log.c.upto <= func.coalesce(last_upto, _BEYOND_ALL),
    )
    return (
        select(
            task.c.id,
            task.c.status,
            task.c.room_id,
            task.c.created_by_id,
            _HOLDER,
            task.c.attempt,
            task.c.version,
            WANTED,
            end_of(WANTED),
            task_log.c.upto,
            task_log.c.text,
        )
        .select_from(task.outerjoin(task_log, is_shown))
        .where(task.c.id == KEY)
        .order_by(task_log.c.upto)
        .limit(literal(ROWS_OF_A_PAGE))
    )


_READ = Statement(_read)


def read(
    tx: Transaction, task_id: str, *, attempt: int | None, offset: int, most: int
) -> Kept | None:
    """What lies behind ``offset`` in an attempt's log, the newest's where none is named.

    As many pieces as hold ``most`` bytes, at most ``ROWS_OF_A_PAGE``.
    """
    rows = tx.rows(_READ, key=task_id, wanted=attempt, log_from=offset, log_until=offset + most)
    if not rows:
        return None
    first = rows[0]
    pieces = [(int(row[-2]), row[-1]) for row in rows if isinstance(row[-1], str)]
    newest, version, shown, end = first[5:9]
    return Kept(Dependency._make(first[:5]), newest, version, shown, end, pieces)
