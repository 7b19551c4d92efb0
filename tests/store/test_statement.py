"""A statement's text: parameters stay named, constants are seen by the planner, none is lost."""

from __future__ import annotations

import pytest
from sqlalchemy import bindparam, select
from sqlalchemy.dialects.sqlite import dialect

from jobroom.store.schema import task
from jobroom.store.statement import Statement, literal

SQLITE = dialect(paramstyle="named")


def test_a_constant_that_would_be_lost_is_refused() -> None:
    statement = Statement(select(task.c.seq).where(task.c.status == "pending"))
    with pytest.raises(TypeError, match=r"write the constant 'pending' with literal\(\)"):
        statement.text(SQLITE)


def test_a_literal_is_part_of_the_text() -> None:
    """Design, *The write path*: a partial index is used only where its predicate is literal."""
    statement = Statement(select(task.c.seq).where(task.c.status == literal("pending")))
    assert statement.text(SQLITE).endswith("task.status = 'pending'")


def test_a_quote_in_a_literal_is_doubled() -> None:
    assert Statement(select(literal("it's"))).text(SQLITE) == "SELECT 'it''s'"


def test_a_parameter_keeps_its_name() -> None:
    statement = Statement(select(task.c.seq).where(task.c.id == bindparam("id")))
    assert statement.text(SQLITE).endswith("task.id = :id")


def test_the_offset_that_the_compiler_adds_to_a_limit_is_written_out() -> None:
    statement = Statement(select(task.c.seq).limit(literal(1)))
    assert ":" not in statement.text(SQLITE)


def test_a_statement_is_compiled_once_for_a_database() -> None:
    statement = Statement(select(task.c.seq))
    assert statement.text(SQLITE) is statement.text(SQLITE)
