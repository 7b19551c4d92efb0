"""What a platform bounds is answered in time, whatever it waits for; nothing else has a timer."""

from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace

import pytest

from jobroom.errors import StoreUnavailable
from jobroom.http.endpoint import Endpoint
from jobroom.http.exchange import reply
from jobroom.http.routespec import RouteSpec
from jobroom.http.traffic import Traffic
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store import patience
from jobroom.store.lane import Work

MUCH = 10.0


def answered(handler, **scope):
    """What an endpoint with this handler sends, and how it was counted."""
    spec = RouteSpec("GET", "/x", "x", "x", "x", {200: None}, endpoint=handler, secured=False)
    door = SimpleNamespace(
        logs_requests=False, traffic=Traffic(), settings=SimpleNamespace(max_answer_bytes=None)
    )
    sent = []

    async def send(message):
        sent.append(message)

    asked = {"type": "http", "method": "GET", "path": "/x", "headers": [], **scope}
    asyncio.run(Endpoint({"GET": spec}, door)(asked, None, send))
    start, body = sent
    counted = {status: count for (_, _, status), count in door.traffic.requests.items()}
    return start["status"], dict(start["headers"]), json.loads(body["body"]), counted


async def never(_call):
    await asyncio.get_running_loop().create_future()


async def at_once(_call):
    return reply({})


def test_what_never_ends_is_a_503_with_retry_after_at_the_last_moment():
    """Contract, *Errors*: store-unavailable with Retry-After; counted as what it is."""
    began = time.monotonic()
    status, headers, said, counted = answered(never, **{"jobroom.last_moment": began + 0.05})
    assert time.monotonic() - began < MUCH
    assert (status, headers[b"retry-after"], counted) == (503, b"1", {503: 1})
    assert said["type"] == "/v1/problems/store-unavailable"
    assert "may have been kept" in said["detail"]


def test_an_answer_before_the_last_moment_is_that_answer():
    soon = time.monotonic() + MUCH
    assert answered(at_once, **{"jobroom.last_moment": soon})[0] == 200


def test_a_time_out_of_somebody_else_is_no_last_moment():
    async def fails(_call):
        raise TimeoutError

    soon = time.monotonic() + MUCH
    assert answered(fails, **{"jobroom.last_moment": soon})[0] == 500


def test_without_a_last_moment_there_is_no_timer(monkeypatch):
    def no_timer(*_args, **_kwargs):
        raise AssertionError("a timer")

    monkeypatch.setattr(asyncio, "timeout", no_timer)
    monkeypatch.setattr(asyncio.BaseEventLoop, "call_at", no_timer)
    assert answered(at_once)[0] == 200


def test_each_part_bears_what_it_does_where_nobody_is_in_a_hurry():
    assert patience.left(7.5, spare=3) == 7.5


def test_whoever_is_in_a_hurry_bounds_every_part_of_it_and_no_other():
    with patience.until(time.monotonic() + 5):
        assert 4 < patience.left(7.5) < 5.1
        assert patience.left(2) == 2
        assert patience.left(7.5, spare=60) == patience.LEAST_SECONDS
    assert patience.left(7.5) == 7.5


def test_a_request_whose_time_is_up_is_not_begun(stores, tmp_path):
    """Done or not begun: nothing is sent for what nobody waits for."""
    url = stores.fresh("libsql", tmp_path)
    with JobQueue.open(JobLibSettings(database_url=url)) as queue:
        begun = []
        with (
            patience.until(time.monotonic() - 0.001),
            pytest.raises(StoreUnavailable, match="nothing of it was kept"),
        ):
            queue.run(begun.append)
        assert not begun
        queue.run(begun.append)
        assert len(begun) == 1
    stores.release(url)


def test_a_request_waits_for_a_locked_file_as_long_as_its_own_asker_has_time(settings):
    """What waits behind it in the lane is asked for by somebody else, who has more."""
    with JobQueue.open(settings) as queue, JobQueue.open(settings) as other:
        done = []
        connection = other.writer._connection
        connection.execute("BEGIN IMMEDIATE")
        with patience.until(time.monotonic() + 0.05):
            hurried = Work(lambda _tx: None, {}, done.extend)
        began = time.monotonic()
        queue.writer.post(hurried)
        while not done:
            assert time.monotonic() - began < MUCH / 2, "its own bound is 10 s"
            time.sleep(0.001)
        connection.execute("ROLLBACK")
        assert isinstance(hurried.error, StoreUnavailable)
        queue.run(lambda _tx: None)
