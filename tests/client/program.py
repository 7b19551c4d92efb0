"""Runs a worker program of a few lines in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import jobroom

HEAD = textwrap.dedent("""
    import os, signal, sys
    from jobroom.client.connection import Connection
    from jobroom.client.extension import Extension
    from jobroom.client.manager import JobManager
    class Rotate(Extension):
        angle: float = 0.0
        def run(self, vis, **kwargs):
            return work(self)
    jobs = JobManager(Connection.from_env())
    jobs.register(Rotate, room="r1")
""")


def run_program(server, body):
    """Run the body, in which ``jobs`` serves ``Rotate`` by calling ``work``, to its end."""
    path = str(Path(jobroom.__file__).parent.parent)
    return subprocess.run(
        [
            *(sys.executable, "-W", "ignore::DeprecationWarning", "-c"),
            HEAD + textwrap.dedent(body),
        ],
        env={
            **os.environ,
            "JOBROOM_URL": server.url,
            "JOBROOM_TOKEN": "admin",
            "PYTHONPATH": path,
        },
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )
