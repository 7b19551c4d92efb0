"""A whole queue from one database to another: exact, in batches, resumed where it was cut off.

The target remembers the fingerprint of the source that it holds the beginning of. Each batch is
one transaction and follows the last in the order of the primary key, so that the greatest key of
a table says how far it came. At the end both sides are read again and compared row by row, and
the fingerprint of the source is taken once more: what was written to it meanwhile shows.
"""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, select, text

from jobroom.errors import ConfigurationError, StoreUnavailable
from jobroom.store import copy_end
from jobroom.store.copy_rows import MARK, TABLES, Misfit
from jobroom.store.schema import metadata, queue_state
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from jobroom.store.copy_end import End
    from jobroom.store.copy_rows import Key, Row, Rows

MOST_NAMED = 10
_EMPTY_AGAIN = "run the same command with --restart, which empties the target first"

_marked = queue_state.c.name == literal(MARK)
_GET_MARK = Statement(select(queue_state.c.value).where(_marked))
_PUT_MARK = Statement(
    insert(queue_state).inline().values(name=literal(MARK), value=bindparam("mark"))
)
_REMOVE_MARK = Statement(delete(queue_state).where(_marked))
_NUMBERED = [table for table in metadata.sorted_tables if table.autoincrement_column is not None]
_ENDINGS = {
    "postgresql": [
        *(
            Statement(
                select(
                    func.setval(
                        func.pg_get_serial_sequence(literal(table.name), literal("seq")),
                        func.max(table.c.seq),
                    )
                ).having(func.max(table.c.seq).is_not(None))
            )
            for table in _NUMBERED
        ),
        # Until it counts by itself, a minute later, its plans would be guesses.
        *(Statement(text(f"ANALYZE {table.name}")) for table in metadata.sorted_tables),
    ]
}
"""What is to be said to a database, by the name of its spelling, that has got all rows."""


class Progress(NamedTuple):
    """How far it is: so many rows of a table are read, copied or compared."""

    stage: str
    table: str
    done: int
    total: int


class SourceChanged(ConfigurationError):
    """The source was written to while it was copied."""

    def __init__(self, location: str) -> None:
        super().__init__(
            f"The source {location} was written to since this copy began: stop every server and"
            f" worker of it, then {_EMPTY_AGAIN}."
        )


