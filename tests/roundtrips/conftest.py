"""Queues of 1,000 and of 100,000 pending tasks on a real sqld."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest
import servers
from filled_site import SIZES, Site

from jobroom.settings import JobLibSettings
from jobroom.store import migrate
from jobroom.store.hrana.http import HranaHttp
from jobroom.store.libsql import LibSQL


@pytest.fixture(scope="module")
def sqld():
    with servers.Sqld(namespaces=True, in_memory=True) as server:
        server.start()
        server.create_namespace("migrated")
        database = LibSQL(JobLibSettings(database_url=server.url_of("migrated")))
        migrate.upgrade(database)
        database.close()
        yield server


@pytest.fixture(scope="module")
def sites(sqld):
    """The sites by how many tasks wait at them."""
    with ExitStack() as stack:
        found = {}
        for size in SIZES:
            sqld.fork_namespace("migrated", f"pending{size}")
            found[size] = Site(sqld.url_of(f"pending{size}"))
            stack.callback(found[size].queue.close)
            found[size].fill(size)
        yield found


@pytest.fixture
def transport_calls(monkeypatch):
    """When each request to a server was sent, by anybody in this process."""
    times = []
    exchange = HranaHttp._exchange

    def note(self, call, *rest):
        times.append((time.monotonic(), call))
        return exchange(self, call, *rest)

    monkeypatch.setattr(HranaHttp, "_exchange", note)
    return times
