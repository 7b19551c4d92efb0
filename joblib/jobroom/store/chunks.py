"""Many ids in few statements: some at a time, of which there are few different counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import bindparam

from jobroom.store.schema import task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import ColumnElement

Key = TypeVar("Key")
MOST_AT_ONCE = 512
"""How many ids one statement names."""


def named(count: int) -> ColumnElement[bool]:
    """The condition that a task is one of so many that are named by ``of_ids``."""
    return task.c.id.in_([bindparam(f"id_{n}", type_=task.c.id.type) for n in range(count)])


def of_ids(ids: Iterable[Key]) -> Iterator[tuple[int, dict[str, Key]]]:
    """The ids as parameters, each time with their count: padded to a power of two."""
    left = list(ids)
    while left:
        some, left = left[:MOST_AT_ONCE], left[MOST_AT_ONCE:]
        count = 1 << (len(some) - 1).bit_length()
        some += some[-1:] * (count - len(some))
        yield count, {f"id_{n}": task_id for n, task_id in enumerate(some)}
