"""Edges of the embedded queue's tasks: what REST has no need of.

A task may be named before it comes, hand its dependents on to the tasks that it submits, and be
queued again when it has ended.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    bindparam,
    case,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.domain.graph import Condition, Need
from jobroom.domain.records import Change
from jobroom.store import chunks, edges
from jobroom.store.schema import edge, task
from jobroom.store.statement import Statement, literal
from jobroom.store.views import NEXT_VERSION

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import CTE

    from jobroom.store.transaction import Transaction

_ID = bindparam("id", type_=Text)
_KEY = bindparam("key", type_=Text)
_PARENT = bindparam("parent", type_=Text)
_WAITS = edge.c.state == literal("waiting")

# --- what a task that is to come depends on ---------------------------------------------------


class Needed(NamedTuple):
    """What a new task may depend on; ``is_named``: whether others wait for the new one by name."""

    id: str
    status: str
    has_dependents: int
    is_named: int


@cache
def _find(count: int) -> Statement:
    is_named = exists(select(literal(1)).where(edge.c.dependency_id == _ID))
    return Statement(
        select(
            task.c.id,
            task.c.status,
            task.c.has_dependents,
            case((is_named, literal(1)), else_=literal(0)),
        ).where(chunks.named(count))
    )


def find(tx: Transaction, task_id: str, needed: Collection[str]) -> dict[str, Needed]:
    """Those of the tasks that there are, for one that is to come: itself, and what it needs."""
    found: dict[str, Needed] = {}
    for count, named in chunks.of_ids({task_id, *needed}):
        rows = tx.rows(_find(count), id=task_id, **named)
        found.update((row[0], Needed._make(row)) for row in rows)
    return found


_ADD_EDGE = Statement(
    insert(edge).values(
        dependency_id=bindparam("dependency_id"),
        dependent_seq=bindparam("dependent_seq"),
        condition=bindparam("condition"),
        state=bindparam("state"),
        name=bindparam("name"),
    )
)


def add_edges(tx: Transaction, seq: int, needs: Collection[Need]) -> None:
    """Add what a new task depends on; each dependency once."""
    for need in needs:
        tx.later(
            _ADD_EDGE,
            dependency_id=need.dependency_id,
            dependent_seq=seq,
            condition=need.condition,
            state=str(need.state),
            name=need.name,
        )


_MEET = Statement(
    update(edge).where(edge.c.dependency_id == _KEY, _WAITS).values(state=literal("met"))
)
_GO_ON = Statement(
    update(task)
    .where(
        task.c.seq.in_(
            select(edge.c.dependent_seq).where(
                edge.c.dependency_id == _KEY, edge.c.state == literal("met")
            )
        ),
        task.c.status.concat(literal("")) == literal("blocked"),
        edges.IS_FREE,
    )
    .values(status=literal("pending"), ready=edges.IS_DUE_BY_NOW, version=NEXT_VERSION)
    .returning(task.c.id, task.c.version, task.c.job_seq, task.c.ready)
)


def meet(tx: Transaction, task_id: str) -> None:
    """Settle the edges of a task that has completed, where nothing was to run if it failed.

    As ``edges.settle``, which would look for what fails now all the way down.
    """
    tx.change(_MEET, key=task_id)
    edges.note_settled(tx, ((), (), tx.returning(_GO_ON, key=task_id)))


# --- what a task that is to come would be waited for by ---------------------------------------

_of_parent = edge.alias("of_parent")
_heir = task.alias("heir")
_HEIRS = _of_parent.join(_heir, _heir.c.seq == _of_parent.c.dependent_seq)
_MAY_WAIT = or_(_heir.c.status == literal("blocked"), _heir.c.status == literal("pending"))
_INHERITED = (_of_parent.c.dependency_id == _PARENT, _MAY_WAIT)
_HAS_RUN = or_(
    _heir.c.status == literal("running"),
    _heir.c.status == literal("claimed"),
    _heir.c.status == literal("completed"),
    and_(_heir.c.completed_at.is_not(None), _heir.c.attempt > literal(0)),
)
_HAS_HEIRS = Statement(select(literal(1)).select_from(_HEIRS).where(*_INHERITED).limit(literal(1)))
_RAN = Statement(
    select(_heir.c.key, _heir.c.id)
    .select_from(_HEIRS)
    .where(_of_parent.c.dependency_id == _PARENT, _HAS_RUN)
    .limit(literal(1))
)


def has_heirs(tx: Transaction, parent: str) -> bool:
    """Whether anybody would wait for a task that is to come because of its parent."""
    return tx.row(_HAS_HEIRS, parent=parent) is not None


def heir_that_ran(tx: Transaction, parent: str) -> str | None:
    """The name of a dependent of the parent that runs or has run; None if none has."""
    row = tx.row(_RAN, parent=parent)
    return None if row is None else str(row[0] or row[1])


_INHERIT = Statement(
    upsert(edge)
    .from_select(
        ["dependency_id", "dependent_seq", "condition", "state"],
        select(_ID, _of_parent.c.dependent_seq, _of_parent.c.condition, literal("waiting"))
        .select_from(_HEIRS)
        .where(*_INHERITED),
    )
    # Whoever names the task itself keeps its own condition.
    .on_conflict_do_nothing()
)
_OF_THIS = task.c.seq.in_(select(edge.c.dependent_seq).where(edge.c.dependency_id == _ID, _WAITS))
_HOLD_BACK = Statement(
    update(task)
    .where(task.c.status == literal("pending"), _OF_THIS)
    .values(status=literal("blocked"), version=NEXT_VERSION)
    .returning(task.c.id, task.c.version)
)
# Those that wait already are shown otherwise from now on: with what they wait for.
_TOUCH = Statement(
    update(task)
    .where(task.c.status == literal("blocked"), _OF_THIS)
    .values(version=NEXT_VERSION)
    .returning(task.c.id, task.c.version)
)


def inherit(tx: Transaction, task_id: str, *, parent: str) -> None:
    """Let all that wait for the parent, and have not begun, wait for this task as well."""
    tx.change(_INHERIT, id=task_id, parent=parent)
    _hold_back(tx, task_id)


def _hold_back(tx: Transaction, task_id: str) -> None:
    for rows in (tx.returning(_TOUCH, id=task_id), tx.returning(_HOLD_BACK, id=task_id)):
        tx.changed += map(Change._make, rows)


# --- cycles -----------------------------------------------------------------------------------


def _above(count: int) -> CTE:
    """Of some tasks those that have not begun, and all that they wait for which has not either."""
    first = (
        select(task.c.seq).where(chunks.named(count), _is_queued(task)).cte("above", recursive=True)
    )
    up, needed = edge.alias("up"), task.alias("needed")
    return first.union(
        select(needed.c.seq)
        .select_from(
            first.join(up, up.c.dependent_seq == first.c.seq).join(
                needed, needed.c.id == up.c.dependency_id
            )
        )
        .where(up.c.state == literal("waiting"), _is_queued(needed))
    )


def _is_queued(one: Any) -> ColumnElement[bool]:
    return or_(one.c.status == literal("blocked"), one.c.status == literal("pending"))


@cache
def _edges_above(count: int, *, dependency: str | None) -> Statement:
    """The edges of those above, or only those that lead to the new task, or to its parent."""
    above = _above(count)
    found = select(task.c.id, task.c.key, edge.c.dependency_id).select_from(
        above.join(edge, edge.c.dependent_seq == above.c.seq).join(task, task.c.seq == above.c.seq)
    )
    if dependency is None:
        return Statement(found.where(_WAITS))
    return Statement(
        found.where(edge.c.dependency_id == bindparam(dependency, type_=Text)).limit(literal(1))
    )


def depends_on_new(
    tx: Transaction, task_id: str, *, parent: str | None, needed: Collection[str]
) -> bool:
    """Whether any of these tasks would wait for one that is to come, through however many others.

    It would if it names that task, or waits for the parent, whose dependents it gets.
    """
    for count, named in chunks.of_ids(needed):
        if tx.row(_edges_above(count, dependency="id"), id=task_id, **named):
            return True
        if parent and tx.row(_edges_above(count, dependency="parent"), parent=parent, **named):
            return True
    return False


class Link(NamedTuple):
    """An edge: who depends on whom, and the name of who does."""

    dependent_id: str
    key: str | None
    dependency_id: str


def links_above(tx: Transaction, needed: Collection[str]) -> list[Link]:
    """The edges of these tasks, and of all those that they wait for."""
    return [
        Link._make(row)
        for count, named in chunks.of_ids(needed)
        for row in tx.rows(_edges_above(count, dependency=None), **named)
    ]


_HEIR_NAMES = Statement(select(_heir.c.id, _heir.c.key, _ID).select_from(_HEIRS).where(*_INHERITED))


def links_of_heirs(tx: Transaction, task_id: str, *, parent: str) -> list[Link]:
    """The edges that a task which is to come would inherit."""
    return [Link._make(row) for row in tx.rows(_HEIR_NAMES, id=task_id, parent=parent)]


# --- queued again -----------------------------------------------------------------------------

_dependency = task.alias("dependency")
_is_ok = case(
    (_dependency.c.status == literal("completed"), literal("afterok")), else_=literal("afternotok")
)
_STANDS = (
    select(
        case(
            (_dependency.c.completed_at.is_(None), literal("waiting")),
            (edge.c.condition == literal("afterany"), literal("met")),
            (edge.c.condition == _is_ok, literal("met")),
            else_=literal("broken"),
        )
    )
    .where(_dependency.c.id == edge.c.dependency_id)
    .correlate(edge)
    .scalar_subquery()
)
_JUDGE = Statement(
    update(edge)
    .where(edge.c.dependent_seq == bindparam("seq"))
    .values(state=func.coalesce(_STANDS, literal("waiting")))
)
_BROKEN = Statement(
    select(edge.c.dependency_id, _dependency.c.status)
    .select_from(edge.join(_dependency, _dependency.c.id == edge.c.dependency_id))
    .where(edge.c.dependent_seq == bindparam("seq"), edge.c.state == literal("broken"))
    .limit(literal(1))
)
_WAITING = Statement(
    select(literal(1)).where(edge.c.dependent_seq == bindparam("seq"), _WAITS).limit(literal(1))
)


def judge_again(tx: Transaction, seq: int) -> Need | None:
    """See where the dependencies of a task stand now; one that ended otherwise than it was to."""
    tx.change(_JUDGE, seq=seq)
    row = tx.row(_BROKEN, seq=seq)
    return None if row is None else Need(row[0], Condition.AFTEROK, row[1])


def waits(tx: Transaction, seq: int) -> bool:
    """Whether anything that the task depends on has still to end."""
    return tx.row(_WAITING, seq=seq) is not None


_REOPEN = Statement(
    update(edge)
    .where(
        edge.c.dependency_id == _ID,
        edge.c.state != literal("waiting"),
        edge.c.dependent_seq.in_(
            select(_of_parent.c.dependent_seq)
            .select_from(_HEIRS)
            .where(_of_parent.c.dependency_id == _ID, _MAY_WAIT)
        ),
    )
    .values(state=literal("waiting"))
)


def reopen(tx: Transaction, task_id: str) -> None:
    """A task that had ended is to run again: who has not begun since waits for it once more."""
    tx.change(_REOPEN, id=task_id)
    _hold_back(tx, task_id)
