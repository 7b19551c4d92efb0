"""A fake server for each test that asks for one, and managers that never outlive their test."""

from __future__ import annotations

import httpx
import pytest
from colours import COLOURS
from fake_queue import FakeQueue
from fake_server import FakeServer

from jobroom.client.connection import Connection
from jobroom.client.manager import JobManager


@pytest.fixture
def server():
    with FakeServer().running() as running:
        yield running


@pytest.fixture
def connect(server):
    """Make managers for the server, each with its own connection; all leave at the end."""
    made = []

    def make(token="admin"):
        # Nothing is encrypted here, and reading the root certificates takes longer than a test.
        connection = Connection(server.url, token, http=httpx.Client(verify=False))  # noqa: S501
        manager = JobManager(connection)
        made.append((manager, connection))
        return manager

    yield make
    server.calm()
    for manager, connection in made:
        manager.close()
        connection.http.close()


@pytest.fixture
def jobs(connect):
    return connect()


@pytest.fixture
def queue():
    """A server that works by itself, as a test tells it."""
    with FakeQueue().running() as running:
        yield running


@pytest.fixture(params=COLOURS, ids=lambda colour: colour.name)
def colour(request):
    """Blocking, and asyncio: what a test says of one client holds for both."""
    made = request.param()
    yield made
    made.close()


@pytest.fixture
def client(queue, colour):
    made = colour.client(queue.url, "t", http=colour.http())
    yield made
    queue.calm()
    made.close()


class Vis:
    """A host application as a worker sees it."""

    def __init__(self, jobs):
        self.jobs = jobs
        self.log = []


@pytest.fixture
def vis(jobs):
    return Vis(jobs)


@pytest.fixture
def home(monkeypatch, tmp_path):
    """An empty folder for settings of this user's, who has none in the environment."""
    for name in ("JOBROOM_URL", "JOBROOM_TOKEN", "JOBROOM_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path
