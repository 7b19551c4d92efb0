"""Waiting for any change: rules, *ETag*."""

from __future__ import annotations

import time

import pytest

pytestmark = pytest.mark.anyio

LONG = 60
SOON = 30.0  # far under LONG: what ends by then was not ended by the deadline


async def known_to_client(api, task):
    """The header by which a client says what it has seen of a task."""
    answer = await api.send("GET", f"/tasks/{task['id']}")
    return {"if-none-match": answer.headers["etag"]}


async def test_what_the_client_has_is_304_at_once_without_a_wait(api):
    """Contract: ETag / If-None-Match -> 304."""
    task = await api.submit()
    known = await known_to_client(api, task)
    answer = await api.send("GET", f"/tasks/{task['id']}", headers=known)
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == known["if-none-match"]


async def test_an_older_version_is_answered_at_once(api):
    """Rules: the wait ends at any change; this one has happened."""
    task = await api.running()
    known = await known_to_client(api, task)
    await api.report(task, progress=0.1)
    started = time.monotonic()
    answer = await api.send("GET", f"/tasks/{task['id']}", wait=LONG, headers=known)
    assert (answer.status_code, answer.json()["progress"]) == (200, 0.1)
    assert "preference-applied" not in answer.headers
    assert time.monotonic() - started < SOON


@pytest.mark.parametrize(
    "said", [{"progress": 0.5}, {"message": "half"}, {"status": "completed"}], ids=str
)
async def test_any_change_ends_the_wait(api, said):
    """Rules: with If-None-Match and Prefer: wait the wait ends at any change."""
    task = await api.running()
    known = await known_to_client(api, task)
    waiting = api.sending("GET", f"/tasks/{task['id']}", wait=LONG, headers=known)
    await api.watching(task)
    started = time.monotonic()
    await api.report(task, **said)
    answer = await waiting
    assert answer.status_code == 200
    assert answer.json().items() >= said.items()
    assert answer.headers["preference-applied"] == f"wait={LONG}"
    assert answer.headers["etag"] != known["if-none-match"]
    assert time.monotonic() - started < SOON


async def test_progress_can_be_followed_step_by_step(api):
    """Rules: progress by long-poll."""
    task = await api.running()
    seen = []
    for step in (0.25, 0.5, 0.75):
        known = await known_to_client(api, task)
        waiting = api.sending("GET", f"/tasks/{task['id']}", wait=LONG, headers=known)
        await api.watching(task)
        await api.report(task, progress=step)
        seen.append((await waiting).json()["progress"])
    assert seen == [0.25, 0.5, 0.75]


async def test_without_a_change_the_wait_ends_with_304(api):
    """Rules: 304 at its end."""
    task = await api.submit()
    known = await known_to_client(api, task)
    answer = await api.send("GET", f"/tasks/{task['id']}", wait=1, headers=known)
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["preference-applied"] == "wait=1"
