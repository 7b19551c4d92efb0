"""Graphs of thousands of tasks, made in two statements behind the back of the rules."""

from __future__ import annotations

from desk import Desk

_REST = (
    "job_seq, room_id, created_by_id, ready, priority, turn, payload, schema_version,"
    " created_at, attempt, starts, idle_claims, max_attempts, version"
)


def grow(desk: Desk, root: str, count: int, shape: str = "chain") -> None:
    """So many blocked tasks below one: a ``chain``, or a ``fan`` of its direct dependents."""
    numbers = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"  # noqa: S608 - our own names
        f" WHERE i < {count}) SELECT"
    )
    desk.write(
        f"INSERT INTO task (id, status, has_dependencies, has_dependents, {_REST})"
        f" {numbers} id || '-' || i, 'blocked', 1, 1, {_REST}"
        f" FROM task CROSS JOIN n WHERE id = '{root}' ORDER BY i"
    )
    above = f"CASE i WHEN 1 THEN '{root}' ELSE '{root}-' || (i - 1) END"
    if shape == "fan":
        above = f"'{root}'"
    desk.write(
        "INSERT INTO edge (dependency_id, dependent_seq, condition, state)"
        f" {numbers} {above}, task.seq, 'afterok', 'waiting'"
        f" FROM n JOIN task ON task.id = '{root}-' || i"
    )
    desk.write(f"UPDATE task SET has_dependents = 1 WHERE id = '{root}'")  # noqa: S608 - as above
