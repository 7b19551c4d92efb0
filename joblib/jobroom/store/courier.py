"""A thread with an inbox: started by the first item, ended by the last."""

from __future__ import annotations

import logging
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

log = logging.getLogger("jobroom")


class Courier(Generic[T]):
    """Hands items to ``deliver``, one after the other, on a thread of its own."""

    def __init__(self, name: str, deliver: Callable[[T], None]) -> None:
        self._name = name
        self._deliver = deliver
        self._inbox: SimpleQueue[T | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits just now."""
        return self._inbox.empty()

    def put(self, item: T) -> None:
        """Leave an item; it is delivered soon, in order."""
        self._inbox.put(item)
        if self._thread is None:
            self._start()

    def take(self, most: int) -> Iterator[T]:
        """Take items that wait already, instead of having them delivered."""
        for _ in range(most):
            try:
                item = self._inbox.get_nowait()
            except Empty:
                return
            if item is None:
                self._inbox.put(None)  # the mark of the end stays behind for the thread
                return
            yield item

    def stop(self) -> None:
        """Deliver what waits and end the thread; what comes later waits for ``take``."""
        with self._starting:
            self._stopped = True
            thread = self._thread
        if thread is not None:
            self._inbox.put(None)
            thread.join()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        while (item := self._inbox.get()) is not None:
            try:
                self._deliver(item)
            except Exception:
                # An item that cannot be delivered must not keep the others from it.
                log.exception("courier.failed name=%s", self._name)
