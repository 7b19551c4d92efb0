"""What the tests of storage faults and clocks share: servers, commands, and a summary."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import live_server
import pytest
from faultkit import BOUNDED

HERE = Path(__file__).parent


@pytest.fixture
def start(tmp_path):
    """Start servers on one file in ``tmp_path``; all are killed at the end."""
    with ExitStack() as stack:

        def started(folder=tmp_path, **settings):
            server = live_server.Server(folder, jwt_secret=live_server.SECRET, **settings)
            return stack.enter_context(server)

        yield started


@pytest.fixture(scope="session")
def run():
    """Run ``uvicorn`` or ``jobroom`` in a process of its own, bound by file permissions."""
    process = subprocess.Popen(
        [*BOUNDED, sys.executable, HERE / "forks.py"],
        env=live_server.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ran(*argv, folder, largest=None, **settings):
        environment = live_server.environment(**settings)
        command = {"argv": argv, "folder": str(folder), "largest": largest}
        process.stdin.write(json.dumps({**command, "environment": environment}) + "\n")
        process.stdin.flush()
        return SimpleNamespace(**json.loads(process.stdout.readline()))

    with process:
        yield ran
        process.stdin.close()
