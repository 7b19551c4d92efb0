"""The worker behind the manager: heartbeats, coming back, leaving. C06, C08, C10, C14, C17."""

from __future__ import annotations

import threading

import pytest
from program import run_program
from pydantic import BaseModel

import jobroom
from jobroom.client.connection import Connection
from jobroom.client.extension import Extension
from jobroom.client.manager import JobManager
from jobroom.client.stream import TaskStream
from jobroom.errors import WorkerNotFound

NAME = "r1:modifiers:Rotate"


class Rotate(Extension):
    angle: float = 0.0

    def run(self, vis, **kwargs):
        return vis.work()


class Other(BaseModel):
    pass


def beats(server):
    return server.asked("PATCH", "/workers/")


@pytest.fixture
def fast(server):
    """A worker timeout so short that heartbeats come every tenth of a second."""
    server.timeout_seconds = 0.3
    return server


@pytest.fixture
def listen(server, jobs):
    jobs.register(Rotate, room="r1")
    return jobs.listen


class TestHeartbeats:
    def test_they_start_with_listening(self, fast, listen):
        assert beats(fast) == []
        listen()
        fast.until(lambda: len(beats(fast)) >= 3)

    @pytest.mark.parametrize(
        ("timeout", "beat"), [(60.0, 20.0), (2.0, 2 / 3), (600.0, 20.0), (None, 20.0), (3, 1.0)]
    )
    def test_they_come_at_a_third_of_the_timeout_and_never_slower_than_in_20_s(
        self, server, jobs, timeout, beat
    ):  # C06
        server.timeout_seconds = timeout
        jobs.listen()
        assert jobs.worker.beat_seconds == pytest.approx(beat)

    def test_they_follow_a_timeout_that_a_heartbeat_tells(self, server, listen, jobs):
        listen()
        server.timeout_seconds = 3.0
        jobs.heartbeat()
        assert jobs.worker.beat_seconds == pytest.approx(1.0)

    def test_they_go_on_while_a_task_keeps_the_interpreter_busy(self, fast, listen, vis):  # C06
        def busy():
            begun = len(beats(fast))
            while len(beats(fast)) < begun + 3:
                sum(range(1000))

        vis.work = busy
        task = fast.add_task(NAME)
        next(listen()).run(vis)
        assert task["status"] == "completed"

    def test_they_outlive_an_outage(self, fast, listen):
        listen()
        fast.away = True
        fast.until(lambda: len(beats(fast)) >= 3)
        fast.away = False
        seen = len(beats(fast))
        fast.until(lambda: len(beats(fast)) >= seen + 2)

    def test_they_outlive_a_refused_token_with_one_log_line(self, fast, listen, caplog):
        fast.fail_next("PATCH", "/workers/", times=3, status=401)
        listen()
        fast.until(lambda: len(beats(fast)) >= 5)
        assert [one.getMessage().split()[0] for one in caplog.records][:1] == ["token.refused"]
        assert caplog.text.count("token.refused") == 1

    def test_a_beat_by_hand_makes_the_worker_if_there_is_none(self, server, jobs):
        jobs.heartbeat()
        assert list(server.workers) == [jobs.worker.id]

    def test_a_beat_by_hand_does_not_raise_in_an_outage(self, server, jobs):
        server.away = True
        jobs.heartbeat()
        server.away = False
        jobs.heartbeat()
        server.fail_next("PATCH", "/workers/")
        jobs.heartbeat()

    def test_a_beat_by_hand_after_leaving_makes_no_new_worker(self, server, jobs):
        jobs.heartbeat()
        jobs.disconnect()
        jobs.heartbeat()
        assert server.workers == {}

    def test_a_closed_connection_ends_them(self, fast, listen, jobs):
        listen()
        heart = jobs.worker._heart
        jobs.api.http.close()
        heart._thread.join(5)
        assert not heart._thread.is_alive()


