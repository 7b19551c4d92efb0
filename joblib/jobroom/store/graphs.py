"""The graph around a task: all that it is joined to by edges, whichever way they lead.

The walk reads ids alone and stops at a limit, so it costs what the graph has and no more; whoever
shows a part of it reads the rows of that part.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Select,
    Text,
    and_,
    bindparam,
    case,
    exists,
    or_,
    select,
    true,
    union_all,
)

from jobroom.domain.names import LOCAL_ROOM
from jobroom.domain.records import Task, TaskView
from jobroom.store.schema import edge, task, worker
from jobroom.store.statement import Statement, literal
from jobroom.store.views import JOB_NAME, NULL, beginning, size_if_long

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import CTE, ColumnElement, FromClause

    from jobroom.domain.records import Caller
    from jobroom.store.transaction import Transaction

NO_LIMIT = 2**31


class Place(NamedTuple):
    """A task that the walk came to; one that may not be seen is not walked through."""

    seq: int
    status: str
    is_seen: int


class Edge(NamedTuple):
    """An edge from a dependency to its dependent."""

    dependency_id: str
    dependent_id: str
    dependent_seq: int
    condition: str
    state: str


# --- what may be seen -------------------------------------------------------------------------


def _is_seen(who: FromClause, rooms: int | None) -> ColumnElement[bool]:
    """As ``service.access.sees_task`` says it; ``rooms``: how many the token names, None: all."""
    if rooms is None:
        of_client: ColumnElement[bool] = true()
    else:
        is_held_by = exists(
            select(literal(1)).where(
                worker.c.id == who.c.worker_id, worker.c.identity == bindparam("identity")
            )
        )
        of_client = or_(
            who.c.room_id.in_([bindparam(f"room_{n}", type_=Text) for n in range(rooms)]),
            who.c.created_by_id == bindparam("identity"),
            is_held_by,
        )
    is_local = who.c.room_id == literal(LOCAL_ROOM)
    return or_(
        and_(is_local, bindparam("sees_local", type_=BigInteger) == literal(1)),
        and_(who.c.room_id != literal(LOCAL_ROOM), of_client),
    )


def _sight(caller: Caller) -> tuple[int | None, dict[str, Any]]:
    """What the caller sees, as the parameters of the condition; rooms padded to a power of two."""
    params: dict[str, Any] = {
        "identity": caller.identity,
        "sees_local": int(caller.sees(LOCAL_ROOM)),
    }
    if caller.rooms is None:
        return None, params
    # No room is called that: for a token that names none.
    rooms = sorted(caller.rooms) or [""]
    count = 1 << (len(rooms) - 1).bit_length()
    rooms += rooms[-1:] * (count - len(rooms))
    params.update((f"room_{n}", room) for n, room in enumerate(rooms))
    return count, params


# --- the walk ---------------------------------------------------------------------------------


def _place(near: FromClause, rooms: int | None) -> list[ColumnElement[Any]]:
    seen = case((_is_seen(near, rooms), literal(1)), else_=literal(0))
    return [near.c.id, near.c.seq, near.c.status, seen.label("is_seen")]


def _below(walk: CTE, rooms: int | None) -> Select[Any]:
    down, below = edge.alias("down"), task.alias("below")
    return (
        select(*_place(below, rooms))
        .select_from(down.join(below, below.c.seq == down.c.dependent_seq))
        .where(down.c.dependency_id == walk.c.id, walk.c.is_seen == literal(1))
    )


def _above(walk: CTE, rooms: int | None) -> Select[Any]:
    up, above = edge.alias("up"), task.alias("above")
    return (
        select(*_place(above, rooms))
        .select_from(up.join(above, above.c.id == up.c.dependency_id))
        .where(up.c.dependent_seq == walk.c.seq, walk.c.is_seen == literal(1))
    )


def _from(start: CTE, *steps: Select[Any]) -> Select[Any]:
    walk = start.union(*steps)
    return select(walk.c.seq, walk.c.status, walk.c.is_seen).limit(bindparam("limit"))


@cache
def _walk(rooms: int | None) -> Statement:
    root = task.alias("root")
    start = (
        select(root.c.id, root.c.seq, root.c.status, literal(1).label("is_seen"))
        .where(root.c.id == bindparam("key", type_=Text))
        .cte("walk", recursive=True)
    )
    # PostgreSQL lets a recursive query name itself once.
    steps = (_below(start, rooms).correlate(start), _above(start, rooms).correlate(start))
    near = union_all(*steps).lateral("near")
    either = select(near).select_from(start.join(near, true()))
    return Statement(
        _from(start, _below(start, rooms), _above(start, rooms)),
        postgresql=_from(start, either),
    )


def walk(tx: Transaction, task_id: str, *, caller: Caller, limit: int) -> list[Place]:
    """The task and what it is joined to, the nearest first, at most so many."""
    rooms, sight = _sight(caller)
    return [Place._make(row) for row in tx.rows(_walk(rooms), key=task_id, limit=limit, **sight)]


# --- a part of it -----------------------------------------------------------------------------

_SHOWN = {
    "payload": literal("{}"),
    "result": NULL,
    "message": NULL,
    "error": beginning(task.c.error),
}
_NODE = [
    _SHOWN[column.name].label(column.name) if column.name in _SHOWN else column for column in task.c
]


def _named(count: int, column: ColumnElement[int]) -> ColumnElement[bool]:
    return column.in_([bindparam(f"seq_{n}", type_=BigInteger) for n in range(count)])


def _padded(seqs: Sequence[int]) -> tuple[int, dict[str, int]]:
    count = 1 << (len(seqs) - 1).bit_length()
    padded = [*seqs, *([seqs[-1]] * (count - len(seqs)))]
    return count, {f"seq_{n}": seq for n, seq in enumerate(padded)}


@cache
def _nodes(count: int) -> Statement:
    return Statement(
        select(*_NODE, JOB_NAME, size_if_long(task.c.error)).where(_named(count, task.c.seq))
    )


def list_nodes(tx: Transaction, seqs: Sequence[int]) -> list[TaskView]:
    """These tasks in order, without payloads, results and edges; at most a page of them."""
    if not seqs:
        return []
    count, named = _padded(seqs)
    found = [
        TaskView(Task._make(row[:-2]), row[-2], error_bytes=row[-1])
        for row in tx.rows(_nodes(count), **named)
    ]
    return sorted(found, key=lambda view: view.task.seq)


@cache
def _edges(count: int, rooms: int | None) -> Statement:
    dependency, dependent = task.alias("dependency"), task.alias("dependent")
    return Statement(
        select(
            edge.c.dependency_id,
            dependent.c.id,
            edge.c.dependent_seq,
            edge.c.condition,
            edge.c.state,
        )
        .select_from(
            edge.join(dependent, dependent.c.seq == edge.c.dependent_seq).outerjoin(
                dependency, dependency.c.id == edge.c.dependency_id
            )
        )
        .where(
            _named(count, edge.c.dependent_seq),
            or_(dependency.c.id.is_(None), _is_seen(dependency, rooms)),
        )
        .order_by(edge.c.dependent_seq, edge.c.dependency_id)
        .limit(bindparam("limit"))
    )


def list_edges(tx: Transaction, seqs: Sequence[int], *, caller: Caller, limit: int) -> list[Edge]:
    """The edges that lead to these tasks, in their order, but for those from unseen ones."""
    if not seqs:
        return []
    rooms, sight = _sight(caller)
    count, named = _padded(seqs)
    rows = tx.rows(_edges(count, rooms), limit=limit, **named, **sight)
    return [Edge._make(row) for row in rows]
