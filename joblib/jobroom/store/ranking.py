"""The best task of a worker's jobs in few rows: how libSQL is asked for it, where they are billed.

A rank is a text that sorts as claims do. So the best one is a minimum over what the index holds:
no row is looked up, and none sorted. In a file's own process that takes longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Integer, case, cast, exists, func, select

from jobroom.store import bounds, line
from jobroom.store.schema import task, worker_job_link
from jobroom.store.statement import literal
from jobroom.store.views import IS_NO_REPEAT, IS_THERE

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

_DIGITS = 10
_HIGHEST = 2**31 - 1
_NONE = "-"
"""Sorts before all ranks, and names no task."""

_ahead = task.alias("ahead")
_rank = func.printf(literal(f"%0{_DIGITS}d%d"), literal(_HIGHEST) - _ahead.c.priority, _ahead.c.seq)
_first_rank = (
    line.in_order(_ahead, worker_job_link.c.job_seq, _rank)
    .limit(literal(1))
    .correlate(worker_job_link)
    .scalar_subquery()
)
_due = task.alias("due")
_is_due = exists(
    select(literal(1)).where(*line.due(_due, worker_job_link.c.job_seq)).correlate(worker_job_link)
)


def best(*, bound: bool, unless_due: bool) -> ColumnElement[int]:
    """The number of the best task; NULL where there is none.

    ``bound``: of the jobs of the token's rooms. ``unless_due``: none as well where something has
    just become due.
    """
    rank = case((_is_due, literal(_NONE)), else_=_first_rank) if unless_due else _first_rank
    return (
        select(cast(func.substr(func.min(rank), literal(_DIGITS + 1)), Integer))
        .where(*bounds.links_of_worker(worker_job_link, bound=bound))
        .scalar_subquery()
    )


PLAIN = (IS_THERE, IS_NO_REPEAT)
"""What ``claims`` calls plain, beside ``best`` with ``unless_due``."""
