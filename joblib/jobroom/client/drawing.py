"""The payloads of a map: drawn beside its requests, for a source may pause, or wait for results."""

from __future__ import annotations

import contextvars
import math
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Sized
from itertools import islice
from typing import Any

DRAW_SECONDS = 0.2
"""How long payloads are gathered for one request, where they come slowly."""
SIGNALS_SECONDS = 0.25
"""How long a Ctrl-C that comes just before a wait may be overlooked."""


class Supply:
    """What has been drawn and not yet taken, never more than was asked for.

    Whoever starts to draw says how to wake it, and whoever takes; a list is at hand as it is.
    ``portion`` payloads are worth a request at once, fewer are gathered for a while.
    """

    def __init__(self, payloads: Iterable[Any] | AsyncIterable[Any], *, portion: int = 1) -> None:
        self.portion = portion
        self.is_async = isinstance(payloads, AsyncIterable)
        self.is_at_hand = type(payloads) in {list, tuple}
        self.total = len(payloads) if isinstance(payloads, Sized) else None
        self.failure: BaseException | None = None
        self.source: Any = (
            aiter(payloads) if isinstance(payloads, AsyncIterable) else iter(payloads)
        )
        self.pump: Any = None
        self.wake_drawer: Callable[[], object] = _nobody
        self.wake_taker: Callable[[], object] = _nobody
        self.leave_drawer: Callable[[], object] = _nobody
        self._lock = threading.Lock()
        self._drawn: deque[Any] = deque()
        self._oldest_at = 0.0
        self._most = 0
        self._has_ended = False

    # Who takes

    def ask(self, most: int) -> None:
        """Say how many may be drawn ahead."""
        with self._lock:
            self._most = most
        self.wake_drawer()

    def rest(self, until: float) -> float:
        """Return for how long there is nothing to take yet, at most up to a moment."""
        with self._lock:
            is_full = len(self._drawn) >= self._most >= self.portion
            if self._has_ended or is_full:
                return 0.0
            gathered_at = self._oldest_at + DRAW_SECONDS if self._drawn else math.inf
        return max(0.0, min(gathered_at, until) - time.monotonic())

    def take(self) -> list[Any]:
        """Return the payloads for one request; none while they are gathered."""
        if self.is_at_hand:
            found = list(islice(self.source, self._most))
            self._has_ended = len(found) < self._most
            return found
        if self.rest(math.inf) > 0:
            return []
        with self._lock:
            found = [self._drawn.popleft() for _ in range(min(self._most, len(self._drawn)))]
            self._most = 0  # or the next would be drawn before there is room for them
            return found

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be had."""
        return self._has_ended and not self._drawn

    def close(self) -> None:
        """Take no more: who draws ends, as soon as the source gives it back.

        That is waited for a moment, so that a source may come to its end before the program does.
        """
        with self._lock:
            self._has_ended = True
            self._drawn.clear()
        self.source = None
        self.wake_drawer()
        self.leave_drawer()

    def forked(self) -> None:
        """Go on in a process that was forked, perhaps while another thread held the lock."""
        self._lock = threading.Lock()

    # Who draws

    @property
    def is_wanted(self) -> bool:
        """Whether there is still somebody who takes."""
        return not self._has_ended

    @property
    def has_room(self) -> bool:
        """Whether the next may be drawn."""
        return len(self._drawn) < self._most

    def put(self, payload: Any) -> None:
        """Lay down what was drawn."""
        with self._lock:
            if self._has_ended:
                return
            if not self._drawn:
                self._oldest_at = time.monotonic()
            self._drawn.append(payload)
            is_news = len(self._drawn) in {1, self._most}
        if is_news:
            self.wake_taker()

    def end(self, failure: BaseException | None = None) -> None:
        """Say that the source has ended, or that it raised."""
        with self._lock:
            if not self._has_ended:
                self._has_ended, self.failure = True, failure
        self.wake_taker()


def _nobody() -> None:
    """Wake nobody."""


class Pump:
    """Draws in a thread, for a program that blocks."""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self._begin()

    def _begin(self) -> None:
        self._pid, self._news = os.getpid(), threading.Event()
        self._supply.wake_taker = self._news.set
        thread = start_thread(self._supply)

        def leave() -> None:
            if thread is not threading.current_thread():
                thread.join(SIGNALS_SECONDS)

        self._supply.leave_drawer = leave

    def take(self, most: int, seconds: float) -> list[Any]:
        """Return payloads, after ``seconds`` also none."""
        until = time.monotonic() + seconds
        if self._pid != os.getpid():  # a fork has left the thread behind
            self._supply.forked()
            self._begin()
        self._supply.ask(most)
        while (rest := self._supply.rest(until)) > 0:
            self._news.wait(min(rest, SIGNALS_SECONDS))
            self._news.clear()
        return self._supply.take()


def start_thread(supply: Supply) -> threading.Thread:
    """Draw in a thread: a source that never comes back keeps no program from its end."""
    room = threading.Event()
    supply.wake_drawer = room.set
    here = contextvars.copy_context()
    thread = threading.Thread(
        target=here.run, args=(_draw, supply, room), name="jobroom-payloads", daemon=True
    )
    thread.start()
    return thread


def _draw(supply: Supply, room: threading.Event) -> None:
    source = supply.source
    try:
        while supply.is_wanted:
            if supply.has_room:
                supply.put(next(source))
            else:
                room.wait()
                room.clear()
    except StopIteration:
        supply.end()
    except BaseException as failure:  # noqa: BLE001  # raised where the payloads are taken
        supply.end(failure)
