"""Memory, threads and sockets stay what they were over many outages."""

from __future__ import annotations

import gc
import os
import threading
import tracemalloc

import faultproxy as fp
from workshop import DEEP, until

ROUNDS = 200 if DEEP else 3
MOST_BYTES_A_ROUND = 4096
RECEIVING_BYTES = 64 * 1024
KINDS = [fp.RESET_BEFORE, fp.SWALLOW, fp.page(502)]


def sdk_threads():
    return sorted(one.name for one in threading.enumerate() if one.name.startswith("jobroom"))


def open_files():
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # a count


def outage(shop, told, kind):
    told.clear()
    with shop.proxy.failing(kind):
        shop.proxy.reset_all()
        until(lambda: told.of("server.away"))
    until(lambda: told.of("server.back"))
    shop.until_status(shop.submit(1), "completed")
    shop.proxy.seen.clear()


def test_they_are_flat_over_many_outages(shop, told):
    worker = shop.hire()
    tracemalloc.start()
    try:
        for kind in KINDS:
            outage(shop, told, kind)
        worker.runs.clear()
        gc.collect()
        threads, files, before = sdk_threads(), open_files(), sdk_bytes()
        for number in range(ROUNDS):
            outage(shop, told, KINDS[number % len(KINDS)])
            worker.runs.clear()
        gc.collect()
        grown = sdk_bytes() - before
    finally:
        tracemalloc.stop()
    assert sdk_threads() == threads == ["jobroom-claim", "jobroom-heartbeat"]
    assert open_files() <= files + 4
    assert grown < ROUNDS * MOST_BYTES_A_ROUND
    assert not list(worker.jobs.worker.holds)
    assert len(worker.stream._looks) <= 2
    assert len(worker.jobs.worker._claimers) <= 2
    assert not worker.api.troubles.outage._met_by


def sdk_bytes():
    """What is alive of all that the SDK's own lines have allocated.

    Not the room that a thread has made for an answer it waits for: it shrinks to what comes.
    """
    traces = tracemalloc.take_snapshot().traces
    own = [one for one in traces if in_sdk(one.traceback[0].filename)]
    return sum(one.size for one in own if one.size < RECEIVING_BYTES)


def in_sdk(filename):
    return "jobroom/client" in filename or "httpx" in filename or "httpcore" in filename
