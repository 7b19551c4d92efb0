"""A statement: described once with SQLAlchemy Core, compiled once per database, run as text."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, literal_column

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy.engine import Dialect
    from sqlalchemy.sql.expression import ClauseElement


class Compiled:
    """The text of a statement for one database, and how its parameters are laid out.

    ``values(params)`` picks them by name into the order of the text: a driver binds a tuple twice
    as fast as it looks up names.
    """

    __slots__ = ("text", "values")

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        self.text = text
        self.values: Callable[[Mapping[str, Any]], tuple[Any, ...]]
        if len(names) > 1:
            self.values = itemgetter(*names)
        else:
            self.values = lambda params: tuple(params[name] for name in names)


class Statement:
    """One statement of the store.

    Compiling takes about 100 us and running the text on the driver's cursor 20, so the text is
    made once per database. Constants are written into the text (``literal``): a partial index is
    used only where the planner can see its predicate, and a constant needs no binding.
    """

    __slots__ = ("_compiled", "_element")

    def __init__(self, element: ClauseElement) -> None:
        self._element = element
        self._compiled: dict[str, Compiled] = {}

    def compiled(self, dialect: Dialect) -> Compiled:
        """The statement for that database."""
        found = self._compiled.get(dialect.name)
        if found is None:
            found = self._compiled[dialect.name] = self._compile(dialect)
        return found

    def _compile(self, dialect: Dialect) -> Compiled:
        compiled = self._element.compile(dialect=dialect)
        text = str(compiled)
        for name, value in compiled.params.items():
            if value is None:
                continue
            if not isinstance(value, int):
                message = f"write the constant {value!r} with literal(), it would be lost"
                raise TypeError(message)
            # SQLite's compiler adds an OFFSET of its own to every LIMIT, as a bound zero.
            text = re.sub(rf":{name}\b", str(value), text)
        names = tuple(_PARAMETER.findall(text))
        return Compiled(_PARAMETER.sub("?", text), names)


_PARAMETER = re.compile(r":([a-z]\w*)")


def literal(value: str | int) -> ColumnElement[Any]:
    """A constant of our own (never of a user's) as a part of the SQL text."""
    if isinstance(value, int):
        return literal_column(str(int(value)))
    quoted = value.replace("'", "''")
    return literal_column(f"'{quoted}'")