class Copying:
    """One copy. ``run`` does it step by step; ``counts`` are the rows of each table."""

    def __init__(self, source: End, target: End) -> None:
        self.source = source
        self.target = target
        self.counts: dict[str, int] = {}
        self.resumed = False
        self._fingerprint: tuple[Row, ...] = ()

    def run(self, *, restart: bool = False) -> Iterator[Progress]:
        """Copy and compare; raises ConfigurationError, or StoreUnavailable, with what to do."""
        self._look_at_source()
        if restart:
            yield from self._empty_target()
        found = self._mark_of(self.target)
        self.resumed = found is not None
        if found is None:
            self._check_empty()
            yield from self._examine()
            self._leave_mark()
        elif found != self._mark:
            raise SourceChanged(self.source.location)
        for rows in TABLES:
            yield from self._copy(rows)
        for rows in TABLES:
            yield from self._compare(rows)
        self._check_unchanged()
        self._finish()

    @property
    def _mark(self) -> int:
        """The source as a number."""
        digest = hashlib.sha256(repr(self._fingerprint).encode()).digest()
        return int.from_bytes(digest[:8]) >> 1

    def _look_at_source(self) -> None:
        if self._mark_of(self.source) is not None:
            message = (
                f"The source {self.source.location} is itself a copy that is not finished: finish"
                " it by running its own command again, or name another source."
            )
            raise ConfigurationError(message)
        self._fingerprint = _fingerprint_of(self.source)
        self.counts = {
            rows.name: int(found[0]) for rows, found in zip(TABLES, self._fingerprint, strict=True)
        }

    def _empty_target(self) -> Iterator[Progress]:
        """Only what an unfinished copy has left: a queue of its own is never emptied."""
        if self._mark_of(self.target) is None:
            return
        for rows in reversed(TABLES):
            yield Progress("emptying", rows.name, 0, 0)
            self.target.write([(rows.clear, ())])
        self.target.write([(_REMOVE_MARK, ())])

    def _check_empty(self) -> None:
        """A server that was started on it has left nothing but its own notes."""
        found = _fingerprint_of(self.target)
        if not any(
            counts[0]
            for rows, counts in zip(TABLES, found, strict=True)
            if rows.name != "queue_state"
        ):
            return
        if found == self._fingerprint:
            message = (
                f"The target {self.target.location} holds this very queue already: it was copied"
                " before, or both URLs name one database."
            )
        else:
            message = (
                f"The target {self.target.location} holds a queue already: name one that is"
                " empty, such as a new database."
            )
        raise ConfigurationError(message)

    def _examine(self) -> Iterator[Progress]:
        """Find every row that the target cannot hold before anything is written to it."""
        misfits: list[Misfit] = []
        for rows in (rows for rows in TABLES if self.counts[rows.name]):
            done = 0
            with closing(pages(self.source, rows)) as found:
                for page in found:
                    misfits += islice(rows.misfits(page, self.target.limits), MOST_NAMED)
                    done += len(page)
                    yield Progress("reading", rows.name, done, self.counts[rows.name])
                    if len(misfits) >= MOST_NAMED:
                        break
        if misfits:
            raise ConfigurationError(_tell(misfits[:MOST_NAMED], self.source.location))

    def _leave_mark(self) -> None:
        """Claim the target for this copy; where the source shows it, both are one database."""
        clear = [(rows.clear, ()) for rows in TABLES if rows.name == "queue_state"]
        self.target.write([*clear, (_PUT_MARK, (self._mark,))])
        self.source.renew()
        if self._mark_of(self.source) is not None:
            self.target.write([(_REMOVE_MARK, ())])
            message = "Both URLs name one database: name another target."
            raise ConfigurationError(message)

    def _copy(self, rows: Rows) -> Iterator[Progress]:
        """One table, from where it is; a store that is away for a while is waited for."""
        pauses, most = iter(copy_end.PATIENCE_SECONDS), 0
        while True:
            try:
                for progress in self._copy_from(rows):
                    if progress.done > most:
                        pauses, most = iter(copy_end.PATIENCE_SECONDS), progress.done
                    yield progress
            except StoreUnavailable:
                pause = next(pauses, None)
                if pause is None:
                    raise
                time.sleep(pause)
            else:
                return

    def _copy_from(self, rows: Rows) -> Iterator[Progress]:
        total = self.counts[rows.name]
        after = self._last_key(rows)
        done = 0 if after is None else int(self.target.ask(rows.fingerprint)[0][0])
        yield Progress("copying", rows.name, done, total)
        with closing(pages(self.source, rows, after)) as found:
            for page in found:
                for misfit in rows.misfits(page, self.target.limits):
                    raise ConfigurationError(_tell([misfit], self.source.location))
                self._add(rows, page, after)
                after = rows.key_of(page[-1])
                done += len(page)
                yield Progress("copying", rows.name, done, total)

    def _add(self, rows: Rows, page: Sequence[Row], after: Key | None) -> None:
        try:
            self.target.add(rows, page)
        except copy_end.RowsRefused as refused:
            if self._last_key(rows) != after:
                message = (
                    f"Somebody else writes to the target {self.target.location}: stop that, then"
                    f" {_EMPTY_AGAIN}."
                )
                raise ConfigurationError(message) from refused
            self._add_singly(rows, page)

    def _add_singly(self, rows: Rows, page: Sequence[Row]) -> None:
        """Find the row that a batch was refused for."""
        for row in page:
            try:
                self.target.add(rows, [row])
            except copy_end.RowsRefused as refused:
                misfit = Misfit(rows.describe(row), f"the target refuses it, {refused}")
                raise ConfigurationError(_tell([misfit], self.source.location)) from refused

    def _compare(self, rows: Rows) -> Iterator[Progress]:
        total = self.counts[rows.name]
        with (
            closing(_stream(self.source, rows)) as ours,
            closing(_stream(self.target, rows)) as theirs,
        ):
            for done, pair in enumerate(zip_longest(ours, theirs), start=1):
                if not is_same(*pair):
                    different = pair[0] or pair[1] or ()
                    break
                if done % 1000 == 0 or done == total:
                    yield Progress("comparing", rows.name, done, total)
            else:
                return
        self._check_unchanged()
        message = (
            f"The copy differs in {rows.describe(different)}: somebody has written to one of its"
            f" sides. Stop that, then {_EMPTY_AGAIN}."
        )
        raise ConfigurationError(message)

    def _check_unchanged(self) -> None:
        self.source.renew()
        if _fingerprint_of(self.source) != self._fingerprint:
            raise SourceChanged(self.source.location)

    def _finish(self) -> None:
        endings = [*_ENDINGS.get(self.target.kind, ()), _REMOVE_MARK]
        copy_end.patiently(lambda: self.target.write([(ending, ()) for ending in endings]))

    def _mark_of(self, end: End) -> int | None:
        found = end.ask(_GET_MARK)
        return int(found[0][0]) if found else None

    def _last_key(self, rows: Rows) -> Key | None:
        found = self.target.ask(rows.last_key)
        return found[0] if found else None


def pages(end: End, rows: Rows, after: Key | None = None) -> Generator[list[Row]]:
    """A table's rows behind a key, some at a time; the next are fetched meanwhile."""
    with ThreadPoolExecutor(1, "jobroom-pages") as ahead:
        fetched = ahead.submit(_page, end, rows, after)
        while page := fetched.result():
            fetched = ahead.submit(_page, end, rows, rows.key_of(page[-1]))
            yield page


def _page(end: End, rows: Rows, after: Key | None) -> list[Row]:
    statement, params = rows.page_after(after)
    return end.ask(statement, **params)


def is_same(ours: Row | None, theirs: Row | None) -> bool:
    """Whether two rows hold the same values of the same types: 1 is not 1.0 here."""
    if ours is None or theirs is None:
        return False
    return ours == theirs and list(map(type, ours)) == list(map(type, theirs))


def _stream(end: End, rows: Rows) -> Generator[Row]:
    with closing(pages(end, rows)) as found:
        for page in found:
            yield from page


def _fingerprint_of(end: End) -> tuple[Row, ...]:
    """Numbers of each table, as plain integers: a driver may have types of its own for sums."""
    return tuple(tuple(map(int, found[0])) for found in end.ask_all(r.fingerprint for r in TABLES))


def _tell(misfits: Sequence[Misfit], location: str) -> str:
    listed = "; ".join(map(str, misfits))
    several = "rows that it cannot hold" if len(misfits) > 1 else "a row that it cannot hold"
    return (
        f"The target was given {several}: mend or delete in {location}, with its servers stopped,"
        f" {listed}."
    )
