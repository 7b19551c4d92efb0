"""What failed because of a task, what its end has freed, and where a failure came from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import BigInteger, and_, bindparam, case, or_, select, true

from jobroom.domain.graph import Need
from jobroom.store import edges
from jobroom.store.schema import edge, task
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import CTE, ColumnElement, FromClause, Select

    from jobroom.store.transaction import Transaction


class Broken(NamedTuple):
    """A broken edge to a task that failed for a dependency; which of them, says ``failed_by``."""

    dependency_id: str
    dependent_id: str
    version: int
    failed_by: str
    job_seq: int


class Freed(NamedTuple):
    """A task that waits to be claimed, and one of its dependencies."""

    dependency_id: str
    dependent_id: str
    version: int


class Cause(NamedTuple):
    """Where a failure came from: a task that ended by itself, or one that is not there (None)."""

    id: str
    status: str | None


def has_fallen(who: FromClause) -> ColumnElement[bool]:
    """It failed because of a dependency, without having been started."""
    return and_(edges.says(who.c.status, "failed"), who.c.failed_by.is_not(None))


def _is_true(condition: ColumnElement[bool], walk: CTE) -> ColumnElement[bool]:
    """A condition of a recursive step, said so that it concerns ``walk`` as well (its ``yes``).

    SQLite takes what a recursive query comes to for a million rows. Where it has statistics, and a
    condition concerns one table alone, it first reads all of that table into a Bloom filter.
    """
    return case((condition, literal(1))) == walk.c.yes


_YES = literal(1).label("yes")


def _looked_up(what: FromClause, condition: ColumnElement[bool], *, singly: bool) -> FromClause:
    """What is joined by a condition; ``singly``: looked up for each row on its own.

    PostgreSQL would else join whole tables in each round of a recursive query.
    """
    return edges.looked_up(what, condition) if singly else what


def _reached(*, singly: bool) -> CTE:
    """The task, and all that failed and has a broken edge from it, the whole way down."""
    root = task.alias("root")
    first = (
        select(root.c.id, root.c.seq, _YES)
        .where(root.c.id == edges.KEY)
        .cte("reached", recursive=True)
    )
    down, below = edge.alias("down"), task.alias("below")
    leads_on = down.c.dependency_id == first.c.id
    way = _looked_up(down, leads_on, singly=singly)
    ends = below.c.seq == way.c.dependent_seq
    end = _looked_up(below, ends, singly=singly)
    joined = (
        first.join(way, true()).join(end, true())
        if singly
        else first.join(way, leads_on).join(end, ends)
    )
    is_undone = and_(way.c.state == literal("broken"), has_fallen(end))
    return first.union(
        select(end.c.id, end.c.seq, first.c.yes)
        .select_from(joined)
        .where(_is_true(is_undone, first))
    )


def _of_reached(build: Callable[..., Select[Any]], *, locking: bool) -> Statement:
    def singly() -> Select[Any]:
        found = build(singly=True)
        return found.order_by(task.c.seq).with_for_update(of=task) if locking else found

    return Statement(partial(build, singly=False), postgresql=singly)


def _broken(*, singly: bool) -> Select[Any]:
    reached = _reached(singly=singly)
    return (
        select(edge.c.dependency_id, task.c.id, task.c.version, task.c.failed_by, task.c.job_seq)
        .select_from(task.join(edge, edge.c.dependent_seq == task.c.seq))
        .where(
            edges.among(task.c.seq, select(reached.c.seq), singly=singly),
            edge.c.state == literal("broken"),
            has_fallen(task),
            task.c.id != edges.KEY,
        )
    )


_BROKEN = {locking: _of_reached(_broken, locking=locking) for locking in (False, True)}


def list_broken(tx: Transaction, task_id: str, *, locking: bool) -> list[Broken]:
    """All broken edges to what is reached from a task by broken ones.

    ``locking``: nobody else changes those tasks meanwhile, where others write beside us.
    """
    return [Broken._make(row) for row in tx.rows(_BROKEN[locking], key=task_id)]


def _freed(*, singly: bool) -> Select[Any]:
    reached = _reached(singly=singly)
    way = edge.alias("way")
    ends = select(way.c.dependent_seq).where(
        edges.among(way.c.dependency_id, select(reached.c.id), singly=singly)
    )
    return (
        select(edge.c.dependency_id, task.c.id, task.c.version)
        .select_from(task.join(edge, edge.c.dependent_seq == task.c.seq))
        .where(edges.among(task.c.seq, ends, singly=singly), edges.says(task.c.status, "pending"))
    )


_FREED = {locking: _of_reached(_freed, locking=locking) for locking in (False, True)}


def list_freed(tx: Transaction, task_id: str, *, locking: bool) -> list[Freed]:
    """What is pending and depends on a task, or on what is reached from it by broken edges.

    Each with all its dependencies: which of them run again, only the caller knows.
    """
    return [Freed._make(row) for row in tx.rows(_FREED[locking], key=task_id)]


_dependency = task.alias("dependency")
_NEEDS = Statement(
    select(edge.c.dependency_id, edge.c.condition, _dependency.c.status, edge.c.state)
    .select_from(edge.outerjoin(_dependency, _dependency.c.id == edge.c.dependency_id))
    .where(edge.c.dependent_seq == bindparam("seq", type_=BigInteger))
)


def list_needs(tx: Transaction, seq: int) -> list[tuple[Need, str]]:
    """What a task depends on, each with where its edge stands by what is stored."""
    return [(Need(*row[:3]), row[3]) for row in tx.rows(_NEEDS, seq=seq)]


def _causes(*, singly: bool) -> Select[Any]:
    root, named = task.alias("root"), task.alias("named")
    first = select(root.c.id, _YES).where(root.c.id == edges.KEY).cte("cause", recursive=True)
    above = task.alias("above")
    is_it = above.c.id == first.c.id
    found = _looked_up(above, is_it, singly=singly)
    cause = first.union(
        select(found.c.failed_by, first.c.yes)
        .select_from(first.join(found, true() if singly else is_it))
        .where(_is_true(has_fallen(found), first))
    )
    return (
        select(cause.c.id, named.c.status)
        .select_from(cause.outerjoin(named, named.c.id == cause.c.id))
        .where(or_(named.c.id.is_(None), named.c.failed_by.is_(None)))
        .limit(literal(1))
    )


_CAUSE = Statement(partial(_causes, singly=False), postgresql=partial(_causes, singly=True))


def find_cause(tx: Transaction, task_id: str) -> Cause:
    """Where the failure of a task came from, up to who did not fail for another; or itself."""
    found = tx.row(_CAUSE, key=task_id)
    return Cause(task_id, None) if found is None else Cause._make(found)
