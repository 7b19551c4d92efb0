"""Edges between tasks: settling those of a task that has ended, however far that reaches.

Settling is three statements that say what must hold, not what has just happened: run again, or
for a task that has not ended, they do nothing. They reach all the way down by recursive queries,
so a chain of any length is settled in the transaction that ends its head.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Text,
    and_,
    any_,
    bindparam,
    case,
    exists,
    func,
    not_,
    or_,
    select,
    true,
    update,
)

from jobroom.domain.records import Change
from jobroom.store.ending import ENDED
from jobroom.store.functions import ordered_join
from jobroom.store.schema import edge, task
from jobroom.store.statement import Statement, literal
from jobroom.store.views import NEXT_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import FromClause, Select, Update

    from jobroom.store.transaction import Row, Transaction

    Which = Callable[[FromClause], tuple[ColumnElement[bool], ...]]

KEY = bindparam("key", type_=Text)

LOCK = Statement(
    select(
        func.pg_advisory_xact_lock(
            func.hashtextextended(
                literal("jobroom graph ").concat(func.current_schema(type_=Text)), literal(0)
            )
        )
    )
)
"""Edges are added and settled by one transaction at a time: else one may not see the other's."""


def lock(tx: Transaction) -> None:
    """Be the only one that adds or settles edges, where others write beside us."""
    tx.lock(LOCK)


def says(column: ColumnElement[str], word: str) -> ColumnElement[bool]:
    """That a column says so, spelled so that no index of PostgreSQL's has it.

    Its plans may be made while a table is empty, when one index is as good as another; and what
    was searched for a word would later be read from one end to the other.
    """
    return column.concat(literal("")) == literal(word)


# --- what an end means for the edges that lead to it ------------------------------------------

_ender = task.alias("ender")
_HAS_ENDED = (_ender.c.id == KEY, _ender.c.completed_at.is_not(None))
_has_completed = exists(
    select(literal(1)).where(_ender.c.id == KEY, says(_ender.c.status, "completed"))
)
_is_ok = and_(edge.c.dependency_id == KEY, _has_completed)
_IS_MET = or_(
    edge.c.condition == literal("afterany"),
    and_(edge.c.condition == literal("afterok"), _is_ok),
    and_(edge.c.condition == literal("afternotok"), not_(_is_ok)),
)


def _leads(reached: CTE, column: ColumnElement[str], word: str) -> ColumnElement[bool]:
    """As ``says``, of a row that was found by what is reached.

    Said of the row alone, SQLite would first read the whole table for a filter of its own making.
    """
    return case((reached.c.id.is_not(None), column)) == literal(word)


def _down_from(
    reached: CTE, edge_is: Which, task_is: Which, *, singly: bool
) -> tuple[FromClause, FromClause]:
    """What is reached, joined to the edges that lead on from it and to the tasks at their ends.

    ``singly``: looked up one by one; PostgreSQL would else join whole tables in each round.
    """
    way, end = edge.alias("way"), task.alias("end_of_way")
    leads_on = (way.c.dependency_id == reached.c.id, *edge_is(way))
    if not singly:
        ends = (end.c.seq == way.c.dependent_seq, *task_is(end))
        return ordered_join(ordered_join(reached, way, and_(*leads_on)), end, and_(*ends)), end
    ways = looked_up(way, *leads_on)
    found = looked_up(end, end.c.seq == ways.c.dependent_seq, *task_is(end))
    return reached.join(ways, true()).join(found, true()), found


def looked_up(what: FromClause, *conditions: ColumnElement[bool]) -> FromClause:
    """What is joined by these conditions, looked up for each row on its own, by PostgreSQL."""
    return select(what).where(*conditions).offset(literal(0)).lateral()


def among(column: ColumnElement[Any], found: Select[Any], *, singly: bool) -> ColumnElement[bool]:
    """That a value is among those found; ``singly``: each of them is looked up by the index."""
    if singly:
        return column == any_(func.array(found.scalar_subquery()))
    return column.in_(found)


def _settle(*, singly: bool) -> Update:
    """Settle the edges of the task that has ended, and of all those that fail because of it."""
    is_ok = case((_ender.c.status == literal("completed"), literal(1)), else_=literal(0))
    first = select(_ender.c.id, is_ok.label("is_ok")).where(*_HAS_ENDED)
    ending = first.cte("ending", recursive=True)

    def breaks(way: FromClause) -> tuple[ColumnElement[bool], ...]:
        breaking = or_(
            and_(way.c.condition == literal("afterok"), ending.c.is_ok == literal(0)),
            and_(way.c.condition == literal("afternotok"), ending.c.is_ok == literal(1)),
        )
        return _leads(ending, way.c.state, "waiting"), breaking

    joined, end = _down_from(
        ending, breaks, lambda end: (_leads(ending, end.c.status, "blocked"),), singly=singly
    )
    # What fails because of it has not completed.
    ending = ending.union(select(end.c.id, literal(0)).select_from(joined))
    return (
        update(edge)
        .where(
            says(edge.c.state, "waiting"),
            among(edge.c.dependency_id, select(ending.c.id), singly=singly),
        )
        .values(state=case((_IS_MET, literal("met")), else_=literal("broken")))
    )


