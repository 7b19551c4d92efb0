"""Every form of ``Prefer`` (RFC 7240) on a pending task: acceptance case C28."""

from __future__ import annotations

import asyncio

import pytest

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [""],
        ["wait"],
        ["wait="],
        ["wait=abc"],
        ["wait=-1"],
        ["wait=+1"],
        ["wait=1.5"],
        ["wait=0"],
        ["wait=00"],
        ["waiting=1"],
        ["respond-async"],
        ['handling="lenient, wait=1"'],
        ["wait=\xb2"],
    ],
)
@pytest.mark.parametrize("route", ["status", "claim"])
async def test_what_asks_for_no_wait_is_answered_at_once(api, lines, route):
    """C28: what cannot be read is ignored, never an error, and never said to be applied."""
    answer = await ask(api, lines, route)
    assert answer.status_code == 200
    assert "preference-applied" not in answer.headers


@pytest.mark.parametrize(
    "lines",
    [
        ["wait=99999999999999999999"],
        ["wait=" + "9" * 5000],
        ["respond-async", "wait=2"],
        ["respond-async, wait=2"],
        ['wait="2"'],
        ["WAIT = 2"],
        ["wait=2; foo=bar"],
        ["wait=2, wait=0"],
        ["wait=abc, wait=2"],
    ],
)
@pytest.mark.parametrize("route", ["status", "claim"])
async def test_every_form_that_asks_to_wait_is_granted_up_to_the_cap(open_api, lines, route):
    """C28: Preference-Applied tells the capped value."""
    async with open_api(long_poll_max_wait_seconds=1) as api:
        await api.register()
        request = await waits(api, lines, route)
        assert request.headers["preference-applied"] == "wait=1"


async def waits(api, lines, route):
    """Ask, and stop the waiting as soon as it has begun."""
    request = asyncio.ensure_future(ask(api, lines, route))
    await api.until(lambda: api.parked or any(n >= 0 for n in api.door.watch.known.values()))
    api.door.stop_waiting()
    return await request


async def ask(api, lines, route):
    headers = [("authorization", f"Bearer {api.token()}")]
    headers += [("prefer", line.encode("latin-1")) for line in lines]
    if route == "claim":
        return await api.http.post("/v1/joblib/tasks/claim", headers=headers)
    task = await api.submit()
    return await api.http.get(f"/v1/joblib/tasks/{task['id']}", headers=headers)
