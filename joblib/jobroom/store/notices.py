"""What a worker must be told: tasks that were cancelled, or taken from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, or_, select
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.store.schema import notice, worker
from jobroom.store.statement import Statement

if TYPE_CHECKING:
    from jobroom.store.transaction import Transaction

_new = upsert(notice).values(
    worker_id=bindparam("worker_id"), task_id=bindparam("task_id"), created_at=bindparam("now")
)
_ADD = Statement(
    _new.on_conflict_do_update(
        index_elements=["worker_id", "task_id"], set_={"created_at": _new.excluded.created_at}
    )
)


def add(tx: Transaction, *, worker_id: str, task_id: str) -> None:
    """Tell a worker, with its next heartbeats, to stop a task."""
    tx.later(_ADD, worker_id=worker_id, task_id=task_id)


_LIST = Statement(
    select(notice.c.task_id)
    .where(notice.c.worker_id == bindparam("worker_id"), notice.c.created_at > bindparam("since"))
    .order_by(notice.c.task_id)
)


def list_for(tx: Transaction, *, worker_id: str, since: int) -> list[str]:
    """The tasks that a worker should stop, by the notices after a time."""
    return [row[0] for row in tx.rows(_LIST, worker_id=worker_id, since=since)]


_DROP = Statement(
    delete(notice).where(
        notice.c.worker_id == bindparam("worker_id"), notice.c.task_id == bindparam("task_id")
    )
)


def drop(tx: Transaction, *, worker_id: str, task_id: str) -> None:
    """The worker has claimed the task again: there is nothing to stop."""
    tx.later(_DROP, worker_id=worker_id, task_id=task_id)


_DROP_OF = Statement(
    delete(notice).where(
        notice.c.task_id == bindparam("task_id"),
        notice.c.worker_id.in_(
            select(worker.c.id).where(
                worker.c.identity == bindparam("identity"),
                or_(bindparam("worker_sent").is_(None), worker.c.id == bindparam("worker_sent")),
            )
        ),
    )
)


def drop_of(tx: Transaction, *, identity: str, worker_id: str | None, task_id: str) -> None:
    """The workers of this identity (or the one that is named) have reported on the task."""
    tx.later(_DROP_OF, identity=identity, worker_sent=worker_id, task_id=task_id)


_DROP_OLD = Statement(
    delete(notice).where(
        notice.c.task_id.in_(
            select(notice.c.task_id)
            .where(notice.c.created_at < bindparam("before"))
            .limit(bindparam("limit"))
        ),
        notice.c.created_at < bindparam("before"),
    )
)


def drop_old(tx: Transaction, *, before: int, limit: int) -> int:
    """Forget notices that no worker asked for in time."""
    return tx.change(_DROP_OLD, before=before, limit=limit)
