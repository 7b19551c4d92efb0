"""Tasks in processes of their own: how they run, and how each end is told."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import types
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import isolation_shop
import pytest

from jobroom.client.holds import Alarm
from jobroom.client.task import ClaimedTask
from jobroom.errors import ConfigurationError
from jobroom.worker import attempt, finding, functions, limits
from jobroom.worker.functions import job
from jobroom.worker.isolation import ProcessRunner
from jobroom.worker.runner import Outcome

SHOP = Path(__file__).with_name("isolation_shop.py")
SOON = 60


class Told:
    """A ``Tell`` that remembers."""

    def __init__(self):
        self.cancelled = Alarm()
        self.steps = []
        self.text = ""

    def progress(self, fraction, message=None):
        self.steps.append((fraction, message))

    def log(self, text):
        self.text += text


def task_of(job, **payload):
    said = {"id": "t", "job_name": f"@global:modifiers:{job}", "room_id": "r1", "attempt": 1}
    return ClaimedTask(**said, payload=payload, created_at=datetime.now(UTC))


def new_runner():
    return ProcessRunner({one.full_name: one for one in finding.find_jobs(str(SHOP))})


@pytest.fixture(scope="module")
def runner():
    made = new_runner()
    yield made
    made.close()


@pytest.fixture
def run(runner):
    def run(job, told=None, **payload):
        return runner.run(task_of(job, **payload), told or Told())

    return run


def until(question, seconds=SOON):
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, "asked in vain"
        time.sleep(0.01)
    return answer


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def in_background(runner, task, told):
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(runner.run(task, told)))
    thread.start()

    def outcome():
        thread.join(SOON)
        return outcomes[0]

    return outcome


# How they run


def test_one_process_runs_task_after_task(run):
    assert run("pid") == run("pid")
    assert run("pid").result != os.getpid()


@pytest.mark.parametrize(
    "value", [2**64 + 1, -(10**40), 0.1, 1e308, "\0 \ud800 名前", [], {"a": None}, True, None]
)
def test_values_go_there_and_back_exactly(run, value):
    assert run("give", value=value) == Outcome("completed", result=value)


def test_models_are_built_and_dumped(run):
    assert run("move", point={"x": 1}, by=2) == Outcome("completed", result={"x": 3})


def test_a_class_runs_as_a_function_does(run):
    assert run("Rotate", angle=90) == Outcome("completed", result={"angle": 90.0, "vis": None})


def test_a_payload_that_does_not_fit_fails_for_good(run):
    outcome = run("move", point={"x": "far"})
    assert (outcome.status, outcome.final) == ("failed", True)
    assert "point" in outcome.error


def test_a_result_that_is_no_json_fails_for_good(run):
    outcome = run("unjson")
    assert (outcome.status, outcome.final) == ("failed", True)
    assert "is not finite" in outcome.error


def test_a_failure_is_told_with_the_users_own_lines_only(run):
    outcome = run("fail", message="too hot")
    headline, *lines = outcome.error.splitlines()
    assert (outcome.status, outcome.final, headline) == ("failed", False, "ValueError: too hot")
    assert [line for line in lines if "File" in line] == [
        line for line in lines if str(SHOP) in line
    ]


def test_sys_exit_fails_the_task_and_keeps_the_process(run):
    before = run("pid")
    assert run("go_out", code=3).status == "failed"
    assert run("pid") == before


def test_progress_is_told(run):
    told = Told()
    assert run("stepwise", told).result == [True, True, False]
    assert told.steps == [(0.5, "half"), (None, "more")]


def test_a_task_does_not_report_its_own_end(run):
    assert "The worker reports how this task ends" in run("complete_itself").error


def test_an_unknown_job_fails_with_a_sentence(run):
    assert (
        run("nobody").error == "No class is registered for @global:modifiers:nobody in this worker."
    )


def test_the_environment_is_the_workers(run, monkeypatch):
    assert run("environment", name="PYTHONPATH").result == os.environ.get("PYTHONPATH")


def test_programs_of_a_task_end_on_sigterm(run):
    """What a task starts inherits nothing of how its process treats signals."""
    assert run("subprocess_ends_on_sigterm").result == -signal.SIGTERM
    assert run("forked_ends_on_sigterm").result == -signal.SIGTERM


def test_a_fork_that_runs_on_is_not_taken_for_the_task(run):
    told = Told()
    assert run("fork", told) == Outcome("completed", result=1)
    assert told.steps == []


def test_sigterm_to_the_process_is_left_to_the_worker(run):
    """A service manager signals each process of a service; the worker alone drains."""
    assert run("signal_self", number=signal.SIGTERM).status == "completed"


# What a task does to its process


@pytest.mark.parametrize("what", list(isolation_shop.SPOILS))
def test_what_a_task_does_to_its_process_is_made_good_for_the_next(run, what):
    before, told = run("where"), Told()
    assert run("spoil", what=what).status == "completed"
    assert run("where") == before
    assert run("say", told).status == "completed"
    assert told.text == "out 0\nraw 0\nlog 0\nerr 0\nsub 0\n"
    assert run("subprocess_ends_on_sigterm").result == -signal.SIGTERM


@pytest.mark.parametrize(("what", "is_kept"), [("folder", True), ("closed", False)])
def test_a_process_is_given_up_where_that_cannot_be(run, what, is_kept):
    spoilt = run("spoil", what=what).result
    assert (run("pid").result == spoilt) == is_kept


def test_a_job_is_found_though_a_task_before_it_changed_the_folder(monkeypatch):
    monkeypatch.chdir(SHOP.parent)
    jobs = {one.full_name: one for one in finding.find_jobs(SHOP.name)}
    with contextlib.closing(ProcessRunner(jobs)) as runner:
        runner.run(task_of("spoil", what="folder"), Told())
        assert runner.run(task_of("give", value=1), Told()).result == 1


def test_a_process_begins_where_the_worker_began_though_a_thread_went_elsewhere(
    monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(new_runner()) as runner:
        monkeypatch.chdir("/")
        assert runner.run(task_of("where"), Told()).result[0] == str(tmp_path)


def test_a_log_takes_text_alone_there_too(run):
    error = run("log_number").error
    assert error.startswith("TypeError: log() takes text, not int: write  log(str(...))")


# How each end is told


def test_an_exit_is_told_with_its_code(run):
    assert run("leave", code=9).error == (
        "the process of this task ended by itself with exit code 9; see its log"
    )
    assert run("give", value=1).result == 1


def test_a_kill_is_told_as_one(run):
    assert run("signal_self", number=signal.SIGKILL).error == (
        "the process of this task ended with signal 9 (killed), perhaps out of memory; see its log"
    )


def test_a_crash_in_c_leaves_its_lines_in_the_log(run):
    told = Told()
    outcome = run("crash", told)
    assert outcome.error == (
        "the process of this task ended with signal 11 (segmentation fault); see its log"
    )
    assert "isolation_shop.py" in told.text
    assert not outcome.final


def test_a_process_that_is_killed_from_outside_fails_its_task_alone(runner, tmp_path):
    started = tmp_path / "started"
    ended = in_background(runner, task_of("rest", seconds=60, started=str(started)), Told())
    pid = int(until(lambda: started.exists() and started.read_text()))
    os.kill(pid, signal.SIGKILL)
    assert "signal 9" in ended().error
    assert runner.run(task_of("give", value=1), Told()).result == 1


def test_a_process_that_went_between_two_tasks_is_replaced(run):
    pid = run("pid").result
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid))
    outcome = run("pid")
    assert (outcome.status, outcome.result == pid) == ("completed", False)


def test_a_process_that_never_begins_fails_its_task(monkeypatch):
    monkeypatch.setattr("jobroom.worker.process.CHILD", "this")
    runner = new_runner()
    outcome = runner.run(task_of("pid"), Told())
    runner.close()
    assert outcome.status == "failed"
    assert outcome.error.startswith("before it could begin, the process of this task ended")


# Limits


def test_a_task_that_is_too_slow_is_stopped_and_says_where_it_was(run):
    run("pid")  # so that a process is there
    outcome = run("too_slow")
    headline, *lines = outcome.error.splitlines()
    assert headline == "ran longer than its limit of 0.5 s (timeout_seconds) and was stopped"
    assert "time.sleep(60)" in lines[-1]
    assert (outcome.status, outcome.final) == ("failed", False)


@pytest.mark.parametrize("children", [False, True])
def test_a_task_that_eats_too_much_is_ended(run, children):
    outcome = run("eat", children=children)
    assert outcome.error == "used more than 150 MiB of memory (memory_mb) and was stopped"
    assert (outcome.status, outcome.final) == ("failed", False)


def test_a_memory_limit_that_nobody_would_keep_is_refused(run, monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "_PROC", tmp_path)
    outcome = run("modest")
    assert outcome.error.startswith("memory_mb is watched on Linux only")


def test_processes_are_refused_where_there_are_none_such(monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("jobroom.worker.isolation.os.name", "nt")
        with pytest.raises(ConfigurationError, match="need Linux or macOS"):
            ProcessRunner({})


def test_a_process_that_cannot_be_started_fails_the_task(monkeypatch):
    monkeypatch.setattr("jobroom.worker.process.sys.executable", "/nowhere/python")
    runner = new_runner()
    outcome = runner.run(task_of("pid"), Told())
    runner.close()
    assert outcome.error.startswith("no process could be started for this task: ")


def test_a_job_of_a_session_is_refused_with_a_sentence(runner, monkeypatch):
    registration = replace(runner._jobs["@global:modifiers:Rotate"], source=None)
    monkeypatch.setattr(registration.cls, "__module__", "__main__")
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    other = ProcessRunner({registration.full_name: registration})
    outcome = other.run(task_of("Rotate", angle=1), Told())
    other.close()
    assert "a session or a notebook cannot be imported there" in outcome.error


def test_a_job_that_is_not_at_the_top_of_its_module_is_refused_with_a_sentence(runner):
    @job
    def inner() -> int:
        return 1

    registration = functions.registration_of(functions.job_of(inner), source=str(SHOP))
    other = ProcessRunner({registration.full_name: registration})
    outcome = other.run(task_of("inner"), Told())
    other.close()
    assert "must be defined at the top of its module" in outcome.error


def test_code_that_cannot_be_imported_there_fails_the_task_with_its_lines(tmp_path):
    source = tmp_path / "fickle_jobs.py"
    source.write_text(
        "from jobroom.worker.functions import job\n@job\ndef one() -> int: return 1\n"
    )
    runner = ProcessRunner({one.full_name: one for one in finding.find_jobs(str(source))})
    source.write_text("import nothing_of_the_kind\n")
    outcome = runner.run(task_of("one"), Told())
    runner.close()
    headline, *lines = outcome.error.splitlines()
    assert "cannot be imported: ModuleNotFoundError" in headline
    assert "import nothing_of_the_kind" in lines[-1]


def test_a_memory_error_is_told_as_the_limit(run):
    assert run("no_memory").error.startswith("used more than 150 MiB of memory")


def test_a_task_within_its_limit_completes(run):
    assert run("modest").result == 20 << 20


# Cancel


@pytest.mark.parametrize("job", ["rest", "async_rest"])
def test_a_cancelled_task_is_interrupted_in_its_sleep(runner, tmp_path, monkeypatch, job):
    monkeypatch.setitem(attempt.GRACE_SECONDS, "cancelled", 600)  # nothing is killed
    told, started = Told(), tmp_path / "started"
    payload = {"started": str(started)} | ({"seconds": 60} if job == "rest" else {})
    ended = in_background(runner, task_of(job, **payload), told)
    until(started.exists)
    told.cancelled.set()
    assert ended() == Outcome("cancelled")


def test_a_cancelled_task_that_goes_on_is_killed(runner, tmp_path, monkeypatch):
    monkeypatch.setitem(attempt.GRACE_SECONDS, "cancelled", 0.3)
    told, started = Told(), tmp_path / "started"
    ended = in_background(runner, task_of("stubborn", started=str(started)), told)
    until(started.exists)
    told.cancelled.set()
    assert ended() == Outcome("cancelled")


def test_closing_hands_back_what_runs(tmp_path):
    runner, started = new_runner(), tmp_path / "started"
    ended = in_background(runner, task_of("rest", seconds=60, started=str(started)), Told())
    until(started.exists)
    runner.close()
    assert ended() == Outcome("handed_back")
    assert runner.run(task_of("pid"), Told()) == Outcome("handed_back")
    runner.close()


# What a task has started


@pytest.mark.parametrize("apart", [False, True])
def test_what_a_task_has_started_ends_with_it(runner, tmp_path, apart):
    told, pids = Told(), tmp_path / "pids"
    ended = in_background(runner, task_of("beget", pids=str(pids), apart=apart), told)
    both = [int(one) for one in until(lambda: pids.exists() and pids.read_text().split())]
    told.cancelled.set()
    assert ended() == Outcome("cancelled")
    until(lambda: not any(map(is_running, both)))


def test_a_thousand_tiny_tasks_through_four_slots():
    runner, counts = new_runner(), []

    def work():
        counts.extend(
            runner.run(task_of("give", value=number), Told()).result == number
            for number in range(250)
        )

    began = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    runner.close()
    print(f"1000 tasks through 4 processes: {seconds:.2f} s, {seconds:.2f} ms a task")  # noqa: T201  # read with -rP
    assert counts == [True] * 1000
