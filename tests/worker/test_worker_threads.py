"""Tasks in threads: interrupted inside themselves, and never outside."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Annotated

import pytest
from pydantic import AfterValidator

from jobroom.client.holds import Alarm
from jobroom.client.options import Registration
from jobroom.client.task import ClaimedTask, current_task
from jobroom.worker import functions
from jobroom.worker.functions import job
from jobroom.worker.runner import TaskCancelled
from jobroom.worker.telling import TaskTell
from jobroom.worker.threads import ThreadRunner

SOON = 30


class Heard:
    """A ``Tell`` that keeps what it is told."""

    def __init__(self):
        self.cancelled = Alarm()
        self.said = []

    def progress(self, fraction, message=None):
        self.said.append((fraction, message))

    def log(self, text):
        self.said.append(text)


def runner_of(function):
    made = functions.registration_of(functions.job_of(job(function)), "r1")
    return ThreadRunner({"j": Registration(made.cls, "r1", made.job)})


def task_of(**payload):
    return ClaimedTask(
        id="t", job_name="j", room_id="r1", payload=payload, created_at="2026-01-01T00:00:00Z"
    )


def run(function, tell=None, **payload):
    return runner_of(function).run(task_of(**payload), tell or Heard())


def in_thread(runner, tell):
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(runner.run(task_of(), tell)))
    thread.start()
    return thread, outcomes


def test_what_it_returns_is_the_result_and_what_it_says_is_told():
    def work(a: int) -> int:
        current_task().progress(0.5, "half")
        current_task().log("line\n")
        return a

    tell = Heard()
    assert run(work, tell, a=3).result == 3
    assert tell.said == [(0.5, "half"), "line\n"]


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ValueError("no"), "ValueError: no"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
def test_whatever_is_raised_fails_the_task(raised, error):
    def work():
        raise raised

    outcome = run(work)
    assert (outcome.status, outcome.error.splitlines()[0]) == ("failed", error)
    assert not outcome.final


def test_a_payload_that_does_not_fit_is_final():
    def work(a: int):
        pass

    outcome = run(work, a="x")
    assert (outcome.status, outcome.final) == ("failed", True)
    assert outcome.error.startswith("The payload does not fit the class: a: ")


def even(number):
    if number < 0:
        raise ValueError("choose a positive one")
    if number == 0:
        raise ValueError
    if number % 2:
        raise AssertionError("choose an even one")
    return number


Even = Annotated[int, AfterValidator(even)]


def test_the_words_of_the_users_own_validator_stand_alone():
    """Pydantic puts words of its own before them."""

    def work(a: Even):
        pass

    errors = [run(work, a=number).error.partition(": ")[2] for number in (-1, 0, 1)]
    assert errors == ["a: choose a positive one", "a: is not valid", "a: choose an even one"]


def test_a_cancel_passes_except_exception_and_runs_finally():
    began, cleaned = threading.Event(), threading.Event()

    def work():
        try:
            while True:
                try:
                    began.set()
                    sum(range(100))
                except Exception:  # noqa: BLE001  # what must not swallow it
                    cleaned.wait(SOON)
        finally:
            cleaned.set()

    tell = Heard()
    thread, outcomes = in_thread(runner_of(work), tell)
    assert began.wait(SOON)
    tell.cancelled.set()
    thread.join(SOON)
    assert [one.status for one in outcomes] == ["cancelled"]
    assert cleaned.is_set()


def test_a_cancel_of_an_async_task_is_raised_where_it_awaits():
    began, felt = threading.Event(), []

    async def work():
        began.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            felt.append("cancelled")
            raise

    tell = Heard()
    thread, outcomes = in_thread(runner_of(work), tell)
    assert began.wait(SOON)
    tell.cancelled.set()
    thread.join(SOON)
    assert [one.status for one in outcomes] == ["cancelled"]
    assert felt == ["cancelled"]


def test_a_task_that_was_cancelled_before_it_began_does_not_run():
    ran = []

    def work():
        ran.extend(str(number) for number in range(1000))

    tell = Heard()
    tell.cancelled.set()
    assert run(work, tell).status == "cancelled"
    assert not ran


def test_closing_hands_back_what_runs_and_what_comes_after():
    began = threading.Event()

    def work():
        while True:
            began.set()
            sum(range(100))

    runner = runner_of(work)
    thread, outcomes = in_thread(runner, Heard())
    assert began.wait(SOON)
    runner.close()
    runner.close()
    thread.join(SOON)
    assert [one.status for one in outcomes] == ["handed_back"]
    assert runner.run(task_of(), Heard()).status == "handed_back"


def test_a_task_may_end_itself_as_cancelled():
    def work():
        raise TaskCancelled

    assert run(work).status == "cancelled"


def test_a_log_takes_text_alone():
    def work():
        current_task().log(5)

    tell = Heard()
    tell.log = TaskTell(task_of()).log
    assert run(work, tell).error.startswith(
        "TypeError: log() takes text, not int: write  log(str(...))"
    )


# Python drops what is raised inside of a weakref's callback; the task goes on then.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cancel_at_any_moment_never_leaves_its_task():
    """A thousand tasks of some microseconds, each cancelled somewhere between its ends."""

    def work() -> int:
        return sum(range(50))

    runner = runner_of(work)
    statuses = []
    queue = []
    ready = threading.Event()
    over = threading.Event()

    def cancel():
        while not over.is_set():
            ready.wait(SOON)
            ready.clear()
            for tell in queue[-1:]:
                tell.cancelled.set()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        for _ in range(1000):
            tell = Heard()
            queue.append(tell)
            ready.set()
            statuses.append(runner.run(task_of(), tell).status)
        # Were one left over, it would be raised in here.
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            sum(range(50))
    finally:
        over.set()
        ready.set()
        thread.join(SOON)
    assert set(statuses) <= {"completed", "cancelled"}
    assert len(statuses) == 1000
