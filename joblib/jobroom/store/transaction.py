"""One open transaction, as the rules see it: statements, the store's time, and what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobroom.store.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobroom.domain.records import Task
    from jobroom.settings import JobLibSettings
    from jobroom.store.dialect import Database

Row = tuple[Any, ...]


class Transaction:
    """What a use case works with. It is opened, committed and rolled back by a lane alone.

    ``changed`` collects the tasks that this transaction wrote, for those who wait for one;
    ``claimable`` the jobs that got something to claim, or ``joined`` a worker: (worker, job).
    ``dirty`` counts rows written, so that a lane knows whether a refusal left anything behind.
    """

    __slots__ = (
        "_connection",
        "_database",
        "_now",
        "_offset",
        "changed",
        "claimable",
        "dirty",
        "joined",
        "settings",
    )

    def __init__(
        self, connection: Any, database: Database, settings: JobLibSettings, offset: int = 0
    ) -> None:
        self._connection = connection
        self._database = database
        self._offset = offset
        self._now: int | None = None
        self.settings = settings
        self.changed: list[Task] = []
        self.claimable: dict[int, None] = {}
        self.joined: list[tuple[str, int]] = []
        self.dirty = 0

    @property
    def now(self) -> int:
        """The store's clock, read once per transaction (design, *Time, ids, fences*)."""
        if self._now is None:
            self._now = self._database.now(self._connection) + self._offset
        return self._now

    def rows(self, statement: Statement, **params: object) -> list[Row]:
        """Run a query and return all its rows."""
        rows: list[Row] = self._execute(statement, params).fetchall()
        return rows

    def row(self, statement: Statement, **params: object) -> Row | None:
        """Run a query and return its first row, or None."""
        rows = self.rows(statement, **params)
        return rows[0] if rows else None

    def change(self, statement: Statement, **params: object) -> int:
        """Run a statement that writes; return how many rows it wrote."""
        count = int(self._execute(statement, params).rowcount)
        self.dirty += count
        return count

    def returning(self, statement: Statement, **params: object) -> list[Row]:
        """Run a statement that writes and returns the rows it wrote."""
        rows = self.rows(statement, **params)
        self.dirty += len(rows)
        return rows

    def insert(self, statement: Statement, values: tuple[object, ...]) -> int | None:
        """Insert one row; the ``seq`` that it got, or None where a conflict kept it out.

        ``values`` stand in the order of the statement's parameters: the busiest statement of all
        is spared the way over their names.
        """
        text = statement.compiled(self._database.dialect).text
        cursor = self._connection.execute(text, values)
        if cursor.rowcount != 1:
            return None
        self.dirty += 1
        return int(cursor.lastrowid)

    def _execute(self, statement: Statement, params: Mapping[str, object]) -> Any:
        compiled = statement.compiled(self._database.dialect)
        return self._connection.execute(compiled.text, compiled.values(params))
