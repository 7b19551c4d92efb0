"""The scheduled function: bounded, safe to run twice, and honest about what it could not do."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import Counter

import lambda_events as events
import pytest
from lambda_function import BASE, Function, bearer

from jobroom import wire
from jobroom.errors import ConfigurationError, StoreUnavailable
from jobroom.service import sweeping
from jobroom.service.queue import JobQueue

SECOND = 1_000_000
TIMEOUT = 60
"""Seconds without a heartbeat after which a worker is lost, by default."""


@pytest.fixture
def function(settings):
    with Function(settings) as made:
        yield made


def lose_workers(function, count):
    """So many workers, each of which holds one task and is not heard of any more."""
    for number in range(count):
        function.send("PUT", "/rooms/r1/jobs", job_named("Rotate"), sub=f"w{number}")
        function.submit()
        claimed = function.send("POST", "/tasks/claim", sub=f"w{number}")
        assert claimed.json()["task"] is not None
    function.door.queue.clock_offset += (TIMEOUT + 1) * SECOND


def job_named(name):
    return {"category": "modifiers", "name": name}


def statuses(function):
    listed = function.send("GET", "/rooms/r1/tasks?limit=500").json()
    return Counter(task["status"] for task in listed["items"])


def test_a_sweep_returns_what_it_did_by_the_names_of_the_contract(function):
    lose_workers(function, 3)
    done = function.sweep({}, events.Context(50))
    assert {name: done[name] for name in ("lost_workers", "failed_tasks")} == {
        "lost_workers": 3,
        "failed_tasks": 3,
    }
    assert done == {**wire.SweepBody.model_validate(done).model_dump(), "finished": True}
    json.dumps(done)
    assert statuses(function) == {"failed": 3}


def test_a_sweep_delivered_again_finds_nothing(function):
    lose_workers(function, 3)
    function.sweep({}, events.Context(50))
    again = function.sweep(events.SCHEDULED, events.Context(50))
    assert {name for name, count in again.items() if count} == {"judged", "finished"}


def test_two_sweeps_at_once_lose_each_worker_once(function, settings):
    """Another environment got the same event: delivery is at least once."""
    lose_workers(function, 8)
    done = []
    with Function(settings) as other:
        other.door.queue.clock_offset = function.door.queue.clock_offset
        both = [
            threading.Thread(target=lambda each=each: done.append(each.sweep({}, events.Context())))
            for each in (function, other)
        ]
        for each in both:
            each.start()
        for each in both:
            each.join()
    assert sum(each["lost_workers"] for each in done) == 8
    assert sum(each["failed_tasks"] for each in done) == 8
    assert statuses(function) == {"failed": 8}


def test_a_late_sweep_fails_nobody_and_the_next_one_judges(function):
    """After an outage of the schedule workers get one timeout to be heard of."""
    function.sweep({}, events.Context(50))
    lose_workers(function, 1)
    function.door.queue.clock_offset += 3600 * SECOND
    late = function.sweep({}, events.Context(50))
    assert (late["judged"], late["lost_workers"]) == (False, 0)
    function.door.queue.clock_offset += (TIMEOUT + 1) * SECOND
    assert function.sweep({}, events.Context(50))["lost_workers"] == 1


def test_a_sweep_loops_while_its_batches_are_full(function, monkeypatch):
    function.send("GET", "/rooms/r1/tasks")
    monkeypatch.setattr(function.door.queue.database, "batch", 2, raising=False)
    lose_workers(function, 7)
    done = function.sweep({}, events.Context(50))
    assert (done["lost_workers"], done["finished"]) == (7, True)


class Sluggish:
    """A platform clock by which each step of the sweep takes so many seconds."""

    def __init__(self, monkeypatch, seconds):
        self.now = 1000.0
        monkeypatch.setattr("jobroom.service.queue.time.monotonic", lambda: self.now)

        def slowly(step):
            def run(tx):
                self.now += seconds
                return step.rule(tx)

            return sweeping.writes(run)

        for name in ("JUDGING", "TIDYING"):
            steps = tuple(slowly(step) for step in getattr(sweeping, name))
            monkeypatch.setattr(sweeping, name, steps)

    def get_remaining_time_in_millis(self):
        return int((1050.0 - self.now) * 1000)


def test_a_sweep_that_runs_out_of_time_says_so_and_the_next_one_goes_on(function, monkeypatch):
    lose_workers(function, 1)
    with monkeypatch.context() as patch:
        cut = function.sweep({}, Sluggish(patch, 46.0))
        assert (cut["lost_workers"], cut["finished"]) == (1, False)
    again = function.sweep({}, events.Context(50))
    assert (again["lost_workers"], again["finished"]) == (0, True)


def test_the_reserve_is_left_even_of_a_short_time(function):
    """A function of 3 seconds sweeps for half of them."""
    assert function.sweep({}, events.Context(3))["finished"] is True
    assert function.sweep({}, events.Context(0))["finished"] is False
    assert function.sweep({}, None)["finished"] is True


def test_a_sweep_logs_one_line(function, caplog):
    caplog.set_level(logging.INFO, "jobroom")
    function.sweep({}, events.Context(50))
    [line] = [one for one in caplog.messages if one.startswith("sweep.")]
    assert line.startswith("sweep.done seconds=")
    assert line.endswith("finished=True")


def test_a_sweep_cut_off_in_the_middle_keeps_what_was_committed(function, monkeypatch):
    """The platform ends the function without a word: the next sweep does the rest."""
    lose_workers(function, 4)
    monkeypatch.setattr(function.door.queue.database, "batch", 2, raising=False)

    class Killed(BaseException):
        pass

    rounds = iter([None, Killed()])
    run = JobQueue.run

    def until_killed(queue, step, *args, **kwargs):
        if step is sweeping.JUDGING[0] and isinstance(end := next(rounds), Killed):
            raise end
        return run(queue, step, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(JobQueue, "run", until_killed)
        with pytest.raises(Killed):
            function.sweep({}, events.Context(50))
    assert statuses(function) == {"failed": 2, "claimed": 2}
    assert function.sweep({}, events.Context(50))["lost_workers"] == 2
    assert statuses(function) == {"failed": 4}


def test_a_store_that_is_away_raises_one_sentence_without_a_secret(settings, caplog):
    """The platform must count a failure; the token is in nobody's log."""
    away = {
        "database_url": "http://127.0.0.1:9/?authToken=hush-hush",
        "database_busy_seconds": 0.5,
    }
    with (
        Function(settings, **away) as function,
        pytest.raises((StoreUnavailable, ConfigurationError)) as raised,
    ):
        function.sweep({}, events.Context(50))
    assert "\n" not in str(raised.value)
    assert "sweep.failed reason=" in caplog.text
    assert "hush" not in caplog.text + str(raised.value)


