"""Waiting on a platform that ends requests by itself, and what an answer leaves behind: nothing."""

from __future__ import annotations

import asyncio
import threading
import time

import lambda_events as events
import pytest
from lambda_function import BASE, ROTATE, Function, bearer

from jobroom.aws import deadline
from jobroom.domain.records import Caller
from jobroom.http import longpoll
from jobroom.service import registration, reporting, submission, watching
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings

MUCH = 10.0
"""An upper bound where an answer must come at once, on a busy machine."""
ALICE = Caller("user", is_admin=True)


@pytest.fixture(autouse=True)
def short_ticks(monkeypatch):
    """A queue that closes waits for the tick of its looking thread to end."""
    monkeypatch.setattr(watching, "TICK_SECONDS", 0.03)


@pytest.fixture
def function(settings):
    with Function(settings) as made:
        made.register()
        yield made


NOW = 1_800_000_000.0


class Clock:
    """The clocks of an environment, and the platform's of a function: they stand still."""

    def __init__(self, seconds):
        self.seconds = seconds

    def time(self):
        return NOW

    def monotonic(self):
        return 5_000.0

    def get_remaining_time_in_millis(self):
        return int(self.seconds * 1000)


def asked(kind, age=0.0):
    return kind("GET", "/v1/me", received=NOW - age)


@pytest.mark.parametrize(
    ("event", "seconds", "changes", "expected"),
    [
        (asked(events.http_api), 28, {}, 26.5),
        (asked(events.http_api), 60, {}, 28.5),
        (asked(events.http_api, 27.5), 28, {}, 1.0),
        (asked(events.rest_api, 27.5), 28, {}, 1.0),
        (asked(events.http_api, 40), 28, {}, -11.5),
        (asked(events.http_api, -3600), 60, {}, 28.5),
        (asked(events.function_url, 27.5), 28, {}, 26.5),
        (asked(events.function_url), 900, {}, 898.5),
        (events.load_balancer("GET", "/v1/me"), 60, {}, 28.5),
        (asked(events.rest_api), 300, {"gateway_timeout_seconds": 120}, 118.5),
        (asked(events.rest_api, 100), 300, {"gateway_timeout_seconds": 0}, 298.5),
        (asked(events.http_api), 28, {"gateway_reserve_seconds": 5}, 23.0),
        ({"requestContext": {"timeEpoch": None}}, 28, {}, 26.5),
        ({}, 28, {}, 26.5),
    ],
)
def test_the_answer_is_due_by_the_least_of_function_and_gateway(
    monkeypatch, event, seconds, changes, expected
):
    """The gateway counts from its own receipt, a cold start included; a function URL is none."""
    clock = Clock(seconds)
    monkeypatch.setattr(deadline, "time", clock)
    by = deadline.answer_by(event, clock, JobLibSettings(**changes))
    assert by - clock.monotonic() == pytest.approx(expected)


def test_without_any_limit_there_is_no_deadline():
    settings = JobLibSettings(gateway_timeout_seconds=0)
    assert deadline.answer_by(asked(events.http_api), None, settings) is None


class Asking:
    """As much of a call as the wait is granted by."""

    def __init__(self, settings, answer_by):
        self.door = type("Door", (), {"settings": settings})
        self.scope = {} if answer_by is None else {"jobroom.answer_by": answer_by}

    def headers(self, name):
        return ["wait=20"]


@pytest.mark.parametrize(
    ("seconds", "setting", "granted"),
    [(None, 120, 20), (None, 7, 7), (9.99, 120, 9), (0.99, 120, 0), (-5, 120, 0), (9.9, 0.5, 0)],
)
def test_a_wait_is_granted_in_whole_seconds_of_the_least(monkeypatch, seconds, setting, granted):
    now = 1_000_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    settings = JobLibSettings(long_poll_max_wait_seconds=setting)
    call = Asking(settings, None if seconds is None else now + seconds)
    assert longpoll.granted_wait(call) == granted


def timed(send):
    began = time.monotonic()
    answer = send()
    return answer, time.monotonic() - began


def test_a_wait_ends_before_the_gateway_gives_up(function):
    """27 seconds went by before the function saw it: a cold start, say."""
    task = function.submit()
    answer, took = timed(
        lambda: function.send(
            "GET",
            f"/tasks/{task['id']}",
            headers=[("prefer", "wait=20")],
            received=time.time() - 26.5,
            seconds=29,
        )
    )
    assert (answer.status, answer.json()["status"]) == (200, "pending")
    assert answer.header("preference-applied") in ("wait=1", "wait=2")
    assert took < MUCH


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_that_comes_late_is_answered_at_once(function, method):
    task = function.submit()
    path = f"/tasks/{task['id']}" if method == "GET" else "/tasks/claim"
    answer, took = timed(
        lambda: function.send(
            method, path, headers=[("prefer", "wait=20")], received=time.time() - 29, seconds=29
        )
    )
    assert (answer.status, answer.header("preference-applied")) == (200, None)
    assert took < MUCH


def test_a_claim_waits_as_long_as_the_function_lives_and_is_withdrawn(function):
    answer = function.send("POST", "/tasks/claim", headers=[("prefer", "wait=20")], seconds=3.45)
    assert (answer.json()["task"], answer.header("preference-applied")) == (None, "wait=1")
    assert_nothing_is_left(function)
    task = function.submit()
    assert function.send("POST", "/tasks/claim").json()["task"]["id"] == task["id"]


def assert_nothing_is_left(function):
    door = function.door
    assert asyncio.all_tasks(function.handler._loop) == set()
    assert (door.waiters, door.held, door.watch.known, door.watch._waiting) == (0, set(), {}, {})
    assert not door.queue.waiting
    until_no_thread_looks()


