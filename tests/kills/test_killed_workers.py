"""``kill -9`` of SDK workers: each task ends once, by its job's policy; only starts are charged."""

from __future__ import annotations

import random

import pytest
from kill_crew import Crew, register, submit, until
from kill_store import Store, result_of

WORKERS = 4
TASKS_A_KILL = 3
KILLS = 12
TASK_SECONDS = 0.25
SETTINGS = {"worker_timeout_seconds": 2, "sweeper_interval_seconds": 0.5}
POLICIES = {
    "fail": {"on_worker_lost": "fail"},
    "requeue": {"on_worker_lost": "requeue", "max_attempts": 2},
}


@pytest.fixture
def server(start):
    return start(**SETTINGS).until_ready()


def kill_some(crew, client):
    """Kill workers while there is always more to do; returns the tasks.

    Every other kill hits a worker in the middle of a task, the others any moment.
    """
    tasks, workers = submit(client, "Lost", WORKERS), [crew.start() for _ in range(WORKERS)]
    for number in range(KILLS):
        tasks += submit(client, "Lost", TASKS_A_KILL)
        until(lambda: any(map(crew.is_busy, workers)))
        busy = [worker for worker in workers if crew.is_busy(worker)]
        victim = random.choice(busy if number % 2 and busy else workers)
        victim.kill()
        victim.wait()
        workers[workers.index(victim)] = crew.start()
    return tasks


@pytest.mark.parametrize("policy", ["fail", "requeue"])
def test_tasks_of_killed_workers_end_once_by_the_policy(server, processes, tmp_path, tally, policy):
    """Contract, *Losing a worker*."""
    store = Store(tmp_path / "jobroom.db")
    crew = Crew(tmp_path, processes, server, job="Lost", seconds=TASK_SECONDS, **POLICIES[policy])
    with server.client() as client:
        register(client, "Lost", **POLICIES[policy])
        tasks = kill_some(crew, client)
    until(lambda: store.statuses().keys() <= {"completed", "failed"}, what="a task never ended")
    rows = store.tasks()
    assert sorted(rows) == sorted(tasks)
    for row in rows.values():
        {"fail": check_failed, "requeue": check_requeued}[policy](row)
        check_writes(row, crew)
    tally(
        kills=KILLS,
        tasks=len(tasks),
        completed=sum(row.status == "completed" for row in rows.values()),
        failed=sum(row.status == "failed" for row in rows.values()),
        attempts=sum(row.attempt for row in rows.values()),
        starts=sum(row.starts for row in rows.values()),
    )


def check_failed(row):
    # Not the attempt: a claim answered to a worker that is gone is given back, and raises it.
    assert row.starts <= 1
    if row.status == "failed":
        assert row.error.startswith("Worker disconnected: worker ")


def check_requeued(row):
    if row.status == "failed":
        assert row.starts == 2
        assert row.error.startswith("Worker disconnected: worker ")
        assert "(start 2 of 2" in row.error
    assert row.starts <= 2


def check_writes(row, crew):
    """Once submitted, each attempt claimed and ended once, each start charged once: no more."""
    assert row.version == 1 + 2 * row.attempt + row.starts
    # A worker may die between the start that the store charged and its own note of it.
    assert crew.begun()[row.id] <= row.starts <= row.attempt
    if row.status == "completed":
        pid = result_of(row)["pid"]
        assert (row.id, row.attempt) in crew.lines("end", pid)


def test_only_the_task_that_ran_is_charged_for_a_killed_worker(server, processes, tmp_path):
    """C08: one running and nine claimed ahead: of those none is charged."""
    store, policy = Store(tmp_path / "jobroom.db"), POLICIES["requeue"]
    with server.client() as client:
        register(client, "Ahead", **policy)
        tasks = submit(client, "Ahead", 10)
    crew = Crew(tmp_path, processes, server, job="Ahead", seconds=600, **policy)
    victim = crew.start(ahead=10)
    until(lambda: crew.is_busy(victim))
    assert store.statuses() == {"running": 1, "claimed": 9}
    victim.kill()
    until(lambda: store.statuses() == {"pending": 10})
    assert charges(store, tasks) == [(1, 1)] + [(0, 1)] * 9
    Crew(tmp_path, processes, server, job="Ahead", seconds=0, **policy).start()
    until(lambda: store.statuses() == {"completed": 10})
    assert charges(store, tasks) == [(2, 2)] + [(1, 2)] * 9


def charges(store, tasks):
    rows = store.tasks()
    return [(rows[task_id].starts, rows[task_id].attempt) for task_id in tasks]
