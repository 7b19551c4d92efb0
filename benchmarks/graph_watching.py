"""What ours writes, told from the rows of its file before and after each call.

So the floor writes the same, whatever column is added to the schema.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

import graph_scenes


def _row(connection: sqlite3.Connection, job_id: str) -> dict[str, Any]:
    """The task of that id as it is."""
    cursor = connection.execute("SELECT * FROM task WHERE id = ?", [job_id])
    names = [name for name, *_ in cursor.description]
    return dict(zip(names, cursor.fetchone(), strict=True))


class Watched(NamedTuple):
    """What ours writes, as SQL, told from rows before and after each call."""

    columns: str
    values: str
    """Of a new task; it binds id, payload, status and has_dependencies by name."""
    edge: str
    awaited: str
    taken: str
    completed: str
    promoted: str
    failed: str
    fallen: str
    """Of a task that fails because its dependency, the column ``cause``, has failed."""


def watch(queue: graph_scenes.Queue) -> Watched:
    """Let ours do everything once; its file is then one that the floor can work on."""
    reading = sqlite3.connect(queue.path)
    first, second, third, fourth = (graph_scenes.new_id() for _ in range(4))
    try:
        queue.add(queue.prepare(first, ()))
        added = _row(reading, first)
        queue.add(queue.prepare(second, (first,)))
        awaited, blocked = _row(reading, first), _row(reading, second)
        edge = _edge(reading, first)
        assert queue.take() == first
        running = _row(reading, first)
        queue.end(first, ok=True)
        completed, promoted = _row(reading, first), _row(reading, second)
        assert _edge(reading, first)["state"] == "met"
        assert queue.take() == second
        queue.end(second, ok=True)
        queue.add(queue.prepare(third, ()))
        queue.add(queue.prepare(fourth, (third,)))
        unfallen = _row(reading, fourth)
        assert queue.take() == third
        held = _row(reading, third)
        queue.end(third, ok=False)
        failed, fallen = _row(reading, third), _row(reading, fourth)
    finally:
        reading.close()
    given = _given(added, first)
    return Watched(
        ", ".join(given),
        ", ".join(given.values()),
        ", ".join(_edge_values(edge)),
        _changes(added, awaited),
        _changes(awaited, running),
        _changes(running, completed),
        _changes(blocked, promoted),
        _changes(held, failed),
        _changes(unfallen, fallen, cause=third),
    )


def _edge(connection: sqlite3.Connection, dependency_id: str) -> dict[str, Any]:
    cursor = connection.execute("SELECT * FROM edge WHERE dependency_id = ?", [dependency_id])
    names = [name for name, *_ in cursor.description]
    return dict(zip(names, cursor.fetchone(), strict=True))


def _edge_values(edge: dict[str, Any]) -> list[str]:
    bound = {"dependency_id": ":dependency", "dependent_seq": ":seq"}
    return [bound.get(name) or _sql(value) for name, value in edge.items()]


def _given(added: dict[str, Any], job_id: str) -> dict[str, str]:
    """The columns of a new task that are not NULL; those of no task are left out."""
    bound = {name: f":{name}" for name in ("payload", "status", "has_dependencies")}
    return {
        name: ":id" if value == job_id else bound.get(name) or _sql(value)
        for name, value in added.items()
        if name != "seq" and value is not None
    }


def _changes(before: dict[str, Any], after: dict[str, Any], *, cause: str = "") -> str:
    changed = {name: value for name, value in after.items() if value != before[name]}
    return ", ".join(
        f"{name} = {_changed(name, before[name], value, cause)}" for name, value in changed.items()
    )


def _changed(name: str, before: Any, after: Any, cause: str) -> str:
    if isinstance(before, int) and isinstance(after, int) and after - before == 1:
        return f"{name} + 1"
    if cause and isinstance(after, str) and cause in after:
        parts = [_sql(part) for part in after.split(cause)]
        return " || cause || ".join(parts)
    return _sql(after)


_A_TIME = 10**15


def _sql(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return ":now" if isinstance(value, int) and value > _A_TIME else repr(value)
