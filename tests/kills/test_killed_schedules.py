"""Four sweeps fire hundreds of schedules together, two are killed in the middle: each once."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter

import live_server
import pytest
from kill_store import Store

from jobroom.domain.records import Caller
from jobroom.service import registration, scheduling
from jobroom.service.queue import JobQueue
from jobroom.service.standing import StandingTask

HOUR = 3_600_000_000
SCHEDULES = 500
ALICE = Caller("alice")
LONGEST_SECONDS = 60


@pytest.fixture
def store(settings):
    """Two hours ago schedules were put that fire every ninety minutes."""
    with JobQueue.open(settings, clock_offset=-2 * HOUR) as queue:
        queue.run(_fill)
    return Store(settings.database_url.removeprefix("sqlite:///"))


def _fill(tx):
    spec = registration.JobSpec("modifiers", "Rotate")
    job = registration.register_job(tx, caller=ALICE, room_id="r1", spec=spec).view.job
    for number in range(SCHEDULES):
        wanted = scheduling.ScheduleSpec(
            f"n{number}", StandingTask(checked_version=1), every_seconds=5400.0
        )
        scheduling.put_schedule(tx, caller=ALICE, room_id="r1", job=job, spec=wanted)


def sweep(store):
    settings = {"database_url": f"sqlite:///{store.path}", "sweeper_interval_seconds": 0}
    return subprocess.Popen(
        [sys.executable, "-m", "jobroom.cli.main", "sweep"],
        env=live_server.environment(**settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_four_sweeps_of_which_two_are_killed_fire_each_schedule_once(store, processes, tally):
    """Each transaction moves a hundred schedules on and adds their tasks, or neither."""
    processes += [sweep(store) for _ in range(4)]
    deadline = time.monotonic() + LONGEST_SECONDS
    while store.count("task") == 0 and time.monotonic() < deadline:
        time.sleep(0.001)
    for killed in processes[:2]:
        killed.kill()
        killed.communicate()
    at_the_kill = store.count("task")
    said = [process.communicate(timeout=LONGEST_SECONDS)[0] for process in processes[2:]]
    assert [process.returncode for process in processes[2:]] == [0, 0], said
    last = sweep(store)
    processes.append(last)
    last.communicate(timeout=LONGEST_SECONDS)
    tasks = {row.id: row.key for row in store.rows("SELECT id, key FROM task")}
    assert Counter(tasks.values()) == {f"n{number}": 1 for number in range(SCHEDULES)}
    for row in store.rows("SELECT * FROM schedule"):
        assert tasks[row.last_task_id] == row.name
        assert (row.version, row.last_error) == (2, None)
        assert row.next_at == row.created_at + 3 * HOUR
    assert store.is_whole()
    tally(schedules=SCHEDULES, tasks=len(tasks), at_the_kill=at_the_kill)
