"""The host's clock is set, by minutes or hours, either way, while the server runs: case C05.

On a SQLite file the store's clock is its host's. Nothing alive is lost, nothing is lost for ever,
and who waits waits as long as he was told.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import jwt
import live_server
import pytest
from faultkit import BASE, LONGEST_SECONDS, Beating, start_one, status_of, until, until_swept
from hostclock import HostClock, clear_after

from jobroom import scheduler

MINUTES, HOURS = 60, 3600
JUMPS = [10 * MINUTES, -10 * MINUTES, 7 * HOURS, -7 * HOURS]
TIMEOUT = 5
PATIENCE = 6
APART = "two servers whose clocks are ten minutes apart"
SCALED = {
    "worker_timeout_seconds": TIMEOUT,
    "sweeper_interval_seconds": 0.5,
    "sqlite_synchronous": "NORMAL",
    "task_retention_seconds": HOURS,
    "jwt_secret": live_server.SECRET,
}


@contextmanager
def host_in(folder, name="clock", **settings):
    """A server on a host whose clock is set by ``server.clock``."""
    clock = HostClock(folder, name)
    with live_server.Server(folder, extra=clock.environment, **SCALED | settings) as server:
        server.clock = clock
        try:
            yield server.until_ready()
            assert "Traceback" not in server.output
        finally:
            server.kill()
            clear_after(server.process.pid)


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with host_in(tmp_path_factory.mktemp("clocks")) as started:
        yield started


def client_of(server, sub):
    """A client whose token is valid at any time: tokens are another matter."""
    claims = {"sub": sub, "is_admin": True, "iat": 0, "exp": 2**33}
    return server.client(jwt.encode(claims, live_server.SECRET, "HS256"))


def now(client):
    """The store's clock, by the heartbeat of a worker made for it."""
    text = client.post(f"{BASE}/workers", json={}).json()["last_heartbeat"]
    return datetime.fromisoformat(text)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What was seen of each jump; all happen at the same time, each on a host of its own."""
    with ThreadPoolExecutor(len(JUMPS) + 1) as pool:
        apart = pool.submit(beat_through_another, tmp_path_factory.mktemp("apart"))
        folders = [tmp_path_factory.mktemp("jump") for _ in JUMPS]
        by_jump = dict(zip(JUMPS, pool.map(jump_by, JUMPS, folders), strict=True))
        return by_jump | {APART: apart.result()}


def jump_by(jump, folder):
    with (
        host_in(folder) as server,
        client_of(server, "alive") as alive,
        client_of(server, "silent") as silent,
        client_of(server, "waits") as waits,
        ThreadPoolExecutor(2) as pool,
    ):
        running, attempt = start_one(alive)
        with Beating(alive, "alive", every=TIMEOUT / 10) as beating:
            live_server.register(waits, name="Nothing")
            lost, _ = start_one(silent)
            waiting = [
                pool.submit(wait, waits.get, running),
                pool.submit(wait, waits.post, f"{BASE}/tasks/claim"),
            ]
            until_swept(folder)
            before = now(alive)
            server.clock.jump(jump)
            moved = (now(alive) - before).total_seconds()
            until(lambda: status_of(alive, lost) == "failed", what="nothing is swept any more")
            waited = [one.result() for one in waiting]
            report = {"status": "completed", "attempt": attempt}
            ended = alive.patch(running, json=report)
        return SimpleNamespace(moved=moved, waited=waited, ended=ended, beats=beating.statuses)


def beat_through_another(folder):
    """Heartbeats go through a server that is fast, sweeps through one of the true time."""
    with (
        host_in(folder, sweeper_interval_seconds=0) as fast,
        host_in(folder, "true", sweeper_interval_seconds=0) as true,
        client_of(fast, "far") as client,
        client_of(true, "sweeper") as sweeper,
    ):
        fast.clock.jump(10 * MINUTES)
        task, attempt = start_one(client)
        lost = 0
        with Beating(client, "far", every=TIMEOUT / 10):
            ends = time.monotonic() + 2 * TIMEOUT
            while time.monotonic() < ends:
                lost += sweeper.post(f"{BASE}/sweep").json()["lost_workers"]
                time.sleep(0.2)
        report = {"status": "completed", "attempt": attempt}
        return SimpleNamespace(lost=lost, ended=client.patch(task, json=report))


def wait(ask, path):
    began = time.monotonic()
    answer = ask(path, headers={"prefer": f"wait={PATIENCE}"})
    return answer, time.monotonic() - began


@pytest.mark.parametrize("jump", JUMPS)
def test_a_worker_that_beats_is_not_lost_by_a_jump(seen, jump):
    assert abs(seen[jump].moved - jump) < LONGEST_SECONDS
    assert set(seen[jump].beats) == {200}
    assert seen[jump].ended.json()["status"] == "completed"


@pytest.mark.parametrize("jump", JUMPS)
def test_who_waits_waits_by_a_steady_clock(seen, jump):
    """A status poll and a claim come back when their own seconds are over, with what there is."""
    (status, status_seconds), (claim, claim_seconds) = seen[jump].waited
    assert status.json()["status"] == "running"
    assert claim.json()["task"] is None
    for seconds in (status_seconds, claim_seconds):
        assert 0.9 * PATIENCE < seconds < 10 * PATIENCE


def test_a_worker_that_beats_through_a_server_of_another_clock_is_not_lost(seen):
    """Case C05, for what cannot be: a SQLite file is shared on one host, which has one clock."""
    assert seen[APART].lost == 0
    assert seen[APART].ended.json()["status"] == "completed"


def test_what_is_due_comes_when_the_clock_says_so(host):
    """``run_at``, ``expires_at`` and keys go by the clock that is: that is what they name."""
    with client_of(host, "due") as client:
        live_server.register(client, name="Due")
        path = f"{BASE}/rooms/r1/tasks/r1:modifiers:Due"
        soon = (now(client) + timedelta(minutes=5)).astimezone(UTC).isoformat()
        later = client.post(path, json={"run_at": soon}).json()["id"]
        short = client.post(path, json={"run_at": soon, "expires_at": soon}).json()["id"]
        keyed = {"headers": {"idempotency-key": "a key"}, "json": {"priority": -1, "run_at": soon}}
        once = client.post(path, **keyed).json()["id"]
        host.clock.jump(-10 * MINUTES)
        assert client.post(f"{BASE}/tasks/claim").json()["task"] is None
        host.clock.jump(20 * MINUTES)
        claimed = client.post(f"{BASE}/tasks/claim", headers={"prefer": "wait=30"}).json()["task"]
        assert claimed["id"] == later
        until(lambda: status_of(client, f"{BASE}/tasks/{short}") == "failed")
        for jump in (-10 * MINUTES, 2 * HOURS):
            host.clock.jump(jump)
            again = client.post(path, **keyed)
            assert (again.json()["id"], again.headers["idempotency-replayed"]) == (once, "true")
        host.clock.jump(25 * HOURS)
        assert client.post(path, **keyed).json()["id"] != once


def test_a_claim_that_waits_gets_what_a_jump_makes_due(host):
    with client_of(host, "early") as client, ThreadPoolExecutor(1) as pool:
        live_server.register(client, name="Early")
        soon = (now(client) + timedelta(minutes=5)).astimezone(UTC).isoformat()
        path = f"{BASE}/rooms/r1/tasks/r1:modifiers:Early"
        delayed = client.post(path, json={"run_at": soon}).json()["id"]
        headers = {"prefer": f"wait={LONGEST_SECONDS}"}
        waiting = pool.submit(client.post, f"{BASE}/tasks/claim", headers=headers)
        assert client.get(f"{BASE}/tasks/{delayed}").json()["status"] == "pending"
        host.clock.jump(10 * MINUTES)
        assert waiting.result().json()["task"]["id"] == delayed


def test_finished_tasks_stay_as_long_as_the_clock_says(host):
    """``task_retention_seconds`` is an hour here."""
    with client_of(host, "kept") as client:
        task, attempt = start_one(client)
        client.patch(task, json={"status": "completed", "attempt": attempt})
        for jump in (10 * MINUTES, -20 * MINUTES):
            host.clock.jump(jump)
            assert client.post(f"{BASE}/sweep").status_code == 200
            assert client.get(task).status_code == 200
        host.clock.jump(2 * HOURS)
        until(lambda: client.get(task).status_code == 404)


def test_years_that_are_skipped_are_not_swept_one_by_one(host):
    """A machine without a clock of its own starts in 1970, until the network tells it the time."""
    with client_of(host, "years") as client:
        host.clock.jump(20 * 365 * 24 * HOURS)
        lost, _ = start_one(client)
        until(lambda: status_of(client, lost) == "failed")  # counted one by one it takes minutes
        host.clock.jump(-20 * 365 * 24 * HOURS)


def test_what_a_jump_of_years_skipped_is_due_once():
    """However the jump falls between the scheduler's own looks at the clock."""
    now = datetime.now(UTC)
    due = scheduler._from_now(0.5, None).get_next_fire_time(now - timedelta(days=7300), now)
    assert due == now + timedelta(seconds=0.5)
