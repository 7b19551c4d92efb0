"""Running a claimed task: whatever happens in there, the right report and an unhurt loop."""

from __future__ import annotations

import json
import logging
import re

import pytest
from pydantic import BaseModel

from jobroom.client import failure
from jobroom.client import task as task_module
from jobroom.client.extension import Extension
from jobroom.client.task import ClaimedTask, current_task
from jobroom.client.transport import Patience
from jobroom.errors import InvalidTaskTransition

NAME = "r1:modifiers:Rotate"


class Rotate(Extension):
    """Does what its test asks for."""

    angle: float = 0.0

    def run(self, vis, **kwargs):
        return vis.work(self, **kwargs)


@pytest.fixture
def work(server, vis):
    """Register Rotate with the given body, claim one task of it, and run it."""

    def go(body, payload=None, cls=Rotate, on_claim=None, **policy):
        vis.work = body
        vis.jobs.register(cls, room="r1", **policy)
        task = server.add_task(f"r1:modifiers:{cls.__name__}", payload)
        claimed = next(vis.jobs.listen(0.05))
        if on_claim is not None:
            on_claim(claimed)
        go.claimed = claimed
        claimed.run(vis)
        return task

    return go


def statuses(task):
    return [report.get("status") for report in task["reports"]]


def test_a_run_is_reported_as_running_and_completed(work):
    task = work(lambda self: None, {"angle": 90})
    assert statuses(task) == ["running", "completed"]
    assert "result" not in task["reports"][-1]


def test_every_report_carries_attempt_and_worker(work, vis):
    task = work(lambda self: None)
    assert {(one["attempt"], one["worker_id"]) for one in task["reports"]} == {
        (1, vis.jobs.worker.id)
    }


@pytest.mark.parametrize("result", [0, False, "", [], {"a": [1, 2.5, None]}, "é", 2**70])
def test_what_run_returns_is_the_result(work, result):
    assert work(lambda self: result)["result"] == result


def test_a_pydantic_result_is_sent_as_its_json(work):
    assert work(lambda self: self, {"angle": 2})["result"] == {"angle": 2.0}


def test_keywords_of_run_reach_the_class(server, vis):
    vis.work = lambda self, **kwargs: kwargs
    vis.jobs.register(Rotate, room="r1")
    task = server.add_task(NAME)
    next(vis.jobs.listen(0.05)).run(vis, frame=3)
    assert task["result"] == {"frame": 3}


def test_an_exception_fails_the_task_with_the_users_frames_alone(work):
    def broken(self):
        raise ValueError("angle is odd")

    task = work(broken)
    assert statuses(task) == ["running", "failed"]
    lines = task["error"].splitlines()
    assert lines[0] == "ValueError: angle is odd"
    assert "in broken" in task["error"]
    assert "jobroom/client" not in task["error"]
    assert "final" not in task["reports"][-1]


def test_an_exception_whose_text_cannot_be_made_fails_the_task_all_the_same(work):
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError

    def broken(self):
        raise Odd

    assert work(broken)["error"].startswith("Odd: ")


def test_a_long_error_is_cut_before_it_is_sent(work):
    def broken(self):
        raise ValueError("é" * 10_000_000)

    error = work(broken)["error"]
    assert 60_000 < len(error.encode()) <= 64 * 1024
    assert error.endswith(failure.MARK)


def test_an_error_that_is_no_unicode_is_still_reported(work):
    def broken(self):
        raise OSError("no file \udcff")

    assert "no file \\udcff" in work(broken)["error"]


def test_a_payload_that_does_not_fit_fails_the_task_naming_the_field(work):
    task = work(lambda self: None, {"angle": "secret"})
    assert task["status"] == "failed"
    assert "angle" in task["error"]
    assert "secret" not in task["error"]
    assert task["reports"][-1]["final"] is True


def test_a_class_without_run_fails_the_task_naming_the_class(work):
    """Covers rules, *First start*."""

    class Bare(BaseModel):
        pass

    class Based(Extension):
        pass

    for cls in (Bare, Based):
        task = work(None, cls=cls)
        assert task["status"] == "failed"
        assert cls.__name__ in task["error"]


@pytest.mark.filterwarnings("error")
def test_an_async_run_runs_in_a_loop_of_its_own(work):
    async def later(self):
        return 1

    assert work(later)["result"] == 1


