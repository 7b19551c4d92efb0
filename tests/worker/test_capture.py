"""What tasks print and log, in processes and in threads, is their log."""

# ruff: noqa: T201  # prints are what is tested

from __future__ import annotations

import contextlib
import contextvars
import io
import logging
import sys
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from jobroom.client.holds import Alarm
from jobroom.client.logbook import MOST_WAITING_BYTES, Logbook
from jobroom.client.task import ClaimedTask
from jobroom.worker import capture, finding
from jobroom.worker.isolation import ProcessRunner

SHOP = Path(__file__).with_name("isolation_shop.py")


class Told:
    """A ``Tell`` that keeps no more of a log than a real one."""

    def __init__(self):
        self.cancelled = Alarm()
        self.book = Logbook()

    def progress(self, fraction, message=None):
        pass

    def log(self, text):
        self.book.write(text)

    @property
    def text(self):
        return self.book.changes().get("log", "")


def new_runner(**options):
    jobs = {one.full_name: one for one in finding.find_jobs(str(SHOP))}
    return ProcessRunner(jobs, **options)


def log_by(runner, job, **payload):
    said = {"id": "t", "job_name": f"@global:modifiers:{job}", "room_id": "r1"}
    told = Told()
    outcome = runner.run(ClaimedTask(**said, payload=payload, created_at=datetime.now(UTC)), told)
    assert outcome.status == "completed", outcome
    return told.text


@pytest.fixture(scope="module")
def log_of():
    runner = new_runner()
    yield partial(log_by, runner)
    runner.close()


# In processes


def test_all_ways_to_write_are_one_log_in_their_order(log_of):
    ways = ("out", "raw", "log", "err", "sub")
    assert log_of("say", times=2) == "".join(f"{way} {n}\n" for n in range(2) for way in ways)


def test_what_c_has_in_its_buffer_is_there_at_the_end(log_of):
    assert log_of("say_in_c", text="from C") == "from C"


def test_warnings_of_a_logger_are_in_the_log(log_of):
    assert log_of("warn").endswith("beware\n")


def test_what_is_logged_in_a_process_is_what_the_worker_logs(monkeypatch):
    root, seen = logging.getLogger(), {}
    for level in (logging.INFO, logging.ERROR):
        monkeypatch.setattr(root, "level", level)
        with contextlib.closing(new_runner()) as runner:
            seen[level] = log_by(runner, "warn")
    assert seen == {logging.INFO: "WARNING my.tool: beware\n", logging.ERROR: ""}


def test_a_worker_that_logs_nothing_leaves_logging_as_python_has_it(monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with contextlib.closing(new_runner()) as runner:
        assert log_by(runner, "warn") == "beware\n"


def test_letters_that_come_in_halves_are_put_together(log_of):
    assert log_of("halves") == "名前\0"


def test_half_a_letter_at_the_end_is_not_taken_for_the_next_tasks(log_of):
    assert log_of("half") == "\ufffd"
    assert log_of("say").startswith("out 0\n")


def test_binary_garbage_is_text_in_the_end(log_of):
    text = log_of("spill", size=100_000)
    assert set(text.splitlines()) == {"\ufffd\0binary"}


def test_a_hundred_megabytes_are_bounded(log_of):
    text = log_of("spill", size=100 << 20)
    assert len(text.encode()) <= MOST_WAITING_BYTES


def test_what_a_thread_of_an_ended_task_prints_holds_up_no_other():
    with contextlib.closing(new_runner()) as runner:
        for _ in range(2):
            log_by(runner, "haunt")
        assert log_by(runner, "pid") is not None


def test_an_echo_is_shown_by_the_worker_too(capfd):
    with contextlib.closing(new_runner(echo=True)) as runner:
        log_by(runner, "say")
    assert "out 0\n" in capfd.readouterr().err


# In threads


@contextlib.contextmanager
def real():
    """What has come to the streams behind ours."""
    before, made = (sys.stdout, sys.stderr), [io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in "oe"]
    sys.stdout, sys.stderr = made
    try:
        with capture.installed():
            yield lambda: tuple(map(_written, made))
    finally:
        sys.stdout, sys.stderr = before


def _written(stream):
    stream.flush()
    return stream.buffer.getvalue().decode()


def captured(work):
    pieces = []
    with capture.into(pieces.append):
        work()
    return "".join(pieces)


def test_prints_of_a_task_are_its_log_and_others_go_where_they_went():
    def work():
        print("one")
        print("two", file=sys.stderr)
        sys.stdout.writelines(["three\n"])
        sys.stdout.buffer.write(b"\xff\0four\n")
        sys.stdout.flush()
        sys.stdout.buffer.flush()

    with real() as written:
        print("before")
        assert captured(work) == "one\ntwo\nthree\n\ufffd\0four\n"
        print("after", file=sys.stderr)
        sys.stdout.flush()
        sys.stdout.buffer.write(b"bytes\n")
        sys.stdout.buffer.flush()
        assert written() == ("before\nbytes\n", "after\n")


def test_two_tasks_at_once_have_a_log_each():
    turns, logs = threading.Barrier(2, timeout=30), {}

    def work(name):
        def talk():
            for number in range(200):
                turns.wait()
                print(name, number)

        logs[name] = captured(talk)

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    with real() as written:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert written() == ("", "")
    for name in "ab":
        assert logs[name] == "".join(f"{name} {number}\n" for number in range(200))


def test_a_stream_that_a_task_left_behind_is_gone_with_the_task():
    with real():
        ours = sys.stdout, sys.stderr
        with capture.minded():
            sys.stdout, sys.stderr = io.StringIO(), None
        assert (sys.stdout, sys.stderr) == ours


def test_two_redirections_at_once_spoil_no_later_print():
    with real():
        ours, first, second = sys.stdout, io.StringIO(), io.StringIO()
        with capture.minded():  # another task, that runs all the time
            one, two = contextlib.redirect_stdout(first), contextlib.redirect_stdout(second)
            with capture.minded():
                one.__enter__()
                two.__enter__()
                one.__exit__(None, None, None)
                two.__exit__(None, None, None)
                assert sys.stdout is first
                first.close()
            assert sys.stdout is ours


def test_a_redirection_of_a_task_that_runs_is_left_to_it():
    with real(), capture.minded(), contextlib.redirect_stdout(io.StringIO()) as its_own:
        with capture.minded():
            pass
        assert sys.stdout is its_own


def test_a_thread_that_is_given_the_context_writes_to_the_tasks_log():
    def work():
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(print, "from the thread"))
        thread.start()
        thread.join()

    with real():
        assert captured(work) == "from the thread\n"


