"""Long-polls and waiting claims outlive an outage: what another server does after it wakes them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import live_server
import pytest
from outage_scene import Scene, sound

BASE = live_server.BASE
WAIT = {"prefer": "wait=55"}
PROMPT_SECONDS = 30  # far under it


@pytest.fixture(scope="module")
def servers(start):
    started = [start(long_poll_max_wait_seconds=60) for _ in range(2)]
    return [server.until_ready() for server in started]


@pytest.fixture
def scenes(servers):
    """The same job and identity, at two servers."""
    with Scene(servers[0]) as here, Scene(servers[1]) as there:
        there.who, there.job, there.path = here.who, here.job, here.path
        there.client.headers = here.client.headers
        sound(here.register())
        yield here, there


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as opened:
        yield opened


def restart(place):
    place.server.kill()
    time.sleep(0.5)
    place.server.start()


def hang(place):
    place.server.suspend()
    time.sleep(1)
    place.server.resume()


@pytest.mark.parametrize("outage", [restart, hang], ids=["restarted", "suspended"])
def test_what_waits_is_woken_by_another_server_after_an_outage(place, scenes, pool, outage):
    here, there = scenes
    task = sound(here.submit())
    held = sound(there.claim(start=True))["task"]
    seen = pool.submit(here.client.get, f"{BASE}/tasks/{task['id']}", headers=WAIT)
    claimed = pool.submit(here.client.post, f"{BASE}/tasks/claim", headers=WAIT)
    time.sleep(0.5)
    assert not seen.done()
    assert not claimed.done()
    outage(place)
    sound(there.report(held, status="completed", result=7))
    next_id = sound(there.submit())["id"]
    assert sound(seen.result(PROMPT_SECONDS))["result"] == 7
    assert sound(claimed.result(PROMPT_SECONDS))["task"]["id"] == next_id


def test_a_sweep_does_each_step_once_whatever_is_lost(place, scenes):
    """The answers of its first commits are lost: contract, *The sweep*."""
    here, _ = scenes
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
    ids = [sound(here.submit(expires_at=soon))["id"] for _ in range(3)]
    time.sleep(2)
    faults = place.proxy.faults
    place.proxy.cut_after_request(lambda text: b"COMMIT" in text, times=3)
    counts = sound(here.client.post(f"{BASE}/sweep"))
    place.proxy.heal()
    assert place.proxy.faults == faults + 3
    assert counts["expired_tasks"] <= 3  # of what was committed, as far as anybody knows
    rows = place.tasks()
    for task_id in ids:
        row = rows[task_id]
        assert (row.status, row.version) == ("failed", 2)
        assert row.error.startswith("The task expired")