def test_a_task_of_a_job_that_is_not_registered_here_fails(server, vis):
    vis.jobs.register(Rotate, room="r1")
    task = server.add_task(NAME)
    claimed = next(vis.jobs.listen(0.05))
    del vis.jobs.worker.jobs[NAME]
    claimed.run(vis)
    assert NAME in task["error"]


def test_a_task_lost_before_its_start_is_not_run(server, work, caplog):
    ran = []
    task = work(ran.append, on_claim=lambda claimed: server.tasks[claimed.id].update(attempt=2))
    assert ran == []
    assert task["reports"] == []
    assert [record.getMessage().split()[0] for record in caplog.records] == ["report.refused"]


def test_a_task_lost_while_it_runs_is_one_log_line_and_no_exception(server, work, caplog):  # C01
    with caplog.at_level(logging.INFO, logger="jobroom.client"):
        task = work(lambda self: next(iter(server.tasks.values())).update(status="failed"))
    assert task["status"] == "failed"
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert lines[0].startswith(f"report.refused task={task['id']} status=completed reason=")
    assert caplog.records[0].exc_info is None


def test_a_result_over_the_limit_fails_the_task_and_says_so(server, work):
    server.max_result_bytes = 100
    task = work(lambda self: "x" * 200)
    assert task["status"] == "failed"
    assert task["error"].startswith("result too large")
    assert "100 bytes" in task["error"]


def test_a_result_that_a_proxy_finds_too_large_fails_the_task_too(server, work):
    def body(self):
        server.fail_next("PATCH", "/tasks/", status=413)
        return 1

    assert work(body)["error"].startswith("result too large")


def test_a_result_that_the_server_refuses_fails_the_task(server, work):
    def body(self):
        server.fail_next(
            "PATCH", "/tasks/", status=422, text=json.dumps({"type": "x/payload-invalid"})
        )
        server.faults[-1].headers = {"Content-Type": "application/problem+json"}
        return 1

    assert work(body)["error"].startswith("result refused")


@pytest.mark.parametrize("how", [{"act": True}, {}, {"status": 503}, {"status": 500}])
def test_a_report_whose_answer_is_lost_is_repeated(server, work, how):
    def body(self):
        server.fail_next("PATCH", "/tasks/", **how)
        return 5

    task = work(body)
    assert (task["status"], task["result"]) == ("completed", 5)


def test_a_token_that_expired_while_the_task_ran_is_one_line_and_no_exception(
    server, work, vis, caplog
):
    def body(self):
        server.refused_tokens.add("admin")

    task = work(body)
    (line,) = (one.getMessage() for one in caplog.records if "heartbeat" not in one.getMessage())
    assert line.startswith(f"token.refused task={task['id']} status=completed reason='The token")
    assert "JOBROOM_TOKEN" in line
    assert "callable" in line


def test_a_failed_task_is_one_warning_with_the_first_line_of_its_error(work, caplog):
    def broken(self):
        raise ValueError("angle is odd\nand more")

    task = work(broken)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    told, seconds, error = re.fullmatch(
        r"(task.failed .*) seconds=(\d\.\d\d) (error=.*)", record.getMessage()
    ).groups()
    assert told == f"task.failed task={task['id']} job={NAME} attempt=1"
    assert float(seconds) < 60
    assert error == "error='ValueError: angle is odd'"


def test_a_payload_that_does_not_fit_is_one_warning_without_the_value(work, caplog):
    work(lambda self: None, {"angle": "secret"})
    (record,) = caplog.records
    assert record.getMessage().startswith("task.failed task=")
    assert "angle" in record.getMessage()
    assert "secret" not in record.getMessage()


def test_a_result_over_the_limit_is_one_warning(server, work, caplog):
    server.max_result_bytes = 100
    work(lambda self: "x" * 200)
    (record,) = caplog.records
    assert "error='result too large" in record.getMessage()


def test_a_long_first_line_is_cut_in_the_log(work, caplog):
    def broken(self):
        raise ValueError("x" * 5000)

    work(broken)
    assert len(caplog.records[0].getMessage()) < 1000


