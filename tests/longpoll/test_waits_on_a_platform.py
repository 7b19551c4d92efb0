"""Waits that are switched off, too many, or shorter than asked because a platform ends requests."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager

import httpx
import pytest

from jobroom.http import longpoll

pytestmark = pytest.mark.anyio

LONG = 60
SOON = 30.0  # far under LONG: what ends by then was not ended by the wait that was asked for


@pytest.fixture
def open_on_platform(open_api):
    """An application whose platform ends each request so many seconds after it came."""

    @asynccontextmanager
    async def open_with(seconds, **changes):
        async with open_api(**changes) as api:

            async def on_platform(scope, receive, send):
                scope = {**scope, "jobroom.answer_by": time.monotonic() + seconds}
                await api.app(scope, receive, send)

            transport = httpx.ASGITransport(app=on_platform)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
                api.http = http
                await api.register()
                yield api

    return open_with


async def test_zero_switches_waiting_off_for_claims(open_api):
    """Issue 5: long_poll_max_wait_seconds=0; nothing says that a wait was granted."""
    async with open_api(long_poll_max_wait_seconds=0) as api:
        await api.register()
        started = time.monotonic()
        answer = await api.send("POST", "/tasks/claim", wait=LONG)
        assert (answer.status_code, answer.json()["task"]) == (200, None)
        assert "preference-applied" not in answer.headers
        assert time.monotonic() - started < SOON


async def test_zero_switches_waiting_off_for_a_change(open_api):
    """The same with If-None-Match: 304 at once."""
    async with open_api(long_poll_max_wait_seconds=0) as api:
        await api.register()
        task = await api.submit()
        known = {"if-none-match": (await api.send("GET", f"/tasks/{task['id']}")).headers["etag"]}
        answer = await api.send("GET", f"/tasks/{task['id']}", wait=LONG, headers=known)
        assert (answer.status_code, answer.content) == (304, b"")
        assert "preference-applied" not in answer.headers


@pytest.mark.parametrize("settings_changed", [{"long_poll_max_wait_seconds": 0}, {}], ids=str)
async def test_without_a_place_to_wait_only_those_who_would_wait_are_refused(
    open_api, settings_changed
):
    """max_waiters=0: 429 with Retry-After; with waiting switched off nobody would wait."""
    async with open_api(max_waiters=0, **settings_changed) as api:
        await api.register()
        task = await api.submit()
        for asked in (("POST", "/tasks/claim"), ("GET", f"/tasks/{task['id']}")):
            assert (await api.send(*asked)).status_code == 200
            answer = await api.send(*asked, wait=LONG)
            if settings_changed:
                assert answer.status_code == 200
            else:
                assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
                assert answer.json()["type"] == "/v1/problems/too-many-requests"


async def test_claims_and_polls_share_the_places_and_give_them_back(open_api):
    """Issue 5: the number of waiters is bounded; beyond it 429 with Retry-After."""
    async with open_api(max_waiters=1) as api:
        await api.register()
        claiming = api.sending("POST", "/tasks/claim", wait=LONG)
        await api.claims_wait(1)
        task = await api.submit(job="r1:modifiers:Rotate")
        assert (await claiming).json()["task"]["id"] == task["id"]
        polling = api.sending("GET", f"/tasks/{task['id']}", wait=LONG)
        await api.watching(task)
        refused = await api.send("POST", "/tasks/claim", wait=LONG)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        await api.report({"id": task["id"]}, status="cancelled")
        assert (await polling).json()["status"] == "cancelled"
        assert api.door.waiters == 0


async def test_a_poll_is_answered_with_the_state_before_the_platform_ends_it(open_on_platform):
    """Facts: what the platform ends is a 504 of its own; Preference-Applied says the true wait."""
    async with open_on_platform(2.5) as api:
        task = await api.submit()
        started = time.monotonic()
        answer = await api.send("GET", f"/tasks/{task['id']}", wait=LONG)
        assert time.monotonic() - started < SOON
        assert (answer.status_code, answer.json()["status"]) == (200, "pending")
        assert answer.headers["preference-applied"] in ("wait=1", "wait=2")


async def test_a_poll_for_a_change_that_the_platform_ends_is_304(open_on_platform):
    """Rules, *ETag*: 304 at its end."""
    async with open_on_platform(1.9) as api:
        task = await api.submit()
        known = {"if-none-match": (await api.send("GET", f"/tasks/{task['id']}")).headers["etag"]}
        answer = await api.send("GET", f"/tasks/{task['id']}", wait=LONG, headers=known)
        assert (answer.status_code, answer.content) == (304, b"")


async def test_a_claim_that_the_platform_ends_takes_nothing_any_more(open_on_platform):
    """Its answer is a true null; the task that comes after it is free for the next."""
    async with open_on_platform(1.9) as api:
        answer = await api.send("POST", "/tasks/claim", wait=LONG)
        assert (answer.status_code, answer.json()["task"]) == (200, None)
        assert answer.headers["preference-applied"] == "wait=1"
        assert api.parked == 0
        task = await api.submit()
        assert (await api.send("POST", "/tasks/claim")).json()["task"]["id"] == task["id"]


@pytest.mark.parametrize("seconds", [0.9, 0.0, -5.0])
async def test_without_time_for_a_wait_there_is_none(open_on_platform, seconds):
    """A cold start may have used the time up: the answer comes at once."""
    async with open_on_platform(seconds, max_waiters=0) as api:
        task = await api.submit()
        for asked in (("GET", f"/tasks/{task['id']}"), ("POST", "/tasks/claim")):
            answer = await api.send(*asked, wait=LONG)
            assert answer.status_code == 200
            assert "preference-applied" not in answer.headers


@pytest.mark.parametrize("what", ["poll", "claim"])
async def test_what_the_first_look_takes_is_taken_from_the_wait(
    open_on_platform, monkeypatch, what
):
    """The platform does not wait longer because the store was slow at first."""
    async with open_on_platform(1.0) as api:
        task = await api.submit()
        # As if all of this had been left when the request came.
        monkeypatch.setattr(longpoll, "granted_wait", lambda _call: LONG)
        started = time.monotonic()
        if what == "poll":
            answer = await api.send("GET", f"/tasks/{task['id']}")
            assert answer.json()["status"] == "pending"
        else:
            await api.report({"id": task["id"]}, status="cancelled")
            answer = await api.send("POST", "/tasks/claim")
            assert answer.json()["task"] is None
        assert answer.status_code == 200
        assert time.monotonic() - started < SOON
