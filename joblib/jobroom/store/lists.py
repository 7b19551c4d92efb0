"""Pages of tasks: newest first, by index whatever the filter, counted with a limit."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, bindparam, func, or_, select, union_all

from jobroom.domain.lifecycle import TaskStatus
from jobroom.store import views
from jobroom.store.schema import task
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobroom.domain.records import TaskView
    from jobroom.store.transaction import Transaction

COUNT_LIMIT = 10_000
PAST_THE_NEWEST = 2**62
HELD = {"claimed", "running"}
"""So few tasks of a room are these that it does not matter whose they are."""


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
    return Statement(select(*views.LISTED).where(task.c.seq.in_(page)).order_by(task.c.seq.desc()))


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


# What one user submitted in a room is searched by an index of its own, which knows no status: one
# that did would be written to with every change of a status, and a cycle of a task cost a tenth
# more (measured). So a list of one creator costs what he has there, whatever others have.
def _of_creator(statuses: int, *, of_job: bool) -> list[Any]:
    where = [
        task.c.created_by_id == bindparam("created_by_id"),
        task.c.room_id == bindparam("room_id"),
    ]
    if statuses:
        # As expressions no other index can offer itself for them.
        wanted = [bindparam(f"status_{n}", type_=Text) for n in range(statuses)]
        where.append(task.c.status.concat(literal("")).in_(wanted))
    if of_job:
        where.append(task.c.job_seq + literal(0) == bindparam("job_seq"))
    return where


@cache
def _page_of_creator(statuses: int, *, of_job: bool) -> Statement:
    return Statement(
        select(*views.LISTED)
        .where(*_of_creator(statuses, of_job=of_job), task.c.seq < bindparam("before"))
        .order_by(task.c.seq.desc())
        .limit(bindparam("limit"))
        .offset(bindparam("offset"))
    )


@cache
def _count_of_creator(statuses: int, *, of_job: bool) -> Statement:
    first = (
        select(literal(1).label("one"))
        .select_from(task)
        .where(*_of_creator(statuses, of_job=of_job))
        .limit(bindparam("most"))
        .subquery("first")
    )
    return Statement(select(func.count()).select_from(first))


def _is_by_creator(created_by_id: str | None, statuses: Sequence[str]) -> bool:
    return created_by_id is not None and not HELD.issuperset(statuses)


def _narrowing(statuses: Sequence[str]) -> Sequence[str]:
    """The statuses; none where they are all there are."""
    return () if len(set(statuses)) == len(TaskStatus) else statuses


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
    params["before"] = PAST_THE_NEWEST if before is None else before
    of_job = job_seq is not None
    if _is_by_creator(created_by_id, statuses):
        statement = _page_of_creator(len(_narrowing(statuses)), of_job=of_job)
    else:
        statement = _page(len(statuses), of_job=of_job)
        params["depth"] = limit + offset
    rows = tx.rows(statement, **params, limit=limit, offset=offset)
    return [views.listed(row) for row in rows]


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
    of_job = job_seq is not None
    if _is_by_creator(created_by_id, statuses):
        statement = _count_of_creator(len(_narrowing(statuses)), of_job=of_job)
    else:
        statement = _count(len(statuses), of_job=of_job)
    return int(tx.rows(statement, **params, most=COUNT_LIMIT + 1)[0][0])


def _params(
    room_id: str, statuses: Sequence[str], job_seq: int | None, created_by_id: str | None
) -> dict[str, object]:
    params: dict[str, object] = {f"status_{n}": status for n, status in enumerate(statuses)}
    params.update(room_id=room_id, created_by_id=created_by_id)
    if job_seq is not None:
        params["job_seq"] = job_seq
    return params
