"""Sweeps in a process of its own that can stop itself (SIGSTOP) at a known place of one.

Says "ready" when the file is open. Then it sweeps once for each line on stdin, which names the
place, and prints the counts as JSON. Places: "never"; "verdict" (workers may be judged, none is
read yet); "read" (in the transaction that has read who is stale and has written nothing); "step"
(one batch is committed, the next not begun).
"""

from __future__ import annotations

import json
import os
import signal
import sys

from jobroom.service import sweeping
from jobroom.service.queue import JobQueue
from jobroom.settings import read_settings
from jobroom.store import workers

BEFORE_STEP = {"verdict": 1, "step": 2}


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


class PausingQueue(JobQueue):
    """A queue whose sweep stops before its so-maniest step that loses workers."""

    stop_before = 0
    steps = 0

    def run(self, use_case, /, *args, **kwargs):
        if use_case is sweeping.lose_workers:
            self.steps += 1
            if self.steps == self.stop_before:
                stop()
        return super().run(use_case, *args, **kwargs)


def stop_after_the_read():
    read = workers.list_stale

    def read_and_stop(*args, **kwargs):
        found = read(*args, **kwargs)
        workers.list_stale = read
        stop()
        return found

    workers.list_stale = read_and_stop


def main():
    with PausingQueue.open(read_settings()) as queue:
        print("ready", flush=True)  # noqa: T201
        for line in sys.stdin:
            place = line.strip()
            queue.steps, queue.stop_before = 0, BEFORE_STEP.get(place, 0)
            if place == "read":
                stop_after_the_read()
            print(json.dumps(queue.sweep()._asdict()), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
