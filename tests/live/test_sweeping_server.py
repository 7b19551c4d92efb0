"""The sweep inside a server: contract, *The sweep*; APScheduler inside ``uvicorn app:app``."""

from __future__ import annotations

import time

SMALL = {"worker_timeout_seconds": 0.5, "sweeper_interval_seconds": 0.2}


def hold(client, work):
    """A task whose worker is not heard of any more."""
    work.register(client)
    work.submit(client)
    return client.post(f"{work.BASE}/tasks/claim").json()["task"]["id"]


def test_a_lost_worker_is_found_by_the_server_itself(start, work):
    """Contract, *Losing a worker*: its tasks fail, and the error says what happened."""
    server = start(**SMALL)
    with server.client() as client:
        path = f"{work.BASE}/tasks/{hold(client, work)}"
        started = time.monotonic()
        ended = client.get(path, headers={"prefer": "wait=60"}).json()
    assert ended["status"] == "failed"
    assert "Worker disconnected" in ended["error"]
    assert time.monotonic() - started < 30
    server.stop()
    assert "Traceback" not in server.output


def test_an_interval_of_0_sweeps_never(start, work):
    """Settings: 0 leaves it to whoever calls the other doors of the sweep."""
    server = start(**(SMALL | {"sweeper_interval_seconds": 0}))
    with server.client() as client:
        path = f"{work.BASE}/tasks/{hold(client, work)}"
        answer = client.get(path, headers={"prefer": "wait=1"})
        assert answer.json()["status"] == "claimed"
        assert client.post(f"{work.BASE}/sweep").json()["lost_workers"] == 1
        assert client.get(path).json()["status"] == "failed"
