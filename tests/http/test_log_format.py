"""Log messages as JSON: their pairs become fields, whatever is in them."""

from __future__ import annotations

import io
import json
import logging
import sys
from typing import Any

import pytest
import uvicorn.logging
from hypothesis import given, settings
from hypothesis import strategies as st

from jobroom import logs
from jobroom.errors import StoreUnavailable
from jobroom.http import exchange


def told(message: object, *args: object, **more: Any) -> dict[str, Any]:
    record = logging.LogRecord(
        "jobroom", logging.WARNING, "", 0, message, args, **{"exc_info": None, **more}
    )
    line = logs.JsonFormatter().format(record)
    assert line.isascii()
    assert len(line.splitlines()) == 1
    fields: dict[str, Any] = json.loads(line)
    assert fields.pop("timestamp").endswith("Z")
    assert (fields.pop("level"), fields.pop("logger")) == ("WARNING", "jobroom")
    return fields


@pytest.mark.parametrize(
    ("message", "args", "fields"),
    [
        ("sweep.back", (), {"event": "sweep.back"}),
        ("a.b name=%s count=%d", ("x y=1", 3), {"event": "a.b", "name": "x y=1", "count": 3}),
        ("a.b reason=%r again_in=%gs", ("no", 30.0), {"reason": "no", "again_in": "30s"}),
        ("a.b retrying=yes", (), {"event": "a.b", "retrying": "yes"}),
        ("%s url=%s", ("claim.failed", "http://x"), {"event": "claim.failed", "url": "http://x"}),
        ("sweep.done %s", ("failed=2 lost=1",), {"event": "sweep.done", "failed": 2, "lost": 1}),
        ("sweep.done %s", ("no pairs at all",), {"message": "no pairs at all"}),
        ("a.b level=%s", ("high",), {"event": "a.b", "level_": "high"}),
        ("a.b error=%s", (StoreUnavailable("away"),), {"error": "away"}),
        ("a.b ids=%s", (["x", "y"],), {"ids": ["x", "y"]}),
        ("a.b x=%s", (None,), {"x": None}),
        ("Just a sentence of 100 %s.", ("words",), {"message": "Just a sentence of 100 words."}),
        ("a.b x=%s", (), {"event": "a.b", "x": "%s"}),
        ("100%% of it", (), {"message": "100%% of it"}),
    ],
)
def test_the_pairs_of_a_message_are_fields(
    message: str, args: tuple[object, ...], fields: dict[str, Any]
) -> None:
    found = told(message, *args)
    assert {name: found.get(name) for name in fields} == fields


def test_a_message_that_does_not_fit_its_arguments_is_written_all_the_same() -> None:
    assert told("a.b x=%dth", "no number") == {"message": "a.b x=%dth"}


def test_a_mapping_of_arguments_is_formatted_as_logging_does() -> None:
    assert told("a.b x=%(x)s", {"x": 7}) == {"event": "a.b", "x": 7}


@given(text=st.text())
@settings(max_examples=200, derandomize=True)
def test_any_text_stays_in_its_field_and_on_one_line(text: str) -> None:
    assert told("a.b name=%s", text) == {"event": "a.b", "name": text}


def _fail(words: str) -> None:
    raise ValueError(words)


def test_of_an_error_the_first_line_is_told_and_where_it_was_raised() -> None:
    """PostgreSQL tells the row, with its payload, in the lines that follow."""
    words = ("it does not fit", "DETAIL: Failing row contains (s3cr3t)")
    found: dict[str, Any] = {}
    try:
        _fail("\n".join(words))
    except ValueError:
        found = told("http.failed", exc_info=sys.exc_info())
    assert (found["error_type"], found["error_message"]) == ("ValueError", "it does not fit")
    assert "test_log_format.py" in found["trace"]
    assert "s3cr3t" not in json.dumps(found)


@pytest.fixture
def bare_log(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    log = logging.getLogger("jobroom")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", True)
    monkeypatch.setattr(log, "level", logging.NOTSET)
    return log


def test_json_goes_to_stdout_once_and_to_nobody_else(
    bare_log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    """A platform's own handler, which stands at the root, would print each line again."""
    elsewhere = io.StringIO()
    of_platform = logging.StreamHandler(elsewhere)
    logging.getLogger().addHandler(of_platform)
    try:
        logs.let_logs_be_seen("json")
        logs.let_logs_be_seen("json")
        bare_log.info("sweep.back")
    finally:
        logging.getLogger().removeHandler(of_platform)
    shown = capsys.readouterr()
    assert json.loads(shown.out)["event"] == "sweep.back"
    assert (shown.err, elsewhere.getvalue()) == ("", "")


def test_text_leaves_it_to_the_handler_of_the_host(bare_log: logging.Logger) -> None:
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        logs.let_logs_be_seen("text")
    finally:
        logging.getLogger().removeHandler(handler)
    assert bare_log.handlers == []


@pytest.mark.parametrize(
    ("of_server", "is_json"),
    [(uvicorn.logging.DefaultFormatter(), True), (logging.Formatter("mine %(message)s"), False)],
)
def test_the_words_of_uvicorn_are_json_unless_somebody_has_chosen_their_form(
    bare_log: logging.Logger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    of_server: logging.Formatter,
    is_json: bool,
) -> None:
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(of_server)
    server = logging.getLogger("uvicorn")
    monkeypatch.setattr(server, "handlers", [handler])
    monkeypatch.setattr(server, "propagate", False)
    logs.let_logs_be_seen("json")
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    shown = capsys.readouterr().out
    assert bare_log.handlers != []
    if is_json:
        assert json.loads(shown)["message"] == "Invalid HTTP request received."
    else:
        assert (shown, server.handlers) == ("", [handler])


def test_an_address_with_a_line_break_writes_no_second_line_of_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scope: Any = {"path": "/v1/me\nERROR a line of my own", "headers": []}
    with caplog.at_level(logging.ERROR, "jobroom"):
        exchange.problem(RuntimeError("no"), scope)
    [record] = caplog.records
    assert "\n" not in record.getMessage()
    assert json.loads(logs.JsonFormatter().format(record))["path"] == scope["path"]
