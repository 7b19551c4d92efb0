"""The tables behind the back of the rules: what no use case would read or write."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from jobroom.service.queue import JobQueue
from jobroom.store.statement import Statement


def read(queue: JobQueue, sql: str) -> list[tuple[Any, ...]]:
    """Run a query on the queue's store."""
    return [tuple(row) for row in queue.database.read(sql)]


def write(queue: JobQueue, *sql: str) -> None:
    """Run statements in one transaction; raises the driver's error."""
    statements = [Statement(text(each)) for each in sql]
    queue.run(lambda tx: [tx.change(statement) for statement in statements])
