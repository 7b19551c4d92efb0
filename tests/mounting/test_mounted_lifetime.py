"""When a mounted queue is opened and let go of: design 1, *nothing opened at import*."""

from __future__ import annotations

import asyncio
import threading

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from jobroom.errors import StoreUnavailable
from jobroom.service import health, sweeping
from jobroom.service.queue import JobQueue

SUBMIT = "/v1/joblib/rooms/r1/tasks/r1:modifiers:Rotate"
JOB = {"category": "modifiers", "name": "Rotate"}


def test_the_first_request_opens_the_queue(mountable, ask):
    """A mount runs no lifespan, and neither does Lambda."""
    app = mountable()
    host = Starlette(routes=[Mount("/jobs", app=app)])
    assert app.state.door._queue is None
    answer = asyncio.run(ask(host, "PUT", "/jobs/v1/joblib/rooms/r1/jobs", JOB))
    assert answer.status_code == 201
    assert app.state.door._queue is not None


def test_what_needs_no_store_opens_none(mountable, ask):
    app = mountable()
    for path in ("/healthz", "/openapi.json", "/docs", "/v1/me", "/v1/problems/not-found"):
        assert asyncio.run(ask(app, "GET", path)).status_code == 200
    assert app.state.door._queue is None


def test_a_closed_door_lets_go_of_what_it_opened(mountable, ask):
    app = mountable()
    asyncio.run(ask(app, "GET", "/readyz"))
    opened = app.state.door.queue
    app.state.door.close()
    with pytest.raises(StoreUnavailable):
        opened.run(health.check_writable)
    assert not [t.name for t in threading.enumerate() if t.name.startswith("jobroom-")]


def test_a_closed_door_may_be_closed_again_and_opens_anew(mountable, ask):
    app = mountable()
    asyncio.run(ask(app, "PUT", "/v1/joblib/rooms/r1/jobs", JOB))
    app.state.door.close()
    app.state.door.close()
    assert asyncio.run(ask(app, "POST", SUBMIT, {})).status_code == 202


def test_a_queue_that_was_given_is_the_givers_to_close(queue, mountable, ask):
    """create_app(queue=...): an open one that the caller closes."""
    app = mountable(queue=queue)
    asyncio.run(ask(app, "PUT", "/v1/joblib/rooms/r1/jobs", JOB))
    app.state.door.close()
    queue.run(sweeping.finish_sweep)
    assert queue.listeners == []


def test_a_given_queue_sees_what_comes_by_http(queue, mountable, ask):
    app = mountable(queue=queue)
    assert app.state.door.queue is queue
    assert isinstance(queue, JobQueue)
    asyncio.run(ask(app, "PUT", "/v1/joblib/rooms/r1/jobs", JOB))
    assert queue.sweep().judged


def test_the_same_application_serves_one_loop_after_another(mountable, ask):
    """Design 7: warm calls on Lambda, and asyncio.run twice in one process."""
    app = mountable()

    async def claim(sub):
        return (await ask(app, "POST", "/v1/joblib/tasks/claim", sub=sub)).json()["task"]

    asyncio.run(ask(app, "PUT", "/v1/joblib/rooms/r1/jobs", JOB, sub="w"))
    ids = [asyncio.run(ask(app, "POST", SUBMIT, {})).json()["id"] for _ in range(3)]
    assert [asyncio.run(claim("w"))["id"] for _ in range(3)] == ids


def test_waiting_works_on_the_second_loop_too(mountable, ask):
    """Nothing of the first loop is held on to, a wait that was broken off there included."""
    app = mountable()
    door = app.state.door

    async def until(happened):
        for _ in range(2000):
            if happened():
                return
            await asyncio.sleep(0.005)
        raise AssertionError("it never happened")

    async def begin():
        """Ask for a claim and a status, both to be waited for."""
        later = await ask(app, "POST", SUBMIT, {"run_at": "2100-01-01T00:00:00Z"}, sub="w")
        path = f"/v1/joblib/tasks/{later.json()['id']}"
        requests = [
            asyncio.ensure_future(ask(app, "GET", path, sub="w", wait=30)),
            asyncio.ensure_future(ask(app, "POST", "/v1/joblib/tasks/claim", sub="w", wait=30)),
        ]
        await until(lambda: door.queue.waiting and -1 not in door.watch.known.values())
        await until(lambda: door.watch.known)
        return path, requests

    async def broken_off():
        await begin()

    async def served():
        path, (status, claim) = await begin()
        task = (await ask(app, "POST", SUBMIT, {}, sub="w")).json()
        await ask(app, "PATCH", path, {"status": "cancelled"}, sub="w")
        return task, (await status).json(), (await claim).json()

    asyncio.run(ask(app, "PUT", "/v1/joblib/rooms/r1/jobs", JOB, sub="w"))
    asyncio.run(broken_off())
    assert (door.waiters, bool(door.queue.waiting), door.watch.known) == (0, False, {})
    task, status, claim = asyncio.run(served())
    assert status["status"] == "cancelled"
    assert claim["task"]["id"] == task["id"]