def until_no_thread_looks():
    end = time.monotonic() + 30
    while any(thread.name == "jobroom-watcher" for thread in threading.enumerate()):
        assert time.monotonic() < end, "somebody looks on though nobody waits"
        time.sleep(0.01)


@pytest.fixture
def elsewhere(settings):
    """Another environment on the same store: what it writes, this one must notice."""
    with JobQueue.open(settings) as queue:
        yield queue


def later(do):
    """Do it while the request waits, on a thread; the wait is long enough for any machine."""
    timer = threading.Timer(0.3, do)
    timer.start()
    return timer


def test_a_wait_ends_early_when_another_environment_ends_the_task(function, elsewhere):
    task = function.submit()
    cancelled = reporting.Report(status=reporting.TaskStatus.CANCELLED)
    timer = later(
        lambda: elsewhere.run(reporting.report, caller=ALICE, task_id=task["id"], report=cancelled)
    )
    answer = function.send("GET", f"/tasks/{task['id']}", headers=[("prefer", "wait=20")])
    timer.join()
    assert answer.json()["status"] == "cancelled"
    assert_nothing_is_left(function)


def test_a_claim_ends_early_when_another_environment_submits(function, elsewhere):
    job = elsewhere.run(registration.find_job, caller=ALICE, room_id="r1", full_name=ROTATE)
    new = submission.NewTask("{}")
    timer = later(
        lambda: elsewhere.run(submission.submit_task, caller=ALICE, room_id="r1", job=job, new=new)
    )
    answer = function.send("POST", "/tasks/claim", headers=[("prefer", "wait=20")])
    timer.join()
    assert answer.json()["task"]["status"] == "claimed"
    assert_nothing_is_left(function)


@pytest.mark.parametrize(
    "prefer",
    [
        ["wait=abc"],
        ["wait=-1"],
        ["wait=0"],
        ['wait="'],
        ["respond-async"],
        [],
    ],
)
@pytest.mark.parametrize("kind", events.KINDS, ids=lambda kind: kind.__name__)
def test_c28_what_cannot_be_read_is_no_wait_and_no_error(function, kind, prefer):
    task = function.submit()
    headers = [("prefer", value) for value in prefer]
    answer = function.send("GET", f"/tasks/{task['id']}", kind=kind, headers=headers)
    assert (answer.status, answer.header("preference-applied")) == (200, None)


@pytest.mark.parametrize(
    "prefer",
    [["respond-async", "wait=1"], ["respond-async, wait=1"], ["wait=99999999999999999999"]],
)
@pytest.mark.parametrize("kind", events.KINDS, ids=lambda kind: kind.__name__)
def test_c28_both_forms_of_two_preferences_wait_and_any_number_is_capped(function, kind, prefer):
    task = function.submit()
    headers = [("prefer", value) for value in prefer]
    answer = function.send("GET", f"/tasks/{task['id']}", kind=kind, headers=headers, seconds=3.45)
    assert (answer.status, answer.header("preference-applied")) == (200, "wait=1")


def test_c22_a_submission_whose_answer_came_too_late_is_found_again(function):
    """The gateway gave up at 29 s while we committed: the client's retry gets the same task."""
    headers = [("idempotency-key", "k1")]
    path, body = f"/rooms/r1/tasks/{ROTATE}", {"payload": {"angle": 90}}
    lost = function.send("POST", path, body, headers=headers, received=time.time() - 29)
    again = function.send("POST", path, body, headers=headers)
    assert (again.status, again.json()["id"]) == (202, lost.json()["id"])
    assert again.header("idempotency-replayed") == "true"
    assert again.header("location") == lost.header("location")
    listed = function.send("GET", "/rooms/r1/tasks").json()
    assert listed["total"] == 1


def test_c22_the_retry_may_reach_another_environment(function, settings):
    headers = [("idempotency-key", "k1")]
    path = f"/rooms/r1/tasks/{ROTATE}"
    lost = function.send("POST", path, {}, headers=headers)
    with Function(settings) as fresh:
        assert fresh.send("POST", path, {}, headers=headers).json()["id"] == lost.json()["id"]


def test_c29_while_environments_wait_others_answer(function, settings):
    """A waiting environment serves nobody else; the platform starts others beside it."""
    task = function.submit()
    crowd = [threading.Thread(target=wait_in, args=(settings, task["id"])) for _ in range(5)]
    for each in crowd:
        each.start()
    try:
        slowest = 0.0
        for _ in range(5):
            for method, path in (
                ("POST", f"/rooms/r1/tasks/{ROTATE}"),
                ("POST", "/tasks/claim"),
                ("PATCH", "/workers/w"),
            ):
                answer, took = timed(
                    lambda m=method, p=path: function.send(m, p, {} if m == "POST" else None)
                )
                assert answer.status in (200, 202)
                slowest = max(slowest, took)
        assert slowest < 0.5 * 5
    finally:
        for each in crowd:
            each.join()


def wait_in(settings, task_id):
    with Function(settings) as environment:
        path = f"{BASE}/tasks/{task_id}"
        waiting = [*bearer(), ("prefer", "wait=2")]
        environment.invoke(events.function_url("GET", path, waiting))


def test_c30_many_waits_one_after_the_other_leave_nothing(function, elsewhere):
    """On Lambda a client that goes away is not seen: its wait ends by itself, and with it all."""
    for _ in range(3):
        function.send("POST", "/tasks/claim", headers=[("prefer", "wait=1")])
    for _ in range(30):
        task = function.submit()
        gone = reporting.Report(status=reporting.TaskStatus.CANCELLED)
        elsewhere.run(reporting.report, caller=ALICE, task_id=task["id"], report=gone)
        function.send("GET", f"/tasks/{task['id']}", headers=[("prefer", "wait=1")])
    assert_nothing_is_left(function)
