"""A statement's text: constants are seen by the planner, and no parameter is lost or misplaced."""

from __future__ import annotations

import pytest
from sqlalchemy import bindparam, select

from jobroom.store.schema import task
from jobroom.store.sqlite_file import SPELLING
from jobroom.store.statement import Statement, literal


def test_a_constant_that_would_be_lost_is_refused() -> None:
    statement = Statement(select(task.c.seq).where(task.c.status == "pending"))
    with pytest.raises(TypeError, match=r"write the constant 'pending' with literal\(\)"):
        statement.compiled(SPELLING)


def test_a_literal_is_part_of_the_text() -> None:
    """Design, *The write path*: a partial index is used only where its predicate is literal."""
    statement = Statement(select(task.c.seq).where(task.c.status == literal("pending")))
    assert statement.compiled(SPELLING).text.endswith("task.status = 'pending'")


def test_a_quote_in_a_literal_is_doubled() -> None:
    assert Statement(select(literal("it's"))).compiled(SPELLING).text == "SELECT 'it''s'"


def test_parameters_are_laid_out_in_the_order_of_the_text() -> None:
    statement = Statement(
        select(task.c.seq).where(
            task.c.id == bindparam("b"),
            task.c.status == bindparam("a"),
            task.c.seq > bindparam("b"),
        )
    )
    compiled = statement.compiled(SPELLING)
    assert compiled.text.count("?") == 3
    assert compiled.values({"a": 1, "b": 2}) == (2, 1, 2)


@pytest.mark.parametrize("names", [(), ("id",)])
def test_few_parameters_are_laid_out_too(names) -> None:
    statement = Statement(select(*(bindparam(name) for name in names), literal(1)))
    assert statement.compiled(SPELLING).values(dict.fromkeys(names, 7)) == (7,) * len(names)


def test_a_parameter_that_was_not_given_is_an_error() -> None:
    statement = Statement(select(bindparam("a"), bindparam("b")))
    with pytest.raises(KeyError):
        statement.compiled(SPELLING).values({"a": 1})


def test_the_offset_that_the_compiler_adds_to_a_limit_is_written_out() -> None:
    statement = Statement(select(task.c.seq).limit(literal(1)))
    assert "?" not in statement.compiled(SPELLING).text


def test_a_statement_is_compiled_once_for_a_database() -> None:
    statement = Statement(select(task.c.seq))
    assert statement.compiled(SPELLING) is statement.compiled(SPELLING)