def test_a_task_is_told_that_nobody_sees_its_output(monkeypatch):
    with real():
        monkeypatch.setattr(sys.stdout._real, "isatty", lambda: True, raising=False)
        seen = []
        captured(lambda: seen.append(sys.stdout.isatty()))
        assert (seen, sys.stdout.isatty()) == ([False], True)


def test_a_stream_takes_text_only():
    with real(), pytest.raises(TypeError, match="must be str, not bytes"):
        captured(lambda: sys.stdout.write(b"bytes"))


def test_the_rest_of_a_stream_is_the_real_ones():
    with real() as written:
        assert (sys.stdout.encoding, sys.stdout.errors) == ("utf-8", "strict")
        assert sys.stdout.writable()
        assert sys.stdout.buffer.writable()
        with pytest.raises(io.UnsupportedOperation):
            sys.stdout.fileno()
        sys.stdout.close()
        sys.stdout.buffer.close()
        print("still open")
        assert written() == ("still open\n", "")


def test_records_reach_the_task_though_their_handler_was_made_before():
    with real():
        assert captured(lambda: logging.getLogger("my.tool").warning("of %s", "dogs")) == (
            "WARNING my.tool: of dogs\n"
        )


def test_records_of_the_worker_are_in_no_tasks_log():
    with real():
        assert captured(lambda: logging.getLogger("jobroom.client").warning("away")) == ""


def test_records_are_told_once_where_a_handler_writes_to_the_task():
    root = logging.getLogger()
    with real():
        handler = logging.StreamHandler(sys.stderr)
        root.addHandler(handler)
        try:
            assert captured(lambda: logging.getLogger("my.tool").warning("once")) == "once\n"
        finally:
            root.removeHandler(handler)


def test_a_record_that_cannot_be_formatted_does_not_fail_the_task(monkeypatch):
    handler = capture.TaskLogHandler()
    monkeypatch.setattr(logging, "raiseExceptions", False)
    record = logging.LogRecord("my.tool", logging.INFO, "here", 1, "%d", ("x",), None)
    assert captured(lambda: handler.emit(record)) == ""


def test_a_program_without_a_console_prints_nowhere(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with capture.installed():
        print("to nobody")
        assert captured(lambda: print("to the task")) == "to the task\n"


def test_the_streams_are_given_back():
    before = sys.stdout, sys.stderr, list(logging.getLogger().handlers)
    with capture.installed():
        assert sys.stdout is not before[0]
    assert (sys.stdout, sys.stderr, list(logging.getLogger().handlers)) == before
