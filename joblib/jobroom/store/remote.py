"""A transaction with a store across a network: it begins late, and often not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobroom.store.session import Step
from jobroom.store.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from jobroom.settings import JobLibSettings
    from jobroom.store.network import NetworkDatabase
    from jobroom.store.session import Answer, Session
    from jobroom.store.statement import Statement
    from jobroom.store.transaction import Row


class RemoteTransaction(Transaction):
    """As ``Transaction``, with as few round trips as its statements allow.

    Nothing is sent before the first statement. One that is ``alone``, and the first, commits by
    itself. Any other opens a transaction that the lane commits at the end. What may be sent
    ``later`` goes with the next statement, or with the commit.
    """

    __slots__ = (
        "_is_open",
        "_pending",
        "_session",
        "_writes",
        "is_parked",
        "is_repeat",
        "kept",
        "token",
    )

    def __init__(
        self,
        session: Session,
        database: NetworkDatabase,
        settings: JobLibSettings,
        offset: int = 0,
        *,
        writes: bool = True,
        token: str | None = None,
        is_repeat: bool = False,
    ) -> None:
        super().__init__(None, database, settings, offset)
        self._session = session
        self._writes = writes
        self.token = token
        self._is_open = False
        self._pending: list[Step] = []
        self.is_repeat = is_repeat
        self.kept = False
        """Whether something is committed already, whatever becomes of the rest."""
        self.is_parked = False
        """Whether its request waits now to be served later."""

    @property
    def commits_alone(self) -> bool:  # type: ignore[override]  # the base knows the answer
        """Nothing is open, nor waits to be sent."""
        return not (self._is_open or self._pending)

    @property
    def skips_locked(self) -> bool:  # type: ignore[override]  # the base knows the answer
        """As the database does."""
        skips: bool = self._database.skips_locked
        return skips

    @property
    def now(self) -> int:
        """The store's clock, read once per transaction; a round trip, unless it is known."""
        if self._now is None:
            clock = Step(f"SELECT {self._database.spelling.clock}")
            # By itself where nothing is open yet: what comes next may still go alone.
            run = self._send if self._is_open else self._session.alone
            self._now = int(run([clock])[-1].rows[0][0]) + self._offset
        return self._now

    def learn(self, now: int) -> None:
        """The time that a statement went by is the transaction's from now on."""
        self._now = int(now)

    def rows(self, statement: Statement, **params: Any) -> list[Row]:
        """Run a query and return all its rows."""
        return self._ask(self._step(statement, params)).rows

    def change(self, statement: Statement, **params: Any) -> int:
        """Run a statement that writes; return how many rows it wrote."""
        count = self._ask(self._step(statement, params, writes=True)).count
        self.dirty += count
        return count

    def returning(self, statement: Statement, **params: Any) -> list[Row]:
        """Run a statement that writes and returns the rows it wrote."""
        rows = self._ask(self._step(statement, params, writes=True)).rows
        self.dirty += len(rows)
        return rows

    def alone(
        self,
        statement: Statement,
        *,
        first: Sequence[Statement] = (),
        locks: Sequence[Statement] = (),
        sparing: Sequence[Statement] = (),
        **params: Any,
    ) -> list[Row]:
        """Run a statement that is all of what was asked for; see ``Transaction.alone``."""
        before = (
            *(locks if self._database.skips_locked else ()),
            *first,
            *(sparing if self._database.spares else ()),
        )
        steps = [self._step(each, params, writes=True) for each in (*before, statement)]
        if self._is_open or self._pending:
            answers = self._send(steps)
        else:
            answers = self._session.alone(steps)
            self.kept = True
        self.dirty += len(answers[-1].rows)
        return answers[-1].rows

    def together(
        self,
        *statements: Statement,
        locks: Sequence[Statement] = (),
        sparing: Sequence[Statement] = (),
        **params: Any,
    ) -> list[list[Row]]:
        """Run statements in one round trip, all or none; see ``Transaction.together``."""
        before = (
            *(locks if self._database.skips_locked else ()),
            *(sparing if self._database.spares else ()),
        )
        steps = [self._step(each, params, writes=True) for each in (*before, *statements)]
        if self._is_open or self._pending:
            answers = self._send(steps)
        else:
            answers = self._session.alone(steps)
            self.kept = True
        found = [answer.rows for answer in answers[len(before) :]]
        self.dirty += sum(map(len, found))
        return found

    def glance(self, statement: Statement, **params: Any) -> Row | None:
        """A query by itself, unless something is open already."""
        step = self._step(statement, params)
        run = self._send if self._is_open or self._pending else self._session.alone
        rows = run([step])[-1].rows
        return rows[0] if rows else None

    def insert(
        self,
        statement: Statement,  # noqa: ARG002 - what it would not tell costs a round trip
        telling: Statement,
        params: dict[str, Any],
    ) -> tuple[int, int] | None:
        """Insert one row by a statement that tells its ``seq`` and the time."""
        rows = self.alone(telling, **params)
        if not rows:
            return None
        self.learn(rows[0][1])
        return int(rows[0][0]), self.now

    def later(self, statement: Statement, **params: Any) -> None:
        """A write that goes with the next statement, or with the commit."""
        self._pending.append(self._step(statement, params, writes=True))
        self.dirty += 1

    def serialize(self) -> None:
        """Be the only one that judges several rows by several statements."""
        self._is_open = True
        self._session.serialize()

    def lock(self, statement: Statement, **params: Any) -> None:
        """Keep others from the rows that a query finds, where they may write beside us.

        It goes with the next statement, which sees what they had done by then.
        """
        if self._database.skips_locked:
            self._pending.append(self._step(statement, params))

    def commit(self) -> None:
        """Commit what is open, with what was to go with it."""
        if self._is_open or self._pending:
            pending, self._pending = self._pending, []
            self._session.commit(pending)
            self._is_open = False

    def close(self) -> None:
        """Give up what is not committed, and end the conversation; never raises."""
        self._pending.clear()
        if self._is_open:
            self._is_open = False
            self._session.rollback()
        self._session.close()

    def _step(self, statement: Statement, params: dict[str, Any], *, writes: bool = False) -> Step:
        compiled = statement.compiled(self._database.spelling)
        if self._offset and self._now is None and "now" not in params:
            _ = self.now  # a clock that a test has moved: the store's own does not know of it
        params["now"] = self._now
        return Step(
            compiled.text, compiled.values(params), writes, tells=writes and statement.tells
        )

    def _ask(self, step: Step) -> Answer:
        if not self._writes:
            return self._session.alone([step])[-1]
        return self._send([step])[-1]

    def _send(self, steps: Sequence[Step]) -> list[Answer]:
        pending, self._pending = self._pending, []
        self._is_open = True
        return self._session.run([*pending, *steps])[len(pending) :]