class TestCancel:
    def test_a_cancel_reaches_the_task_through_a_heartbeat(self, server, listen, jobs):
        server.add_task(NAME)
        task = next(listen())
        assert not task.cancelled
        server.workers[jobs.worker.id]["cancel"] = [task.id, "unknown"]
        jobs.heartbeat()
        assert task.cancelled

    def test_another_attempt_at_the_same_task_is_not_cancelled(self, server, listen, jobs):
        server.add_task(NAME)
        stream = listen()
        first = next(stream)
        server.workers[jobs.worker.id]["cancel"] = [first.id]
        jobs.heartbeat()
        server.workers[jobs.worker.id]["cancel"] = []
        server.tasks[first.id]["status"] = "pending"
        second = next(stream)
        assert (second.id, second.attempt) == (first.id, 2)
        assert not second.cancelled


class TestForgotten:
    """C10: a worker that was swept registers again by itself and goes on."""

    def test_the_heartbeat_notices(self, fast, listen, jobs):
        jobs.register(Other, room="r2")
        listen()
        old = jobs.worker.id
        fast.forget_worker(old)
        names = {NAME, "r2:modifiers:Other"}
        (new,) = fast.until(lambda: [k for k, w in fast.workers.items() if w["jobs"] == names])
        assert new == jobs.worker.id != old

    def test_the_claim_notices_and_goes_on(self, server, listen, jobs):
        stream = listen(10.0)
        old = jobs.worker.id
        server.forget_worker(old)
        task = server.add_task(NAME)
        assert next(stream).id == task["id"]
        assert stream.worker_id == jobs.worker.id != old

    def test_the_claim_held_open_notices(self, server, listen):
        stream = listen(10.0)
        found = []
        thread = threading.Thread(target=lambda: found.append(next(stream)))
        thread.start()
        server.until(lambda: server.asked("POST", "/claim"))
        server.forget_worker(stream.worker_id)
        task = server.add_task(NAME)
        thread.join(10)
        assert [one.id for one in found] == [task["id"]]

    def test_the_registration_notices(self, server, listen, jobs):
        server.forget_worker(jobs.worker.id)
        jobs.register(Other, room="r2")
        assert server.workers[jobs.worker.id]["jobs"] == {"r2:modifiers:Other", NAME}

    def test_the_beat_by_hand_notices(self, server, listen, jobs):
        server.forget_worker(jobs.worker.id)
        jobs.heartbeat()
        assert server.workers[jobs.worker.id]["jobs"] == {NAME}

    def test_what_it_held_is_known_to_be_lost(self, server, listen, jobs):
        server.add_task(NAME)
        task = next(listen())
        server.forget_worker(jobs.worker.id)
        jobs.heartbeat()
        assert task.cancelled

    def test_coming_back_in_an_outage_is_tried_again(self, fast, listen, jobs):
        listen()
        fast.fail_next("POST", "/workers$", times=2)
        fast.fail_next("PUT", "/jobs", times=2)
        fast.forget_worker(jobs.worker.id)
        fast.add_task(NAME)
        assert next(listen()).job_name == NAME

    def test_a_job_that_is_refused_now_does_not_hold_up_the_others(
        self, server, listen, jobs, caplog
    ):
        jobs.register(Other, room="r2")
        server.jobs["r2:modifiers:Other"]["schema"] = {"type": "object"}
        server.forget_worker(jobs.worker.id)
        task = server.add_task(NAME)
        assert next(listen()).id == task["id"]
        assert "job.not_registered_again job=r2:modifiers:Other" in caplog.text

    def test_a_server_that_forgets_each_new_worker_is_an_error(self, server, listen, jobs):
        stream = listen()

        def forget_all(seen):
            if seen.method in {"PUT", "POST"} and not seen.path.endswith("/workers"):
                server.workers.clear()

        server.on_request = forget_all
        with pytest.raises(WorkerNotFound, match="forgot"):
            next(stream)
        with pytest.raises(WorkerNotFound, match="forgot"):
            jobs.register(Other, room="r2")

    def test_a_worker_that_somebody_else_made_is_not_replaced(self, server, jobs):
        stream = TaskStream(jobs.api, "somebody", 0.1)
        with pytest.raises(WorkerNotFound):
            next(stream)
        assert server.workers == {}

    def test_a_worker_that_leaves_meanwhile_does_not_come_back(self, server, listen, jobs):
        old = jobs.worker.id

        def leave_first(seen):
            if "/workers/" in seen.path and seen.method == "PATCH":
                server.on_request = lambda _seen: None
                jobs.worker.leave()

        server.on_request = leave_first
        jobs.heartbeat()
        assert old not in server.workers
        assert server.workers == {}


