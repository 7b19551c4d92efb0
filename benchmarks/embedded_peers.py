"""One round of a peer's queue on SQLite, as JSON; run by the peers' own interpreter.

Run: <peers' venv>/bin/python embedded_peers.py huey|litequeue FULL|NORMAL <tasks>
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

PAYLOAD = {"angle": 90, "axis": "z", "note": "x" * 160}


class Peer(NamedTuple):
    """How a peer is asked for the two steps of a task's life."""

    submit: Callable[[], object]
    claim_and_complete: Callable[[], object]


def huey(folder: Path, synchronous: str) -> Peer:
    """A task whose result is stored, as a completed task of ours keeps its own."""
    from huey import SqliteHuey  # type: ignore[import-not-found]  # of the peers' environment

    queue = SqliteHuey("bench", filename=str(folder / "huey.db"), fsync=synchronous == "FULL")
    if synchronous == "NORMAL":  # its own other choice, OFF, is less than what is compared
        queue.storage.conn.execute("PRAGMA synchronous = NORMAL")

    @queue.task()  # type: ignore[untyped-decorator]  # as above
    def rotate(_payload: dict[str, Any]) -> int:
        return 1

    return Peer(lambda: rotate(PAYLOAD), lambda: queue.execute(queue.dequeue()))


def litequeue(folder: Path, synchronous: str) -> Peer:
    """Put, pop, done."""
    from litequeue import LiteQueue  # type: ignore[import-not-found]  # as above

    queue = LiteQueue(str(folder / "litequeue.db"))
    queue.conn.execute(f"PRAGMA synchronous = {synchronous}")
    return Peer(lambda: queue.put(json.dumps(PAYLOAD)), lambda: queue.done(queue.pop().message_id))


@contextmanager
def peer(name: str, synchronous: str) -> Iterator[Peer]:
    """An empty queue of that peer."""
    with tempfile.TemporaryDirectory() as folder:
        yield {"huey": huey, "litequeue": litequeue}[name](Path(folder), synchronous)


def main() -> None:
    """Print the seconds of so many calls of each step."""
    name, synchronous, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seconds = {}
    with peer(name, synchronous) as queue:
        for step, call in zip(Peer._fields, queue, strict=True):
            start = time.perf_counter()
            for _ in range(count):
                call()
            seconds[step] = time.perf_counter() - start
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
