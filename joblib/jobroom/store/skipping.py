"""The best task that nobody else holds at this moment: how PostgreSQL is asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, exists, func, not_, select, true, union_all

from jobroom.store import bounds, line
from jobroom.store.schema import task, worker_job_link
from jobroom.store.statement import literal
from jobroom.store.views import IS_NO_REPEAT, IS_THERE

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.sql.expression import ScalarSelect
    from sqlalchemy.sql.selectable import NamedFromClause

_NEAR = 16
"""How many tasks that others hold just now a claim passes over, at most."""


def _next_ones(one: NamedFromClause[Any], job_seq: ColumnElement[int], most: int) -> Select[Any]:
    """What claims take next of a job, in their order."""
    found = line.in_order(one, job_seq, one.c.seq, one.c.priority, one.c.turn)
    return found.limit(literal(most))


def free(*, bound: bool, plain: bool) -> ScalarSelect[int]:
    """The best task of the worker's jobs that nobody else holds at this moment, locked.

    ``bound``: of the jobs of the token's rooms. ``plain``: none where a guard of that fails.

    Nothing is locked but what is taken: whoever passed over it would break the order. So the
    first of each job are looked at without a lock, and the best one is locked. Only where another
    claim has that one do we go on, to the next ones of the jobs whose first ones are best: as many
    as can be among the next ``_NEAR`` of all. Should others hold all of these, there is no row.
    """
    first = _next_ones(task.alias("ahead"), worker_job_link.c.job_seq, 1).lateral("first")
    heads = (
        select(worker_job_link.c.job_seq, first.c.seq, first.c.priority)
        .select_from(worker_job_link.join(first, true()))
        # Where a guard fails there are no heads, and nothing is locked.
        .where(
            *bounds.links_of_worker(worker_job_link, bound=bound),
            *(_plain(bound=bound) if plain else ()),
        )
        .order_by(first.c.priority.desc(), first.c.seq)
        .limit(literal(_NEAR))
        .cte("heads")
    )
    best = select(heads.c.seq).limit(literal(1)).scalar_subquery()
    at_once = _locked(task.alias("best"), best).subquery("at_once")
    behind = _next_ones(task.alias("near"), heads.c.job_seq, _NEAR).lateral("behind")
    # In a fair job a later turn may have a lower number; it is the jobs' first ones that compare.
    place = func.max(behind.c.seq).over(
        partition_by=(heads.c.job_seq, behind.c.priority), order_by=(behind.c.turn, behind.c.seq)
    )
    merged = (
        select(behind.c.seq, behind.c.priority, behind.c.turn, place.label("place"))
        .select_from(heads.join(behind, true()))
        .subquery("merged")
    )
    near = (
        select(merged.c.seq, merged.c.priority, merged.c.place, merged.c.turn)
        .order_by(merged.c.priority.desc(), merged.c.place, merged.c.turn, merged.c.seq)
        .limit(literal(_NEAR))
        .subquery("line")
    )
    free = task.alias("free")
    next_one = (
        _locked(free, near.c.seq)
        .order_by(near.c.priority.desc(), near.c.place, near.c.turn, near.c.seq)
        .limit(literal(1))
        .subquery("next_one")
    )
    both = union_all(select(at_once.c.seq), select(next_one.c.seq)).subquery("found")
    return select(both.c.seq).limit(literal(1)).scalar_subquery()


def _locked(one: NamedFromClause[Any], seq: ColumnElement[int]) -> Select[Any]:
    """A task that is still claimable and held by nobody."""
    # Spelled so that only the key has an index for it: of what waits there are other indexes, and
    # the planner would read one to its end, as its first plan is made while there is little.
    is_pending = one.c.status.concat(literal("")) == literal("pending")
    is_ready = one.c.ready + literal(0) == literal(1)
    return (
        select(one.c.seq)
        .where(one.c.seq == seq, is_pending, is_ready)
        .with_for_update(skip_locked=True, of=one)
    )


_joined = worker_job_link.alias("joined")
_due = task.alias("due")
_any_due = (
    select(literal(1).label("one"))
    .where(*line.due(_due, _joined.c.job_seq))
    .correlate(_joined)
    .limit(literal(1))  # or the planner may read through all that is delayed
    .lateral("any_due")
)


def _plain(*, bound: bool) -> tuple[ColumnElement[bool], ...]:
    """What ``claims`` calls plain.

    The links have a name of their own, or it would be of one job at a time.
    """
    is_due = exists(
        select(literal(1))
        .select_from(_joined.join(_any_due, true()))
        .where(*bounds.links_of_worker(_joined, bound=bound))
    )
    return IS_THERE, not_(is_due), IS_NO_REPEAT


_late = task.alias("late")
_late_of_job = (
    select(_late.c.seq)
    .where(*line.due(_late, worker_job_link.c.job_seq))
    .limit(bindparam("limit"))
    .lateral("late_of_job")
)


def due_of_worker(*, bound: bool) -> Select[Any]:
    """What has become due in the worker's jobs, looked up job by job: a join would read it all."""
    return (
        select(_late_of_job.c.seq)
        .select_from(worker_job_link.join(_late_of_job, true()))
        .where(*bounds.links_of_worker(worker_job_link, bound=bound))
        .limit(bindparam("limit"))
    )
