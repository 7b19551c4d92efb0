"""A queue in a file that each execution environment has for itself is told of as an error."""

from __future__ import annotations

import logging

import pytest

from jobroom.store import dialect


@pytest.mark.parametrize(("name", "lines"), [("AWS_LAMBDA_FUNCTION_NAME", 1), ("OTHER", 0)])
def test_a_sqlite_file_on_lambda_is_an_error_in_the_log(settings, monkeypatch, caplog, name, lines):
    """README, *Where the work is kept*: a file is for one host, and a function has many."""
    monkeypatch.setenv(name, "jobroom")
    with caplog.at_level(logging.ERROR, "jobroom"):
        dialect.open_database(settings).close()
    said = [each.getMessage() for each in caplog.records]
    assert [line.startswith("store.alone advice=Each execution") for line in said] == [True] * lines
