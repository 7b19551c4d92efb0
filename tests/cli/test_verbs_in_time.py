"""``--timeout`` is kept, and a server that says nothing is left after a few seconds."""

from __future__ import annotations

import time

import pytest
from slow_servers import SlowServer

from jobroom.cli import checkpoint
from jobroom.cli import server as cli_server

TASK = "019ac5d0-0000-7000-8000-000000000000"
TIMEOUT = ("--timeout", "0.5")
ENOUGH_SECONDS = 8.0
"""Five times what the timeout and the last answer may take together."""

SLOW = ["silent", "head drips", "body drips"]


@pytest.fixture
def timed(typed):
    """A function that types a command at a server; its exit code, stdout and stderr."""

    def run(slow, *words):
        began = time.monotonic()
        ended = typed("--url", slow.url, *words)
        assert time.monotonic() - began < ENOUGH_SECONDS
        return ended

    return run


@pytest.mark.parametrize("how", SLOW)
@pytest.mark.parametrize(
    "words", [("run", "r1:modifiers:Rotate", "angle=1"), ("wait", TASK), ("watch", "r1")], ids=str
)
def test_the_timeout_ends_a_verb_whatever_the_server_does(timed, how, words):
    """command-line.md: 124, --timeout is over."""
    with SlowServer(how) as slow:
        code, out, err = timed(slow, *words, *TIMEOUT)
    assert (code, out) == (124, "")
    assert err.splitlines()[-1].startswith(
        "jobroom: 0.5 s are over, and the server has not answered; what was submitted goes on."
    )


def test_a_verb_that_asks_once_leaves_a_silent_server(timed, monkeypatch):
    """command-line.md: borne for a few seconds, then 5."""
    monkeypatch.setattr(cli_server, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(cli_server, "SPARE_SECONDS", 0.5)
    with SlowServer("silent") as slow:
        for words in (("list", "r1"), ("show", TASK), ("stats", "r1")):
            code, out, err = timed(slow, *words)
            assert (code, out) == (5, "")
            assert "did not answer" in err


def test_a_page_is_no_job_queue(timed):
    with SlowServer("page") as slow:
        code, _, err = timed(slow, "list", "r1")
    assert code == 5
    assert "check the server's address" in err


@pytest.mark.parametrize("how", ["head drips", "body drips"])
def test_a_check_leaves_a_server_that_drips(timed, monkeypatch, how):
    monkeypatch.setattr(checkpoint, "TRY_SECONDS", 0.5)
    with SlowServer(how) as slow:
        code, _, _ = timed(slow, "check")
    assert code != 0
