"""The first request of all meets a store that is away: on Lambda, and mounted in a host.

No lifespan runs there, so that request opens the queue (design, *Name and layout*).
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

import httpx
import live_server
import pytest
from outage_scene import check_problem

from jobroom.bootstrap import create_app
from jobroom.settings import JobLibSettings

BASE = live_server.BASE
HEADERS = {"authorization": f"Bearer {live_server.token_of('w', is_admin=True)}"}


@pytest.fixture
def app(place):
    settings = JobLibSettings(
        database_url=place.url, database_busy_seconds=1, jwt_secret=live_server.SECRET
    )
    made = create_app(settings)
    yield made
    made.state.door.close()
    place.proxy.heal()


async def answers(app, *paths):
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://test", headers=HEADERS
    ) as client:
        return [await client.get(path) for path in paths]


def test_the_first_request_is_503_and_the_next_one_works(app, place):
    """No restart of ours is needed: on Lambda there is none to be had."""

    async def both():
        place.proxy.cut()
        refused = await answers(app, "/readyz", f"{BASE}/workers", f"{BASE}/workers")
        [alive] = await answers(app, "/healthz")
        place.proxy.heal()
        return refused, alive, await answers(app, f"{BASE}/workers", "/v1/me")

    refused, alive, taken = asyncio.run(both())
    for answer in refused:
        check_problem(answer)
    assert alive.status_code == 200
    assert [answer.status_code for answer in taken] == [200, 200]


def test_a_server_that_starts_while_the_store_is_away_says_so_and_ends(place, tmp_path):
    """In one sentence without a trace; whoever runs it starts it again."""
    place.proxy.cut()
    environment = live_server.environment(
        database_url=place.url, database_busy_seconds=1, jwt_secret=live_server.SECRET
    )
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(live_server.free_port())]
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        place.proxy.heal()
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    [sentence] = [line for line in done.stderr.splitlines() if "jobroom:" in line]
    assert sentence.rstrip().endswith(".")
