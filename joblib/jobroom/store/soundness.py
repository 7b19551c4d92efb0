"""Questions on the state of a database as a whole: its server, its counts, what is broken in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, exists, func, or_, select, text

from jobroom.store.schema import edge, job, metadata, task, worker
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import ColumnElement

    from jobroom.store.dialect import Database
    from jobroom.store.transaction import Transaction

MOST_COUNTED = 1_000_000
MOST_DAMAGES = 5

_SERVERS = {"sqlite": "SQLite", "libsql": "libSQL, SQLite", "postgresql": "PostgreSQL"}
"""By the name of the spelling."""
_VERSION = Statement(
    select(func.sqlite_version()),
    postgresql=select(func.current_setting(literal("server_version"))),
)
_PAGES = Statement(text(f"PRAGMA quick_check({MOST_DAMAGES})"))


def server_of(database: Database) -> str:
    """What keeps the rows, with its version."""
    spelling = database.spelling
    ((version,),) = database.read(_VERSION.compiled(spelling).text)
    return f"{_SERVERS[spelling.name]} {version}"


def damages(database: Database) -> list[str]:
    """What SQLite finds wrong with its file; a server looks after its own disk."""
    if not database.is_at_hand:
        return []
    found = database.read(_PAGES.compiled(database.spelling).text)
    return [
        f"The file is damaged ({' '.join(str(said).split())}): put a whole copy in its place."
        for (said,) in found
        if said != "ok"
    ]


def count(tx: Transaction) -> tuple[dict[str, dict[str, int]], bool]:
    """The rows of each kind by their state, up to a limit; whether that was met."""
    counted = {
        name: {str(state): int(rows) for state, rows in tx.rows(statement)}
        for name, statement in _COUNTS.items()
    }
    is_bounded = any(sum(found.values()) >= MOST_COUNTED for found in counted.values())
    return counted, is_bounded


def orphans(tx: Transaction) -> list[str]:
    """Rows that refer to a row which is not there; no jobroom leaves any."""
    found = []
    for name, statement in _ORPHANS:
        ((rows,),) = tx.rows(statement)
        if rows:
            found.append(f"{rows} rows of {name} refer to rows that are not there.")
    return found


def tangles(tx: Transaction) -> list[str]:
    """Tasks whose state their dependencies deny; no jobroom leaves any."""
    found = []
    for what, statement in _TANGLES.items():
        ((rows,),) = tx.rows(statement)
        if rows:
            found.append(f"{rows} {what}.")
    return found


def _counted(state: ColumnElement[Any]) -> Statement:
    some = select(state.label("state")).limit(literal(MOST_COUNTED)).subquery("some")
    return Statement(select(some.c.state, func.count()).group_by(some.c.state))


_COUNTS = {
    "jobs": _counted(case((job.c.hidden == literal(0), literal("shown")), else_=literal("hidden"))),
    "workers": _counted(worker.c.state),
    "tasks": _counted(task.c.status),
}


def _missing() -> Iterator[tuple[str, Statement]]:
    """A question for each foreign key."""
    for table in metadata.sorted_tables:
        for key in table.foreign_key_constraints:
            parent = key.referred_table.alias("parent")
            pairs = [(one.parent, parent.c[one.column.name]) for one in key.elements]
            joined = table.outerjoin(parent, and_(*(child == other for child, other in pairs)))
            lost = and_(pairs[0][0].is_not(None), pairs[0][1].is_(None))
            query = select(func.count()).select_from(joined).where(lost)
            yield f"{table.name}.{pairs[0][0].name}", Statement(query)


_ORPHANS = tuple(_missing())


def _leads_to_it(state: str) -> ColumnElement[bool]:
    return exists(
        select(literal(1))
        .where(edge.c.dependent_seq == task.c.seq, edge.c.state == literal(state))
        .correlate(task)
    )


def _tasks(*conditions: ColumnElement[bool]) -> Statement:
    return Statement(select(func.count()).select_from(task).where(*conditions))


def _edges(*conditions: ColumnElement[bool]) -> Statement:
    joined = edge.join(task, task.c.id == edge.c.dependency_id)
    return Statement(select(func.count()).select_from(joined).where(*conditions))


_IS_BLOCKED = task.c.status == literal("blocked")
_IS_UNDER_WAY = or_(
    *(task.c.status == literal(status) for status in ("pending", "claimed", "running"))
)
_TANGLES = {
    "blocked tasks wait for nothing": _tasks(_IS_BLOCKED, ~_leads_to_it("waiting")),
    "blocked tasks wait in vain": _tasks(_IS_BLOCKED, _leads_to_it("broken")),
    "tasks go on without what they wait for": _tasks(_IS_UNDER_WAY, _leads_to_it("waiting")),
    "edges wait for a task that has ended": _edges(
        edge.c.state == literal("waiting"), task.c.completed_at.is_not(None)
    ),
    "edges lead from a task that expects none": _edges(task.c.has_dependents == literal(0)),
}
"""What is wrong, in words, by how many."""
