"""``map`` over sources that pause, wait for results, raise, or never come back; both colours."""

from __future__ import annotations

import asyncio
import gc
import queue as queues
import subprocess
import sys
import threading
import time
import weakref

import pytest
from fake_queue import JOB

from jobroom.client.drawing import Supply

ENOUGH_SECONDS = 20


class Feed:
    """A source that gives what it is told, when it is told, and notes how far it was drawn."""

    def __init__(self):
        self.given = queues.SimpleQueue()
        self.drawn = 0

    def put(self, *numbers):
        for n in numbers:
            self.given.put(n)

    def end(self, failure=None):
        self.given.put(failure)

    def _made(self, n):
        if isinstance(n, BaseException):
            raise n
        self.drawn += 1
        return {"n": n}

    def plain(self):
        while (n := self.given.get(timeout=ENOUGH_SECONDS)) is not None:
            yield self._made(n)

    async def looping(self):
        while True:
            while self.given.empty():  # noqa: ASYNC110  # tests fill it from other threads
                await asyncio.sleep(0.01)
            if (n := self.given.get()) is None:
                return
            yield self._made(n)


@pytest.fixture(params=["plain", "looping"])
def source(request, colour):
    """Makes a feed's iterable: a plain one for both clients, an async one for that of loops."""
    if request.param == "looping" and colour.name == "blocking":
        return Feed.plain
    return getattr(Feed, request.param)


@pytest.fixture
def feed(queue):
    queue.work = lambda payload: {"result": payload["n"]}
    made = Feed()
    yield made
    made.end()


def threads():
    return [one for one in threading.enumerate() if one.name == "jobroom-payloads"]


def until(question):
    end = time.monotonic() + ENOUGH_SECONDS
    while not question():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_results_come_while_the_source_pauses(client, feed, source):
    results = client.map(JOB, source(feed))
    feed.put(0, 1)
    assert [next(results), next(results)] == [0, 1]
    feed.put(2)
    assert next(results) == 2
    feed.end()
    assert list(results) == []


def test_a_source_may_wait_for_the_results_of_what_it_gave(client, feed, source):
    feed.put(0)
    found = []
    for n in client.map(JOB, source(feed)):
        found.append(n)
        feed.put(n + 1) if n < 4 else feed.end()
    assert found == [0, 1, 2, 3, 4]


def test_what_was_drawn_is_submitted_while_nothing_has_ended(queue, client, feed, source):
    queue.work = None
    feed.put(0)
    seen = threading.Thread(target=feed_on, args=(queue, feed))
    seen.start()
    assert list(client.map(JOB, source(feed), window=4)) == [0, 1]
    seen.join()


def feed_on(queue, feed):
    """Give the second payload when the first is a task, and end both when both are."""
    queue.until(lambda: len(queue.tasks) == 1)
    feed.put(1)
    queue.until(lambda: len(queue.tasks) == 2)
    for n, task_id in enumerate(list(queue.tasks)):
        queue.end(task_id, result=n)
    feed.end()


def test_no_more_is_drawn_than_the_window_has_room_for(client, feed, source):
    feed.put(*range(100))
    results = client.map(JOB, source(feed), window=10)
    for n in range(40):
        assert next(results) == n
        assert feed.drawn <= n + 1 + 10
    results.close()


def test_a_source_that_raises_does_so_after_the_results_of_what_it_gave(client, feed, source):
    """clients.md: an error of the iterator is raised at its place."""
    feed.put(0, 1)
    feed.end(ValueError("broken"))
    results = client.map(JOB, source(feed), return_exceptions=True)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="broken"):
        next(results)


def test_who_leaves_a_map_leaves_no_thread_behind(client, feed, source):
    feed.put(*range(100))
    results = client.map(JOB, source(feed), window=10)
    assert next(results) == 0
    results.close()
    until(lambda: not threads())


def test_a_source_is_closed_when_its_map_is_left(client, feed, source):
    feed.put(*range(100))
    payloads = source(feed)
    gone = weakref.ref(payloads)
    results = client.map(JOB, payloads, window=10)
    assert next(results) == 0
    results.close()
    del payloads, results
    until(lambda: gc.collect() >= 0 and gone() is None)


