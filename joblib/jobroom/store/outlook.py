"""What there is to claim, and when there will be: asked for many who wait by one statement."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import and_, bindparam, exists, or_, select

from jobroom.store import line
from jobroom.store.chunks import MOST_AT_ONCE
from jobroom.store.schema import job, task, worker, worker_job_link
from jobroom.store.statement import Statement, literal
from jobroom.store.views import TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from sqlalchemy import Column, ColumnElement, ScalarSelect

    from jobroom.store.transaction import Row, Transaction


class Outlook(NamedTuple):
    """The jobs that have something to claim, and in how many seconds another one will."""

    ready: list[int]
    seconds: float | None


_ahead = task.alias("ahead")
_delayed = task.alias("delayed")


def _first_ready(job_seq: Column[Any]) -> ScalarSelect[int]:
    return (
        line.in_order(_ahead, job_seq, _ahead.c.seq)
        .limit(literal(1))
        .correlate(job_seq.table)
        .scalar_subquery()
    )


def _next_due(job_seq: Column[Any]) -> ScalarSelect[int]:
    return (
        select(_delayed.c.run_at)
        .where(*line.delayed(_delayed, job_seq))
        .order_by(_delayed.c.run_at)
        .limit(literal(1))
        .correlate(job_seq.table)
        .scalar_subquery()
    )


def _among(column: Column[Any], count: int) -> ColumnElement[bool]:
    return column.in_([bindparam(f"key_{n}", type_=column.type) for n in range(count)])


@cache
def _of_jobs(count: int) -> Statement:
    seq = job.c.seq
    told = select(seq, _first_ready(seq), _next_due(seq), TIME)
    return Statement(told.where(_among(seq, count)))


@cache
def _of_workers(count: int) -> Statement:
    linked = worker_job_link.c.job_seq
    has_one = or_(_first_ready(linked).is_not(None), _next_due(linked) <= bindparam("now"))
    serves = and_(worker_job_link.c.worker_id == worker.c.id, has_one)
    return Statement(
        select(worker.c.id).where(
            _among(worker.c.id, count),
            exists(select(literal(1)).where(serves).correlate(worker)),
        )
    )


def _rows(tx: Transaction, of: Callable[[int], Statement], keys: Sequence[Any]) -> list[Row]:
    found: list[Row] = []
    left = list(keys)
    while left:
        some, left = left[:MOST_AT_ONCE], left[MOST_AT_ONCE:]
        # Padded to a power of two, so that there are few different statements.
        count = 1 << (len(some) - 1).bit_length()
        some += some[-1:] * (count - len(some))
        found += tx.rows(of(count), **{f"key_{n}": key for n, key in enumerate(some)})
    return found


def of_jobs(tx: Transaction, job_seqs: Sequence[int]) -> Outlook:
    """What there is in these jobs (something that has expired counts), and when more is due."""
    ready, coming = [], []
    for seq, first, due_at, now in _rows(tx, _of_jobs, job_seqs):
        if first is not None or (due_at is not None and due_at <= now):
            ready.append(seq)
        elif due_at is not None:
            coming.append((due_at - now) / 1e6)
    return Outlook(ready, min(coming, default=None))


def served(tx: Transaction, worker_ids: Sequence[str]) -> list[str]:
    """Those of the workers for whom there is something (or something that has expired)."""
    return [row[0] for row in _rows(tx, _of_workers, worker_ids)]
