"""The first schema: jobs, workers, tasks, turns, notices, edges, logs, schedules."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# By code points, as SQLite compares; PostgreSQL would go by the language of its database.
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
# Each status of a task is a new row version with new entries in every index. What is dead is
# cleared away before a claim has to walk over it, not when a fifth of all tasks ever are.
CLEARED_SOON = {
    "fillfactor": 85,
    "autovacuum_vacuum_scale_factor": 0.01,
    "autovacuum_vacuum_threshold": 1000,
    "autovacuum_vacuum_insert_scale_factor": 0.05,
    "autovacuum_analyze_scale_factor": 0.05,
    "autovacuum_vacuum_cost_delay": 0,
}
# A row that is written again and again finds room on its page, and needs no index entry.
WRITTEN_OFTEN = {"fillfactor": 50, "autovacuum_vacuum_cost_delay": 0}


def upgrade() -> None:
    """Create every table and index."""
    op.create_table(
        "job",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("room_id", TEXT, nullable=False),
        sa.Column("category", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("schema", TEXT, nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("hidden", sa.Integer(), nullable=False),
        sa.Column("description", TEXT, nullable=True),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("on_worker_lost", TEXT, nullable=False),
        sa.Column("claim_order", TEXT, nullable=False),
        sa.Column("retry_delay_seconds", sa.Float(), nullable=True),
        sa.Column("timeout_seconds", sa.Float(), nullable=True),
        sa.Column("claim_timeout_seconds", sa.Float(), nullable=True),
        sa.Column("result_ttl_seconds", sa.Float(), nullable=True),
        sa.Column("validate", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("claim_order IN ('fifo', 'fair')", name=op.f("ck_job_claim_order")),
        sa.CheckConstraint(
            "on_worker_lost IN ('fail', 'requeue')", name=op.f("ck_job_on_worker_lost")
        ),
        sa.CheckConstraint("max_attempts >= 1", name=op.f("ck_job_max_attempts")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_job")),
        sa.UniqueConstraint("id", name="uq_job_id"),
        sa.UniqueConstraint("room_id", "category", "name", name="unique_job"),
    )
    op.create_table(
        "notice",
        sa.Column("worker_id", TEXT, nullable=False),
        sa.Column("task_id", TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("worker_id", "task_id", name="pk_notice"),
    )
    op.create_index("ix_notice_created", "notice", ["created_at"], unique=False)
    op.create_table(
        "queue_state",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_queue_state")),
        postgresql_with=WRITTEN_OFTEN,
    )
    op.create_table(
        "worker",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("identity", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_heartbeat", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("kind <> 'identity' OR id = identity", name=op.f("ck_worker_identity")),
        sa.CheckConstraint("kind IN ('identity', 'instance')", name=op.f("ck_worker_kind")),
        sa.CheckConstraint("state IN ('active', 'asleep', 'gone')", name=op.f("ck_worker_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker")),
        postgresql_with=WRITTEN_OFTEN,
    )
    op.create_index(
        "ix_worker_beat",
        "worker",
        ["last_heartbeat"],
        unique=False,
        sqlite_where=sa.text("state = 'active'"),
        postgresql_where=sa.text("state = 'active'"),
    )
    op.create_index("ix_worker_identity", "worker", ["identity", "id"], unique=False)
    op.create_table(
        "fair_turn",
        sa.Column("job_seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("room_id", TEXT, nullable=False),
        sa.Column("next", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_seq"], ["job.seq"], name=op.f("fk_fair_turn_job_seq")),
        sa.PrimaryKeyConstraint("job_seq", "priority", "room_id", name="pk_fair_turn"),
        postgresql_with=WRITTEN_OFTEN,
    )
    op.create_index("ix_fair_turn_next", "fair_turn", ["job_seq", "priority", "next"], unique=False)
    op.create_table(
        "job_schema",
        sa.Column("job_seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("schema", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["job_seq"], ["job.seq"], name=op.f("fk_job_schema_job_seq")),
        sa.PrimaryKeyConstraint("job_seq", "version", name="pk_job_schema"),
    )
    op.create_table(
        "task",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("job_seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("room_id", TEXT, nullable=False),
        sa.Column("created_by_id", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("ready", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.Column("payload", TEXT, nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("run_at", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("completed_at", sa.BigInteger(), nullable=True),
        sa.Column("worker_id", TEXT, nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("starts", sa.Integer(), nullable=False),
        sa.Column("idle_claims", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("timeout_seconds", sa.Float(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("claim_request_id", TEXT, nullable=True),
        sa.Column("idempotency_key", TEXT, nullable=True),
        sa.Column("fingerprint", TEXT, nullable=True),
        sa.Column("progress", sa.Float(), nullable=True),
        sa.Column("message", TEXT, nullable=True),
        sa.Column("error", TEXT, nullable=True),
        sa.Column("result", TEXT, nullable=True),
        sa.Column("key", TEXT, nullable=True),
        sa.Column("has_dependencies", sa.Integer(), nullable=False),
        sa.Column("has_dependents", sa.Integer(), nullable=False),
        sa.Column("failed_by", TEXT, nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "(status = 'completed' OR status = 'failed' OR status = 'cancelled')"
            " = (completed_at IS NOT NULL)",
            name=op.f("ck_task_ended"),
        ),
        sa.CheckConstraint(
            "status = 'pending' OR status = 'running' OR status = 'completed'"
            " OR status = 'claimed' OR status = 'failed' OR status = 'cancelled'"
            " OR status = 'blocked'",
            name=op.f("ck_task_status"),
        ),
        sa.CheckConstraint(
            "status NOT IN ('claimed', 'running') OR worker_id IS NOT NULL",
            name=op.f("ck_task_held"),
        ),
        sa.CheckConstraint("ready IN (0, 1)", name=op.f("ck_task_ready")),
        sa.ForeignKeyConstraint(["job_seq"], ["job.seq"], name=op.f("fk_task_job_seq")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_task")),
        sa.UniqueConstraint("id", name="uq_task_id"),
        postgresql_with=CLEARED_SOON,
    )
    op.create_index(
        "ix_task_blocked",
        "task",
        ["seq"],
        unique=False,
        sqlite_where=sa.text("status = 'blocked'"),
        postgresql_where=sa.text("status = 'blocked'"),
    )
    op.create_index("ix_task_creator", "task", ["created_by_id", "room_id", "seq"], unique=False)
    op.create_index(
        "ix_task_delayed",
        "task",
        ["job_seq", "run_at", sa.text("priority DESC"), "turn", "seq"],
        unique=False,
        sqlite_where=sa.text("status = 'pending' AND ready = 0"),
        postgresql_where=sa.text("status = 'pending' AND ready = 0"),
    )
    op.create_index(
        "ix_task_due",
        "task",
        ["status", "due_at"],
        unique=False,
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    op.create_index(
        "ix_task_held",
        "task",
        ["worker_id"],
        unique=False,
        sqlite_where=sa.text("status IN ('claimed', 'running')"),
        postgresql_where=sa.text("status IN ('claimed', 'running')"),
    )
    op.create_index(
        "ix_task_idempotency",
        "task",
        ["created_by_id", "idempotency_key"],
        unique=True,
        sqlite_where=sa.text("idempotency_key IS NOT NULL"),
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.create_index("ix_task_job", "task", ["job_seq", "status", "room_id", "seq"], unique=False)
    op.create_index("ix_task_room", "task", ["room_id", "status", "seq"], unique=False)
    op.create_table(
        "edge",
        sa.Column("dependency_id", TEXT, nullable=False),
        sa.Column(
            "dependent_seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("condition", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=True),
        sa.CheckConstraint(
            "condition = 'afterok' OR condition = 'afternotok' OR condition = 'afterany'",
            name=op.f("ck_edge_condition"),
        ),
        sa.CheckConstraint(
            "state = 'waiting' OR state = 'met' OR state = 'broken'", name=op.f("ck_edge_state")
        ),
        sa.ForeignKeyConstraint(
            ["dependent_seq"],
            ["task.seq"],
            name=op.f("fk_edge_dependent_seq"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("dependency_id", "dependent_seq", name="pk_edge"),
        sqlite_with_rowid=False,
        postgresql_with=CLEARED_SOON,
    )
    op.create_index("ix_edge_dependent", "edge", ["dependent_seq", "state"], unique=False)
    op.create_table(
        "task_log",
        sa.Column("task_seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("upto", sa.BigInteger(), nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["task_seq"],
            ["task.seq"],
            name=op.f("fk_task_log_task_seq"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("task_seq", "attempt", "upto", name="pk_task_log"),
    )
    op.create_table(
        "schedule",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("room_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("job_seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("created_by_id", TEXT, nullable=False),
        sa.Column("task", TEXT, nullable=False),
        sa.Column("cron", TEXT, nullable=True),
        sa.Column("every_seconds", sa.Float(), nullable=True),
        sa.Column("timezone", TEXT, nullable=False),
        sa.Column("catch_up", TEXT, nullable=False),
        sa.Column("paused", sa.Integer(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=True),
        sa.Column("end_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("last_at", sa.BigInteger(), nullable=True),
        sa.Column("last_task_id", TEXT, nullable=True),
        sa.Column("last_error", TEXT, nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "(cron IS NULL) <> (every_seconds IS NULL)", name=op.f("ck_schedule_times")
        ),
        sa.CheckConstraint("catch_up IN ('one', 'all', 'skip')", name=op.f("ck_schedule_catch_up")),
        sa.ForeignKeyConstraint(["job_seq"], ["job.seq"], name=op.f("fk_schedule_job_seq")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_schedule")),
        sa.UniqueConstraint("id", name="uq_schedule_id"),
        sa.UniqueConstraint("room_id", "name", name="unique_schedule"),
    )
    op.create_index(
        "ix_schedule_due",
        "schedule",
        ["next_at"],
        unique=False,
        sqlite_where=sa.text("next_at IS NOT NULL"),
        postgresql_where=sa.text("next_at IS NOT NULL"),
    )
    op.create_table(
        "worker_job_link",
        sa.Column("worker_id", TEXT, nullable=False),
        sa.Column("job_seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["job_seq"], ["job.seq"], name=op.f("fk_worker_job_link_job_seq")),
        sa.ForeignKeyConstraint(
            ["worker_id"],
            ["worker.id"],
            name=op.f("fk_worker_job_link_worker_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("worker_id", "job_seq", name="pk_worker_job_link"),
    )
    op.create_index(
        "ix_worker_job_link_job", "worker_job_link", ["job_seq", "worker_id"], unique=False
    )
    op.create_index(
        "ix_task_ready",
        "task",
        ["job_seq", sa.text("priority DESC"), "turn", "seq"],
        sqlite_where=sa.text("status = 'pending' AND ready = 1"),
        postgresql_where=sa.text("status = 'pending' AND ready = 1"),
    )
