"""Listening: claims held open, prompt stops, nothing lost on the way."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
import traceback

import pytest
from pydantic import BaseModel

from jobroom.client import stream as stream_module
from jobroom.client.extension import Extension
from jobroom.client.search import Search
from jobroom.client.stream import TaskStream
from jobroom.client.transport import delay_before
from jobroom.errors import Unauthorized

NAME = "r1:modifiers:Rotate"
LONG = 10.0
SOON = 3.0  # an upper bound on a busy machine; a claim is held open for LONG


class Rotate(BaseModel):
    angle: float = 0.0


@pytest.fixture
def listen(server, jobs):
    jobs.register(Rotate, room="r1")
    return jobs.listen


def claims(server):
    return server.asked("POST", "/claim")


def in_thread(function):
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def test_tasks_come_in_the_order_of_the_server(server, listen):
    tasks = [server.add_task(NAME) for _ in range(5)]
    stream = listen()
    assert [next(stream).id for _ in tasks] == [task["id"] for task in tasks]


def test_a_claim_names_the_worker_and_asks_to_be_held_open(server, listen, jobs):
    server.add_task(NAME)
    next(listen())
    (claim,) = claims(server)
    assert claim.headers["prefer"] == "wait=2"
    assert claim.body["worker_id"] == jobs.worker.id
    assert set(claim.body) == {"worker_id", "request_id"}


def test_a_task_that_comes_while_the_claim_is_held_open_is_seen_at_once(server, listen):
    stream = listen(LONG)
    found = []
    thread = in_thread(lambda: found.append(next(stream)))
    server.until(lambda: claims(server))
    task = server.add_task(NAME)
    thread.join(SOON)
    assert [one.id for one in found] == [task["id"]]
    assert len(claims(server)) == 1


@pytest.mark.parametrize(
    ("interval", "wait"), [(0.0, 1), (0.5, 1), (2.0, 2), (2.5, 3), (10.0, 10), (3600.0, 10)]
)
def test_no_claim_is_held_open_longer_than_leaving_may_take(server, listen, interval, wait):
    server.add_task(NAME)
    next(listen(interval))
    assert claims(server)[0].headers["prefer"] == f"wait={wait}"


def test_a_server_that_does_not_hold_claims_is_asked_at_most_once_an_interval(server, listen):
    server.holds_claims = False
    stream = listen(0.2)
    times = []
    server.on_request = lambda seen: times.append(time.monotonic())
    in_thread(lambda: next(stream, None))
    server.until(lambda: len(times) >= 4)
    stream.stop()
    assert times[3] - times[0] >= 3 * 0.15


def test_each_claim_has_a_request_id_of_its_own(server, listen):
    server.add_task(NAME)
    server.add_task(NAME)
    stream = listen()
    next(stream)
    next(stream)
    first, second = claims(server)
    assert first.body["request_id"] != second.body["request_id"]


def test_a_lost_answer_is_asked_for_with_the_same_request_id(server, listen):  # C11
    task, other = server.add_task(NAME), server.add_task(NAME)
    server.fail_next("POST", "/claim", act=True)
    assert next(listen()).id == task["id"]
    first, again = claims(server)
    assert first.body == again.body
    assert other["status"] == "pending"


@pytest.mark.parametrize(
    "how", [{}, {"status": 503}, {"status": 502}, {"status": 500}, {"status": 404}, {"status": 200}]
)
def test_an_outage_is_outlived(server, listen, how):
    task = server.add_task(NAME)
    server.fail_next("POST", "/claim", times=3, **how)
    assert next(listen()).id == task["id"]


def test_a_refused_token_is_raised_to_the_loop_once(server, listen):
    stream = listen()
    server.refused_tokens.add("admin")
    with pytest.raises(Unauthorized, match=r"expired.*JOBROOM_TOKEN.*callable") as raised:
        next(stream)
    assert own_frames(raised.tb) == ["__next__"]
    assert list(stream) == []


def test_a_token_that_expires_while_a_task_runs_ends_the_loop_with_one_sentence(
    server, vis, caplog
):
    class Expiring(Extension):
        def run(self, vis, **kwargs):
            server.refused_tokens.add("admin")

    vis.jobs.register(Expiring, room="r1")
    server.add_task("r1:modifiers:Expiring")
    ran = []

    def loop():
        for task in vis.jobs.listen(0.05):
            task.run(vis)
            ran.append(task.id)

    with pytest.raises(Unauthorized, match="JOBROOM_TOKEN"):
        loop()
    assert [one.getMessage().split()[:2] for one in caplog.records] == [
        ["token.refused", f"task={ran[0]}"]
    ]


def own_frames(trace):
    return [one.name for one in traceback.extract_tb(trace) if "jobroom/client" in one.filename]


def test_the_server_is_looked_for_at_least_every_two_seconds(server, jobs):
    """An outage does not make the tasks wait that came before it ended."""
    look = Search(jobs.worker, 1.0)
    assert look._patience.longest_delay == 2.0
    assert max(delay_before(retry, look._patience.longest_delay) for retry in range(50)) <= 2.0


@pytest.mark.parametrize("interval", [-1, -0.001, math.nan, math.inf])
def test_an_interval_that_is_no_span_is_a_value_error(server, jobs, interval):
    with pytest.raises(ValueError, match="interval must be"):
        jobs.listen(interval)
    assert server.seen == []


@pytest.mark.parametrize("interval", ["a", None, [1]])
def test_an_interval_that_is_no_number_is_a_type_error(server, jobs, interval):
    with pytest.raises(TypeError, match="number of seconds"):
        jobs.listen(interval)
    with pytest.raises(TypeError, match="number of seconds"):
        TaskStream(jobs.api, "w", interval)
    assert server.seen == []


def test_a_task_that_cannot_be_read_fails_and_the_next_one_comes(server, listen):  # C09
    bad = server.add_task(NAME, created_at="yesterday")
    good = server.add_task(NAME)
    assert next(listen()).id == good["id"]
    assert bad["status"] == "failed"
    assert "created_at" in bad["error"]


def send_once(server, number):
    """Send this process a signal when the next claim comes in."""

    def on_request(seen):
        if "/claim" in seen.path:
            server.on_request = lambda _seen: None
            os.kill(os.getpid(), number)

    server.on_request = on_request


def test_a_bad_task_whose_report_is_refused_too_does_not_end_the_loop(server, listen, caplog):
    server.add_task(NAME, created_at="yesterday")
    server.fail_next("PATCH", "/tasks/", status=404)
    good = server.add_task(NAME)
    assert next(listen()).id == good["id"]
    assert "report.refused" in caplog.text


class TestStop:
    def test_it_ends_the_iteration(self, server, listen):
        stream = listen()
        server.add_task(NAME)
        server.add_task(NAME)
        seen = []
        for task in stream:
            seen.append(task)
            stream.stop()
        assert len(seen) == 1
        assert list(stream) == []

    def test_it_wakes_an_iterator_whose_claim_is_held_open(self, server, listen):
        stream = listen(LONG)
        thread = in_thread(lambda: list(stream))
        server.until(lambda: claims(server))
        began = time.monotonic()
        stream.stop()
        thread.join(SOON)
        assert not thread.is_alive()
        assert time.monotonic() - began < SOON

    def test_it_wakes_an_iterator_that_sleeps_between_two_claims(self, server, listen):
        server.holds_claims = False
        stream = listen(LONG)
        thread = in_thread(lambda: list(stream))
        server.until(lambda: claims(server))
        stream.stop()
        thread.join(SOON)
        assert not thread.is_alive()

    def test_it_wakes_an_iterator_in_an_outage(self, server, listen):
        stream = listen(LONG)
        server.away = True
        thread = in_thread(lambda: list(stream))
        server.until(lambda: len(claims(server)) >= 3)
        stream.stop()
        thread.join(SOON)
        assert not thread.is_alive()

    def test_it_may_come_from_a_signal_handler(self, server, listen):
        stream = listen(LONG)
        before = signal.signal(signal.SIGUSR1, lambda *_: stream.stop())
        try:
            send_once(server, signal.SIGUSR1)
            began = time.monotonic()
            assert list(stream) == []
            assert time.monotonic() - began < SOON
        finally:
            signal.signal(signal.SIGUSR1, before)

    def test_a_task_that_arrives_after_it_is_handed_back(self, server, listen):
        stream = listen(LONG)
        thread = in_thread(lambda: list(stream))
        server.until(lambda: claims(server))
        stream.stop()
        thread.join(SOON)
        task = server.add_task(NAME)
        server.until(lambda: task["reports"])
        assert task["reports"][0]["status"] == "pending"
        assert task["reports"][0]["attempt"] == 1

    def test_a_hand_back_that_is_refused_is_a_log_line(self, server, listen, caplog):
        stream = listen(LONG)
        thread = in_thread(lambda: list(stream))
        server.until(lambda: claims(server))
        stream.stop()
        thread.join(SOON)
        (look,) = stream._looks
        server.fail_next("PATCH", "/tasks/", status=404)
        server.add_task(NAME)
        look.join(SOON)
        assert "task.not_handed_back" in caplog.text

    def test_two_consumers_of_one_stream_both_end(self, server, listen):
        stream = listen(LONG)
        threads = [in_thread(lambda: list(stream)) for _ in range(2)]
        server.until(lambda: len(claims(server)) == 2)
        stream.stop()
        for thread in threads:
            thread.join(SOON)
            assert not thread.is_alive()

    def test_no_thread_is_left_after_the_claim_under_way(self, server, listen, jobs):
        stream = listen(1.0)
        thread = in_thread(lambda: list(stream))
        server.until(lambda: claims(server))
        jobs.disconnect()
        thread.join(SOON)
        # A heart that is told to stop ends a moment later.
        for ours in [one for one in threading.enumerate() if one.name.startswith("jobroom")]:
            ours.join(SOON)
            assert not ours.is_alive(), ours.name

    def test_leaving_waits_for_a_claim_from_its_very_beginning(
        self, server, listen, jobs, monkeypatch
    ):
        """The claim is on its way before the thread that started it takes its next step."""
        start, claimed, go_on = stream_module._Look.start, threading.Event(), threading.Event()

        def start_and_stay(self):
            start(self)
            server.until(lambda: claims(server))
            claimed.set()
            assert go_on.wait(LONG)

        monkeypatch.setattr(stream_module._Look, "start", start_and_stay)
        stream = listen(1.0)
        thread = in_thread(lambda: list(stream))
        assert claimed.wait(LONG)
        jobs.disconnect()
        names = [one.name for one in threading.enumerate()]
        go_on.set()
        thread.join(SOON)
        assert "jobroom-claim" not in names


class TestInterrupt:
    def test_ctrl_c_goes_through_and_what_the_claim_brings_is_handed_back(self, server, listen):
        stream = listen(LONG)
        send_once(server, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt) as raised:
            next(stream)
        assert own_frames(raised.tb) == ["__next__"]
        assert raised.value.__suppress_context__
        task = server.add_task(NAME)
        server.until(lambda: task["reports"])
        assert task["reports"][0]["status"] == "pending"

    def test_what_had_just_been_found_is_handed_back_too(self, server, listen, monkeypatch):
        task = server.add_task(NAME)
        stream = listen()
        begin = TaskStream._begin

        def begin_and_interrupt(self, look):
            begin(self, look)
            look.join()
            monkeypatch.setattr(look, "found", Interrupting(look.found))

        monkeypatch.setattr(TaskStream, "_begin", begin_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(stream)
        assert task["reports"][0]["status"] == "pending"

    def test_the_stream_goes_on_after_it(self, server, listen, monkeypatch):
        stream = listen()
        monkeypatch.setattr(TaskStream, "_begin", interrupted_once(TaskStream._begin))
        with pytest.raises(KeyboardInterrupt):
            next(stream)
        task = server.add_task(NAME)
        assert next(stream).id == task["id"]


class Interrupting:
    """A queue whose wait is interrupted."""

    def __init__(self, queue):
        self.put, self.get_nowait = queue.put, queue.get_nowait

    def get(self, timeout):
        raise KeyboardInterrupt


def interrupted_once(begin):
    todo = [KeyboardInterrupt]

    def begin_or_not(self, look):
        if todo:
            raise todo.pop()
        begin(self, look)

    return begin_or_not
