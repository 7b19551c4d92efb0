"""Tasks of the embedded queue that wait for what never comes: nobody else would settle them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    and_,
    bindparam,
    case,
    exists,
    func,
    not_,
    select,
    update,
)

from jobroom.domain.local import ROOM
from jobroom.domain.records import Change
from jobroom.store import edges
from jobroom.store.ending import ENDED
from jobroom.store.schema import edge, task
from jobroom.store.statement import Statement, literal
from jobroom.store.views import NEXT_VERSION

if TYPE_CHECKING:
    from jobroom.store.transaction import Transaction

_waiter = task.alias("waiter")
_elsewhere = task.alias("elsewhere")
_WAITS_ELSEWHERE = Statement(
    select(literal(1))
    .select_from(
        _waiter.join(
            edge,
            and_(edge.c.dependent_seq == _waiter.c.seq, edge.c.state == literal("waiting")),
        ).join(_elsewhere, _elsewhere.c.id == edge.c.dependency_id)
    )
    .where(
        _waiter.c.room_id == literal(ROOM),
        _waiter.c.status == literal("blocked"),
        _elsewhere.c.room_id != literal(ROOM),
        _elsewhere.c.completed_at.is_(None),
    )
    .limit(literal(1))
)


def waits_elsewhere(tx: Transaction) -> bool:
    """Whether any task waits for one of another room, which may still end."""
    return tx.row(_WAITS_ELSEWHERE) is not None


_gone = task.alias("gone")
_NEVER_CAME = not_(
    exists(select(literal(1)).where(_gone.c.id == edge.c.dependency_id).correlate(edge))
)


def _in_vain() -> ColumnElement[bool]:
    """Blocked tasks that wait for what is not there, and all that waits for them to complete."""
    root = task.alias("root")
    first = (
        select(root.c.seq, root.c.id)
        .select_from(root.join(edge, edge.c.dependent_seq == root.c.seq))
        .where(
            root.c.room_id == literal(ROOM),
            root.c.status == literal("blocked"),
            edge.c.state == literal("waiting"),
            _NEVER_CAME,
        )
        .cte("in_vain", recursive=True)
    )
    down, below = edge.alias("down"), task.alias("below")
    in_vain = first.union(
        select(below.c.seq, below.c.id)
        .select_from(
            first.join(down, down.c.dependency_id == first.c.id).join(
                below, below.c.seq == down.c.dependent_seq
            )
        )
        .where(
            down.c.state == literal("waiting"),
            down.c.condition == literal("afterok"),
            below.c.status == literal("blocked"),
        )
    )
    return task.c.seq.in_(select(in_vain.c.seq))


_stuck = task.alias("stuck")
_OF_TASK = (edge.c.dependent_seq == task.c.seq, edge.c.state == literal("waiting"))
_MISSING = (
    select(func.coalesce(edge.c.name, edge.c.dependency_id) + literal(", which never came"))
    .where(*_OF_TASK, _NEVER_CAME)
    .limit(literal(1))
    .correlate(task)
    .scalar_subquery()
)
_STUCK = (
    select(func.coalesce(_stuck.c.key, _stuck.c.id) + literal(", which can never run"))
    .select_from(edge.join(_stuck, _stuck.c.id == edge.c.dependency_id))
    .where(*_OF_TASK, _stuck.c.id != task.c.id)
    .limit(literal(1))
    .correlate(task)
    .scalar_subquery()
)
_STORY = literal("It waits for ") + func.coalesce(
    _MISSING, _STUCK, literal("something that can never be")
)


def _fail(which: ColumnElement[bool]) -> Statement:
    return Statement(
        update(task)
        .where(task.c.status == literal("blocked"), which)
        .values(status=literal("failed"), error=_STORY, version=NEXT_VERSION, **ENDED)
        .returning(task.c.seq, task.c.key, task.c.room_id, task.c.id, task.c.version)
    )


_FAIL_THOSE = _fail(_in_vain())
_FAIL_ALL = _fail(task.c.room_id == literal(ROOM))
_failed_now = task.alias("failed_now")
_FAILED_NOW = select(_failed_now.c.id).where(
    _failed_now.c.room_id == literal(ROOM),
    _failed_now.c.status == literal("failed"),
    _failed_now.c.completed_at == bindparam("now", type_=BigInteger),
)
_SETTLE = Statement(
    update(edge)
    .where(edge.c.state == literal("waiting"), edge.c.dependency_id.in_(_FAILED_NOW))
    .values(
        state=case(
            (edge.c.condition == literal("afterok"), literal("broken")), else_=literal("met")
        )
    )
)
_PROMOTE = Statement(
    update(task)
    .where(
        task.c.status == literal("blocked"),
        task.c.seq.in_(
            select(edge.c.dependent_seq).where(
                edge.c.dependency_id.in_(_FAILED_NOW), edge.c.state == literal("met")
            )
        ),
        edges.IS_FREE,
    )
    .values(status=literal("pending"), ready=edges.IS_DUE_BY_NOW, version=NEXT_VERSION)
    .returning(task.c.id, task.c.version, task.c.job_seq, task.c.ready)
)


class Failed(NamedTuple):
    """A task that was failed: its place, and its name if it is the embedded queue's."""

    seq: int
    key: str | None
    room_id: str
    id: str
    version: int


def fail_blocked(tx: Transaction) -> list[Failed]:
    """Fail all that waits in vain, and let run what was to run if it failed; in order.

    Where nothing waits for what is not there, all that is blocked waits in vain.
    """
    retention = tx.settings.task_retention_seconds
    rows = tx.returning(_FAIL_THOSE, retention=retention)
    spreads = bool(rows)
    rows = rows or tx.returning(_FAIL_ALL, retention=retention)
    failed = sorted(map(Failed._make, rows))
    tx.changed += (Change(each.id, each.version) for each in failed)
    if failed:
        settled, promoted = tx.together(_SETTLE, _PROMOTE)
        edges.note_settled(tx, [settled, [], promoted])
    for each in failed:
        if each.room_id != ROOM or not spreads:
            edges.settle(tx, each.id)
    return failed
