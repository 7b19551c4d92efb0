"""Pages of tasks: newest first, by index whatever the filter, counted with a limit."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, func, or_, select, union_all

from jobroom.store import views
from jobroom.store.schema import task
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobroom.domain.records import TaskView
    from jobroom.store.transaction import Transaction

COUNT_LIMIT = 10_000
PAST_THE_NEWEST = 2**62


def _conditions(*, of_job: bool, position: int) -> list[Any]:
    where = [
        task.c.room_id == bindparam("room_id"),
        task.c.status == bindparam(f"status_{position}"),
        or_(
            bindparam("created_by_id").is_(None),
            task.c.created_by_id == bindparam("created_by_id"),
        ),
    ]
    if of_job:
        where.append(task.c.job_seq == bindparam("job_seq"))
    return where


@cache
def _page(statuses: int, *, of_job: bool) -> Statement:
    # One ordered, limited search of the index per status, then a merge: an IN over the statuses
    # would sort every task of the room.
    parts = [
        select(
            select(task.c.seq.label("seq"))
            .where(*_conditions(of_job=of_job, position=n), task.c.seq < bindparam("before"))
            .order_by(task.c.seq.desc())
            .limit(bindparam("depth"))
            .subquery()
        )
        for n in range(statuses)
    ]
    newest = union_all(*parts).subquery("newest")
    page = (
        select(newest.c.seq)
        .order_by(newest.c.seq.desc())
        .limit(bindparam("limit"))
        .offset(bindparam("offset"))
    )
    return Statement(select(*views.VIEW).where(task.c.seq.in_(page)).order_by(task.c.seq.desc()))


@cache
def _count(statuses: int, *, of_job: bool) -> Statement:
    parts = [
        select(
            select(literal(1).label("one"))
            .select_from(task)
            .where(*_conditions(of_job=of_job, position=n))
            .limit(bindparam("most"))
            .subquery()
        )
        for n in range(statuses)
    ]
    found = union_all(*parts).subquery("found")
    first = select(found.c.one).limit(bindparam("most")).subquery("first")
    return Statement(select(func.count()).select_from(first))


def list_tasks(
    tx: Transaction,
    *,
    room_id: str,
    statuses: Sequence[str],
    job_seq: int | None,
    created_by_id: str | None,
    before: int | None,
    limit: int,
    offset: int,
) -> list[TaskView]:
    """A page of the tasks submitted in a room, newest first; ``before``: older than that seq."""
    params = _params(room_id, statuses, job_seq, created_by_id)
    rows = tx.rows(
        _page(len(statuses), of_job=job_seq is not None),
        **params,
        before=PAST_THE_NEWEST if before is None else before,
        depth=limit + offset,
        limit=limit,
        offset=offset,
    )
    return [views.view(row) for row in rows]


def count_tasks(
    tx: Transaction,
    *,
    room_id: str,
    statuses: Sequence[str],
    job_seq: int | None,
    created_by_id: str | None,
) -> int:
    """How many tasks the list has, exact to ``COUNT_LIMIT``, one more where there are more."""
    params = _params(room_id, statuses, job_seq, created_by_id)
    statement = _count(len(statuses), of_job=job_seq is not None)
    return int(tx.rows(statement, **params, most=COUNT_LIMIT + 1)[0][0])


def _params(
    room_id: str, statuses: Sequence[str], job_seq: int | None, created_by_id: str | None
) -> dict[str, object]:
    params: dict[str, object] = {f"status_{n}": status for n, status in enumerate(statuses)}
    params.update(room_id=room_id, created_by_id=created_by_id)
    if job_seq is not None:
        params["job_seq"] = job_seq
    return params
