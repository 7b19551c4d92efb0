"""Number 4 of the ten to try first: 200 SDK workers that are killed within a second each.

``JOBROOM_KILLS_PROGRAMS`` (20) is how many programs they are spread over: 200 starts a Python for
each of them, as a crashing pod does, and takes minutes on a small machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import kill_crash_loop
import pytest
from kill_crew import HERE, Crew, environment, register, submit, until
from kill_store import Store, result_of

CRASHES = 200
PROGRAMS = int(os.environ.get("JOBROOM_KILLS_PROGRAMS", "20"))
AT_ONCE = 10
STUCK_TASKS, AGAIN_TASKS, SHARED_TASKS = 10, 5, 100
TIMEOUT_SECONDS = 6
LONGEST_SECONDS = 300


@pytest.fixture
def server(start):
    return start(worker_timeout_seconds=TIMEOUT_SECONDS, sweeper_interval_seconds=0.5).until_ready()


def crash_loops(server, processes):
    """All crashes, some of them at a time; call it until it says True."""
    waiting = [CRASHES // PROGRAMS] * PROGRAMS
    running = []

    def are_over():
        running[:] = [process for process in running if process.poll() is None]
        while waiting and len(running) < AT_ONCE:
            command = [sys.executable, HERE / "kill_crash_loop.py", server.url, str(waiting.pop())]
            # A group of its own: should this test fail, its forks end with it.
            running.append(subprocess.Popen(command, env=environment(), start_new_session=True))
            processes.append(running[-1])
        return not (waiting or running)

    return are_over


def names_of(client):
    page = client.get("/v1/joblib/rooms/r1/jobs", params={"limit": 500}).json()
    return {job["name"] for job in page["items"]}


def test_200_crashing_workers_leave_nothing_and_disturb_nobody(server, processes, tmp_path, tally):
    """C13, C14: ghosts are swept with what they held; two workers of one job each get tasks, and
    stopping one of them disturbs nothing."""
    store, began = Store(tmp_path / "jobroom.db"), time.monotonic()
    with server.client() as client:
        for job, policy in kill_crash_loop.POLICIES.items():
            register(client, job, **policy)
            submit(client, job, STUCK_TASKS if job in kill_crash_loop.STUCK else AGAIN_TASKS)
        register(client, "Shared")
        submit(client, "Shared", SHARED_TASKS)
    crew = Crew(tmp_path, processes, server, job="Shared", seconds=0.1)
    healthy = [crew.start() for _ in range(2)]
    are_over = crash_loops(server, processes)
    are_over()
    until(lambda: all(crew.lines("end", worker.pid) for worker in healthy))
    healthy[0].send_signal(signal.SIGTERM)
    assert healthy[0].wait(LONGEST_SECONDS) in {0, -signal.SIGTERM}
    until(are_over, seconds=LONGEST_SECONDS)
    until(
        lambda: {row.status for row in store.tasks("Shared").values()} == {"completed"},
        seconds=LONGEST_SECONDS,
    )
    check_shared(store, healthy)
    healthy[1].send_signal(signal.SIGTERM)
    healthy[1].wait(LONGEST_SECONDS)
    with server.client() as client:
        gone = TIMEOUT_SECONDS * 5
        until(lambda: client.get("/v1/joblib/workers").json()["total"] == 0, seconds=gone)
        until(lambda: names_of(client) == awaited(store), seconds=gone)
    assert store.count("task WHERE status IN ('claimed', 'running')") == 0
    assert store.count("worker WHERE state = 'active'") == 0
    check_crashed(store)
    assert store.is_whole()
    attempts = sum(row.attempt for row in store.tasks().values())
    tally(
        crashes=CRASHES,
        programs=PROGRAMS,
        attempts=attempts,
        failed=store.statuses()["failed"],
        pending=store.statuses()["pending"],
        completed=store.statuses()["completed"],
        seconds=round(time.monotonic() - began),
    )


def awaited(store):
    """The jobs with tasks that wait."""
    return {row.job for row in store.tasks().values() if row.status == "pending"}


def check_shared(store, healthy):
    """Every task of the healthy ones ran once, by one of them."""
    rows = store.tasks("Shared").values()
    assert {(row.starts, row.error) for row in rows} == {(1, None)}
    pids = Counter(result_of(row)["pid"] for row in rows)
    assert pids.keys() == {worker.pid for worker in healthy}


def check_crashed(store):
    """What a crashed worker ran has failed or waits, by its job's policy; nothing was finished."""
    for row in store.tasks().values():
        if row.job in kill_crash_loop.STUCK:
            # A claim may have been answered to nobody: given back, it counts as an attempt.
            assert (row.status, row.starts) in {("failed", 1), ("failed", 0), ("pending", 0)}
            lost = "Worker disconnected: worker " if row.status == "failed" else ""
            assert (row.error or "").startswith(lost)
        elif row.job in kill_crash_loop.AGAIN and row.status != "pending":
            # Ten claims that were never started end a task (contract, *Losing a worker*).
            assert row.status == "failed"
            assert row.error.endswith("times and never started.")
        if row.job != "Shared":
            assert row.version == 1 + 2 * row.attempt + row.starts
