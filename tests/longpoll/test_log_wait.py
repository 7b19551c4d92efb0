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
FOLLOWERS = 20
SOON = 30.0  # far under LONG: what ends by then was not ended by the deadline


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
async def test_a_follower_is_woken_by_what_comes_through_this_process(api, said, text, ended):
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


async def test_progress_without_a_log_does_not_end_the_wait(api):
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


def append_elsewhere(other, task, text):
    """Another process takes what a worker has sent."""
    said = reporting.Report(log=text, log_offset=0, attempt=1)
    other.run(reporting.report, caller=Caller("w"), task_id=task["id"], report=said)


async def test_a_follower_notices_what_another_process_appends(api, other):
    """Log, *long-poll*: in bounded time, by a look at what others have written."""
    task = await api.running()
    waiting = await follow(api, task)
    started = time.monotonic()
    await asyncio.to_thread(append_elsewhere, other, task, "from elsewhere")
    assert (await waiting).json()["text"] == "from elsewhere"
    assert time.monotonic() - started < SOON
    assert (api.door.watch.known, api.door.watch.logs) == ({}, {})


async def test_followers_ask_for_nothing_until_there_is_something(api, other, monkeypatch):
    """However many follow, the looks of the process are for all of them: each reads twice."""
    read, begun, reads = tasklogs._read, asyncio.Event(), []

    async def counted(*asked):
        part = await read(*asked)
        reads.append(part.reach)
        if len(reads) == FOLLOWERS:
            begun.set()
        return part

    monkeypatch.setattr(tasklogs, "_read", counted)
    followed, another = await api.running(), await api.running()
    waiting = [await follow(api, followed) for _ in range(FOLLOWERS)]
    await begun.wait()
    await asyncio.to_thread(append_elsewhere, other, another, "for nobody")
    await asyncio.to_thread(append_elsewhere, other, followed, "for all")
    answers = await asyncio.gather(*waiting)
    assert {answer.json()["text"] for answer in answers} == {"for all"}
    assert sorted(reads) == [0] * FOLLOWERS + [len("for all")] * FOLLOWERS


async def test_a_follower_s_place_is_given_up_with_it(api):
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


async def test_what_one_follower_has_read_is_news_to_one_who_has_read_less():
    watch = TaskWatch(lambda: None)
    watch.enter(asyncio.get_running_loop())
    with watch.of("t") as ahead, watch.of("t") as behind:
        behind.saw(3, log=(1, 10))
        ahead.saw(3, log=(1, 20))
        assert (ahead.changed.done(), behind.changed.done()) == (False, True)
        behind.saw(3, log=(1, 20))
        assert watch.logs == {"t": (1, 20)}
    assert watch.logs == {}
