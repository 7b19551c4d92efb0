"""Tasks that wait in PostgreSQL, written past the queue: a million in half a minute."""

from __future__ import annotations

import fill
import psycopg

_ROW = {
    "id": "lpad(to_hex(n >> 16), 8, '0') || '-' || lpad(to_hex(n & 65535), 4, '0')"
    " || '-7000-8000-' || lpad(to_hex(n), 12, '0')",
    "job_seq": "%(job_seq)s",
    "room_id": "'r1'",
    "created_by_id": "'user' || (n %% 10)",
    "status": "'pending'",
    "ready": "1",
    "priority": "0",
    "turn": "0",
    "payload": "%(payload)s",
    "schema_version": "1",
    "created_at": "1790000000000000 + n",
    "attempt": "0",
    "starts": "0",
    "idle_claims": "0",
    "max_attempts": "1",
    "has_dependencies": "0",
    "has_dependents": "0",
    "version": "1",
}
_INSERT = (
    f"INSERT INTO task ({', '.join(_ROW)}) SELECT {', '.join(_ROW.values())}"  # noqa: S608 - ours
    " FROM generate_series(1, %(pending)s) AS n"
)


def fill_job(url: str, *, job_seq: int, pending: int) -> None:
    """So many tasks of a job, oldest first."""
    values = {"job_seq": job_seq, "payload": fill.PAYLOAD, "pending": pending}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_INSERT.encode(), values)
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
