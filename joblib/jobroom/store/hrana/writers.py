"""Places for writers, few per process, and group commit over the network.

sqld stops writing for good under many writers at once (measured), so a write waits for a place.
Whoever gets one takes along what else waits: independent transactions in one request, each with
its own commit and its own result. So the busier the queue, the less a round trip costs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NoReturn

from jobroom.store import patience
from jobroom.store.hrana.errors import Error, InternalError, OperationalError
from jobroom.store.hrana.pipeline import Chain
from jobroom.store.hrana.transport import Result

LARGEST_GROUP = 64
LARGEST_GROUP_BYTES = 1_000_000


class Ticket:
    """A thread's place in the queue for a place to write."""

    __slots__ = ("has_place", "woken")

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.has_place = False


class Write(Ticket):
    """A batch that waits to be sent; then its results, or its error.

    ``chain`` is None for a single statement that commits by itself.
    """

    __slots__ = ("chain", "error", "request", "results")

    def __init__(self, request: str, chain: Chain | None = None) -> None:
        super().__init__()
        self.request = request
        self.chain = chain
        self.results: list[Result] | None = None
        self.error: Error | None = None


class Writers:
    """The places, and who waits for one, first come, first served."""

    def __init__(
        self, most: int, timeout_seconds: float, send: Callable[[list[Write]], None] | None = None
    ) -> None:
        self._free = most
        self._timeout = timeout_seconds
        self._send = send
        self._lock = threading.Lock()
        self._queue: deque[Ticket] = deque()

    def write(self, write: Write) -> list[Result]:
        """Send a batch, with others or in another's company; its results, or its error raised."""
        if self._enter(write):
            self._lead(write)
        if write.error is not None:
            raise write.error
        if write.results is None:
            raise InternalError("The batch was not sent.", code="INTERNAL", applied=None)
        return write.results

    def acquire(self) -> None:
        """Take a place, for a stream; raises BUSY_HERE where none gets free in time."""
        self._enter(Ticket())

    def release(self) -> None:
        """Give a place to whoever has waited longest."""
        with self._lock:
            if not self._queue:
                self._free += 1
                return
            ticket = self._queue.popleft()
            ticket.has_place = True
        ticket.woken.set()

    def _enter(self, ticket: Ticket) -> bool:
        """Wait for a place; False if another has sent the ticket's batch meanwhile."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            self._queue.append(ticket)
        try:
            if not ticket.woken.wait(patience.left(self._timeout)):
                self._give_up(ticket)
            # It may be on its way just now: the request that carries it has a bound, which may be
            # another's, and longer.
            if not ticket.woken.wait(patience.left(threading.TIMEOUT_MAX)):
                _lose()
        except BaseException:
            if not self._leave(ticket) and ticket.has_place:
                self.release()
            raise
        return ticket.has_place

    def _give_up(self, ticket: Ticket) -> None:
        if self._leave(ticket):
            message = "Too many writes wait for the store here; try again in a moment."
            raise OperationalError(message, code="BUSY_HERE", applied=False)

    def _leave(self, ticket: Ticket) -> bool:
        with self._lock:
            if ticket in self._queue:
                self._queue.remove(ticket)
                return True
        return False

    def _lead(self, write: Write) -> None:
        group = [write]
        try:
            group += self._company(write)
            if self._send is not None:
                self._send(group)
        finally:
            self.release()
            for one in group:
                if one.results is None and one.error is None:
                    message = "The request that carried the batch was given up."
                    one.error = OperationalError(message, code="TRANSPORT", applied=None)
                one.woken.set()

    def _company(self, write: Write) -> list[Write]:
        """What else waits to be written, as much of it as goes into one request, in order."""
        room = LARGEST_GROUP_BYTES - len(write.request)
        taken: list[Write] = []
        with self._lock:
            for ticket in self._queue:
                if isinstance(ticket, Write):
                    room -= len(ticket.request)
                    if room < 0 or len(taken) == LARGEST_GROUP - 1:
                        break
                    taken.append(ticket)
            for one in taken:
                self._queue.remove(one)
        return taken


def _lose() -> NoReturn:
    message = "The request that carries the batch was not answered in time."
    raise OperationalError(message, code="TIMEOUT", applied=None)