class TestLeaving:
    def test_the_worker_is_gone_at_the_end_of_the_with_block(self, server):  # C17
        with Connection(server.url, "admin") as connection, JobManager(connection) as jobs:
            jobs.register(Rotate, room="r1")
            jobs.listen()
            assert len(server.workers) == 1
        assert server.workers == {}

    def test_claimed_but_not_started_tasks_are_handed_back_first(self, server, listen, jobs):  # C08
        task = server.add_task(NAME)
        next(listen())
        jobs.disconnect()
        assert task["status"] == "pending"
        assert [one.method for one in server.seen[-2:]] == ["PATCH", "DELETE"]

    def test_a_started_task_is_left_to_its_jobs_policy(self, server, listen, jobs):
        task = server.add_task(NAME)
        next(listen()).start()
        jobs.disconnect()
        assert task["status"] == "failed"
        assert [one["status"] for one in task["reports"]] == ["running"]

    def test_a_finished_task_is_not_handed_back(self, server, listen, jobs, vis):
        vis.work = lambda: 1
        task = server.add_task(NAME)
        next(listen()).run(vis)
        jobs.disconnect()
        assert task["status"] == "completed"
        assert len(task["reports"]) == 2

    def test_a_claim_held_open_is_ended_before_the_worker_goes(self, server, listen, jobs):
        stream = listen(1.0)
        thread = threading.Thread(target=lambda: list(stream))
        thread.start()
        server.until(lambda: server.asked("POST", "/claim"))
        jobs.disconnect()
        thread.join(5)
        assert not thread.is_alive()
        assert server.workers == {}
        assert len(server.asked("POST", "/workers$")) == 1

    def test_leaving_twice_or_without_having_come_asks_nothing(self, server, connect):
        jobs = connect()
        jobs.disconnect()
        jobs.close()
        assert server.seen == []

    def test_a_worker_that_is_gone_already_is_no_error(self, server, listen, jobs, caplog):
        server.forget_worker(jobs.worker.id)
        jobs.disconnect()
        assert caplog.text == ""

    def test_a_server_that_is_away_does_not_keep_the_program(
        self, server, listen, jobs, caplog, monkeypatch
    ):
        monkeypatch.setattr("jobroom.client.worker.BRIEF", jobroom.client.worker.Patience(0.0))
        server.away = True
        jobs.disconnect()
        assert "worker.not_signed_off" in caplog.text

    def test_a_task_that_was_taken_meanwhile_does_not_keep_the_worker(self, server, listen, jobs):
        task = server.add_task(NAME)
        next(listen())
        task["attempt"] = 7
        jobs.disconnect()
        assert server.workers == {}

    def test_listening_comes_back_with_all_jobs(self, server, listen, jobs):
        old = jobs.worker.id
        jobs.disconnect()
        task = server.add_task(NAME)
        assert next(listen()).id == task["id"]
        assert jobs.worker.id != old

    def test_a_stream_of_before_ends(self, listen, jobs):
        stream = listen()
        jobs.disconnect()
        assert list(stream) == []


def test_the_end_of_a_program_is_a_leaving_in_good_order(server):  # C17
    server.add_task(NAME)
    done = run_program(server, "next(jobs.listen()); sys.exit(3)")
    assert (done.returncode, done.stderr) == (3, "")
    assert server.workers == {}
    assert [task["status"] for task in server.tasks.values()] == ["pending"]
