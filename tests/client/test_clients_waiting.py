"""Waiting through faults, progress and logs, in both colours."""

from __future__ import annotations

import logging
import threading
import time

import httpx
import pytest
from fake_queue import JOB

from jobroom import errors
from jobroom.client import outcome, waiting
from jobroom.client.watching import Progress


@pytest.fixture
def at_the_next(queue):
    """Do something when the nth request that follows comes in."""

    def plan(*, method="GET", request=1, do):
        asked = [0]

        def on_request(seen):
            if seen.method == method:
                asked[0] += 1
                if asked[0] == request:
                    threading.Thread(target=do).start()

        queue.on_request = on_request

    return plan


def test_the_end_is_heard_of_by_a_request_that_waits(queue, client, at_the_next):
    handle = client.submit(JOB)
    at_the_next(do=lambda: queue.end(handle.id, result=5))
    assert handle.result(timeout=10) == 5
    (seen,) = queue.asked("GET", f"/tasks/{handle.id}")
    assert seen.headers["prefer"] == "wait=9"


FAULTS = [
    {},
    {"status": 502},
    {"status": 504, "text": "upstream request timeout"},
    {"status": 503, "headers": {"Retry-After": "0"}},
    {"status": 200, "text": '{"status": "comp', "torn": True},
    {"status": 200, "text": "<html>log in here</html>"},
]


@pytest.mark.parametrize("how", FAULTS, ids=str)
def test_faults_between_here_and_the_server_are_borne(queue, client, how):
    handle = client.submit(JOB)
    queue.end(handle.id, result=5)
    queue.fail_next("GET", "/tasks/", times=3, **how)
    assert handle.result(timeout=10) == 5
    assert len(queue.asked("GET", "/tasks/")) == 4


def test_an_outage_is_one_line_at_its_begin_and_one_at_its_end(queue, client, caplog):
    handle = client.submit(JOB)
    queue.end(handle.id)
    queue.fail_next("GET", "/tasks/", times=4, status=502)
    with caplog.at_level(logging.DEBUG, logger="jobroom.client"):
        handle.wait(timeout=10)
    events = [record.getMessage().split()[0] for record in caplog.records]
    assert events == ["server.away", "server.back"]


@pytest.mark.parametrize("seconds", [0, 0.2])
def test_a_wait_ends_with_the_callers_time(queue, client, seconds):
    handle = client.submit(JOB)
    with pytest.raises(TimeoutError, match=r"has not ended within 0.* status is pending"):
        handle.wait(timeout=seconds)
    with pytest.raises(outcome.WaitTimeout):
        handle.result(timeout=seconds)


def test_a_server_that_stays_away_is_a_time_out_that_says_why(queue, client):
    handle = client.submit(JOB)
    queue.away = True
    with pytest.raises(TimeoutError) as raised:
        handle.wait(timeout=0.5)
    assert isinstance(raised.value.__cause__, errors.StoreUnavailable)


def test_a_server_that_asks_for_more_time_than_there_is_is_asked_once_more(queue, client):
    handle = client.submit(JOB)
    queue.fail_next("GET", "/tasks/", times=9, status=503, headers={"Retry-After": "30"})
    with pytest.raises(TimeoutError):
        handle.wait(timeout=0.3)
    assert len(queue.asked("GET", "/tasks/")) == 2


def test_a_server_that_does_not_answer_at_all_is_not_waited_for_longer(queue, client):
    handle = client.submit(JOB)
    go_on = threading.Event()
    queue.on_request = lambda _seen: go_on.wait(20)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        handle.wait(timeout=0.3)
    go_on.set()
    assert time.monotonic() - began < 10


def test_a_server_that_does_not_hold_a_request_is_not_asked_without_end(queue, client, monkeypatch):
    monkeypatch.setattr(waiting, "SHORTEST_LOOK_SECONDS", 0.1)
    queue.holds_waits = False
    handle = client.submit(JOB)
    with pytest.raises(TimeoutError):
        handle.wait(timeout=1.0)
    assert len(queue.asked("GET", "/tasks/")) < 40


def test_a_refused_token_ends_a_wait_at_once(queue, client):
    handle = client.submit(JOB)
    queue.refused_tokens.add("t")
    with pytest.raises(errors.Unauthorized):
        handle.wait(timeout=10)


def test_a_connection_that_was_closed_says_so(queue, colour):
    client = colour.client(queue.url, "t", http=(http := colour.http()))
    client.close()
    assert not http.is_closed  # it is the caller's
    own = colour.client(queue.url, "t")
    own.me()
    own.close()
    with pytest.raises(errors.JobroomError, match="closed"):
        own.me()


