"""The HTTP door adds no request of its own to what the store is asked (issue 3, round trips)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise

import httpx
import pytest
from filled_site import ME, SIZES
from pydantic import SecretStr

from jobroom import create_app, tokens
from jobroom.settings import JobLibSettings
from jobroom.store import libsql

pytestmark = pytest.mark.anyio

SECRET = "a shared secret of more than 32 bytes"
BASE = "/v1/joblib"
SUBMIT = f"{BASE}/rooms/room0/tasks/@global:modifiers"
WAITERS = 50
POLLS = 8
PATIENCE_SECONDS = 20


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Api:
    """An application of its own on a site's database, asked without sockets."""

    def __init__(self, app, http):
        self.door = app.state.door
        self._http = http
        self._token = tokens.issue_token(SECRET, sub=ME.identity, is_admin=True)

    async def send(self, method, path, body=None, **headers):
        sent = {"authorization": f"Bearer {self._token}", **headers}
        answer = await self._http.request(method, path, json=body, headers=sent)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    @property
    def counters(self):
        return self.door.queue.database.transport.counters

    async def requests(self, *args, **headers):
        """How many requests to the store one to the door is."""
        before = self.counters.requests
        await self.send(*args, **headers)
        return self.counters.requests - before


@asynccontextmanager
async def open_door(url, **settings):
    given = {"database_url": url, "jwt_secret": SecretStr(SECRET), **settings}
    app = create_app(JobLibSettings(**given))
    transport = httpx.ASGITransport(app=app)
    try:
        async with httpx.AsyncClient(
            transport=transport, base_url="http://test", timeout=60
        ) as http:
            yield Api(app, http)
    finally:
        app.state.door.close()


@pytest.fixture(params=SIZES)
def site(request, sites):
    return sites[request.param]


@pytest.fixture
async def api(site):
    async with open_door(site.url) as opened:
        await opened.send("GET", "/v1/me")
        _ = opened.door.queue
        yield opened


async def test_a_tasks_life_over_http_is_one_request_to_the_store_each(api, site, tally):
    worker = {"worker_id": site.workers["solo"]}
    await api.send("POST", f"{SUBMIT}:Solo", {"payload": {}})  # the job is remembered from here on
    took = {
        "submit": await api.requests("POST", f"{SUBMIT}:Solo", {"payload": {"angle": 1}}),
        "submit with a key": await api.requests(
            "POST", f"{SUBMIT}:Solo", {}, **{"idempotency-key": "of the door"}
        ),
        "heartbeat": await api.requests("PATCH", f"{BASE}/workers/{worker['worker_id']}"),
        "claim": await api.requests("POST", f"{BASE}/tasks/claim", worker),
    }
    [held] = site.sql(
        "SELECT id FROM task WHERE worker_id = ? AND status = 'claimed'"
        " ORDER BY claimed_at DESC LIMIT 1",
        worker["worker_id"],
    )
    path = f"{BASE}/tasks/{held[0]}"
    took["start"] = await api.requests("PATCH", path, {"status": "running", "attempt": 1})
    took["progress"] = await api.requests("PATCH", path, {"progress": 0.5, "attempt": 1})
    took["status"] = await api.requests("GET", path)
    took["complete"] = await api.requests("PATCH", path, {"status": "completed", "attempt": 1})
    took["result"] = await api.requests("GET", path)
    tally(**{name.replace(" ", "_"): count for name, count in took.items()})
    assert set(took.values()) == {1}


async def test_a_list_of_jobs_asks_the_store_as_often_for_many_as_for_one(api, tally):
    """Their workers are asked for together, not job by job."""
    path = f"{BASE}/rooms/room0/jobs"
    assert len((await api.send("GET", f"{path}?limit=5"))["items"]) == 5
    one, many = [await api.requests("GET", f"{path}?limit={limit}") for limit in (1, 5)]
    tally(one=one, many=many)
    assert one == many


async def test_a_submission_by_a_job_that_has_changed_reads_it_again(api, site, tally):
    """The write that was refused, the job as it is now, and the write again."""
    path = f"{SUBMIT}:Lenient"
    await api.send("POST", path, {})
    site.register("Lenient", by="idle", description=f"changed at {site.queue.settings}")
    took = await api.requests("POST", path, {})
    tally(requests=took)
    assert took == 3
    assert await api.requests("POST", path, {}) == 1


async def test_however_many_wait_the_store_is_asked_once_per_interval(site, transport_calls, tally):
    """50 claims at five jobs and 50 status polls, in one process: one request per POLL_SECONDS."""
    async with open_door(site.url) as api:
        task_id = site.waiting(site.solo, last=True)
        idle = {"worker_id": site.workers["nothing"]}
        waits = {"prefer": "wait=60"}
        waiting = [
            asyncio.ensure_future(request)
            for _ in range(WAITERS)
            for request in (
                api.send("POST", f"{BASE}/tasks/claim", idle, **waits),
                api.send("GET", f"{BASE}/tasks/{task_id}", **waits),
            )
        ]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while api.door.waiters < 2 * WAITERS or not api.door.queue.waiting:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(4 * libsql.POLL_SECONDS)  # what they ask before they wait
        transport_calls.clear()
        await asyncio.sleep(POLLS * libsql.POLL_SECONDS)
        times = [at for at, _ in transport_calls]
        api.door.stop_waiting()
        await asyncio.gather(*waiting)
    tally(requests=len(times), intervals=POLLS, waiting=2 * WAITERS)
    assert 1 <= len(times) <= POLLS + 1
    assert all(later - earlier > libsql.POLL_SECONDS / 2 for earlier, later in pairwise(times))
