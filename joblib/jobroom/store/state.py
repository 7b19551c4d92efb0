"""What the queue remembers about itself: a handful of numbers by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.store.schema import queue_state
from jobroom.store.statement import Statement

if TYPE_CHECKING:
    from jobroom.store.transaction import Transaction

SWEEP_FINISHED_AT = "sweep_finished_at"
JUDGE_AGAIN_AT = "judge_again_at"
SWEPT_AT = "swept_at"
STUCK_AFTER = "stuck_after"
"""The ``seq`` up to which the sweep has looked for blocked tasks that are stuck."""
FIRED_AT = "fired_at"
"""When schedules were last looked at: the clock may have been set back since."""
COPY_NOT_FINISHED = "copy_not_finished"
"""There while a copy is being written here (``store.copying``)."""

_GET = Statement(select(queue_state.c.value).where(queue_state.c.name == bindparam("name")))
_new = upsert(queue_state).values(name=bindparam("name"), value=bindparam("value"))
_SET = Statement(
    _new.on_conflict_do_update(index_elements=["name"], set_={"value": _new.excluded.value})
)


def get(tx: Transaction, name: str) -> int | None:
    """The number remembered under a name."""
    row = tx.row(_GET, name=name)
    return None if row is None else int(row[0])


def put(tx: Transaction, name: str, value: int) -> None:
    """Remember a number under a name."""
    tx.later(_SET, name=name, value=value)
