"""What every end of a task writes, whoever ends it and however."""

from __future__ import annotations

from sqlalchemy import and_, bindparam, case, func, select

from jobroom.domain.records import KEY_LIFE
from jobroom.store.schema import job, task
from jobroom.store.statement import literal
from jobroom.store.views import after

_RETAINED_UNTIL = after(
    func.coalesce(
        select(job.c.result_ttl_seconds)
        .where(job.c.seq == task.c.job_seq)
        .correlate(task)
        .scalar_subquery(),
        bindparam("retention"),
    )
)
_KEY_DIES_AT = task.c.created_at + literal(KEY_LIFE)
# A key outlives the retention. The row is due when both are over: a sweep that had to read, and
# leave, every row whose key still lives would take longer with each of them.
_RETENTION = case(
    (
        and_(task.c.idempotency_key.is_not(None), _KEY_DIES_AT > _RETAINED_UNTIL),
        _KEY_DIES_AT,
    ),
    else_=_RETAINED_UNTIL,
)
ENDED = {
    "completed_at": bindparam("now"),
    # What the embedded queue keeps is its owner's to remove.
    "due_at": case((task.c.room_id != literal("@local"), _RETENTION)),
}
"""What every end of a task writes; the parameter ``retention`` goes with it."""
