"""Runs a worker program of a few lines in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import jobroom

LONGEST_SECONDS = 60
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


def run_program(server, body, *, signal_at_claim=None):
    """Run the body, in which ``jobs`` serves ``Rotate`` by calling ``work``, to its end.

    ``signal_at_claim`` is sent when the program waits for work.
    """
    process = subprocess.Popen(
        [
            *(sys.executable, "-W", "ignore::DeprecationWarning", "-c"),
            HEAD + textwrap.dedent(body),
        ],
        env={
            **os.environ,
            "JOBROOM_URL": server.url,
            "JOBROOM_TOKEN": "admin",
            "PYTHONPATH": str(Path(jobroom.__file__).parent.parent),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if signal_at_claim is not None:
            server.until(lambda: server.asked("POST", "/claim"), LONGEST_SECONDS)
            process.send_signal(signal_at_claim)
        out, err = process.communicate(timeout=LONGEST_SECONDS)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
