"""A stdout that was closed, ``>&-``: no answer is lost without a word."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time

import httpx
import live_server
import pytest
from verbs_room import ENOUGH_SECONDS, JOB, ROOT

from jobroom.cli import exits, streams

LOST = "jobroom: the output cannot be written: stdout is closed.\n"
ANSWERING = [
    f"submit {JOB} angle=90",
    "list r1",
    "list r1 --json",
    "jobs r1",
    f"jobs {JOB} --json",
    "rooms",
    "rooms --json",
    "stats r1",
    "stats r1 --json",
    "workers",
    "workers r1 --json",
    "check",
    "check --json",
    "schedule list r1 --json",
    "token --sub alice",
    "--help",
    "list --help",
    "--version",
]
ABOUT_A_TASK = ["show", "show --result", "show --json", "wait", "wait --json", "watch", "why"]


@pytest.fixture
def closed(typed, monkeypatch, room):
    """A function that types a verb whose stdout was closed; its code and stderr."""
    monkeypatch.setenv("ZNDRAW_JOBLIB_JWT_SECRET", live_server.SECRET)

    def run(words):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", None)
            code, _, err = typed(*words.split())
        return code, err

    return run


@pytest.mark.parametrize("words", ANSWERING)
def test_each_verb_that_prints_an_answer_says_that_it_is_lost(closed, words):
    assert closed(words) == (exits.Code.FAILED, LOST)


@pytest.mark.parametrize("words", ABOUT_A_TASK)
def test_each_verb_about_a_task_says_that_its_answer_is_lost(closed, room, words):
    task_id = room.submit(angle=1)
    room.ended(task_id)
    assert closed(f"{words} {task_id}") == (exits.Code.FAILED, LOST)


def test_a_result_is_not_lost_without_a_word(closed):
    code, err = closed(f"run {JOB} angle=90")
    assert code == exits.Code.FAILED
    assert err.endswith(LOST)


def test_an_error_keeps_its_own_code(closed):
    code, err = closed(f"submit {JOB} anlge=90")
    assert code == exits.Code.USAGE
    assert "angle" in err


def test_a_whole_program_with_a_closed_stdout_says_so_once(room):
    line = f"'{sys.executable}' -m jobroom.cli.main list r1 >&-"
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        env={**room.environment(), "PYTHONPATH": f"{ROOT / 'joblib'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=ENOUGH_SECONDS,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout, done.stderr) == (exits.Code.FAILED, "", LOST)


def test_where_stdout_holds_no_answer_it_may_be_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with streams.guarded():
        streams.hold_no_answer()
        sys.stdout.write("a line of a log\n")
        sys.stdout.flush()


def test_where_stdout_holds_no_answer_what_is_open_is_written_to(monkeypatch):
    monkeypatch.setattr(sys, "stdout", kept := io.StringIO())
    with streams.guarded():
        streams.hold_no_answer()
        sys.stdout.write("a line of a log\n")
    assert sys.stdout is kept
    assert kept.getvalue() == "a line of a log\n"


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
def test_a_server_serves_without_a_stdout(tmp_path, redirection):
    """Its access log is no answer, and its loss no fault of a request."""
    port = live_server.free_port()
    line = f"exec '{sys.executable}' -m jobroom.cli.main serve --port {port} {redirection}"
    server = subprocess.Popen(
        ["/bin/sh", "-c", line],
        env={**live_server.environment(), "PYTHONPATH": f"{ROOT / 'joblib'}"},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + ENOUGH_SECONDS
        while not _answers(port):
            assert server.poll() is None
            assert time.monotonic() < until
    finally:
        server.terminate()
        _, err = server.communicate(timeout=ENOUGH_SECONDS)
    assert "Traceback" not in err
    assert re.search(r"Finished server process", err)


def _answers(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz").is_success
    except httpx.TransportError:
        time.sleep(0.05)
        return False
