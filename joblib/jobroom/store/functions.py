"""The functions that databases call by different names."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, Integer, Join, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class is_json(FunctionElement[bool]):  # noqa: N801 - written like a function of SQL
    """Whether a text is JSON."""

    type = Boolean()
    inherit_cache = True
    _is_implicitly_boolean = True  # or SQLite's compiler puts ``= 1`` behind it


@compiles(is_json)
def _is_json(element: is_json, compiler: Any, **kw: Any) -> str:
    return f"json_valid({compiler.process(element.clauses, **kw)})"


@compiles(is_json, "postgresql")
def _is_json_postgresql(element: is_json, compiler: Any, **kw: Any) -> str:
    return f"({compiler.process(element.clauses, **kw)} IS JSON)"


class byte_length(FunctionElement[int]):  # noqa: N801 - written like a function of SQL
    """How many bytes a text has."""

    type = Integer()
    inherit_cache = True


@compiles(byte_length)
def _byte_length(element: byte_length, compiler: Any, **kw: Any) -> str:
    # Its length() counts characters; octet_length() came with SQLite 3.43.
    return f"length(CAST({compiler.process(element.clauses, **kw)} AS BLOB))"


@compiles(byte_length, "postgresql")
def _byte_length_postgresql(element: byte_length, compiler: Any, **kw: Any) -> str:
    return f"octet_length({compiler.process(element.clauses, **kw)})"


class with_tables(FunctionElement[Any]):  # noqa: N801 - as above
    """An expression whose columns keep the names of their tables.

    In RETURNING the compiler drops them, in subqueries too.
    """

    inherit_cache = True


@compiles(with_tables)
def _with_tables(element: with_tables, compiler: Any, **kw: Any) -> str:
    kw.pop("include_table", None)
    return str(compiler.process(element.clauses, **kw))


class json_row(FunctionElement[str]):  # noqa: N801 - written like a function of SQL
    """Some values as one JSON array."""

    type = Text()
    inherit_cache = True


@compiles(json_row)
def _json_row(element: json_row, compiler: Any, **kw: Any) -> str:
    return f"json_array({compiler.process(element.clauses, **kw)})"


@compiles(json_row, "postgresql")
def _json_row_postgresql(element: json_row, compiler: Any, **kw: Any) -> str:
    return f"json_build_array({compiler.process(element.clauses, **kw)})"


class json_rows(FunctionElement[str]):  # noqa: N801 - written like a function of SQL
    """A JSON array of what each row of a group has, as text."""

    type = Text()
    inherit_cache = True


@compiles(json_rows)
def _json_rows(element: json_rows, compiler: Any, **kw: Any) -> str:
    # SQLite forgets in a subquery that a text is JSON.
    return f"json_group_array(json({compiler.process(element.clauses, **kw)}))"


@compiles(json_rows, "postgresql")
def _json_rows_postgresql(element: json_rows, compiler: Any, **kw: Any) -> str:
    return f"CAST(json_agg({compiler.process(element.clauses, **kw)}) AS TEXT)"


class ordered_join(Join):  # noqa: N801 - as above
    """A join of which SQLite reads the left side first, whatever its statistics make it believe."""

    inherit_cache = True


@compiles(ordered_join, "sqlite")
def _ordered_join(element: ordered_join, compiler: Any, **kw: Any) -> str:
    sides = (
        compiler.process(side, **{**kw, "asfrom": True}) for side in (element.left, element.right)
    )
    return f"{' CROSS JOIN '.join(sides)} ON {compiler.process(element.onclause, **kw)}"
