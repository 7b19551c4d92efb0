"""``kill -9`` of ``jobroom sweep`` in the middle of a big sweep: the next one does the rest.

``JOBROOM_KILLS_SWEEPS`` (8) is how many sweeps are killed; each kill gets as much work as it needs
to fall into the middle, so a larger number takes longer and is otherwise the same.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections import Counter

import live_server
import pytest
from kill_store import Store

from jobroom.cli.main import SWEPT
from jobroom.domain.records import Caller
from jobroom.service import claiming, registration, reporting, submission
from jobroom.service import workers as crew
from jobroom.service.queue import JobQueue

KILLS = int(os.environ.get("JOBROOM_KILLS_SWEEPS", "8"))
HOUR = 3_600_000_000
SECOND = 1_000_000
ADMIN = Caller("crew", is_admin=True)
HELD_BY_EACH = 20
LONGEST_SECONDS = 60
SIZES = {
    "Fail": 100 * KILLS,
    "Requeue": 100 * KILLS,
    "Overdue": 50 * KILLS,
    "Expired": 200 * KILLS,
    "Old": 400 * KILLS,
}
POLICIES = {
    "Fail": {"on_worker_lost": "fail"},
    "Requeue": {"on_worker_lost": "requeue", "max_attempts": 3},
    "Overdue": {"timeout_seconds": 1.0},
    "Expired": {},
    "Old": {"result_ttl_seconds": 1.0},
}
ORPHANS = 30 * KILLS


@pytest.fixture
def store(settings):
    """An hour ago everybody was here, and left everything that a sweep has to do."""
    with JobQueue.open(settings, clock_offset=-HOUR) as queue:
        alive = queue.run(_fill)
        queue.clock_offset = 0
        queue.run(crew.heartbeat, caller=ADMIN, worker_id=alive)
    return Store(settings.database_url.removeprefix("sqlite:///"))


def _fill(tx):
    """Running tasks of lost workers, overdue, expired and old ones; jobs that nobody serves."""
    for number in range(ORPHANS):
        _register(tx, f"Orphan{number}")
    for name in ("Fail", "Requeue"):
        for _ in range(SIZES[name] // HELD_BY_EACH):
            _hold(tx, name, HELD_BY_EACH)
    worker, old = _hold(tx, "Old", SIZES["Old"])
    for found in old:
        ended = reporting.Report(status="completed", attempt=1)
        reporting.report(tx, caller=ADMIN, task_id=found.task.id, report=ended)
    crew.delete_worker(tx, caller=ADMIN, worker_id=worker)
    _submit(tx, _register(tx, "Expired"), SIZES["Expired"], expires_at=tx.now + SECOND)
    alive, _ = _hold(tx, "Overdue", SIZES["Overdue"])
    return alive


def _register(tx, name, worker_id=None):
    spec = registration.JobSpec("modifiers", name, **POLICIES.get(name, {}))
    worker_id = worker_id or crew.create_worker(tx, caller=ADMIN, name=None).worker.id
    done = registration.register_job(tx, caller=ADMIN, room_id="r1", spec=spec, worker_id=worker_id)
    return done.view.job


def _submit(tx, job, number, **more):
    new = submission.NewTask("{}", **more)
    for _ in range(number):
        submission.submit_task(tx, caller=ADMIN, room_id="r1", job=job, new=new)


def _hold(tx, name, number):
    """A new worker that runs so many new tasks; its id and these."""
    worker = crew.create_worker(tx, caller=ADMIN, name=None).worker.id
    _submit(tx, _register(tx, name, worker), number)
    held = claiming.claim_tasks(tx, caller=ADMIN, worker_id=worker, limit=number, start=True)
    assert len(held) == number
    return worker, held


def sweep(store):
    settings = {
        "database_url": f"sqlite:///{store.path}",
        "worker_timeout_seconds": 300,
        "sweeper_interval_seconds": 0,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "jobroom.cli.main", "sweep"],
        env=live_server.environment(**settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished_sweep(store):
    """What a sweep that nobody kills says of itself."""
    with sweep(store) as process:
        output, _ = process.communicate(timeout=LONGEST_SECONDS)
    printed = dict(re.findall(r"^(.+): (\d+)$", output, re.MULTILINE))
    return {name: int(printed[words]) for name, words in SWEPT.items()}


def done(store):
    """What sweeps have committed so far, in the words of a sweep's report."""
    tasks = Counter()
    for row in store.rows(
        "SELECT job.name AS job, status, count(*) AS n FROM task"
        " JOIN job ON job.seq = job_seq GROUP BY job.name, status"
    ):
        tasks[row.job, row.status] = row.n
    workers = SIZES["Fail"] // HELD_BY_EACH + SIZES["Requeue"] // HELD_BY_EACH + ORPHANS + 2
    return {
        "lost_workers": workers - store.count("worker"),
        "requeued_tasks": tasks["Requeue", "pending"],
        "failed_tasks": tasks["Fail", "failed"] + tasks["Overdue", "failed"],
        "timed_out_tasks": tasks["Overdue", "failed"],
        "expired_tasks": tasks["Expired", "failed"],
        "hidden_jobs": store.count("job WHERE hidden = 1"),
        "stuck_tasks": 0,
        "removed_tasks": SIZES["Old"] - tasks["Old", "completed"],
        "fired_schedules": 0,
    }


