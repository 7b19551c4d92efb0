"""A worker that crashes again and again: ``kill_crash_loop.py URL TIMES``.

Each time is a process of its own (a fork made before anything is connected, which spares it the
imports): it registers five jobs and serves, and is killed within a second, as
``timeout -s KILL 1 python worker.py &`` in a loop does it. Every other second begins when it
serves, else a busy machine would never let one come so far.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time

import live_server

from jobroom import Connection, Extension, JobManager

LONGEST_SECONDS = 60
HALF = 0.5
STUCK = ("Crash1", "Crash2", "Crash3")
"""Jobs that fail the tasks of a lost worker."""
AGAIN = ("Crash4", "Crash5")
"""Jobs that requeue them, without end."""
POLICIES = {
    **{name: {"on_worker_lost": "fail"} for name in STUCK},
    **{name: {"on_worker_lost": "requeue", "max_attempts": 1000} for name in AGAIN},
}


def run(self, vis, **kwargs):
    time.sleep(600)


CLASSES = [type(name, (Extension,), {"run": run, "__module__": __name__}) for name in POLICIES]


def serve(url, serving):
    jobs = JobManager(Connection(url, live_server.token_of("pod", is_admin=True)))
    for cls in CLASSES:
        jobs.register(cls, room="r1", **POLICIES[cls.__name__])
    stream = jobs.listen()
    os.write(serving, b"!")
    for task in stream:
        task.run()


def crash(url, *, when_serving):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        serve(url, writer)
    if when_serving:
        select.select([reader], [], [], LONGEST_SECONDS)
    time.sleep(random.uniform(0, 1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)


def main(url, times):
    for number in range(int(times)):
        crash(url, when_serving=random.random() < HALF if times == "1" else number % 2)


if __name__ == "__main__":
    main(*sys.argv[1:])