def test_a_paused_source_does_not_make_the_server_be_asked_without_end(queue, client, feed, source):
    queue.work = None
    feed.put(0)
    threading.Timer(3, lambda: queue.end(next(iter(queue.tasks)), result=0)).start()
    results = client.map(JOB, source(feed))
    assert next(results) == 0
    assert len(queue.asked("GET", "/tasks/")) < 15
    feed.end()
    assert list(results) == []


def test_a_slow_source_is_gathered_for_one_request(queue, client, feed, source):
    feed.put(*range(50))
    feed.end()
    assert list(client.map(JOB, source(feed))) == list(range(50))
    assert len(queue.asked("POST", "/tasks")) == 1


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_needs_no_thread(queue, client, kind):
    queue.work = lambda payload: {"result": payload["n"]}
    names = []
    queue.on_request = lambda _seen: names.extend(threads())
    assert list(client.map(JOB, kind({"n": n} for n in range(30)), window=8)) == list(range(30))
    assert names == []


def test_a_list_that_grows_while_it_is_mapped_is_followed(queue, client):
    queue.work = lambda payload: {"result": payload["n"]}
    payloads = [{"n": 0}, {"n": 1}]
    found = []
    for n in client.map(JOB, payloads, window=1):
        found.append(n)
        if n == 0:
            payloads.append({"n": 2})
    assert found == [0, 1, 2]


def test_a_supply_that_was_closed_takes_nothing_more():
    supply = Supply(iter([]))
    supply.ask(5)
    supply.close()
    supply.put({"n": 1})
    supply.end(ValueError())
    assert supply.is_over
    assert supply.failure is None
    assert supply.take() == []


HANGING = """
import sys, threading
from jobroom import Client
def payloads():
    yield {"n": 0}
    threading.Event().wait()
results = Client(sys.argv[1], "t").map("r1:modifiers:Rotate", payloads())
print(next(results))
"""


def test_a_source_that_never_comes_back_keeps_no_program_from_its_end(queue):
    queue.work = lambda payload: {"result": payload["n"]}
    command = [sys.executable, "-c", HANGING, queue.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


HANGING_LOOP = """
import asyncio, sys
from jobroom import AsyncClient
async def payloads():
    yield {"n": 0}
    await asyncio.Event().wait()
async def main():
    async with AsyncClient(sys.argv[1], "t") as client:
        async for n in client.map("r1:modifiers:Rotate", payloads()):
            print(n)
            break
asyncio.run(main(), debug=True)
"""


def test_an_async_source_that_never_comes_back_keeps_no_program_from_its_end(queue):
    queue.work = lambda payload: {"result": payload["n"]}
    command = [sys.executable, "-W", "error", "-c", HANGING_LOOP, queue.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "0\n")
    assert "never retrieved" not in done.stderr
    assert "destroyed" not in done.stderr


ENDING = """
import sys
from jobroom import Client
def payloads():
    try:
        yield from ({"n": n} for n in range(1000))
    finally:
        print("closed", flush=True)
for n in Client(sys.argv[1], "t").map("r1:modifiers:Rotate", payloads(), window=5):
    break
"""
FORKING = """
import os, sys, threading, time
from jobroom import Client
payloads = ({"n": n} for n in range(50))
results = Client(sys.argv[1], "t").map("r1:modifiers:Rotate", payloads, window=5)
next(results)
time.sleep(0.5)  # the thread waits for room, and is not inside the generator
if (forked := os.fork()) == 0:
    threading.Timer(30, os._exit, (9,)).start()
    print(len(list(results)), flush=True)
    os._exit(0)
os.waitpid(forked, 0)
"""


@pytest.mark.parametrize(("program", "said"), [(ENDING, "closed\n"), (FORKING, "49\n")])
def test_a_map_is_left_at_the_end_of_a_program_and_goes_on_in_a_forked_one(queue, program, said):
    queue.work = lambda payload: {"result": payload["n"]}
    command = [sys.executable, "-c", program, queue.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
