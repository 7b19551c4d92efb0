"""A conversation with PostgreSQL, in as few round trips as its transactions allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from jobroom.store.postgres_pool import SET_LOCALLY
from jobroom.store.session import Answer, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobroom.store.postgres_line import Line
    from jobroom.store.postgres_pool import Pool
    from jobroom.store.postgres_waking import Telling

_BEGIN = Step("BEGIN ISOLATION LEVEL READ COMMITTED")
_COMMIT = Step("COMMIT")
_ROLLBACK = Step("ROLLBACK")
_SET_LOCALLY = Step(SET_LOCALLY)
# What is judged may have dependents: their lock (``edges.LOCK``) must not come after those of rows.
_SERIALIZE = Step(
    "SELECT pg_advisory_xact_lock(hashtextextended('jobroom judge ' || current_schema(), 0)),"
    " pg_advisory_xact_lock(hashtextextended('jobroom graph ' || current_schema(), 0))"
)
_ENDED = ("08", "57P")
"""The connection is lost, or about to be: a shutdown, a crash, an administrator."""
OUTDATED = ("25006", "0A000", "26000")
"""A standby took over, a migration has changed what is prepared, or that is gone: connect anew."""
_TIMED_OUT = ("25P03", "25P04")
"""The server has ended a session whose transaction had been open too long: it is rolled back."""


class PerhapsKeptError(Exception):
    """The connection was lost while something was being committed."""


class PostgresSession:
    """One conversation: a connection from the first statement on until the end."""

    __slots__ = ("_is_open", "_line", "_pool", "_telling", "_tells")

    def __init__(self, pool: Pool, telling: Telling) -> None:
        self._pool = pool
        self._telling = telling
        self._line: Line | None = None
        self._is_open = False
        self._tells = False

    def alone(self, steps: Sequence[Step]) -> list[Answer]:
        """Run steps as a transaction of their own."""
        line = self._reach()
        tells = any(step.tells for step in steps)
        writes = tells or any(step.writes for step in steps)
        before = [_SET_LOCALLY] if line.is_pooled else []
        if tells and len(steps) == 1:
            told = self._telling.with_step(steps[0])
            if told is not None:
                rows, count = self._send(line, [*before, told], commits=True)[-1]
                return [Answer([row[:-1] for row in rows], count)]
        behind = [self._telling.step] if tells else []
        answers = self._send(line, [*before, *steps, *behind], commits=writes)
        return answers[len(before) : len(before) + len(steps)]

    def run(self, steps: Sequence[Step]) -> list[Answer]:
        """Run steps in the transaction; its BEGIN goes with the first of them."""
        line = self._reach()
        self._tells = self._tells or any(step.tells for step in steps)
        before: list[Step] = []
        if not self._is_open:
            before = [_BEGIN, _SET_LOCALLY] if line.is_pooled else [_BEGIN]
        self._is_open = True
        return self._send(line, [*before, *steps], commits=False)[len(before) :]

    def serialize(self) -> None:
        """Open the transaction, and wait until nobody else is in one that judges."""
        self.run([_SERIALIZE])

    def commit(self, steps: Sequence[Step] = ()) -> None:
        """Commit, with the last steps and the sign for others in the same round trip."""
        if not self._is_open:
            if steps:
                self.alone(steps)
            return
        line = self._reach()
        last = [*steps]
        if self._tells or any(step.tells for step in steps):
            last.append(self._telling.step)
        self._send(line, [*last, _COMMIT], commits=True)
        self._is_open = self._tells = False

    def rollback(self) -> None:
        """Give up what is open; a connection that cannot is closed, which does the same."""
        if self._line is not None and self._is_open:
            try:
                self._line.send([_ROLLBACK])
            except psycopg.Error:
                self._line.close()
        self._is_open = self._tells = False

    def close(self) -> None:
        """Give the connection back."""
        self.rollback()
        if self._line is not None:
            line, self._line = self._line, None
            self._pool.give(line)

    def _reach(self) -> Line:
        if self._line is None:
            self._line = self._pool.take()
        return self._line

    def _send(self, line: Line, steps: Sequence[Step], *, commits: bool) -> list[Answer]:
        """Run steps; ``commits``: what they write is kept as soon as they succeed."""
        try:
            return line.send(steps)
        except psycopg.Error as error:
            state = error.sqlstate or ""
            if line.connection.closed or state.startswith(_ENDED):
                line.close()
                if commits and state not in _TIMED_OUT:
                    raise PerhapsKeptError(str(error)) from error
            if state in OUTDATED:
                line.close()
            raise
