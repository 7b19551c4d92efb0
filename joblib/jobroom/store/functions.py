"""The functions that databases call by different names."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, Integer
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