def test_progress_is_told_when_it_changes_and_ends_with_the_task(queue, client):
    handle = client.submit(JOB)
    told = []
    for step in handle.progress():
        told.append(step)
        if len(told) == 1:
            queue.end(handle.id, "running", progress=0.5, message="half")
        elif len(told) == 2:
            queue.end(handle.id, "running", heartbeat=1)  # nothing to tell
            queue.end(handle.id, "completed", progress=1.0)
    assert told == [
        Progress(None, None, "pending"),
        Progress(0.5, "half", "running"),
        Progress(1.0, "half", "completed"),
    ]
    first, *others = queue.asked("GET", "/tasks/")
    assert "if-none-match" not in first.headers
    assert all("if-none-match" in one.headers and "prefer" in one.headers for one in others)


def test_progress_goes_on_after_faults_and_waits_that_ended_in_vain(queue, client, monkeypatch):
    monkeypatch.setattr("jobroom.client.watching.LONGEST_POLL_SECONDS", 1.0)
    handle = client.submit(JOB)
    steps = handle.progress()
    assert next(steps).status == "pending"
    queue.fail_next("GET", "/tasks/", times=2, status=504)
    timer = threading.Timer(1.2, queue.end, (handle.id, "failed"))
    timer.start()
    assert [step.status for step in steps] == ["failed"]
    timer.join()


def test_a_log_is_read_from_its_begin_to_its_end(queue, client):
    handle = client.submit(JOB)
    queue.write(handle.id, "x" * 250)
    assert "".join(handle.log()) == "x" * 250
    assert list(client.task(client.submit(JOB).id).log()) == []


def test_a_log_is_followed_until_the_task_has_ended(queue, client):
    handle = client.submit(JOB)
    queue.write(handle.id, "a")
    pieces = []
    for piece in handle.log(follow=True):
        pieces.append(piece)
        if piece == "a":
            queue.fail_next("GET", "/log", times=1)
            queue.write(handle.id, "b")
        else:
            queue.write(handle.id, ended=True)
            queue.end(handle.id, attempt=1)
    assert pieces == ["a", "b"]


def test_a_log_is_followed_into_the_next_attempt(queue, client):
    handle = client.submit(JOB)
    queue.end(handle.id, "running", attempt=1)
    queue.write(handle.id, "first", ended=True)
    pieces = []
    for piece in handle.log(follow=True):
        pieces.append(piece)
        if piece == "first":
            queue.write(handle.id, "second", attempt=2, ended=True)
            queue.end(handle.id, "running", attempt=2)
        else:
            queue.end(handle.id, "completed", attempt=2)
    assert pieces == ["first", "second"]
    assert "".join(handle.log(attempt=1)) == "first"


def test_a_log_is_followed_before_the_task_has_begun(queue, client, at_the_next):
    handle = client.submit(JOB)

    def work():
        queue.write(handle.id, "hello", ended=True)
        queue.end(handle.id, "completed", attempt=1)

    at_the_next(do=work)
    assert list(handle.log(follow=True)) == ["hello"]


def test_an_iteration_that_is_left_asks_for_nothing_more(queue, client):
    handle = client.submit(JOB)
    queue.write(handle.id, "x" * 1000)
    pieces = handle.log()
    next(pieces)
    pieces.close()
    assert len(queue.asked("GET", "/log")) == 1


def test_a_token_that_is_refused_is_asked_for_once_more(queue, colour):
    tokens = iter(["old", "new", "new"])
    queue.refused_tokens.add("old")
    client = colour.client(queue.url, lambda: next(tokens), http=colour.http())
    assert client.me()["id"] == "new"
    client.close()


def test_a_callable_without_a_token_is_no_outage(queue, colour):
    def nothing():
        raise OSError("secret")

    client = colour.client(queue.url, nothing, http=colour.http())
    with pytest.raises(errors.StoreUnavailable, match="OSError") as raised:
        client.me()
    assert "secret" not in str(raised.value)
    client.close()


def test_an_address_that_cannot_be_asked_is_told_without_the_token(colour):
    with pytest.raises(errors.ConfigurationError) as raised:
        colour.client("http://x\u00ad", "secret")
    assert "secret" not in str(raised.value)


def test_the_transport_of_the_caller_is_used(colour):
    answered = httpx.MockTransport(
        lambda request: httpx.Response(200, json={"id": request.url.host})
    )
    client = colour.client("http://queue.example", http=colour.http(answered))
    assert client.me() == {"id": "queue.example"}
    client.close()
