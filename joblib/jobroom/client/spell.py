"""A trouble that lasts, told once when it begins and once when it is over."""

from __future__ import annotations

import logging
import threading
import time

log = logging.getLogger("jobroom.client")


class Spell:
    """Knows from the tries of all threads whether a trouble lasts; ``over`` names its end.

    A try counts as of when it was made: what was asked before the trouble began does not show
    that it is over, and what was asked before the last good answer does not begin another one.
    It is not over while a call that met it is still being repeated, whoever else is answered.
    """

    def __init__(self, over: str) -> None:
        self._over = over
        self._lock = threading.Lock()
        self._since: float | None = None
        self._where = ""
        self._good_at = 0.0
        self._doubtful = False
        self._met_by: set[object] = set()

    @property
    def lasts(self) -> bool:
        """Whether it has begun and is not over."""
        return self._since is not None

    def met(self, call: object, event: str, *, where: str, reason: str, asked_at: float) -> None:
        """Note a try that met the trouble, which is told if it is news."""
        with self._lock:
            if asked_at <= self._good_at:
                return
            self._met_by.add(call)
            if self._since is not None:
                return
            self._since, self._where = time.monotonic(), where
        log.warning("%s url=%s reason=%r retrying=yes", event, where, reason)

    def doubt(self) -> bool:
        """Note a try that may mean nothing; whether it is the second one without a good one."""
        doubtful, self._doubtful = self._doubtful, True
        return doubtful

    def good(self, call: object, *, asked_at: float) -> None:
        """Note a try that did not meet the trouble."""
        with self._lock:
            self._doubtful = False
            self._good_at = max(self._good_at, asked_at)
            self._met_by.discard(call)
            since = self._since
            if since is None or self._met_by or asked_at < since:
                return
            self._since, where = None, self._where
        log.warning("%s url=%s seconds=%.1f", self._over, where, time.monotonic() - since)

    def forget(self, call: object) -> None:
        """Note that a call is repeated no more."""
        with self._lock:
            self._met_by.discard(call)


class Troubles:
    """What may stand between a program and its server: an outage, and a token that is no good."""

    def __init__(self) -> None:
        self.outage = Spell("server.back")
        self.token = Spell("token.accepted")

    def good(self, call: object, *, asked_at: float) -> None:
        """Note an answer of the server's own to somebody it knows."""
        self.outage.good(call, asked_at=asked_at)
        self.token.good(call, asked_at=asked_at)

    def forget(self, call: object) -> None:
        """Note that a call is repeated no more."""
        self.outage.forget(call)
        self.token.forget(call)
