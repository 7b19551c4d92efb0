"""Tasks of ``@local`` that come from another queue, as they stood there, many at a time.

What is written here goes along with the next statement (``Transaction.later``). Edges are added by
``store.planned``.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, bindparam, case, insert, select

from jobroom.domain.local import ROOM
from jobroom.store import chunks, local
from jobroom.store.schema import edge, task
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobroom.store.transaction import Transaction

_GIVEN = (
    "id",
    "job_seq",
    "status",
    "payload",
    "max_attempts",
    "timeout_seconds",
    "key",
    "worker_id",
    "starts",
    "has_dependencies",
    "has_dependents",
    "failed_by",
    "error",
    "message",
)
_NOW = bindparam("now", type_=BigInteger)
_status = bindparam("status", type_=task.c.status.type)
_has_ended = (_status == literal("completed")) | (_status == literal("failed"))
_ADD = Statement(
    insert(task)
    .inline()
    .values(
        {
            **{name: bindparam(name, type_=task.c[name].type) for name in _GIVEN},
            "room_id": literal(ROOM),
            "created_by_id": literal(local.CREATOR),
            "ready": literal(1),
            "priority": literal(0),
            "turn": literal(0),
            "schema_version": literal(1),
            "created_at": _NOW,
            "completed_at": case((_has_ended, _NOW)),
            "attempt": bindparam("starts", type_=task.c.starts.type),
            "idle_claims": literal(0),
            "version": literal(1),
        }
    )
)


def add(tx: Transaction, given: dict[str, Any]) -> None:
    """Add a task as it stands; ``given`` are the columns of ``_GIVEN``."""
    tx.later(_ADD, **given)


@cache
def _awaited(count: int) -> Statement:
    ids = [bindparam(f"id_{n}", type_=edge.c.dependency_id.type) for n in range(count)]
    return Statement(select(edge.c.dependency_id).where(edge.c.dependency_id.in_(ids)).distinct())


def awaited(tx: Transaction, ids: Iterable[str]) -> set[str]:
    """Those of the ids that somebody depends on, whether there is such a task or not."""
    return {
        row[0] for count, named in chunks.of_ids(ids) for row in tx.rows(_awaited(count), **named)
    }


@cache
def _statuses(count: int) -> Statement:
    return Statement(select(task.c.id, task.c.status).where(chunks.named(count)))


def count_statuses(tx: Transaction, ids: Iterable[str]) -> Counter[str]:
    """How many of these tasks there are in each status."""
    found = {
        row[0]: row[1]
        for count, named in chunks.of_ids(ids)
        for row in tx.rows(_statuses(count), **named)
    }
    return Counter(found.values())
