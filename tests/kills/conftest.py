"""What the tests of killed processes share: where they run, and a summary of their counts."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from types import SimpleNamespace

import live_server
import pytest

TALLY = pytest.StashKey[list[str]]()


def pytest_configure(config):
    config.stash[TALLY] = []


def pytest_terminal_summary(terminalreporter, config):
    """Print the counts: a test that passed says nothing of how much it went through."""
    lines = config.stash.get(TALLY, [])
    if lines:
        terminalreporter.section("killed processes")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def tally(request):
    """Call it with what is to be printed at the end of the run."""
    name = request.node.name

    def note(**counts):
        said = " ".join(f"{key}={value}" for key, value in counts.items())
        request.config.stash[TALLY].append(f"{name}: {said}")

    return note


@pytest.fixture
def start(tmp_path):
    """Start servers on one file in ``tmp_path``; all are killed at the end."""
    with ExitStack() as stack:

        def started(**settings):
            server = live_server.Server(tmp_path, jwt_secret=live_server.SECRET, **settings)
            return stack.enter_context(server)

        yield started


@pytest.fixture
def processes():
    """A list: what is put into it is killed at the end, with its group if it leads one."""
    running = []
    yield running
    for process in running:
        if process.poll() is None:
            leads = os.getpgid(process.pid) == process.pid
            (os.killpg if leads else os.kill)(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def place(start, processes, tmp_path):
    """All of these in one."""
    return SimpleNamespace(start=start, processes=processes, folder=tmp_path)
