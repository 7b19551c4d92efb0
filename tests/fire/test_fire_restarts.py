"""The server is stopped, killed and started again while workers work."""

from __future__ import annotations

import threading

import live_server
import pytest
from faultproxy import Proxy
from workshop import Workshop, until


@pytest.fixture(scope="module")
def own_server(tmp_path_factory):
    """A server to be ended; no restart takes so long that a worker is lost meanwhile."""
    settings = {
        "jwt_secret": live_server.SECRET,
        "worker_timeout_seconds": 60,
        "sweeper_interval_seconds": 0.5,
    }
    with live_server.Server(tmp_path_factory.mktemp("own"), **settings) as server:
        yield server.until_ready()


@pytest.fixture
def own(own_server, request):
    with (
        Proxy(own_server.port) as proxy,
        Workshop(own_server, proxy, request.node.name) as shop,
    ):
        yield shop


def test_work_goes_on_over_sigterm_and_sigkill(own, told):
    """Nothing lost, nothing done twice; two lines a restart, and no worker is lost."""
    begun, release = threading.Event(), threading.Event()
    starts = []

    def work(one):
        starts.append(one.number)
        if one.number < 2:
            begun.set()
            assert release.wait(60)
        return one.number

    worker = own.hire(work)
    worker_id = worker.jobs.worker.id
    for number, end in enumerate((own.server.stop, own.server.kill)):
        task_id = own.submit(number)
        assert begun.wait(30)
        end()
        release.set()  # the report is made in the outage
        until(lambda: len(told.of("server.away")) == number + 1)  # noqa: B023
        begun.clear()
        release.clear()
        own.server.start().until_ready()
        done = own.until_status(task_id, "completed")
        assert (done["result"], done["attempt"], done["starts"]) == (number, 1, 1)
        until(lambda: len(told.of("server.back")) == number + 1)  # noqa: B023
    after = own.submit(9)
    assert own.until_status(after, "completed")["result"] == 9
    assert starts == [0, 1, 9]
    assert told.events == ["server.away", "server.back"] * 2
    assert worker.jobs.worker.id == worker_id
    assert worker.error is None


def test_a_server_that_comes_back_without_its_data_is_registered_with_anew(own, told):
    """As after a restored backup: the worker is unknown, comes back, and goes on.

    A program that was started while there was no server waits for it and goes on as well.
    """
    worker = own.hire()
    own.until_status(own.submit(1), "completed")
    own.server.kill()
    until(lambda: told.of("server.away"))
    for path in own.server.folder.glob("jobroom.db*"):
        path.unlink()
    early = own.run()
    until(lambda: any(line.startswith("server.away") for line in early.err))
    own.server.start().until_ready()
    assert own.until_status(own.submit(2), "completed")["result"] == 2
    until(lambda: len(own.workers()) == 2)
    assert told.events.count("worker.lost") == 1
    until(lambda: told.of("server.back"))
    assert told.of("server.") == ["server.away", "server.back"]
    assert worker.error is None
