"""Following a log: woken by what is appended, through this process or another one."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from jobroom.domain.records import Caller, Logged
from jobroom.http import tasklogs
from jobroom.http.taskwatch import TaskWatch
from jobroom.service import reporting
from jobroom.service.queue import JobQueue

pytestmark = pytest.mark.anyio

LONG = 60
SOON = 30.0  # far under LONG: what ends by then was not ended by the deadline


@pytest.fixture
def no_recheck(monkeypatch):
    """Nobody looks again by himself: what wakes a follower has told him."""
    monkeypatch.setattr(tasklogs, "RECHECK_SECONDS", LONG)


@pytest.fixture
def other(settings):
    """The same store, as another process has it."""
    with JobQueue.open(settings) as queue:
        yield queue


async def follow(api, task, offset=0):
    path = f"/tasks/{task['id']}/log?offset={offset}&attempt=1"
    waiting = api.sending("GET", path, wait=LONG)
    await api.watching(task)
    return waiting


@pytest.mark.parametrize(
    ("said", "text", "ended"),
    [
        ({"log": "one\n"}, "one\n", False),
        ({"log": "one\n", "progress": 0.5}, "one\n", False),
        ({"log": "one\n", "status": "completed"}, "one\n", True),
        ({"status": "failed", "error": "boom"}, "", True),
    ],
    ids=str,
)
async def test_a_follower_is_woken_by_what_comes_through_this_process(
    api, no_recheck, said, text, ended
):
    """Log, *long-poll*: told by the commit, as every waiter is."""
    task = await api.running()
    waiting = await follow(api, task)
    started = time.monotonic()
    await api.report(task, **said)
    answer = await waiting
    part = answer.json()
    assert (part["text"], part["ended"]) == (text, ended)
    assert answer.headers["preference-applied"] == f"wait={LONG}"
    assert time.monotonic() - started < SOON
    assert (api.door.waiters, api.door.watch.known) == (0, {})


async def test_progress_without_a_log_does_not_end_the_wait(api, no_recheck):
    task = await api.running()
    waiting = await follow(api, task)
    changed = await api.report(task, progress=0.5)
    tag = (await api.send("GET", f"/tasks/{changed['id']}")).headers["etag"]
    await api.watching(task, version=int(tag[3:-1]))
    assert not waiting.done()
    await api.report(task, log="line")
    assert (await waiting).json()["text"] == "line"


async def test_a_status_wait_is_not_woken_by_a_log(api):
    task = await api.running()
    tag = (await api.send("GET", f"/tasks/{task['id']}")).headers["etag"]
    known = {"if-none-match": tag}
    waiting = api.sending("GET", f"/tasks/{task['id']}", wait=LONG, headers=known)
    await api.watching(task)
    await api.report(task, log="line\n")
    await api.report(task, message="now")
    assert (await waiting).json()["message"] == "now"


async def test_a_follower_notices_what_another_process_appends(api, other, monkeypatch):
    """Log, *long-poll*: in bounded time, by looking again."""
    monkeypatch.setattr(tasklogs, "RECHECK_SECONDS", 0.1)
    task = await api.running()
    waiting = await follow(api, task)
    started = time.monotonic()
    said = reporting.Report(log="from elsewhere", log_offset=0, attempt=1)
    await asyncio.to_thread(
        other.run, reporting.report, caller=Caller("w"), task_id=task["id"], report=said
    )
    assert (await waiting).json()["text"] == "from elsewhere"
    assert time.monotonic() - started < SOON


async def test_a_follower_s_place_is_given_up_with_it(api, no_recheck):
    task = await api.running()
    gone = api.by_hand("GET", f"/tasks/{task['id']}/log", wait=LONG)
    await api.watching(task)
    gone.go_away()
    await gone.done
    assert (gone.sent, api.door.waiters, api.door.held) == ([], 0, set())


async def test_a_log_told_before_the_read_came_back_is_not_lost():
    watch = TaskWatch(lambda: None)
    watch.enter(asyncio.get_running_loop())
    with watch.of("t") as follower, watch.of("t") as poller:
        watch.tell([SimpleNamespace(id="t", version=3), Logged("t", 3, 1, 20)])
        await asyncio.sleep(0)
        follower.saw(3, log=(1, 10))
        poller.saw(3)
        assert (follower.changed.done(), poller.changed.done()) == (True, False)
        follower.saw(3, log=(1, 20))
        assert not follower.changed.done()
