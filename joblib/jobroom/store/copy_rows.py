"""The statements that carry one table over, and what a row must be like to be carried."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import BigInteger, Float, Text, bindparam, func, insert, or_, select, tuple_
from sqlalchemy import delete as sql_delete

from jobroom.store import state
from jobroom.store.schema import metadata, queue_state
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Column, ColumnElement, Select, Table

Row = tuple[Any, ...]
Key = tuple[Any, ...]

MARK = state.COPY_NOT_FINISHED
"""Under this name a target remembers which copy it holds the beginning of."""
LOCAL = ("ballast", MARK)
"""What ``queue_state`` says of one database and no other."""
PAGE_ROWS = 1000
PAGE_CHARACTERS = 1_000_000
CHUNK = 50
"""Rows of one INSERT: with all columns of a task far below what any store takes as parameters."""
_LOW_BITS = 0xFFFFF
"""Whole times would add up to more than 64 bits."""
_KINDS: tuple[tuple[type[Any], type[Any], str], ...] = (
    (Text, str, "text"),
    (Float, float, "a number"),
    (BigInteger, int, "an integer"),
)


class Limits(NamedTuple):
    """What a database cannot hold of what another one may."""

    integer: int = 2**63 - 1
    takes_nul: bool = True


LIMITS = {"postgresql": Limits(integer=2**31 - 1, takes_nul=False)}
"""By the name of the database's spelling."""


class Misfit(NamedTuple):
    """A row that cannot be carried over, and why."""

    row: str
    reason: str

    def __str__(self) -> str:
        return f"{self.row}: {self.reason}"


class Rows:
    """A table's rows in the order of its primary key."""

    def __init__(self, table: Table) -> None:
        self.name = table.name
        self.table = table
        self.columns = tuple(column.name for column in table.columns)
        self._key_places = tuple(
            self.columns.index(column.name) for column in table.primary_key.columns
        )
        self.first_page = _page(table, follows=False)
        self.next_page = _page(table, follows=True)
        self.last_key = Statement(_last_key(table), postgresql=_last_key(table, collation="C"))
        self.fingerprint = Statement(_fingerprint(table))
        self.insert_one = Statement(_insert(table, 1))
        self.insert_chunk = Statement(_insert(table, CHUNK))
        self.clear = Statement(_clear(table))

    def key_of(self, row: Row) -> Key:
        """The primary key of a row."""
        return tuple(row[place] for place in self._key_places)

    def page_after(self, key: Key | None) -> tuple[Statement, dict[str, Any]]:
        """The statement for the rows behind a key, and its parameters."""
        if key is None:
            return self.first_page, {}
        return self.next_page, {f"after_{place}": value for place, value in enumerate(key)}

    def inserts(self, rows: Sequence[Row]) -> Iterator[tuple[Statement, Row]]:
        """As few statements as hold these rows, each with its values."""
        whole = len(rows) - len(rows) % CHUNK
        for start in range(0, whole, CHUNK):
            yield self.insert_chunk, tuple(chain.from_iterable(rows[start : start + CHUNK]))
        for row in rows[whole:]:
            yield self.insert_one, row

    def describe(self, row: Row) -> str:
        """Which row it is, for whoever has to find it; keys and ids hold no secret."""
        named = {self.columns[place]: row[place] for place in self._key_places}
        if "id" in self.columns:
            named["id"] = row[self.columns.index("id")]
        return f"{self.name} {', '.join(f'{name}={value!r}' for name, value in named.items())}"

    def misfits(self, rows: Sequence[Row], limits: Limits) -> Iterator[Misfit]:
        """The rows that a database with these limits cannot hold exactly.

        Whole columns are looked at first: nearly always all of them are right.
        """
        faulty = [
            (place, column)
            for place, (column, values) in enumerate(
                zip(self.table.columns, zip(*rows, strict=True), strict=True)
            )
            if not _fits_all(column, values, limits)
        ]
        for row in rows if faulty else ():
            for place, column in faulty:
                reason = _fault(column, row[place], limits)
                if reason:
                    yield Misfit(self.describe(row), f"{column.name} {reason}")
                    break


def _fits_all(column: Column[Any], values: Iterable[Any], limits: Limits) -> bool:
    kind, _ = _kind_of(column)
    given = [value for value in values if value is not None]
    if any(found is not kind for found in set(map(type, given))):
        return False
    if kind is str:
        return limits.takes_nul or "\0" not in "".join(given)
    if kind is float:
        return all(map(math.isfinite, given))
    most = _most(column, limits)
    return not given or (-most - 1 <= min(given) and max(given) <= most)


