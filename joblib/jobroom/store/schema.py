"""The tables, and the path of one task through them.

A worker registers a **job** (a kind of work; ``job_schema`` keeps every version of its JSON
schema) and is joined to it by **worker_job_link**. A submission adds a row to **task** with
status ``pending``; if its time has not come, ``ready`` is 0 and the index that a claim reads does
not hold it. One that depends on others is ``blocked``; an **edge** says on which, and under which
condition, and whoever ends a task settles its edges and what waited for them. A claim moves the
best row of the worker's jobs to ``claimed`` and raises ``attempt``; the worker reports it
``running``, then ``completed`` or ``failed``. Whoever cancels or takes away a task that is held
leaves a **notice**, which the worker's next heartbeat tells. The sweep acts on rows by ``due_at``:
for a pending one that is its expiry, for a held one its timeout, for a finished one the end of its
retention. What an attempt printed stands in **task_log**, in pieces. A **schedule** makes
the sweep submit a task at its times. **fair_turn** numbers the turns of rooms in fair jobs,
**queue_state** remembers the sweep.

Times are integer microseconds since 1970 by the store's clock. Order is ``seq``, never a time.
Every constraint and index has a name, so that a migration can speak of it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    desc,
    text,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

# SQLite numbers rows by itself only where the key is spelled INTEGER.
Sequence = BigInteger().with_variant(Integer, "sqlite")


def _where(condition: str) -> dict[str, Any]:
    """The predicate of a partial index; said to PostgreSQL here, its dialect would be imported."""
    return {"sqlite_where": text(condition)}


job = Table(
    "job",
    metadata,
    Column("seq", Sequence, primary_key=True),
    Column("id", Text, nullable=False),
    Column("room_id", Text, nullable=False),
    Column("category", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("schema", Text, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("hidden", Integer, nullable=False),
    Column("description", Text),
    Column("max_attempts", Integer, nullable=False),
    Column("on_worker_lost", Text, nullable=False),
    Column("claim_order", Text, nullable=False),
    Column("retry_delay_seconds", Float),
    Column("timeout_seconds", Float),
    Column("claim_timeout_seconds", Float),
    Column("result_ttl_seconds", Float),
    Column("validate", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("last_seen", BigInteger),
    UniqueConstraint("id", name="uq_job_id"),
    UniqueConstraint("room_id", "category", "name", name="unique_job"),
    CheckConstraint("on_worker_lost IN ('fail', 'requeue')", name="on_worker_lost"),
    CheckConstraint("claim_order IN ('fifo', 'fair')", name="claim_order"),
    CheckConstraint("max_attempts >= 1", name="max_attempts"),
)

job_schema = Table(
    "job_schema",
    metadata,
    Column("job_seq", Sequence, ForeignKey("job.seq"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("schema", Text, nullable=False),
    PrimaryKeyConstraint("job_seq", "version", name="pk_job_schema"),
)

worker = Table(
    "worker",
    metadata,
    Column("id", Text, primary_key=True),
    Column("identity", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("name", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("last_heartbeat", BigInteger, nullable=False),
    CheckConstraint("kind IN ('identity', 'instance')", name="kind"),
    CheckConstraint("state IN ('active', 'asleep', 'gone')", name="state"),
    CheckConstraint("kind <> 'identity' OR id = identity", name="identity"),
    Index("ix_worker_identity", "identity", "id"),
    Index("ix_worker_beat", "last_heartbeat", **_where("state = 'active'")),
)

worker_job_link = Table(
    "worker_job_link",
    metadata,
    Column("worker_id", Text, ForeignKey("worker.id", ondelete="CASCADE"), nullable=False),
    Column("job_seq", Sequence, ForeignKey("job.seq"), nullable=False),
    PrimaryKeyConstraint("worker_id", "job_seq", name="pk_worker_job_link"),
    Index("ix_worker_job_link_job", "job_seq", "worker_id"),
)

task = Table(
    "task",
    metadata,
    Column("seq", Sequence, primary_key=True),
    Column("id", Text, nullable=False),
    Column("job_seq", Sequence, ForeignKey("job.seq"), nullable=False),
    Column("room_id", Text, nullable=False),
    Column("created_by_id", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("ready", Integer, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("turn", BigInteger, nullable=False),
    Column("payload", Text, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("run_at", BigInteger),
    Column("expires_at", BigInteger),
    Column("claimed_at", BigInteger),
    Column("started_at", BigInteger),
    Column("completed_at", BigInteger),
    Column("worker_id", Text),
    Column("attempt", Integer, nullable=False),
    Column("starts", Integer, nullable=False),
    Column("idle_claims", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("timeout_seconds", Float),
    Column("due_at", BigInteger),
    Column("claim_request_id", Text),
    Column("idempotency_key", Text),
    Column("fingerprint", Text),
    Column("progress", Float),
    Column("message", Text),
    Column("error", Text),
    Column("result", Text),
    Column("key", Text),
    Column("has_dependencies", Integer, nullable=False),
    Column("has_dependents", Integer, nullable=False),
    Column("failed_by", Text),
    Column("version", Integer, nullable=False),
    UniqueConstraint("id", name="uq_task_id"),
    # Not IN: for a list of more than two, SQLite builds a table at each write (5 us of 15).
    CheckConstraint(
        "status = 'pending' OR status = 'running' OR status = 'completed' OR status = 'claimed'"
        " OR status = 'failed' OR status = 'cancelled' OR status = 'blocked'",
        name="status",
    ),
    CheckConstraint(
        "(status = 'completed' OR status = 'failed' OR status = 'cancelled')"
        " = (completed_at IS NOT NULL)",
        name="ended",
    ),
    CheckConstraint(
        "status NOT IN ('claimed', 'running') OR worker_id IS NOT NULL",
        name="held",
    ),
    CheckConstraint("ready IN (0, 1)", name="ready"),
    # What a claim reads: nothing that is held, delayed, blocked or finished is in it.
    Index(
        "ix_task_ready",
        "job_seq",
        desc("priority"),
        "turn",
        "seq",
        **_where("status = 'pending' AND ready = 1"),
    ),
    # Those of one instant stand in the order in which claims would take them.
    Index(
        "ix_task_delayed",
        "job_seq",
        "run_at",
        desc("priority"),
        "turn",
        "seq",
        **_where("status = 'pending' AND ready = 0"),
    ),
    Index("ix_task_held", "worker_id", **_where("status IN ('claimed', 'running')")),
    Index("ix_task_due", "status", "due_at", **_where("due_at IS NOT NULL")),
    Index(
        "ix_task_idempotency",
        "created_by_id",
        "idempotency_key",
        unique=True,
        **_where("idempotency_key IS NOT NULL"),
    ),
    Index("ix_task_room", "room_id", "status", "seq"),
    Index("ix_task_job", "job_seq", "status", "room_id", "seq"),
    # Without the status, so that only a submission writes to it.
    Index("ix_task_creator", "created_by_id", "room_id", "seq"),
    Index("ix_task_blocked", "seq", **_where("status = 'blocked'")),
)

edge = Table(
    "edge",
    metadata,
    # Names a task that may not be there yet: the embedded queue lets a job wait for it.
    Column("dependency_id", Text, nullable=False),
    Column("dependent_seq", Sequence, ForeignKey("task.seq", ondelete="CASCADE"), nullable=False),
    Column("condition", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("name", Text),
    PrimaryKeyConstraint("dependency_id", "dependent_seq", name="pk_edge"),
    CheckConstraint(
        "condition = 'afterok' OR condition = 'afternotok' OR condition = 'afterany'",
        name="condition",
    ),
    CheckConstraint("state = 'waiting' OR state = 'met' OR state = 'broken'", name="state"),
    Index("ix_edge_dependent", "dependent_seq", "state"),
    sqlite_with_rowid=False,
)

task_log = Table(
    "task_log",
    metadata,
    Column("task_seq", Sequence, ForeignKey("task.seq", ondelete="CASCADE"), nullable=False),
    Column("attempt", Integer, nullable=False),
    # In bytes of UTF-8 from the beginning of the attempt's log, the end of this piece.
    Column("upto", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    PrimaryKeyConstraint("task_seq", "attempt", "upto", name="pk_task_log"),
)

schedule = Table(
    "schedule",
    metadata,
    Column("seq", Sequence, primary_key=True),
    Column("id", Text, nullable=False),
    Column("room_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("job_seq", Sequence, ForeignKey("job.seq"), nullable=False),
    Column("created_by_id", Text, nullable=False),
    # The parts of a submission: payload, priority, max_attempts and so on, as JSON.
    Column("task", Text, nullable=False),
    Column("cron", Text),
    Column("every_seconds", Float),
    Column("timezone", Text, nullable=False),
    Column("catch_up", Text, nullable=False),
    Column("paused", Integer, nullable=False),
    Column("start_at", BigInteger),
    Column("end_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("next_at", BigInteger),
    Column("last_at", BigInteger),
    Column("last_task_id", Text),
    Column("last_error", Text),
    Column("version", Integer, nullable=False),
    UniqueConstraint("id", name="uq_schedule_id"),
    UniqueConstraint("room_id", "name", name="unique_schedule"),
    CheckConstraint("(cron IS NULL) <> (every_seconds IS NULL)", name="times"),
    CheckConstraint("catch_up IN ('one', 'all', 'skip')", name="catch_up"),
    Index("ix_schedule_due", "next_at", **_where("next_at IS NOT NULL")),
)

fair_turn = Table(
    "fair_turn",
    metadata,
    Column("job_seq", Sequence, ForeignKey("job.seq"), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("room_id", Text, nullable=False),
    Column("next", BigInteger, nullable=False),
    PrimaryKeyConstraint("job_seq", "priority", "room_id", name="pk_fair_turn"),
    Index("ix_fair_turn_next", "job_seq", "priority", "next"),
)

notice = Table(
    "notice",
    metadata,
    Column("worker_id", Text, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("worker_id", "task_id", name="pk_notice"),
    Index("ix_notice_created", "created_at"),
)

queue_state = Table(
    "queue_state",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
