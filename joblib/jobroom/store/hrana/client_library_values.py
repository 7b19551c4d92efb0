"""Statements and results as the library ``libsql-client`` has them."""

from __future__ import annotations

from typing import Any, TypeAlias

from jobroom.store.hrana.transport import Result, Step
from jobroom.store.hrana.values import check_text, plain

Statement: TypeAlias = tuple[str, list[Any]]


def statement(step: Step) -> Statement:
    """A statement as the library takes it; raises DataError for what cannot be sent."""
    args = [plain(value) for value in step.args]
    for text in (step.sql, *(value for value in args if isinstance(value, str))):
        check_text(text)
    return step.sql, args


def read_result(found: Any) -> Result:
    """A result of the library's."""
    return Result(
        columns=tuple(found.columns),
        rows=[row.astuple() for row in found.rows],
        count=int(found.rows_affected),
        rowid=found.last_insert_rowid,
        rows_read=0,
        rows_written=0,
        replication_index=None,
    )
