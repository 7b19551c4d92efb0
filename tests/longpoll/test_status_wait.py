"""Waiting for a task to end: contract, *Tasks*, ``GET /tasks/{id}`` with ``Prefer: wait=N``."""

from __future__ import annotations

import asyncio
import time

import pytest

pytestmark = pytest.mark.anyio

LONG = 60
SOON = 30.0  # far under LONG: what ends by then was not ended by the deadline


async def timed(awaitable):
    started = time.monotonic()
    return await awaitable, time.monotonic() - started


async def test_a_task_that_has_ended_is_shown_at_once(api):
    """Contract: 200 task, at once if terminal; Preference-Applied only when it waited."""
    task = await api.running()
    await api.report(task, status="completed", result=1)
    answer, seconds = await timed(api.send("GET", f"/tasks/{task['id']}", wait=LONG))
    assert (answer.json()["status"], seconds < SOON) == ("completed", True)
    assert "preference-applied" not in answer.headers


async def test_a_wait_ends_when_the_task_does(api):
    """Contract: else when it becomes terminal."""
    task = await api.running()
    waiting = api.sending("GET", f"/tasks/{task['id']}", wait=LONG)
    await api.watching(task)
    await api.report(task, status="completed", result={"angle": 1.0})
    answer, seconds = await timed(waiting)
    assert answer.json()["status"] == "completed"
    assert answer.json()["result"] == {"angle": 1.0}
    assert answer.headers["preference-applied"] == f"wait={LONG}"
    assert seconds < SOON


async def test_a_change_that_does_not_end_the_task_does_not_end_the_wait(api):
    """Contract: when it becomes terminal or N seconds passed."""
    task = await api.running()
    waiting = api.sending("GET", f"/tasks/{task['id']}", wait=LONG)
    await api.watching(task)
    told = await api.report(task, progress=0.5)
    seen = int(api_version(await api.send("GET", f"/tasks/{task['id']}")))
    await api.watching(task, version=seen)
    assert told["progress"] == 0.5
    assert not waiting.done()
    await api.report(task, status="failed", error="no")
    assert (await waiting).json()["status"] == "failed"


def api_version(answer):
    return answer.headers["etag"].removeprefix('W/"').removesuffix('"')


async def test_all_who_wait_for_one_task_are_told(api):
    task = await api.running()
    waiting = [api.sending("GET", f"/tasks/{task['id']}", wait=LONG) for _ in range(20)]
    await api.until(lambda: len(api.door.watch._waiting.get(task["id"], ())) == 20)
    await api.report(task, status="completed")
    answers, seconds = await timed(asyncio.gather(*waiting))
    assert {answer.json()["status"] for answer in answers} == {"completed"}
    assert seconds < SOON


async def test_the_sweep_and_a_cancellation_end_a_wait_too(api):
    """Any way to a terminal state counts, not the worker's report alone."""
    task = await api.submit()
    waiting = api.sending("GET", f"/tasks/{task['id']}", wait=LONG)
    await api.watching(task)
    await api.send("PATCH", f"/tasks/{task['id']}", {"status": "cancelled"}, sub="user")
    assert (await waiting).json()["status"] == "cancelled"
    lost = await api.running()
    waiting = api.sending("GET", f"/tasks/{lost['id']}", wait=LONG)
    await api.watching(lost)
    api.door.queue.clock_offset += 3600 * 1_000_000
    await api.send("POST", "/sweep")
    answer, seconds = await timed(waiting)
    assert (answer.json()["status"], seconds < SOON) == ("failed", True)


async def test_a_wait_that_ends_without_news_shows_the_task_as_it_is(api):
    """Contract: or N seconds passed; Preference-Applied tells the seconds granted."""
    task = await api.submit()
    answer, seconds = await timed(api.send("GET", f"/tasks/{task['id']}", wait=1))
    assert (answer.status_code, answer.json()["status"]) == (200, "pending")
    assert answer.headers["preference-applied"] == "wait=1"
    assert seconds >= 1


async def test_the_setting_caps_the_wait(open_api):
    """Contract: capped by the setting; Preference-Applied is what was really granted (C28)."""
    async with open_api(long_poll_max_wait_seconds=1) as api:
        await api.register()
        task = await api.submit()
        path = f"/tasks/{task['id']}"
        answer, seconds = await timed(api.send("GET", path, wait=10**20))
        assert answer.headers["preference-applied"] == "wait=1"
        assert seconds < 10


async def test_a_cap_of_0_grants_no_wait(open_api):
    """Contract: Preference-Applied only when it waited."""
    async with open_api(long_poll_max_wait_seconds=0) as api:
        await api.register()
        task = await api.submit()
        answer, seconds = await timed(api.send("GET", f"/tasks/{task['id']}", wait=LONG))
        assert "preference-applied" not in answer.headers
        assert seconds < SOON


@pytest.mark.parametrize("case", ["unknown", "no uuid", "unseen"])
async def test_what_may_not_be_seen_is_404_at_once(api, case):
    """Rules, *Who sees what*: a long-poll on a task that may not be seen is 404 at once."""
    task = await api.submit()
    task_id = {"unknown": "01a227a9-de71-7ee5-8833-b3c478eac734", "no uuid": "x"}.get(case)
    stranger = api.token("stranger", rooms=["elsewhere"])
    sent = api.send("GET", f"/tasks/{task_id or task['id']}", wait=LONG, token=stranger)
    answer, seconds = await timed(sent)
    assert (answer.status_code, answer.json()["type"]) == (404, "/v1/problems/task-not-found")
    assert seconds < SOON


async def test_a_token_that_expires_ends_the_wait_with_401(api):
    """Rules, *Who sees what*: while waiting only exp is looked at again."""
    task = await api.submit()
    short = api.token(hours=1.5 / 3600)
    answer, seconds = await timed(
        api.send("GET", f"/tasks/{task['id']}", wait=LONG, token=short),
    )
    assert (answer.status_code, answer.json()["type"]) == (401, "/v1/problems/unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert seconds < 10


async def test_who_waited_leaves_nothing_behind(api):
    """C30: the tables of those who wait are empty when nobody does."""
    task = await api.running()
    waiting = api.sending("GET", f"/tasks/{task['id']}", wait=LONG)
    await api.watching(task)
    assert api.door.waiters == 1
    await api.report(task, status="completed")
    await waiting
    assert (api.door.watch._waiting, api.door.watch.known, api.door.waiters) == ({}, {}, 0)


async def test_a_client_that_went_away_is_not_waited_for(api):
    """C30: long-polls whose clients are gone end, and are owed no answer."""
    task = await api.submit()
    request = api.by_hand("GET", f"/tasks/{task['id']}")
    await api.watching(task)
    request.go_away()
    await request.done
    assert (request.sent, api.door.watch.known, api.door.waiters) == ([], {}, 0)


async def test_a_server_that_stops_answers_those_who_wait(api):
    """A stop is the end of every wait: the state as it is, not a broken connection."""
    task = await api.submit()
    path = f"/tasks/{task['id']}"
    waiting = api.sending("GET", path, wait=LONG)
    claim = api.sending("POST", "/tasks/claim", sub="idle", wait=LONG)
    await api.watching(task)
    await api.claims_wait(1)
    api.door.stop_waiting()
    shown, seconds = await timed(waiting)
    assert (shown.json()["status"], (await claim).json()["task"]) == ("pending", None)
    assert seconds < SOON
    late, seconds = await timed(api.send("GET", path, wait=LONG))
    assert (late.status_code, seconds < SOON) == (200, True)
