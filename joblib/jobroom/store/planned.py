"""Tasks that are part of a graph: added together with their edges.

What is written here goes along with the next statement (``Transaction.later``), so a graph of a
thousand tasks is one request across a network. Whoever adds has read what it depends on in the
same transaction, and nobody else adds or settles meanwhile (``edges.lock``).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import BigInteger, bindparam, case, func, insert, select, update

from jobroom.store import chunks, turns
from jobroom.store.schema import edge, task, worker
from jobroom.store.statement import Statement, literal
from jobroom.store.views import VIEW, view

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import ColumnElement, Insert, Select

    from jobroom.domain.graph import Need
    from jobroom.domain.records import TaskView
    from jobroom.store.transaction import Transaction


class Dependency(NamedTuple):
    """What a new task may depend on, as far as that matters."""

    id: str
    status: str
    room_id: str
    created_by_id: str
    holder: str | None
    """The identity of the worker that holds it, or held it last."""


_HOLDER = (
    select(worker.c.identity)
    .where(worker.c.id == task.c.worker_id)
    .correlate(task)
    .scalar_subquery()
)


def _named(count: int) -> Select[Any]:
    return select(task.c.id, task.c.status, task.c.room_id, task.c.created_by_id, _HOLDER).where(
        chunks.named(count)
    )


@cache
def _find(count: int) -> Statement:
    found = _named(count)
    # Whoever ends one of them waits until the edges to it are there, and settles them then.
    return Statement(found, postgresql=found.order_by(task.c.seq).with_for_update(of=task))


@cache
def _look_at(count: int) -> Statement:
    return Statement(_named(count))


def find(tx: Transaction, ids: Iterable[str], *, locking: bool = True) -> dict[str, Dependency]:
    """Those of the tasks that there are, by their ids; ``locking``: none of them ends meanwhile."""
    statement = _find if locking else _look_at
    found: dict[str, Dependency] = {}
    for count, named in chunks.of_ids(ids):
        found.update((row[0], Dependency._make(row)) for row in tx.rows(statement(count), **named))
    return found


_GIVEN = (
    "id",
    "job_seq",
    "room_id",
    "created_by_id",
    "status",
    "priority",
    "payload",
    "schema_version",
    "run_at",
    "expires_at",
    "max_attempts",
    "timeout_seconds",
    "idempotency_key",
    "fingerprint",
    "key",
    "error",
    "has_dependencies",
    "has_dependents",
    "failed_by",
)
_now = bindparam("now", type_=BigInteger)
_has_ended = bindparam("status", type_=task.c.status.type) == literal("failed")
_expires_at = bindparam("expires_at", type_=BigInteger)
_kept_until = _now + bindparam("kept_for", type_=BigInteger)


def _insert(turn: ColumnElement[int]) -> Insert:
    return (
        insert(task)
        .inline()
        .values(
            {
                **{name: bindparam(name, type_=task.c[name].type) for name in _GIVEN},
                "ready": case(
                    (bindparam("run_at", type_=BigInteger) > _now, literal(0)), else_=literal(1)
                ),
                "turn": turn,
                "created_at": _now,
                "completed_at": case((_has_ended, _now)),
                "due_at": case((_has_ended, _kept_until), else_=_expires_at),
                "attempt": literal(0),
                "starts": literal(0),
                "idle_claims": literal(0),
                "version": literal(1),
            }
        )
    )


_ADD = Statement(_insert(literal(0)))
_ADD_IN_TURN = Statement(_insert(func.coalesce(turns.TAKEN, literal(0))))


def add(tx: Transaction, given: dict[str, Any], *, in_turn: bool = False) -> None:
    """Add a task as it begins. ``given``: ``_GIVEN``, ``kept_for``, in turn ``job_version`` too.

    ``kept_for`` is how long (microseconds) it is kept if it has failed already; None: for ever.
    ``in_turn``: its job is fair, and it gets the next turn of its room.
    """
    if in_turn:
        tx.later(turns.TAKE, **given)
    tx.later(_ADD_IN_TURN if in_turn else _ADD, **given)


_ADD_EDGE = Statement(
    insert(edge).from_select(
        ["dependency_id", "dependent_seq", "condition", "state", "name"],
        select(
            bindparam("dependency_id", type_=edge.c.dependency_id.type),
            task.c.seq,
            bindparam("condition", type_=edge.c.condition.type),
            bindparam("state", type_=edge.c.state.type),
            bindparam("name", type_=edge.c.name.type),
        ).where(task.c.id == bindparam("dependent_id")),
    )
)


def add_edges(tx: Transaction, dependent_id: str, needs: Iterable[Need]) -> None:
    """Add what a task depends on; each dependency once."""
    for need in needs:
        tx.later(
            _ADD_EDGE,
            dependency_id=need.dependency_id,
            dependent_id=dependent_id,
            condition=str(need.condition),
            state=str(need.state),
            name=need.name,
        )


@cache
def _expect(count: int) -> Statement:
    return Statement(
        update(task)
        .where(chunks.named(count), task.c.has_dependents == literal(0))
        .values(has_dependents=literal(1))
    )


def expect_dependents(tx: Transaction, ids: Iterable[str]) -> None:
    """From now on the end of these tasks concerns others."""
    for count, named in chunks.of_ids(ids):
        tx.later(_expect(count), **named)


@cache
def _get(count: int) -> Statement:
    return Statement(select(*VIEW).where(chunks.named(count)))


def get_all(tx: Transaction, ids: Sequence[str]) -> list[TaskView]:
    """These tasks, in the order of their ids as they are given; unknown ones are left out."""
    found: dict[str, TaskView] = {}
    for count, named in chunks.of_ids(ids):
        views = (view(row) for row in tx.rows(_get(count), **named))
        found.update((each.task.id, each) for each in views)
    return [found[task_id] for task_id in ids if task_id in found]
