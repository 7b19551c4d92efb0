"""A verb whose stdin, stdout or stderr is closed, full, or read by nobody."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from verbs_room import ENOUGH_SECONDS, JOB, ROOT

from jobroom.cli import exits, streams

VERB = f"'{sys.executable}' -m jobroom.cli.main"
PRINTING = [
    "list r1",
    "list r1 --json",
    "jobs r1",
    f"jobs {JOB}",
    "rooms",
    "stats r1",
    "workers",
    "--help",
    "--version",
]


@pytest.fixture
def shell(room):
    """A function that types a line with redirections; its exit code, stdout and stderr."""

    def run(line, **more):
        environment = {**room.environment(), "PYTHONPATH": f"{ROOT / 'joblib'}", **more}
        script = line.replace("jobroom ", f"{VERB} ", 1)
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=ENOUGH_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        return done.returncode, done.stdout, done.stderr

    return run


class Deaf(io.TextIOBase):
    """A stream that takes nothing."""

    encoding = "utf-8"

    def __init__(self, number):
        super().__init__()
        self._failure = OSError(number, os.strerror(number))

    def write(self, text):
        if text:
            raise self._failure

    def flush(self):
        """Nothing is held back."""

    def isatty(self):
        return False


def deaf_to(typed, monkeypatch, name, number, words):
    with monkeypatch.context() as patch:
        patch.setattr(sys, name, Deaf(number))
        return typed(*words.split())


@pytest.mark.parametrize("words", PRINTING)
def test_where_nobody_reads_each_verb_ends_quietly_with_1(typed, monkeypatch, words):
    code, _, err = deaf_to(typed, monkeypatch, "stdout", 32, words)
    assert (code, err) == (exits.Code.FAILED, "")


@pytest.mark.parametrize("words", PRINTING)
def test_a_full_disk_is_one_sentence_and_1_for_each_verb(typed, monkeypatch, words):
    code, _, err = deaf_to(typed, monkeypatch, "stdout", 28, words)
    assert code == exits.Code.FAILED
    assert err == "jobroom: the output cannot be written: No space left on device.\n"


@pytest.mark.parametrize("words", PRINTING)
def test_where_stderr_takes_nothing_the_code_is_that_of_the_work(typed, monkeypatch, words):
    code, out, _ = deaf_to(typed, monkeypatch, "stderr", 28, words)
    assert code == exits.Code.OK
    assert out


def test_a_full_disk_leaves_no_trace_at_the_end_of_the_program(shell):
    code, _, err = shell("jobroom list r1 >/dev/full")
    assert (code, err.count("\n")) == (exits.Code.FAILED, 1)
    assert err.startswith("jobroom: the output cannot be written")


def test_head_ends_a_list_without_a_word(shell, room):
    room.submit(angle=1)
    code, out, err = shell("jobroom list r1 | head -1")
    assert (code, out.count("\n"), err) == (0, 1, "")


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_a_task_is_run_and_its_result_printed_where_stderr_is_gone(shell, where):
    code, out, _ = shell(f"jobroom run {JOB} angle=90 {where}")
    assert (code, out) == (exits.Code.OK, '{"rotated":90.0,"by":null}\n')


def test_an_error_has_its_code_where_stderr_is_gone(shell):
    code, out, _ = shell(f"jobroom submit {JOB} anlge=90 2>&-")
    assert (code, out) == (exits.Code.USAGE, "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"jobroom submit {JOB} - <&-", "pipe it in"),
        (f"jobroom submit {JOB} - 0>/dev/null", "stdin"),
        ("jobroom profile set a --url http://x --token-stdin <&-", "no token on stdin"),
    ],
)
def test_without_a_stdin_one_sentence_says_so(shell, tmp_path, line, said):
    code, _, err = shell(line, XDG_CONFIG_HOME=str(tmp_path))
    assert (code, err.count("\n")) == (exits.Code.USAGE, 1), err
    assert said in err


def test_a_token_that_is_no_text_is_one_sentence(shell, tmp_path):
    more = {"XDG_CONFIG_HOME": str(tmp_path), "PYTHONUTF8": "1"}
    line = "jobroom profile set a --url http://x --token-stdin </dev/stdin"
    code, _, err = shell(f"printf '\\377' | {VERB}{line.removeprefix('jobroom')}", **more)
    assert code == exits.Code.USAGE
    assert err.count("\n") == 1


def test_the_streams_are_given_back():
    before = sys.stdout, sys.stderr
    with streams.guarded():
        assert sys.stdout is not before[0]
    assert (sys.stdout, sys.stderr) == before