def test_a_report_that_never_gets_through_is_given_up_and_a_new_worker_goes_on(
    server, work, vis, caplog, monkeypatch
):
    monkeypatch.setattr(task_module, "REPORT", Patience(0.0))
    first = []

    def body(self):
        first.append(vis.jobs.worker.id)
        server.fail_next("PATCH", "/tasks/", status=500)

    work(body)
    assert "report.given_up" in caplog.text
    assert vis.jobs.worker.id is None
    vis.jobs.listen()
    assert vis.jobs.worker.id not in {None, *first}


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
class TestStopped:
    def test_a_job_that_may_be_repeated_is_handed_back(self, server, work, stop):
        def body(self):
            raise stop

        with pytest.raises(stop):
            work(body, on_worker_lost="requeue")
        assert statuses(next(iter(server.tasks.values()))) == ["running", "pending"]

    def test_another_one_is_failed(self, server, work, stop):
        def body(self):
            raise stop

        with pytest.raises(stop):
            work(body)
        task = next(iter(server.tasks.values()))
        assert task["status"] == "failed"
        assert stop.__name__ in task["error"]

    def test_a_server_that_lost_the_task_does_not_hide_the_interrupt(self, server, work, stop):
        def body(self):
            for task in server.tasks.values():
                task["attempt"] = 9
            raise stop

        with pytest.raises(stop):
            work(body)


class TestByHand:
    @pytest.fixture
    def claimed(self, server, vis):
        vis.jobs.register(Rotate, room="r1")
        server.add_task(NAME)
        return next(vis.jobs.listen(0.05))

    def test_a_task_is_taken_through_its_steps(self, server, claimed):
        claimed.start()
        assert claimed.progress(0.5, "half")
        claimed.complete({"ok": True})
        task = server.tasks[claimed.id]
        assert statuses(task) == ["running", None, "completed"]
        assert (task["progress"], task["message"], task["result"]) == (0.5, "half", {"ok": True})

    def test_a_failure_may_be_final(self, server, claimed):
        claimed.fail("x" * 100_000, final=True)
        report = server.tasks[claimed.id]["reports"][-1]
        assert report["final"] is True
        assert len(report["error"]) <= 64 * 1024

    def test_a_release_puts_it_back(self, server, claimed):
        claimed.release()
        assert server.tasks[claimed.id]["status"] == "pending"

    def test_a_report_by_hand_raises_what_the_server_says(self, claimed):
        with pytest.raises(InvalidTaskTransition):
            claimed.complete()

    @pytest.mark.parametrize("how", [{}, {"status": 401}, {"status": 500}, {"status": 503}])
    def test_progress_never_raises_for_a_server_that_is_away(self, server, claimed, how):
        """Nor for a token that expired: the work goes on, and its end is reported with another."""
        claimed.start()
        server.fail_next("PATCH", "/tasks/", **how)
        assert claimed.progress(0.5) is False
        assert not claimed.cancelled

    def test_progress_on_a_task_that_was_taken_says_so(self, server, claimed):
        server.tasks[claimed.id]["attempt"] = 2
        assert claimed.progress(0.5) is False
        assert claimed.cancelled

    def test_a_task_of_nobody_cannot_report(self):
        task = ClaimedTask(
            id="x", job_name=NAME, room_id="r1", payload={}, created_at="2026-01-01T00:00:00Z"
        )
        assert not task.cancelled
        with pytest.raises(RuntimeError, match="bind"):
            task.start()
        with pytest.raises(RuntimeError, match="bind"):
            task.release()


def test_the_running_task_can_be_reached_from_inside_run(work):
    def body(self):
        current_task().progress(0.25)
        return current_task().job_name

    task = work(body)
    assert (task["result"], task["progress"]) == (NAME, 0.25)
    assert current_task() is None


def test_what_it_writes_goes_with_the_last_report(work):
    def wordy(self):
        current_task().log("one\n")
        current_task().log("two\n")

    last = work(wordy)["reports"][-1]
    assert last["status"] == "completed"
    assert (last["log"], last["log_offset"]) == ("one\ntwo\n", 0)


def test_a_long_log_is_sent_ahead_of_the_last_report(work):
    task = work(lambda self: current_task().log("x" * 70_000))
    ahead, last = task["reports"][-2:]
    assert len(ahead["log"]) == 70_000
    assert "status" not in ahead
    assert "log" not in last


def test_a_server_that_knows_no_logs_is_sent_none_and_one_line_says_so(server, work, caplog):
    server.takes_logs = False
    for _ in range(2):
        task = work(lambda self: current_task().log("x"))
        assert task["status"] == "completed"
        assert "log" not in task["reports"][-1]
    (line,) = (one.getMessage() for one in caplog.records)
    assert line.startswith("log.not_taken reason='the server keeps no logs")
