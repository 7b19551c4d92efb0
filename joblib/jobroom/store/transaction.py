"""One open transaction, as the rules see it: statements, the store's time, and what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobroom.store.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobroom.domain.records import Change, Logged, Task
    from jobroom.settings import JobLibSettings
    from jobroom.store.dialect import LocalDatabase
    from jobroom.store.network import NetworkDatabase

Row = tuple[Any, ...]


class Transaction:
    """What a use case works with. It is opened, committed and rolled back by a lane alone.

    This one is of a database at hand, where a statement takes microseconds;
    ``store.remote.RemoteTransaction`` is the one of a store across a network.

    ``changed`` collects the tasks that this transaction wrote, for those who wait for one;
    ``claimable`` the jobs that got something to claim, or ``joined`` a worker: (worker, job, room).
    ``dirty`` counts rows written, so that a lane knows whether a refusal left anything behind.

    For those who count: ``submitted`` new tasks, ``granted`` to a claim, claims left ``unserved``,
    and tasks that have ``fallen`` because of others.
    """

    __slots__ = (
        "_connection",
        "_database",
        "_now",
        "_offset",
        "changed",
        "claimable",
        "dirty",
        "fallen",
        "granted",
        "joined",
        "settings",
        "submitted",
        "undo",
        "unserved",
    )

    skips_locked = False
    """Whether a claim passes over rows that somebody else holds at that moment."""
    commits_alone = False
    """Whether ``alone`` and ``together`` would commit by themselves now."""
    is_repeat: bool = False
    """Whether this is run again because nobody knows whether the first time was committed."""
    token: str | None = None
    """What the request is known by, should its answer be lost on the way from the store."""

    def __init__(
        self,
        connection: Any,
        database: LocalDatabase | NetworkDatabase,
        settings: JobLibSettings,
        offset: int = 0,
    ) -> None:
        self._connection = connection
        self._database: Any = database  # each kind of transaction asks its own kind
        self._offset = offset
        self._now: int | None = None
        self.settings = settings
        self.changed: list[Task | Change | Logged] = []
        self.claimable: dict[int, None] = {}
        self.joined: list[tuple[str, int, str]] = []
        self.dirty = 0
        self.submitted = 0
        self.granted: tuple[Task, ...] = ()  # most have none, and a list costs more
        self.unserved = 0
        self.fallen = 0
        self.undo: Callable[[Transaction], None] | None = None
        """Takes back what was kept and nobody could be told of; for who cannot ask again."""

    @property
    def now(self) -> int:
        """The store's clock, read once per transaction (design, *Time, ids, fences*).

        A statement that has a parameter ``now`` gets it by itself. Asking for it costs a store
        across a network a round trip of its own, unless a statement has told it (``learn``).
        """
        if self._now is None:
            self._now = int(self._database.now(self._connection)) + self._offset
        return self._now

    @property
    def batch(self) -> int:
        """How many rows one transaction of a sweep deals with, at most."""
        most: int = self._database.batch
        return most

    def learn(self, now: int) -> None:
        """The time that a statement went by; known here already."""

    def rows(self, statement: Statement, **params: Any) -> list[Row]:
        """Run a query and return all its rows."""
        rows: list[Row] = self._execute(statement, params).fetchall()
        return rows

    def row(self, statement: Statement, **params: Any) -> Row | None:
        """Run a query and return its first row, or None."""
        rows = self.rows(statement, **params)
        return rows[0] if rows else None

    def change(self, statement: Statement, **params: Any) -> int:
        """Run a statement that writes; return how many rows it wrote."""
        count = int(self._execute(statement, params).rowcount)
        self.dirty += count
        return count

    def returning(self, statement: Statement, **params: Any) -> list[Row]:
        """Run a statement that writes and returns the rows it wrote."""
        return self._write(statement, params)

    def alone(
        self,
        statement: Statement,
        *,
        first: Sequence[Statement] = (),
        locks: Sequence[Statement] = (),  # noqa: ARG002 - nobody else is at work here
        sparing: Sequence[Statement] = (),  # noqa: ARG002 - of use across a network only
        **params: Any,
    ) -> list[Row]:
        """As ``returning``, for a statement that is all of what was asked for.

        A store across a network commits it by itself, in one round trip, if nothing was done
        before it; what the use case writes after it is then another transaction, and may be lost.
        ``first`` goes before it, in its transaction; so do ``locks``, where others may be at work
        beside us; ``sparing`` may, to spare a round trip later.
        All take what they need of the same parameters.
        """
        for before in first:
            self._execute(before, params)
        return self._write(statement, params)

    def together(
        self,
        *statements: Statement,
        locks: Sequence[Statement] = (),  # noqa: ARG002 - nobody else is at work here
        sparing: Sequence[Statement] = (),  # noqa: ARG002 - of use across a network only
        **params: Any,
    ) -> list[list[Row]]:
        """Run statements one after the other, all or none, in one round trip; the rows of each.

        As with ``alone`` they are committed by themselves if nothing was done before them, and
        take what they need of the same parameters.
        """
        return [self._write(each, params) for each in statements]

    def glance(self, statement: Statement, **params: Any) -> Row | None:
        """As ``row``, for a query that need not be in one transaction with anything."""
        return self.row(statement, **params)

    def insert(
        self,
        statement: Statement,
        telling: Statement,  # noqa: ARG002 - as above
        params: dict[str, Any],
    ) -> tuple[int, int] | None:
        """Insert one row: its ``seq`` and the time; None where a conflict kept it out.

        ``telling`` is the same statement with both in RETURNING, which the driver of a database
        at hand knows without. It goes ``alone``.
        """
        cursor = self._execute(statement, params)
        if cursor.rowcount != 1:
            return None
        self.dirty += 1
        return int(cursor.lastrowid), self.now

    def later(self, statement: Statement, **params: Any) -> None:
        """A write whose outcome nobody asks for: it may be sent together with what follows."""
        self.change(statement, **params)

    def serialize(self) -> None:
        """Be the only one that judges several rows by several statements; here it always is."""

    def lock(self, statement: Statement, **params: Any) -> None:
        """Keep others from the rows that a query finds, where they may write beside us."""

    def _write(self, statement: Statement, params: dict[str, Any]) -> list[Row]:
        rows: list[Row] = self._execute(statement, params).fetchall()
        self.dirty += len(rows)
        return rows

    def _execute(self, statement: Statement, params: dict[str, Any]) -> Any:
        compiled = statement.compiled(self._database.spelling)
        params["now"] = self.now
        return self._connection.execute(compiled.text, compiled.values(params))
