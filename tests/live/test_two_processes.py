"""Two server processes on one file wake each other: design 3, with inotify and without."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

LONG = 60
SOON = 30.0  # far under LONG: what ends by then was not ended by the deadline
WITHOUT_INOTIFY = """
from jobroom.store import foreign

foreign._open_inotify = lambda path: None

from app import app
"""


@pytest.fixture(scope="module", params=["inotify", "polling"])
def pair(request, start, tmp_path_factory, work):
    """Clients of two servers on one file."""
    folder = tmp_path_factory.mktemp("pair")
    (folder / "polling.py").write_text(WITHOUT_INOTIFY)
    module = "app:app" if request.param == "inotify" else "polling:app"
    servers = [start(folder, ready=False, app=module) for _ in range(2)]
    first, second = (server.until_ready().client() for server in servers)
    with first, second:
        work.register(first)
        yield first, second
    for server in servers:
        server.stop()


@pytest.fixture
def background():
    with ThreadPoolExecutor(4) as pool:
        yield pool


def held(first, second, work):
    """A task that the first server's worker runs."""
    task_id = work.submit(first)
    got = first.post(f"{work.BASE}/tasks/claim", json={"start": True}).json()["task"]
    assert got["id"] == task_id
    return got


@pytest.mark.parametrize("ahead", [True, False], ids=["waiting first", "any order"])
def test_a_report_through_one_ends_a_wait_at_the_other(pair, background, work, ahead):
    first, second = pair
    path = f"{work.BASE}/tasks/{held(first, second, work)['id']}"
    started = time.monotonic()
    waiting = background.submit(first.get, path, headers={"prefer": f"wait={LONG}"})
    if ahead:
        # The wait is on its way; a request that comes after it is answered after it was read.
        assert first.get("/healthz").is_success
    assert second.patch(path, json={"status": "completed", "result": 1}).is_success
    assert (waiting.result().json()["status"], waiting.result().json()["result"]) == (
        "completed",
        1,
    )
    assert time.monotonic() - started < SOON


def test_progress_through_one_is_news_at_the_other(pair, background, work):
    """Rules, *ETag*: the wait ends at any change."""
    first, second = pair
    path = f"{work.BASE}/tasks/{held(first, second, work)['id']}"
    known = {"prefer": f"wait={LONG}", "if-none-match": first.get(path).headers["etag"]}
    started = time.monotonic()
    waiting = background.submit(first.get, path, headers=known)
    assert second.patch(path, json={"progress": 0.5}).is_success
    assert waiting.result().json()["progress"] == 0.5
    assert time.monotonic() - started < SOON
    second.patch(path, json={"status": "completed"})


def test_a_submit_through_one_is_handed_out_by_the_other(pair, background, work):
    first, second = pair
    started = time.monotonic()
    claim = background.submit(
        first.post, f"{work.BASE}/tasks/claim", headers={"prefer": f"wait={LONG}"}
    )
    task_id = work.submit(second)
    got = claim.result().json()["task"]
    assert (got["id"], got["status"]) == (task_id, "claimed")
    assert time.monotonic() - started < SOON
    assert second.patch(f"{work.BASE}/tasks/{task_id}", json={"status": "failed"}).is_success


def test_what_is_submitted_between_two_waits_is_not_missed(pair, background, work):
    """Each wait begins to look for itself: what came a moment before counts."""
    first, second = pair
    for _ in range(20):
        started = time.monotonic()
        claim = background.submit(
            first.post, f"{work.BASE}/tasks/claim", headers={"prefer": f"wait={LONG}"}
        )
        task_id = work.submit(second)
        assert claim.result().json()["task"]["id"] == task_id
        path = f"{work.BASE}/tasks/{task_id}"
        waiting = background.submit(first.get, path, headers={"prefer": f"wait={LONG}"})
        assert second.patch(path, json={"status": "failed"}).is_success
        assert waiting.result().json()["status"] == "failed"
        assert time.monotonic() - started < SOON
