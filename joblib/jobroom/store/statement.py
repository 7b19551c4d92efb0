"""A statement: described once with SQLAlchemy Core, compiled once per database, run as text."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import ColumnElement, literal_column

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy.engine import Dialect
    from sqlalchemy.sql.expression import ClauseElement

    Made = ClauseElement | Callable[[], ClauseElement]


class Spelling(NamedTuple):
    """How one database writes SQL.

    ``parameter`` finds the parameters in what its ``dialect`` compiles: their name, and the cast
    behind it where there is one. ``mark`` stands for one in the text that the driver gets.
    ``clock`` is the store's time as SQL, microseconds since 1970; None where the host knows it.
    """

    name: str
    dialect: Dialect
    parameter: re.Pattern[str]
    mark: str
    clock: str | None = None


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
    used only where the planner can see its predicate, and a constant needs no binding. Where a
    database must be asked in another way, that is given by its name.

    A function that makes the statement is called when it is first asked for: making is a third of
    a cold start, and most statements are for things that a process is rarely asked.

    The parameter ``now`` is the time of the transaction. A store across a network reads its own
    clock in the statement itself, unless the transaction knows the time already.
    """

    __slots__ = ("_compiled", "_elements", "tells")

    def __init__(self, element: Made, **elsewhere: Made) -> None:
        self._elements = {"": element, **elsewhere}
        self.tells = False
        """Whether it may write what somebody waits for, where it writes; known once compiled."""
        self._compiled: dict[str, Compiled] = {}

    def element(self, name: str = "") -> ClauseElement:
        """The statement as that database is asked it."""
        made = self._elements.get(name, self._elements[""])
        return made() if callable(made) else made

    def compiled(self, spelling: Spelling) -> Compiled:
        """The statement for that database."""
        found = self._compiled.get(spelling.name)
        if found is None:
            found = self._compiled[spelling.name] = self._compile(spelling)
        return found

    def _compile(self, spelling: Spelling) -> Compiled:
        element = self.element(spelling.name)
        self.tells = getattr(getattr(element, "table", None), "name", None) in WAITED_FOR
        _accept_everywhere(element)
        compiled = element.compile(dialect=spelling.dialect)
        constants = _constants(compiled.params)
        names: list[str] = []
        text = str(compiled)
        casts = _casts(spelling.parameter, text)

        def mark(found: re.Match[str]) -> str:
            name = found[1]
            if name in constants:
                return str(constants[name])
            names.append(name)
            marked = spelling.mark + casts.get(name, "")
            if name == "now" and spelling.clock is not None:
                return f"coalesce({marked}, {spelling.clock})"
            return marked

        return Compiled(spelling.parameter.sub(mark, text), tuple(names))


WAITED_FOR = ("task", "worker_job_link")
"""The tables whose rows polls and claims wait for."""


def _accept_everywhere(element: Any) -> None:
    """Let PostgreSQL's compiler read the conflict clause of SQLite: one field is missing there.

    PostgreSQL's own construct would have its dialect imported, a cold start of the file's too.
    """
    clause = getattr(element, "_post_values_clause", None)
    if clause is not None and not hasattr(clause, "constraint_target"):
        clause.constraint_target = None


def _constants(params: Mapping[str, Any]) -> dict[str, int]:
    """What SQLAlchemy has bound by itself: SQLite's compiler adds an OFFSET of 0 to a LIMIT."""
    bound = {name: value for name, value in params.items() if value is not None}
    for value in bound.values():
        if not isinstance(value, int):
            message = f"write the constant {value!r} with literal(), it would be lost"
            raise TypeError(message)
    return bound


def _casts(parameter: re.Pattern[str], text: str) -> dict[str, str]:
    """The type of each parameter that has one somewhere: elsewhere it may stand where none shows.

    PostgreSQL refuses ``$1 IS NULL`` for want of a type, though ``$1::TEXT`` comes right behind.
    """
    return {found[1]: found[2] for found in parameter.finditer(text) if found[2]}


def literal(value: str | int) -> ColumnElement[Any]:
    """A constant of our own (never of a user's) as a part of the SQL text."""
    if isinstance(value, int):
        return literal_column(str(int(value)))
    quoted = value.replace("'", "''")
    return literal_column(f"'{quoted}'")