def _fault(column: Column[Any], value: Any, limits: Limits) -> str | None:
    """Why a value cannot be carried over; None for one that can."""
    kind, word = _kind_of(column)
    if value is None:
        return None
    if isinstance(value, bytes):
        return "holds bytes that are no UTF-8 text"
    if type(value) is not kind:
        return f"holds {'text' if isinstance(value, str) else f'{value!r}'}, which is not {word}"
    if kind is str:
        holds_nul = not limits.takes_nul and "\0" in value
        return "holds a NUL character, which PostgreSQL cannot keep" if holds_nul else None
    if kind is float:
        return None if math.isfinite(value) else "holds no finite number"
    most = _most(column, limits)
    return None if -most - 1 <= value <= most else f"holds {value}, which is too large an integer"


def _kind_of(column: Column[Any]) -> tuple[type[Any], str]:
    for declared, kind, word in _KINDS:
        if isinstance(column.type, declared):
            return kind, word
    return int, "an integer"


def _most(column: Column[Any], limits: Limits) -> int:
    return 2**63 - 1 if isinstance(column.type, BigInteger) else limits.integer


def _page(table: Table, *, follows: bool) -> Statement:
    """The rows behind a key: so many, and no more than fit into memory and one answer."""
    return Statement(
        _page_of(table, follows=follows),
        postgresql=_page_of(table, follows=follows, collation="C"),
    )


def _page_of(table: Table, *, follows: bool, collation: str | None = None) -> Select[Any]:
    keys = list(table.primary_key.columns)
    texts = [column for column in table.columns if isinstance(column.type, Text)]
    size = literal(8 * len(table.columns))
    for column in texts:
        size = size + func.coalesce(func.length(column), literal(0))
    near = select(*keys, size.label("size")).limit(literal(PAGE_ROWS))
    near = near.order_by(*_ordered(keys, collation))
    if follows:
        after = [bindparam(f"after_{place}", type_=key.type) for place, key in enumerate(keys)]
        near = near.where(tuple_(*_ordered(keys, collation)) > tuple_(*after))
    slice_ = _ours(table, near).subquery("slice")
    names = [slice_.c[key.name] for key in keys]
    upto = func.sum(slice_.c.size).over(order_by=_ordered(names, collation), rows=(None, 0))
    page = select(*names, (upto - slice_.c.size).label("before")).subquery("page")
    chosen = select(*table.columns).join_from(
        page, table, _all(page.c[key.name] == key for key in keys)
    )
    within = page.c.before < literal(PAGE_CHARACTERS)
    return chosen.where(within).order_by(*_ordered(keys, collation))


def _last_key(table: Table, *, collation: str | None = None) -> Select[Any]:
    keys = list(table.primary_key.columns)
    backwards = [key.desc() for key in _ordered(keys, collation)]
    return _ours(table, select(*keys)).order_by(*backwards).limit(literal(1))


def _fingerprint(table: Table) -> Select[Any]:
    """Numbers that change with each write of jobroom's: it raises a version, or moves a time."""
    parts: list[ColumnElement[Any]] = [func.count()]
    for column in table.columns:
        if not isinstance(column.type, Text | Float):
            low = column.bitwise_and(literal(_LOW_BITS))
            parts += [func.coalesce(part, literal(0)) for part in (func.sum(low), func.max(column))]
        elif isinstance(column.type, Text) and "version" not in table.columns:
            parts.append(func.coalesce(func.sum(func.length(column)), literal(0)))
    return _ours(table, select(*parts).select_from(table))


def _insert(table: Table, rows: int) -> Any:
    sets = [
        {
            column.name: bindparam(f"{column.name}_{row}", type_=column.type)
            for column in table.columns
        }
        for row in range(rows)
    ]
    return insert(table).inline().values(sets)


def _clear(table: Table) -> Any:
    made = sql_delete(table)
    return made.where(*_LASTING) if table is queue_state else made


def _ours(table: Table, query: Select[Any]) -> Select[Any]:
    """Without the rows that are one database's own."""
    return query.where(*_LASTING) if table is queue_state else query


_LASTING = (
    queue_state.c.name.not_in([literal(name) for name in LOCAL]),
    # Who listens at a server just now; a semicolon is what comes behind a colon.
    or_(queue_state.c.name < literal("listening:"), queue_state.c.name > literal("listening;")),
)


def _ordered(keys: Sequence[Any], collation: str | None) -> list[Any]:
    """Texts in the order of their bytes, which is the same everywhere."""
    if collation is None:
        return list(keys)
    return [key.collate(collation) if isinstance(key.type, Text) else key for key in keys]


def _all(conditions: Iterable[ColumnElement[bool]]) -> ColumnElement[bool]:
    first, *others = conditions
    for condition in others:
        first = first & condition
    return first


TABLES = tuple(Rows(table) for table in metadata.sorted_tables)
"""In an order in which each row finds those that it refers to."""
