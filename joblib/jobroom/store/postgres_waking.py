"""Waking other processes by NOTIFY, and being woken: only while somebody listens.

A NOTIFY makes commits wait for each other, so whoever writes sends one only where another process
has noted, in ``queue_state``, that it listens at this time.
"""

from __future__ import annotations

import select
import time
import uuid
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

import psycopg

from jobroom.store import postgres_pool
from jobroom.store.session import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobroom.store.foreign import Commits
    from jobroom.store.postgres_line import Line
    from jobroom.store.postgres_login import Login

CLOCK = "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint"
"""Microseconds since 1970; stands still in a statement, but not in a transaction."""
CHANNEL = "jobroom"
NOTED_SECONDS = 60
"""So long others tell us what they write; noted again at half that time."""
POLL_SECONDS = 0.25
"""How often whoever waits looks for what others wrote where there is no NOTIFY."""
LOOK_AGAIN_SECONDS = (0.25, 1.0, 5.0)
"""Who wrote before we were noted sends no sign, and may commit later than our first look."""
PATIENCE_SECONDS = 3.0
"""Who ends waits for the listener to end, even where the server has fallen silent."""
OWN_SIGNS_SECONDS = 0.001
"""Our own signs, which come while another process listens as well, are read several at a time."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0


class Telling:
    """How a process tells others that it writes. ``me`` names it: it needs no signs of its own."""

    def __init__(self) -> None:
        self.me = uuid.uuid4().hex
        self._sign = (
            f"SELECT pg_notify('{CHANNEL}', '{self.me}') WHERE EXISTS (SELECT 1 FROM queue_state"  # noqa: S608 - our own
            f" WHERE name > 'listening:' AND name < 'listening;' AND name <> 'listening:{self.me}'"
            f" AND value > {CLOCK})"
        )
        self.step = Step(self._sign, writes=True)
        self._with_sign = lru_cache(maxsize=None)(self._put_into)

    def with_step(self, step: Step) -> Step | None:
        """A step that tells by itself, in a last column; None for one that returns nothing."""
        text = self._with_sign(step.text)
        return None if text is None else step._replace(text=text)

    def _put_into(self, text: str) -> str | None:
        return f"{text}, ({self._sign})" if " RETURNING " in text else None


class Waking:
    """Signs of what other processes commit, for this one."""

    def __init__(self, login: Login, me: str) -> None:
        self._login = login
        self._me = me
        self._kept: _Listener | None = None
        self._has_news = False

    @contextmanager
    def watch(self) -> Iterator[Commits]:
        """Signs, for the time of the ``with``; the connection is kept for the next time."""
        listener, self._kept = self._kept, None
        if listener is None:
            listener = _Listener(self._login, self._me, self._note_news)
        listener.start()
        try:
            yield listener
        finally:
            listener.stop()
            # Of two at a time, which there hardly ever are, one is kept.
            self.close()
            self._kept = listener

    def has_news(self) -> bool:
        """Whether a sign came since last asked."""
        had, self._has_news = self._has_news, False
        return had

    def close(self) -> None:
        """Close the connection that is kept."""
        listener, self._kept = self._kept, None
        if listener is not None:
            listener.close()

    def _note_news(self) -> None:
        self._has_news = True


class _Listener:
    """One that listens on a connection of its own, and connects again when it was lost."""

    def __init__(self, login: Login, me: str, tell: Callable[[], None]) -> None:
        self._login = login
        self._me = me
        self._tell = tell
        self._line: Line | None = None
        self._can_listen = True
        self._listens = False
        self._noted_until = 0.0
        self._try_at = 0.0
        self._pause = FIRST_PAUSE_SECONDS
        self._looks: list[float] = []

    def start(self) -> None:
        """Listen from the first ``wait`` on, at once."""
        self._try_at = 0.0
        self._looks = [] if self._can_listen else [time.monotonic()]

    def wait(self, seconds: float) -> bool:
        """Wait for the next sign; True as well where one may have been missed."""
        deadline = time.monotonic() + seconds
        if not self._is_ready():
            _sleep_until(min(deadline, self._try_at))
            return False
        if not self._is_time_to_look():
            until = min([deadline, *self._looks[:1]])
            if self._line is None:
                _sleep_until(until)
            if (
                not (self._line is not None and self._is_told(self._line, until))
                and not self._is_time_to_look()
            ):
                return False
        self._tell()
        return True

    def stop(self) -> None:
        """Listen no more, but keep the connection."""
        self._listens = False
        if self._line is not None:
            try:
                self._line.connection.execute("UNLISTEN *", prepare=False)
            except psycopg.Error:
                self.close()

    def close(self) -> None:
        """Close the connection."""
        line, self._line, self._listens = self._line, None, False
        if line is not None:
            line.close()

    def _is_time_to_look(self) -> bool:
        now = time.monotonic()
        if not self._looks or self._looks[0] > now:
            return False
        if self._line is None:  # no NOTIFY here: look at intervals
            self._looks = [now + POLL_SECONDS]
        else:
            self._looks = [moment for moment in self._looks if moment > now]
        return True

    def _is_ready(self) -> bool:
        """Whether we listen and are noted; else try to, as often as is sensible."""
        now = time.monotonic()
        if not self._can_listen or (self._listens and now < self._noted_until - NOTED_SECONDS / 2):
            return True
        if now < self._try_at:
            return False
        try:
            self._listen()
        except psycopg.Error:
            self.close()
            self._try_at = time.monotonic() + self._pause
            self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
            return False
        self._pause = FIRST_PAUSE_SECONDS
        return True

    def _listen(self) -> None:
        if self._line is None:
            self._line = self._login.reach(postgres_pool.connect)
            self._line.connection.patience = PATIENCE_SECONDS
            self._line.connection.add_notify_handler(_ignore)
            self._noted_until = 0.0
        if self._line.is_pooled:
            self._do_without()
            return
        execute = self._line.connection.execute
        if not self._listens:
            execute(f"LISTEN {CHANNEL}".encode(), prepare=False)
        now = time.monotonic()
        if now >= self._noted_until - NOTED_SECONDS / 2:
            # Nobody waits for this write to be on a disk.
            execute("SET synchronous_commit = off", prepare=False)
            execute(_NOTE, (f"listening:{self._me}",))
            execute(_FORGET)
            self._noted_until = now + NOTED_SECONDS
        if not self._listens:
            # Something may have come before, or may be on its way unsigned.
            self._looks = [now, *(now + seconds for seconds in LOOK_AGAIN_SECONDS)]
        else:
            self._looks.insert(0, now)  # a sign may have come with these answers
        self._listens = True

    def _do_without(self) -> None:
        """Behind a pooler nothing comes unasked."""
        self.close()
        self._can_listen = False
        self._looks = [time.monotonic()]

    def _is_told(self, line: Line, deadline: float) -> bool:
        """Wait until another process gives a sign."""
        connection = line.connection.pgconn
        poll = select.poll()
        poll.register(connection.socket, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                return False
            try:
                connection.consume_input()
            except psycopg.Error:
                self.close()
                self._try_at = 0.0
                return False
            is_told = False
            while (sign := connection.notifies()) is not None:
                is_told = is_told or sign.extra.decode() != self._me
            if is_told:
                return True
            time.sleep(min(OWN_SIGNS_SECONDS, max(0.0, deadline - time.monotonic())))


_NOTE = (
    "INSERT INTO queue_state (name, value)"  # noqa: S608 - our own
    f" VALUES (%s, {CLOCK} + {NOTED_SECONDS * 1_000_000})"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_FORGET = (
    "DELETE FROM queue_state WHERE name > 'listening:' AND name < 'listening;'"  # noqa: S608 - our own
    f" AND value < {CLOCK} - {NOTED_SECONDS * 1_000_000}"
)


def _ignore(_sign: psycopg.Notify) -> None:
    """What comes with the answer to a statement is not kept: after it we look anyway."""


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
