"""A way to a libSQL server, whatever carries it: batches of one round trip, and streams."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

MOST_WRITERS = 2
"""Writing requests in flight per process: sqld was measured to stop writing for good with 16."""


class Step(NamedTuple):
    """One statement; its parameters stand in the order of its question marks."""

    sql: str
    args: tuple[object, ...] = ()


class Result(NamedTuple):
    """What one statement gave.

    ``count`` is the number of rows that it wrote, ``rowid`` the last one inserted.
    ``replication_index`` rises with each commit of anybody; None where the transport has none.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    count: int  # type: ignore[assignment]  # the name hides the tuple's method
    rowid: int | None
    rows_read: int
    rows_written: int
    replication_index: str | None


class Counters:
    """How many requests were sent, and how many rows the server says it read and wrote for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests = 0
        self.rows_read = 0
        self.rows_written = 0

    def sent(self, requests: int = 1) -> None:
        """So many requests are on their way."""
        with self._lock:
            self.requests += requests

    def answered(self, results: Iterable[Result]) -> None:
        """These came back."""
        read = written = 0
        for result in results:
            read += result.rows_read
            written += result.rows_written
        with self._lock:
            self.rows_read += read
            self.rows_written += written


class Stream(Protocol):
    """One interactive transaction, for one thread at a time; over with its commit or rollback."""

    def run(self, steps: Sequence[Step]) -> list[Result]:
        """Run the steps in one round trip; the first call begins the transaction with it.

        A failing step raises, those after it were not run, and the transaction stays open.
        """

    def commit(self, steps: Sequence[Step] = ()) -> list[Result]:
        """Run the steps, commit and close in one round trip; if a step fails, roll back and raise.

        Where nothing was run before, this is a batch; without steps it is no request at all.
        """

    def rollback(self) -> None:
        """Undo and close; never raises, and sends nothing where nothing is open."""


class Transport(Protocol):
    """Threads may share it. It never repeats a write: whoever calls decides that by the error."""

    counters: Counters

    def batch(self, steps: Sequence[Step], *, write: bool) -> list[Result]:
        """Run the steps in one transaction and one round trip: all of them or none."""

    def stream(self, *, write: bool) -> Stream:
        """A transaction to be held open over several round trips; nothing is sent yet."""

    def close(self) -> None:
        """Close the connections; a second call does nothing."""