def test_a_fault_raises_without_the_words_of_the_database(function, monkeypatch, caplog):
    """The platform logs what is raised, and PostgreSQL quotes the row, with its payload."""

    def fails(queue, *, seconds):
        raise LookupError("no such row\nDETAIL: payload hush-hush")

    monkeypatch.setattr(JobQueue, "sweep", fails)
    with pytest.raises(RuntimeError, match="not foreseen") as raised:
        function.sweep({}, events.Context(50))
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
    assert "sweep.failed" in caplog.text


def test_a_store_that_goes_away_later_raises_too_and_is_found_again(settings, stores, tmp_path):
    url = stores.fresh("libsql", tmp_path)
    try:
        with Function(settings, database_url=url, database_busy_seconds=0.5) as function:
            function.sweep({}, events.Context(50))
            stores.sqld.suspend()
            try:
                with pytest.raises(StoreUnavailable):
                    function.sweep({}, events.Context(50))
            finally:
                stores.sqld.resume()
            assert "StoreErrors" in function.environment.reporter._stream.getvalue()
            assert swept_by_then(function)["finished"] is True
    finally:
        stores.release(url)


def swept_by_then(function):
    """By one of the next schedules, once the server has let go of what it was doing."""
    for _ in range(60):
        try:
            return function.sweep({}, events.Context(50))
        except StoreUnavailable:
            continue
    raise AssertionError("the store was never found again")


def test_handler_sweep_handler_in_one_process(function):
    """The trap of one event loop: whatever runs between two requests, they share theirs."""
    function.register()
    loop = function.handler._loop
    function.submit()
    function.sweep({}, events.Context(50))
    function.submit()
    function.handler(events.SCHEDULED, events.Context(50))
    asyncio.run(asyncio.sleep(0))  # somebody else's, which leaves no loop behind
    function.submit()
    assert function.handler._loop is loop
    assert statuses(function) == {"pending": 3}


def test_the_first_call_of_all_may_be_a_sweep(function):
    assert function.sweep({}, events.Context(50))["finished"] is True
    function.register()
    asyncio.run(asyncio.sleep(0))
    function.submit()


def test_the_sweep_of_the_function_is_that_of_the_api(function):
    lose_workers(function, 1)
    by_api = function.invoke(events.http_api("POST", f"{BASE}/sweep", bearer()))
    assert by_api.json()["lost_workers"] == 1
    assert set(by_api.json()) | {"finished"} == set(function.sweep({}, events.Context(50)))
