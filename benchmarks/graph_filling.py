"""A graph of a million jobs in seconds: one job is added in earnest, and its rows are multiplied.

Any queue in a SQLite file can be filled so, with no knowledge of its columns: what names the job,
or the one that it depends on, names the next one in each copy. Needs the standard library alone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

# Scattered as random UUIDs are: ids that rise would be kinder to an index.
_ID = "printf('%08x-0000-4000-8000-%012x', {n} * 2654435761 & 4294967295, {n})"


class Rows(NamedTuple):
    """The rows of one job in one table: those where ``owner`` holds its number or its id."""

    owner: str
    numbers: tuple[str, ...] = ()
    """Columns that number the jobs: those of a copy are as many higher as it is later."""
    awaited: str = ""
    """What a job's row says where others depend on it: ``column = value``."""


def job_id(number: int) -> str:
    """The id of the copy of that number, from 1 on."""
    return f"{number * 2654435761 & 0xFFFFFFFF:08x}-0000-4000-8000-{number:012x}"


class Source(NamedTuple):
    """The job to be multiplied: its id, its number, and the id that it depends on, if it does."""

    id: str
    number: int
    dependency: str = ""


def multiply(
    path: Path,
    tables: Mapping[str, Rows],
    source: Source,
    copies: int,
    *,
    in_chain: bool = False,
) -> None:
    """Copy a job so many times; ``in_chain``: each copy depends on the one before it."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = OFF")
        # Scattered ids touch all of an index: what does not fit is written again and again.
        connection.execute("PRAGMA cache_spill = OFF")
        connection.execute("BEGIN IMMEDIATE")
        for name, rows in tables.items():
            _multiply(connection, name, rows, source, copies, in_chain=in_chain)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    _write_through(path)


def _multiply(
    connection: sqlite3.Connection,
    table: str,
    rows: Rows,
    source: Source,
    copies: int,
    *,
    in_chain: bool,
) -> None:
    """Without the indexes, which are three times as fast to make afterwards."""
    owner: object = source.number if rows.owner in rows.numbers else source.id
    found = f"FROM {table} WHERE {rows.owner} = :owner"
    cursor = connection.execute(f"SELECT * {found}", {"owner": owner})
    row = cursor.fetchone()
    if row is None:
        return
    if in_chain and rows.awaited:
        said = f"UPDATE {table} SET {rows.awaited} WHERE {rows.owner} = ?"  # noqa: S608 - constants, here and below
        connection.execute(said, [owner])
    indexes = connection.execute(
        "SELECT name, sql FROM sqlite_master"
        " WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL",
        [table],
    ).fetchall()
    for name, _ in indexes:
        connection.execute(f'DROP INDEX "{name}"')
    columns = {
        name: _copied(name, value, rows, source, in_chain=in_chain)
        for (name, *_), value in zip(cursor.description, row, strict=True)
    }
    connection.execute(
        "WITH RECURSIVE copy(n) AS"  # noqa: S608
        " (SELECT 1 UNION ALL SELECT n + 1 FROM copy WHERE n < :copies)"
        f" INSERT INTO {table} ({', '.join(columns)})"
        f" SELECT {', '.join(columns.values())} FROM copy, (SELECT * {found})",
        {
            "copies": copies,
            "owner": owner,
            "id": source.id,
            "dependency": source.dependency,
        },
    )
    for _, sql in indexes:
        connection.execute(sql)


def _copied(name: str, value: Any, rows: Rows, source: Source, *, in_chain: bool) -> str:
    """What a column holds in copy ``n``, as SQL."""
    if name in rows.numbers:
        return f"{name} + n"
    copied = name
    if isinstance(value, str) and source.id in value:
        copied = f"replace({copied}, :id, {_ID.format(n='n')})"
    if in_chain and isinstance(value, str) and source.dependency in value:
        before = f"iif(n = 1, :id, {_ID.format(n='(n - 1)')})"
        copied = f"replace({copied}, :dependency, {before})"
    return copied


def _write_through(path: Path) -> None:
    """What the disk still has to write must not slow down what is measured next."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
