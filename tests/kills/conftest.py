"""What the tests of killed processes share: where they run, and a summary of their counts."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from types import SimpleNamespace

import live_server
import pytest


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
