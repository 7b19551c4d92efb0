"""Connections to a PostgreSQL server: opened when needed, kept for the next, checked for life.

Not ``psycopg_pool``: it connects in threads of its own, so that a request learns of a server that
is down only by waiting in vain, and never why; and it finds a connection that the server has ended
only by a round trip, or by failing.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from jobroom.store import patience
from jobroom.store.postgres_line import ANSWER_SECONDS, Connection, Line
from jobroom.store.postgres_login import CONNECT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobroom.store.postgres_login import Login

STATEMENT_SECONDS = 20
LOCK_SECONDS = 5
IDLE_IN_TRANSACTION_SECONDS = 10
"""A process that was stopped in the middle must not keep others from what it has locked."""
UNUSED_SECONDS = 300.0
"""So long a connection is kept that nobody has needed."""

_LIMITS = {
    "statement_timeout": f"{STATEMENT_SECONDS}s",
    "lock_timeout": f"{LOCK_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
}
_PLANS = {
    # A claim is planned in milliseconds and runs in a fifth of one.
    "plan_cache_mode": "force_generic_plan",
    # Every statement has its index; a plan made while a table was empty is kept when it is not.
    "enable_seqscan": "off",
    "jit": "off",
}


def _set(settings: Mapping[str, str], *, local: bool) -> str:
    made = (f"set_config('{name}', '{value}', {local})" for name, value in settings.items())
    return " || ".join(made)


SET_LOCALLY = f"SELECT {_set(_LIMITS | {'enable_seqscan': 'off'}, local=True)}"
"""The same for one transaction, where the next one has another server connection."""


class TakenError(Exception):
    """All connections are in use, and stay so."""


def connect(parameters: Mapping[str, Any]) -> Line:
    """A connection that is ready for use: one round trip after the server's own greeting."""
    # Those that are prepared the line itself prepares.
    connection = Connection.connect(**hurried(parameters), autocommit=True, prepare_threshold=None)
    try:
        is_pooled = _make_ready(connection)
    except BaseException:
        connection.close()
        raise
    return Line(connection, is_pooled=is_pooled, parameters=parameters)


def hurried(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same, or with the seconds that are left; fewer than two psycopg does not take."""
    seconds = patience.left(math.inf)
    if seconds == math.inf:
        return parameters
    return {**parameters, "connect_timeout": max(1, int(min(seconds, CONNECT_SECONDS)))}


def _make_ready(connection: Connection) -> bool:
    """Set what holds for the session, unless a pooler would give it to somebody else.

    A pooler tells a process number that is not the server's.
    """
    is_ours = f"pg_backend_pid() = {connection.info.backend_pid}"
    settings = _set(_LIMITS | _PLANS, local=False)
    [row] = connection.execute(
        f"SELECT {is_ours}, CASE WHEN {is_ours} THEN {settings} END".encode()
    )
    return not row[0]


class Pool:
    """Up to ``size`` connections, for as many threads at a time; the others wait ``seconds``."""

    def __init__(self, login: Login, *, size: int, seconds: float) -> None:
        self._login = login
        self._slots = threading.Semaphore(size)
        self._seconds = seconds
        self._idle: deque[Line] = deque()
        self._closed = threading.Event()

    def take(self) -> Line:
        """A connection of one's own; raises psycopg's error where there is none to be had."""
        seconds = patience.left(self._seconds)
        if not self._slots.acquire(timeout=seconds):
            raise TakenError(f"no connection became free in {seconds:.3g} seconds")
        try:
            line = self._kept(self._login.parameters()) or self._login.reach(connect)
        except BaseException:
            self._slots.release()
            raise
        # Nobody waits for the answer any longer than that.
        line.connection.patience = min(ANSWER_SECONDS, self._seconds)
        return line

    def give(self, line: Line) -> None:
        """Give a connection back; one with anything open in it is closed."""
        if self._closed.is_set() or line.connection.closed or not line.is_idle():
            line.close()
        else:
            line.unused_since = time.monotonic()
            self._idle.append(line)
            self._close_unused()
            if self._closed.is_set():  # at this very moment, after its last look
                self.drop()
        self._slots.release()

    def drop(self) -> None:
        """Close what is idle: the server has become another one, or what was prepared has aged."""
        while (line := self._kept()) is not None:
            line.close()

    def close(self) -> None:
        """Close what is idle now, and the rest when it is given back."""
        self._closed.set()
        self.drop()

    def _kept(self, parameters: Mapping[str, Any] | None = None) -> Line | None:
        """The one used last, so that those are left over which are not needed.

        One made with other parameters is closed: it may lead to a server that is not ours now.
        """
        while True:
            try:
                line = self._idle.pop()
            except IndexError:
                return None
            is_ours = parameters is None or line.parameters is parameters
            if is_ours and line.is_sound():
                return line
            line.close()

    def _close_unused(self) -> None:
        try:
            oldest = self._idle.popleft()
        except IndexError:
            return
        if oldest.unused_since < time.monotonic() - UNUSED_SECONDS:
            oldest.close()
        else:
            self._idle.appendleft(oldest)
