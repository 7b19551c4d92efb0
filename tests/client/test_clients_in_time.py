"""The caller's own timeout bounds all that is asked below it, in both colours."""

from __future__ import annotations

import threading
import time

import pytest
from fake_queue import JOB
from slow_servers import SlowServer

from jobroom import errors
from jobroom.client import outcome

SECONDS = 0.5
ENOUGH_SECONDS = 8.0
"""Five times what the timeout and the last answer may take together."""
SLOW = ["silent", "head drips", "body drips", "page"]


@pytest.fixture(params=SLOW)
def slow(request):
    with SlowServer(request.param) as server:
        yield server


@pytest.fixture
def handle(queue, colour):
    """A function that makes a task's handle, whose client then asks somewhere else."""

    def make(url):
        client = colour.client(queue.url, "t", http=colour.http())
        handle = client.submit(JOB)
        connection = client._thing.connection if hasattr(client, "_thing") else client.connection
        if hasattr(connection, "_base_url"):
            connection._base_url = url
        else:
            connection.base_url = url
        return handle

    return make


def timed(call, *args, **named):
    began = time.monotonic()
    with pytest.raises(TimeoutError) as raised:
        call(*args, **named)
    assert time.monotonic() - began < ENOUGH_SECONDS
    return raised.value


def test_a_result_is_waited_for_no_longer_than_the_timeout(slow, handle):
    """clients.md: TimeoutError when `timeout` seconds are over, whatever stands in between."""
    late = timed(handle(slow.url).result, timeout=SECONDS)
    assert isinstance(late, outcome.WaitTimeout)
    assert slow.requests >= 1


def test_a_wait_is_no_longer_than_the_timeout(slow, handle):
    assert "Nothing was heard" in str(timed(handle(slow.url).wait, timeout=SECONDS))


def test_a_login_page_that_stays_is_a_time_out_that_names_it(handle):
    with SlowServer("page") as page:
        late = timed(handle(page.url).result, timeout=SECONDS)
    assert "was answered 200: it holds no JSON object; check the server's address" in str(late)


def test_an_error_of_the_servers_own_that_stays_is_a_time_out_that_names_it(queue, client):
    handle = client.submit(JOB)
    queue.fail_next("GET", "/tasks/", times=99, status=500)
    assert "was answered 500" in str(timed(handle.result, timeout=SECONDS))


def test_what_was_known_of_the_task_is_told_with_what_came_last(queue, client):
    handle = client.submit(JOB)
    queue.on_request = lambda _seen: setattr(queue, "away", len(queue.asked("GET", "/tasks/")) > 0)
    late = timed(handle.result, timeout=1.2)
    assert "has not ended within 1.2 s; its status is pending" in str(late)
    assert "The last try: " in str(late)


def test_a_large_result_is_waited_for_no_longer_than_the_timeout(queue, client):
    handle = client.submit(JOB)
    queue.end(handle.id, result="x" * 5000)
    go_on = threading.Event()
    queue.on_request = lambda seen: seen.path.endswith("/result") and go_on.wait(20)
    late = timed(handle.result, timeout=SECONDS)
    go_on.set()
    assert "its result did not come within 0.5 s" in str(late)
    assert handle.result(timeout=20) == "x" * 5000


def test_a_request_that_was_left_holds_no_thread(handle):
    with SlowServer("head drips") as slow:
        timed(handle(slow.url).wait, timeout=0)
        until = time.monotonic() + ENOUGH_SECONDS
        while names := [one for one in threading.enumerate() if one.name == "jobroom-request"]:
            assert time.monotonic() < until
            names[0].join(0.1)


def test_without_a_timeout_no_thread_is_started(queue, client):
    handle = client.submit(JOB)
    queue.end(handle.id, result=5)
    names = []
    queue.on_request = lambda _seen: names.extend(one.name for one in threading.enumerate())
    assert handle.result() == 5
    assert "jobroom-request" not in names


def test_failures_are_raised_as_without_a_timeout(queue, client):
    handle = client.submit(JOB)
    del queue.tasks[handle.id]
    with pytest.raises(errors.TaskNotFound):
        handle.result(timeout=5)
