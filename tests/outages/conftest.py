"""What the tests of network stores' outages share: stores, and servers on them."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack

import live_server
import pytest
from outage_place import KINDS, Place


@pytest.fixture(scope="session", params=KINDS)
def place(request):
    """A store of each kind; what one test leaves in it is nothing to the next."""
    with Place(request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def start(place, tmp_path_factory):
    """Start servers on the store, behind its proxy; all are killed at the end."""
    with ExitStack() as stack:

        def started(**settings):
            given = {"database_url": place.url, "sweeper_interval_seconds": 0, **settings}
            folder = tmp_path_factory.mktemp("server")
            server = live_server.Server(folder, jwt_secret=live_server.SECRET, **given)
            return stack.enter_context(server)

        yield started


@pytest.fixture
def processes():
    """A list: what is put into it is killed at the end."""
    running = []
    yield running
    for process in running:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
