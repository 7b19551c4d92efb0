"""Clients inside programs: threads, forks, event loops, many at once, stopped in the middle."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import live_server
import pytest
from fake_queue import JOB

from jobroom import errors
from jobroom.client.async_client import AsyncClient
from jobroom.client.sync_client import Client


def plain():
    # Reading the root certificates takes longer than a test.
    return httpx.Client(verify=False)  # noqa: S501


def looping():
    return httpx.AsyncClient(verify=False)  # noqa: S501


def test_one_client_serves_many_threads(queue):
    queue.work = lambda payload: {"result": payload["n"]}
    with plain() as http, Client(queue.url, "t", http=http) as client:
        with ThreadPoolExecutor(8) as pool:
            handles = pool.map(lambda n: client.submit(JOB, n=n).result(), range(40))
        assert list(handles) == list(range(40))


def test_many_waits_go_on_at_once_in_one_event_loop(queue):
    async def main():
        async with looping() as http, AsyncClient(queue.url, "t", http=http) as client:
            handles = [await client.submit(JOB, n=n) for n in range(30)]
            waits = [asyncio.ensure_future(handle.result(timeout=10)) for handle in handles]
            await asyncio.sleep(0)
            for handle in reversed(handles):
                queue.end(handle.id, result=handle.id)
            assert await asyncio.gather(*waits) == [handle.id for handle in handles]

    asyncio.run(main())


def test_a_wait_can_be_cancelled(queue):
    async def main():
        async with looping() as http, AsyncClient(queue.url, "t", http=http) as client:
            handle = await client.submit(JOB)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(handle.wait(), 0.2)
            queue.end(handle.id, result=1)
            assert await handle.result() == 1

    asyncio.run(main())


def test_a_cancelled_map_says_what_goes_on(queue, caplog):
    async def main():
        async with looping() as http, AsyncClient(queue.url, "t", http=http) as client:

            async def run():
                return [result async for result in client.map(JOB, [{"n": 1}, {"n": 2}])]

            running = asyncio.ensure_future(run())
            await asyncio.to_thread(queue.until, lambda: queue.asked("GET", "/tasks/"))
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    with caplog.at_level(logging.WARNING, logger="jobroom.client"):
        asyncio.run(main())
    assert "map.stopped" in caplog.text
    assert "2 tasks were submitted and 0 of them have ended" in caplog.text


def test_payloads_may_come_from_an_async_iterator(queue):
    queue.work = lambda payload: {"result": payload["n"]}

    async def payloads():
        for n in range(5):
            await asyncio.sleep(0)
            yield {"n": n}

    async def main():
        async with looping() as http, AsyncClient(queue.url, "t", http=http) as client:
            return [result async for result in client.map(JOB, payloads())]

    assert asyncio.run(main()) == list(range(5))


def test_slow_payloads_are_submitted_before_all_have_come(queue, monkeypatch):
    monkeypatch.setattr("jobroom.client.drawing.DRAW_SECONDS", 0.0)
    queue.work = lambda payload: {"result": payload["n"]}
    given = []

    def payloads():
        for n in range(3):
            assert len(given) == n  # the result of the one before has come
            yield {"n": n}

    async def slowly():
        for n in range(3):
            assert len(given) == n
            yield {"n": n}

    with plain() as http, Client(queue.url, "t", http=http) as client:
        given.extend(client.map(JOB, payloads(), window=1))
        assert given == [0, 1, 2]

    async def main():
        given.clear()
        async with looping() as http, AsyncClient(queue.url, "t", http=http) as client:
            async for result in client.map(JOB, slowly(), window=1):
                given.append(result)  # noqa: PERF401 - the payloads look at it

    asyncio.run(main())
    assert given == [0, 1, 2]


def test_one_async_client_may_be_used_in_one_event_loop_after_another(queue):
    client = AsyncClient(queue.url, "t")

    async def main():
        async with client:
            return (await client.me())["id"]

    assert [asyncio.run(main()), asyncio.run(main())] == ["t", "t"]


def test_an_async_client_that_was_not_used_is_closed_all_the_same():
    async def main():
        async with AsyncClient("http://queue.example"):
            pass

    asyncio.run(main())


@pytest.mark.parametrize("is_async", [True, False])
def test_tokens_may_come_from_an_async_or_a_plain_callable(queue, is_async):
    given = []

    def plainly():
        given.append(threading.current_thread() is threading.main_thread())
        return "fresh"

    async def later():
        await asyncio.sleep(0)
        return plainly()

    async def main():
        async with looping() as http:
            token = later if is_async else plainly
            client = AsyncClient(queue.url, token, http=http)
            return await asyncio.gather(*(client.me() for _ in range(3)))

    assert [me["id"] for me in asyncio.run(main())] == ["fresh"] * 3
    assert given == [is_async] * 3  # what blocks must not block the loop


def test_a_bad_token_is_refused_when_the_client_is_made():
    with pytest.raises(errors.ConfigurationError, match="token"):
        AsyncClient("http://queue.example", "a b")


def test_a_forked_child_has_connections_of_its_own(queue):
    client = Client(queue.url, "t")
    client.me()
    child = os.fork()
    if child == 0:
        client.me()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    client.me()
    client.close()
    assert len(queue.asked("GET", "/v1/me")) == 3


def test_an_outage_that_a_child_meets_is_told_by_the_child(queue):
    client = Client(queue.url, "t")
    client.me()
    reader, writer = os.pipe()
    queue.fail_next("GET", "/v1/me", times=3, status=502)
    child = os.fork()
    if child == 0:
        handler = logging.StreamHandler(os.fdopen(writer, "w"))
        logging.getLogger("jobroom.client").addHandler(handler)
        client.me()
        handler.flush()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        assert [line.split()[0] for line in told] == ["server.away", "server.back"]
    assert os.waitpid(child, 0)[1] == 0
    client.close()


def test_the_client_that_blocks_needs_no_event_loop():
    program = "import sys, jobroom.client.sync_client; print('asyncio' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=live_server.environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
