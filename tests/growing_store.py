"""What a SQLite store reads for a statement, with few tasks in it and with many that have ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from desk import Desk

from jobroom.domain.records import Caller
from jobroom.store.schema import task
from jobroom.store.statement import Statement


def finish_many(desk: Desk, caller: Caller, count: int) -> None:
    """So many tasks that have ended, of a job of their own, in a hundred rooms."""
    template = desk.submit(caller, desk.job(caller, "Done"))
    desk.report(caller, template, "cancelled")
    rest = ", ".join(
        column.name for column in task.c if column.name not in {"seq", "id", "room_id"}
    )
    desk.write(
        f"INSERT INTO task (id, room_id, {rest})"  # noqa: S608 - our own names
        " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {count}) SELECT id || '-' || i, 'q' || (i % 100), {rest}"
        f" FROM task CROSS JOIN n WHERE id = '{template.id}' ORDER BY i"
    )


def reads_of(desk: Desk, caller: Caller, statement: Statement, *, is_analyzed: bool) -> list[str]:
    """The scans and searches in a statement's plan, in a store with some thousand tasks."""
    finish_many(desk, caller, 3000)
    for n in range(20):
        desk.submit_many(caller, desk.job(caller, f"N{n}"), 20)
    if is_analyzed:
        desk.write("ANALYZE")
    text = statement.compiled(desk.queue.database.spelling).text
    reader: Any = desk.queue.reader
    rows = reader._connection.execute(f"EXPLAIN QUERY PLAN {text}", (1,) * text.count("?"))
    reads = [row[3] for row in rows if re.match("SCAN|SEARCH", row[3])]
    assert reads
    return reads


def steps_of(desk: Desk, reading: Callable[[], object]) -> int:
    """How many tens of the virtual machine's steps a reading takes."""
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    reader: Any = desk.queue.reader
    reader._connection.set_progress_handler(count, 10)
    reading()
    reader._connection.set_progress_handler(None, 0)
    return taken