_broken = edge.alias("broken")
FAILED_BY = (
    # Of several always the same one; and not the first of the key, which is in no order of use.
    select(func.min(_broken.c.dependency_id.concat(literal(""))))
    .where(_broken.c.dependent_seq == task.c.seq, _broken.c.state == literal("broken"))
    .correlate(task)
    .scalar_subquery()
)
_cause = task.alias("cause")
_STATUS_OF_CAUSE = (
    select(_cause.c.status).where(_cause.c.id == FAILED_BY).correlate(task).scalar_subquery()
)
STORY = (
    literal("dependency ")
    .concat(FAILED_BY)
    .concat(
        case(
            (literal("cancelled") == _STATUS_OF_CAUSE, literal(" was cancelled")),
            (literal("completed") == _STATUS_OF_CAUSE, literal(" completed, and was to fail")),
            # Of those that fail now none has its new status yet.
            else_=literal(" failed"),
        )
    )
)
_TOLD = (task.c.id, task.c.version)


def _fail(*, singly: bool) -> Update:
    """Fail what waits in vain: a broken edge leads to it from the task that has ended."""
    breaking = select(_ender.c.id, _ender.c.seq).where(*_HAS_ENDED).cte("breaking", recursive=True)
    joined, end = _down_from(
        breaking,
        lambda way: (_leads(breaking, way.c.state, "broken"),),
        lambda end: (_leads(breaking, end.c.status, "blocked"),),
        singly=singly,
    )
    breaking = breaking.union(select(end.c.id, end.c.seq).select_from(joined))
    return (
        update(task)
        .where(
            says(task.c.status, "blocked"),
            among(task.c.seq, select(breaking.c.seq), singly=singly),
        )
        .values(
            status=literal("failed"),
            failed_by=FAILED_BY,
            error=STORY,
            version=NEXT_VERSION,
            **ENDED,
        )
    )


def _waiting(*, singly: bool) -> ColumnElement[bool]:
    """Tasks that depend on the one that has ended, or on one that failed because of it."""
    fallen = select(_ender.c.id).where(*_HAS_ENDED).cte("fallen", recursive=True)
    joined, end = _down_from(
        fallen,
        lambda way: (_leads(fallen, way.c.state, "broken"),),
        lambda end: (_leads(fallen, end.c.status, "failed"), end.c.failed_by == fallen.c.id),
        singly=singly,
    )
    fallen = fallen.union(select(end.c.id).select_from(joined))
    joined, end = _down_from(
        fallen,
        lambda way: (_leads(fallen, way.c.state, "met"),),
        lambda end: (_leads(fallen, end.c.status, "blocked"),),
        singly=singly,
    )
    return among(task.c.seq, select(end.c.seq).select_from(joined), singly=singly)


_open = edge.alias("open")
IS_FREE = (
    # Not EXISTS: PostgreSQL may make a join of it, which reads all that waits.
    select(literal(1))
    .where(_open.c.dependent_seq == task.c.seq, _open.c.state == literal("waiting"))
    .limit(literal(1))
    .correlate(task)
    .scalar_subquery()
    .is_(None)
)
"""Nothing that the task depends on has still to end; what is broken has failed it before."""
IS_DUE_BY_NOW = case((task.c.run_at > bindparam("now"), literal(0)), else_=literal(1))


def _promote(*, singly: bool) -> Update:
    """Let go on what now waits for nothing any more."""
    return (
        update(task)
        .where(says(task.c.status, "blocked"), _waiting(singly=singly), IS_FREE)
        .values(status=literal("pending"), ready=IS_DUE_BY_NOW, version=NEXT_VERSION)
    )


_SETTLE = Statement(partial(_settle, singly=False), postgresql=partial(_settle, singly=True))
_FAIL = Statement(
    lambda: _fail(singly=False).returning(*_TOLD),
    postgresql=lambda: _fail(singly=True).returning(*_TOLD),
)
_GONE_ON = (*_TOLD, task.c.job_seq, task.c.ready)
_PROMOTE = Statement(
    lambda: _promote(singly=False).returning(*_GONE_ON),
    postgresql=lambda: _promote(singly=True).returning(*_GONE_ON),
)
SETTLING = (_SETTLE, _FAIL, _PROMOTE)


def settle(tx: Transaction, task_id: str) -> None:
    """Settle the edges of a task that has ended: those that wait for it fail or go on."""
    lock(tx)
    answers = tx.together(*SETTLING, key=task_id, retention=tx.settings.task_retention_seconds)
    note_settled(tx, answers)


def note_settled(tx: Transaction, answers: Sequence[Sequence[Row]]) -> None:
    """Tell those who wait what ``SETTLING`` has changed."""
    _, failed, promoted = answers
    tx.changed += (Change._make(row[:2]) for row in (*failed, *promoted))
    tx.fallen += len(failed)
    tx.claimable.update(dict.fromkeys(job_seq for *_, job_seq, ready in promoted if ready))
