"""Running tasks again: the one that is retried, and those that had failed because of it.

All but the change of the task itself goes along with other statements; ``store.fallen`` has read
before what they are about.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Text, bindparam, case, or_, select, update

from jobroom.store import chunks, edges, fallen
from jobroom.store.schema import edge, task
from jobroom.store.statement import Statement, literal
from jobroom.store.views import NEXT_VERSION, NULL, VIEW, changed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobroom.domain.records import Task, TaskView
    from jobroom.store.transaction import Transaction

_expires_at = case((task.c.expires_at > bindparam("now", type_=BigInteger), task.c.expires_at))
_BEGUN_AGAIN: dict[str, Any] = {
    "worker_id": NULL,
    "claimed_at": NULL,
    "started_at": NULL,
    "completed_at": NULL,
    "claim_request_id": NULL,
    "error": NULL,
    "failed_by": NULL,
    "progress": NULL,
    "message": NULL,
    "starts": literal(0),
    "idle_claims": literal(0),
    # One that has passed is cleared (rules, *Time fields*).
    "expires_at": _expires_at,
    "due_at": _expires_at,
    "version": NEXT_VERSION,
}
_RETRY = Statement(
    update(task)
    .where(
        task.c.seq == bindparam("key"),
        task.c.status.in_([literal("failed"), literal("cancelled")]),
        task.c.version == bindparam("expect"),
    )
    .values(
        **_BEGUN_AGAIN,
        status=bindparam("again_as"),
        ready=case(
            (task.c.run_at > bindparam("now", type_=BigInteger), literal(0)), else_=literal(1)
        ),
    )
    .returning(*VIEW)
)


def retry(tx: Transaction, was: Task, *, status: str) -> TaskView | None:
    """Make a failed or cancelled task pending or blocked, if it is still as it was read."""
    return changed(tx, _RETRY, key=was.seq, expect=was.version, again_as=status)


_SET_EDGE = Statement(
    update(edge)
    .where(
        edge.c.dependency_id == bindparam("of"), edge.c.dependent_seq == bindparam("dependent_seq")
    )
    .values(state=bindparam("stands"))
)


def set_edge(tx: Transaction, *, dependency_id: str, dependent_seq: int, state: str) -> None:
    """Write where an edge stands."""
    tx.later(_SET_EDGE, of=dependency_id, dependent_seq=dependent_seq, stands=str(state))


@cache
def _expect_again(count: int) -> Statement:
    dependent = task.alias("dependent")
    # Not as EXISTS: PostgreSQL might join all tasks instead of looking these up.
    waits_or_fell = (
        select(literal(1))
        .where(
            dependent.c.seq == edge.c.dependent_seq,
            or_(
                dependent.c.status.in_([literal("blocked"), literal("pending")]),
                fallen.has_fallen(dependent),
            ),
        )
        .correlate(edge)
        .scalar_subquery()
    ) == literal(1)
    return Statement(
        update(edge)
        .where(
            edge.c.dependency_id.in_([bindparam(f"id_{n}", type_=Text) for n in range(count)]),
            edge.c.state != literal("waiting"),
            waits_or_fell,
        )
        .values(state=literal("waiting"))
    )


def expect_again(tx: Transaction, ids: Iterable[str]) -> None:
    """These tasks run again, and whoever depends on them and has not started waits for that.

    One that runs or has ended by itself is left as it is, and so is its edge.
    """
    for count, named in chunks.of_ids(ids):
        tx.later(_expect_again(count), **named)


@cache
def _block_again(count: int) -> Statement:
    return Statement(
        update(task)
        .where(chunks.named(count), fallen.has_fallen(task))
        .values(**_BEGUN_AGAIN, status=literal("blocked"))
    )


def block_again(tx: Transaction, ids: Iterable[str]) -> None:
    """Those that failed because of what runs again are as if they had not."""
    for count, named in chunks.of_ids(ids):
        tx.later(_block_again(count), **named)


@cache
def _hold_back(count: int) -> Statement:
    return Statement(
        update(task)
        .where(chunks.named(count), edges.says(task.c.status, "pending"))
        .values(status=literal("blocked"), version=NEXT_VERSION)
    )


def hold_back(tx: Transaction, ids: Iterable[str]) -> None:
    """What was freed by the end of what runs again is blocked again."""
    for count, named in chunks.of_ids(ids):
        tx.later(_hold_back(count), **named)


@cache
def _blame_others(count: int) -> Statement:
    return Statement(
        update(task)
        .where(chunks.named(count), fallen.has_fallen(task))
        .values(
            failed_by=edges.FAILED_BY,
            error=edges.STORY,
            version=NEXT_VERSION,
        )
    )


def blame_others(tx: Transaction, ids: Iterable[str]) -> None:
    """These stay failed, because of a dependency that does not run again: name that one."""
    for count, named in chunks.of_ids(ids):
        tx.later(_blame_others(count), **named)
