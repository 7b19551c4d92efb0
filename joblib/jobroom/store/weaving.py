"""New tasks among those that are there: what they meet, and edges by the thousand."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    JSON,
    Text,
    bindparam,
    cast,
    delete,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.domain.records import Job, TaskView
from jobroom.store import chunks
from jobroom.store.schema import edge, job, task
from jobroom.store.statement import Statement, literal
from jobroom.store.views import NEXT_VERSION, NULL, VIEW, view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.dialects.sqlite import Insert

    from jobroom.store.transaction import Transaction

MOST_EDGES_AT_ONCE = 2000
"""How many edges one statement adds."""


class Heir(NamedTuple):
    """A task that waits for another one, and so for the children of that one too."""

    parent_id: str
    seq: int
    id: str
    condition: str
    version: int


def _named(column: ColumnElement[Any], count: int) -> ColumnElement[bool]:
    return column.in_([bindparam(f"id_{n}", type_=Text) for n in range(count)])


# Who has ended, cancelled say, stays as it is, and waits for nothing.
_WAITS = (edge.c.state == literal("waiting"), task.c.status == literal("blocked"))


@cache
def _heirs(count: int) -> Statement:
    return Statement(
        select(edge.c.dependency_id, task.c.seq, task.c.id, edge.c.condition, task.c.version)
        .select_from(edge.join(task, task.c.seq == edge.c.dependent_seq))
        .where(_named(edge.c.dependency_id, count), *_WAITS)
    )


def heirs(tx: Transaction, ids: Iterable[str]) -> list[Heir]:
    """The tasks that wait for one of these."""
    found: list[Heir] = []
    for count, named in chunks.of_ids(ids):
        found += map(Heir._make, tx.rows(_heirs(count), **named))
    return found


@cache
def _above(count: int) -> Statement:
    start = select(task.c.id, task.c.seq).where(chunks.named(count)).cte("above", recursive=True)
    up, higher = edge.alias("up"), task.alias("higher")
    above = start.union(
        select(higher.c.id, higher.c.seq).select_from(
            start.join(up, up.c.dependent_seq == start.c.seq).join(
                higher, higher.c.id == up.c.dependency_id
            )
        )
    )
    return Statement(
        select(above.c.id, edge.c.dependency_id).select_from(
            above.join(edge, edge.c.dependent_seq == above.c.seq)
        )
    )


def above(tx: Transaction, ids: Iterable[str]) -> dict[str, list[str]]:
    """What these tasks depend on, and what that depends on, all the way up; by who depends on it.

    On what has ended, too: if that is retried, they wait for it again.
    """
    found: dict[str, list[str]] = {}
    for count, named in chunks.of_ids(ids):
        for dependent_id, dependency_id in tx.rows(_above(count), **named):
            found.setdefault(dependent_id, []).append(dependency_id)
    return found


@cache
def _jobs(count: int) -> Statement:
    seqs = [bindparam(f"seq_{n}", type_=job.c.seq.type) for n in range(count)]
    # Whoever changes or hides one of them meanwhile waits.
    return Statement(
        select(job).where(job.c.seq.in_(seqs)).order_by(job.c.seq).with_for_update(read=True)
    )


def current_jobs(tx: Transaction, seqs: Iterable[int]) -> dict[int, Job]:
    """These jobs as they are now; they stay so until the end of the transaction."""
    found: dict[int, Job] = {}
    for some in _parts(sorted(seqs), chunks.MOST_AT_ONCE):
        count = 1 << (len(some) - 1).bit_length()
        padded = [*some, *some[-1:] * (count - len(some))]
        named = {f"seq_{n}": seq for n, seq in enumerate(padded)}
        rows = tx.rows(_jobs(count), **named)
        found.update((row[0], Job._make(row)) for row in rows)
    return found


def _parts(of: Sequence[Any], size: int) -> Iterator[list[Any]]:
    return (list(of[start : start + size]) for start in range(0, len(of), size))


_COLUMNS = ("dependency_id", "dependent_id", "condition", "state")


def _insert(rows: Select[*tuple[Any, ...]]) -> Insert:
    """Edges from an array of arrays in JSON, each of it with the values of ``_COLUMNS``."""
    given = rows.subquery("given")
    return (
        upsert(edge)
        .from_select(
            ["dependency_id", "dependent_seq", "condition", "state"],
            select(given.c.dependency_id, task.c.seq, given.c.condition, given.c.state)
            .select_from(given.join(task, task.c.id == given.c.dependent_id))
            # SQLite would take ON CONFLICT for the condition of a join.
            .where(literal_column("true")),
        )
        .on_conflict_do_nothing()
    )


_rows = bindparam("edges", type_=Text)
_each = func.json_each(_rows).table_valued("value")
_of_sqlite = _insert(
    select(
        *(
            func.json_extract(_each.c.value, literal(f"$[{n}]")).label(name)
            for n, name in enumerate(_COLUMNS)
        )
    )
)
_each_in_postgresql = func.json_array_elements(cast(_rows, JSON)).column_valued("each")
_of_postgresql = _insert(
    select(
        *(
            _each_in_postgresql.op("->>", return_type=Text)(literal(n)).label(name)
            for n, name in enumerate(_COLUMNS)
        )
    )
)
_ADD_EDGES = Statement(_of_sqlite, postgresql=_of_postgresql)


def add_edges(tx: Transaction, edges: Sequence[tuple[str, str, str, str]]) -> None:
    """Add edges, each (dependency, dependent, condition, state); one that is there stays."""
    for some in _parts(edges, MOST_EDGES_AT_ONCE):
        tx.later(_ADD_EDGES, edges=json.dumps(some))


_TOUCH = Statement(
    update(task)
    .where(
        task.c.seq.in_(
            select(edge.c.dependent_seq).where(
                edge.c.dependency_id == bindparam("key", type_=Text),
                edge.c.state == literal("waiting"),
            )
        ),
        task.c.status == literal("blocked"),
    )
    .values(version=NEXT_VERSION)
)
_INHERIT = Statement(
    upsert(edge)
    .from_select(
        ["dependency_id", "dependent_seq", "condition", "state"],
        select(
            bindparam("child_id", type_=Text),
            edge.c.dependent_seq,
            edge.c.condition,
            edge.c.state,
        )
        .select_from(edge.join(task, task.c.seq == edge.c.dependent_seq))
        .where(edge.c.dependency_id == bindparam("parent_id", type_=Text), *_WAITS),
    )
    .on_conflict_do_nothing()
)


def inherit(tx: Transaction, *, parent_id: str, child_id: str) -> None:
    """What waits for the parent waits for the child too, under the same condition."""
    tx.later(_INHERIT, parent_id=parent_id, child_id=child_id)


def touch_heirs(tx: Transaction, parent_id: str) -> None:
    """What waits for this task is shown otherwise from now on."""
    tx.later(_TOUCH, key=parent_id)


@cache
def _by_keys(count: int) -> Statement:
    return Statement(
        select(*VIEW).where(
            task.c.created_by_id == bindparam("identity"),
            _named(task.c.idempotency_key, count),
        )
    )


def get_by_keys(tx: Transaction, *, identity: str, keys: Sequence[str]) -> dict[str, TaskView]:
    """The tasks that this identity submitted with these idempotency keys, by their keys."""
    found: dict[str, TaskView] = {}
    for count, named in chunks.of_ids(keys):
        for row in tx.rows(_by_keys(count), identity=identity, **named):
            known = view(row)
            found[known.task.idempotency_key or ""] = known
    return found


@cache
def _forget(count: int) -> Statement:
    return Statement(
        update(task)
        .where(
            task.c.created_by_id == bindparam("identity"),
            _named(task.c.idempotency_key, count),
        )
        .values(idempotency_key=NULL, version=NEXT_VERSION)
    )


def forget_keys(tx: Transaction, *, identity: str, keys: Sequence[str]) -> None:
    """The idempotency keys have lived their time."""
    for count, named in chunks.of_ids(keys):
        tx.later(_forget(count), identity=identity, **named)


_dependent = task.alias("dependent")


@cache
def _outsiders(count: int) -> Statement:
    return Statement(
        select(edge.c.dependency_id, _dependent.c.id)
        .select_from(edge.join(_dependent, _dependent.c.seq == edge.c.dependent_seq))
        .where(_named(edge.c.dependency_id, count))
    )


@cache
def _withdraw(count: int) -> tuple[Statement, Statement]:
    names = [bindparam(f"id_{n}", type_=Text) for n in range(count)]
    is_untouched = (
        task.c.id.in_(names),
        task.c.status.in_([literal("pending"), literal("blocked"), literal("failed")]),
        task.c.attempt == literal(0),
    )
    return (
        Statement(
            delete(edge).where(edge.c.dependent_seq.in_(select(task.c.seq).where(*is_untouched)))
        ),
        Statement(delete(task).where(*is_untouched)),
    )


def withdraw(tx: Transaction, ids: Sequence[str]) -> None:
    """Remove those of these tasks that nobody has claimed, unless others wait for one of them."""
    own = set(ids)
    for count, named in chunks.of_ids(ids):
        if any(row[1] not in own for row in tx.rows(_outsiders(count), **named)):
            return
    for count, named in chunks.of_ids(ids):
        for statement in _withdraw(count):
            tx.later(statement, **named)
