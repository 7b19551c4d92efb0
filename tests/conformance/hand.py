"""A second process on a store: ``python hand.py URL``; does what each line of its input asks.

A line is ``[name, {arguments}]`` in JSON, and so is each answer.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from desk import Desk
from plots import Node, plant

from jobroom.domain.records import Caller
from jobroom.errors import JobroomError
from jobroom.service import registration, reporting
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings


def now(desk):
    return desk.now()


def wait(desk, seconds):
    desk.wait(seconds)


def beat(desk, who):
    desk.beat(Caller(who))


def sweep(desk):
    return desk.sweep()._asdict()


def submit(desk, who, job, **new):
    found = desk.queue.run(registration.find_job, caller=Caller(who), room_id="r1", full_name=job)
    return desk.submit(Caller(who), found, **new)._asdict()


def cancel(desk, who, task_id):
    [task] = [view.task for view in desk.list(Caller(who))[0] if view.task.id == task_id]
    return desk.report(Caller(who), task, "cancelled").status


def claim_all(desk, workers, limit):
    """Claim with so many threads as there are workers until each gets nothing."""
    together = threading.Barrier(len(workers), timeout=30)

    def claim(worker):
        claims = []
        together.wait()
        while not claims or claims[-1][0]:
            sent = time.monotonic()
            got = desk.claim(Caller("alice"), worker, limit=limit)
            claims.append([[task.id for task in got], sent, time.monotonic()])
        return claims

    with ThreadPoolExecutor(len(workers)) as pool:
        return [claim for claims in pool.map(claim, workers) for claim in claims]


def end(desk, at, who, task_id, status):
    """Report the end of a task at a moment of the clock that all processes share."""
    said = {"error": "boom", "final": True} if status == "failed" else {}
    report = reporting.Report(status, **said)
    time.sleep(max(0.0, at - time.monotonic()))
    try:
        done = desk.queue.run(reporting.report, caller=Caller(who), task_id=task_id, report=report)
    except JobroomError as error:
        return error.slug
    return done.view.task.status


def depend(desk, at, *, who, job, task_id, needs):
    """Add a task that depends on others, at a moment; its status."""
    found = desk.queue.run(registration.find_job, caller=Caller(who), room_id="r1", full_name=job)
    nodes = [Node(task_id, tuple(map(tuple, needs)))]
    time.sleep(max(0.0, at - time.monotonic()))
    return desk.queue.run(plant, job=found, identity=who, nodes=nodes)[0].task.status


def sweep_at(desk, at):
    time.sleep(max(0.0, at - time.monotonic()))
    return desk.sweep().failed_tasks


COMMANDS = {
    each.__name__: each
    for each in (now, wait, beat, sweep, submit, cancel, claim_all, end, depend, sweep_at)
}


def main(url):
    with JobQueue.open(JobLibSettings(database_url=url, sqlite_synchronous="NORMAL")) as queue:
        print("ready", flush=True)  # noqa: T201
        for line in sys.stdin:
            name, arguments = json.loads(line)
            print(json.dumps(COMMANDS[name](Desk(queue), **arguments)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