ALL = {
    "requeued_tasks": SIZES["Requeue"],
    "failed_tasks": SIZES["Fail"] + SIZES["Overdue"],
    "timed_out_tasks": SIZES["Overdue"],
    "expired_tasks": SIZES["Expired"],
    "removed_tasks": SIZES["Old"],
}
UNTOUCHED = {
    **dict.fromkeys(("Fail", "Requeue", "Overdue"), ("running", 2, 1, True, False, None)),
    "Expired": ("pending", 1, 0, False, False, None),
    "Old": ("completed", 3, 1, True, True, None),
}
SETTLED = {
    "Fail": ("failed", 3, 1, True, True, "Worker disconnected: worker "),
    "Overdue": ("failed", 3, 1, True, True, "Task timed out while running "),
    "Requeue": ("pending", 3, 1, False, False, None),
    "Expired": ("failed", 2, 0, False, True, "The task expired: "),
}
"""Status, writes, attempt, has a worker, has ended, how the error begins: of each job's tasks."""


def check_nothing_is_half_done(store):
    """Each task is as it was, or as it should be; who lost one has a notice of it."""
    assert store.is_whole()
    told = {row.task_id for row in store.rows("SELECT * FROM notice")}
    taken = 0
    for row in store.tasks().values():
        ended = row.completed_at is not None
        shape = (row.status, row.version, row.attempt, row.worker_id is not None, ended)
        settled = SETTLED.get(row.job)
        if shape == UNTOUCHED[row.job][:-1]:
            assert row.error is None
            assert row.id not in told
            continue
        assert shape == settled[:-1], row
        assert (row.error or "").startswith(settled[-1] or "")
        assert ended == (row.due_at is not None)
        taken += row.job in {"Fail", "Overdue", "Requeue"}
    assert len(told) == taken


def until_in_the_middle(opened, processes):
    """Wait until these have committed a step or two, and a little longer."""
    deadline = time.monotonic() + LONGEST_SECONDS
    before = commits = 0
    while commits < 3 and all(process.poll() is None for process in processes):
        assert time.monotonic() < deadline
        now = opened.execute("PRAGMA data_version").fetchone()[0]
        commits += now != before
        before = now
        time.sleep(0.001)
    time.sleep(random.uniform(0, 0.08))


def test_what_a_killed_sweep_left_is_done_by_the_next(store, processes, tally):
    """Contract, *The sweep*: bounded, safe to run twice at once and to be cut off at any point."""
    in_the_middle = 0
    for number in range(KILLS):
        with store.open() as opened:
            running = [sweep(store) for _ in range(1 + number % 2)]
            processes += running
            until_in_the_middle(opened, running)
        for process in running:
            process.kill()
            in_the_middle += process.wait() < 0
            process.stdout.close()
        check_nothing_is_half_done(store)
    before = done(store)
    counted = finished_sweep(store)
    check_nothing_is_half_done(store)
    after = done(store)
    assert {name: after[name] for name in ALL} == ALL
    rest = {name: after[name] - before[name] for name in SWEPT}
    assert counted == rest
    assert set(finished_sweep(store).values()) == {0}
    tally(
        killed_in_the_middle=in_the_middle, committed=sum(after.values()), rest=sum(rest.values())
    )
