"""Group commit on an event loop: statements run here, only the commit waits on another thread.

Handing each request to a writer thread and back costs more than the statements themselves: two
threads that both run Python pass the interpreter to and fro. So what was asked for in one turn of
the loop, and while the last group was being committed, is run in one go on the loop, and the
lane's thread commits it: there the interpreter is free while the disk works.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from jobroom.store.lane import LARGEST_GROUP, LONGEST_PAUSE_SECONDS, Lane

if TYPE_CHECKING:
    import asyncio

    from jobroom.store.lane import Work
    from jobroom.store.remote_lane import RemoteLane

PATIENCE_TURNS = 200
"""So many times a busy lane is tried from the loop before its own thread waits for it instead."""
GATHERING_TURNS = 8
"""So many turns of the loop a group grows, as long as each brings it something."""


def for_lane(lane: Lane | RemoteLane, loop: asyncio.AbstractEventLoop) -> Grouping | Posting:
    """The way of writes to a lane: on the loop, where its statements take microseconds."""
    return Grouping(lane, loop) if isinstance(lane, Lane) else Posting(lane, loop)


class Posting:
    """The writes of one event loop to a store across a network: each waits in a thread."""

    def __init__(self, lane: RemoteLane, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.add = lane.post

    def mailbox(self, works: list[Work]) -> None:
        """Called on the thread that has answered these."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(settle, works)


class Grouping:
    """The writes of one event loop, on their way to the writer's lane."""

    def __init__(self, lane: Lane, loop: asyncio.AbstractEventLoop) -> None:
        self._lane = lane
        self._loop = loop
        self._waiting: list[Work] = []
        self._under_way = False
        self._turns = 0

    def add(self, work: Work) -> None:
        """Run a request with the next group."""
        self._waiting.append(work)
        if not self._under_way:
            self._under_way = True
            self._loop.call_soon(self._gather, 0, GATHERING_TURNS)

    def _gather(self, seen: int, turns: int) -> None:
        """Run the group when a turn of the loop has brought it nothing more.

        Clients that were answered together ask again together, within a few turns; one commit for
        all of them saves the disk, and them, a second one.
        """
        count = len(self._waiting)
        if seen < count < LARGEST_GROUP and turns:
            self._loop.call_soon(self._gather, count, turns - 1)
        else:
            self._run()

    def _run(self) -> None:
        group, rest = self._waiting[:LARGEST_GROUP], self._waiting[LARGEST_GROUP:]
        self._waiting = rest
        if self._lane.try_run(group, told=self._freed):
            self._turns = 0
            return
        self._turns += 1
        if self._turns > PATIENCE_TURNS:
            for work in group:
                self._lane.post(work)
            self._turns = 0
            self._go_on()
            return
        self._waiting = group + rest
        # Another process writes, or a sweep: a random moment serves all writers best (measured).
        self._loop.call_later(random.uniform(0, LONGEST_PAUSE_SECONDS), self._run)  # noqa: S311

    def mailbox(self, works: list[Work]) -> None:
        """Called on whichever lane's thread has answered these; one call wakes the loop for all."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(settle, works)

    def _freed(self) -> None:
        """Called on the lane's thread when the last group is committed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        if self._waiting:
            self._gather(0, GATHERING_TURNS)
        else:
            self._under_way = False


def settle(works: list[Work]) -> None:
    """Give finished works' results to the futures that wait for them."""
    for work in works:
        future = work.future
        if future.done():
            continue
        if work.error is not None:
            future.set_exception(work.error)
        else:
            future.set_result(work.result)
