"""Random lives of the embedded queue, after each step of which the file must add up."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from jobmaker import add, again, counts, fail, succeed, take

from jobroom.embedded import JobStatus, SqliteQueue

STEPS = 120
NAMES = [f"n{n}" for n in range(14)]
WRONG = {
    "a blocked job waits for something, and for nothing that is broken": """
        SELECT key FROM task WHERE status = 'blocked' AND (
            NOT EXISTS (SELECT 1 FROM edge WHERE dependent_seq = seq AND state = 'waiting')
            OR EXISTS (SELECT 1 FROM edge WHERE dependent_seq = seq AND state = 'broken'))""",
    "a ready job waits for nothing": """
        SELECT key FROM task WHERE status = 'pending' AND EXISTS (
            SELECT 1 FROM edge WHERE dependent_seq = seq AND state <> 'met')""",
    "an edge to a job that has not begun stands as its dependency does": """
        SELECT task.key, edge.state FROM edge JOIN task ON task.seq = dependent_seq
        LEFT JOIN task AS dependency ON dependency.id = dependency_id
        WHERE task.status IN ('blocked', 'pending') AND edge.state <>
            CASE WHEN dependency.completed_at IS NULL THEN 'waiting'
                 WHEN edge.condition = 'afterany' THEN 'met'
                 WHEN (edge.condition = 'afterok') = (dependency.status = 'completed') THEN 'met'
                 ELSE 'broken' END""",
    "who is waited for knows": """
        SELECT key FROM task WHERE has_dependents = 0 AND EXISTS (
            SELECT 1 FROM edge WHERE dependency_id = id)""",
    "who waits knows": """
        SELECT key FROM task WHERE has_dependencies = 0 AND EXISTS (
            SELECT 1 FROM edge WHERE dependent_seq = seq)""",
    "only who failed because of another says so": """
        SELECT key FROM task WHERE failed_by IS NOT NULL AND status <> 'failed'""",
}


def faults(path: Path) -> Iterator[str]:
    with closing(sqlite3.connect(path)) as connection:
        for rule, query in WRONG.items():
            if found := connection.execute(query).fetchall():
                yield f"{rule}: {found}"


def step(queue: SqliteQueue, chance: random.Random) -> str:
    """One thing that somebody might do; what it was."""
    name = chance.choice(NAMES)
    known = [each for status in JobStatus for each in queue.get_job_ids_with_status(status)]
    what = chance.choices(
        ["add", "child", "take", "end", "again", "force", "deadlock"], [8, 4, 6, 8, 4, 1, 1]
    )[0]
    if what in {"add", "child"}:
        needs = chance.sample(NAMES, chance.randint(0, 3))
        parent = chance.choice(NAMES) if what == "child" else None
        condition = chance.choice(["afterok", "afterok", "afterany", "afternotok"])
        was_added = add(queue, name, *needs, parent=parent, dependency_type=condition)
        return f"{what} {name} after {needs} of {parent}, {condition}: {was_added}"
    if what == "take":
        return f"take: {take(queue)}"
    if what == "deadlock":
        return f"deadlock: {queue.fail_deadlocked_jobs()}"
    if not known:
        return "nothing"
    running = queue.get_job_ids_with_status(JobStatus.RUNNING)
    name = chance.choice(running if running and what == "end" else known)
    if what == "end":
        chance.choice([succeed, fail])(queue, name)
    elif what == "again":
        again(queue, name)
    else:
        queue.update_job_status(name, JobStatus.RUNNING)
    return f"{what} {name}"


def drain(queue: SqliteQueue) -> None:
    for _ in range(10 * len(NAMES)):
        for name in queue.get_job_ids_with_status(JobStatus.RUNNING):
            succeed(queue, name)
        found = take(queue)
        if found == "complete":
            return
        if found == "pending":
            queue.fail_deadlocked_jobs()
    raise AssertionError(counts(queue))


@pytest.mark.parametrize("seed", range(16))
def test_whatever_happens_edges_and_statuses_agree_and_the_queue_ends(queue, path, seed) -> None:
    """Graph contract: rules of the table, in any order of calls."""
    chance = random.Random(seed)
    done: list[str] = []
    for _ in range(STEPS):
        done.append(step(queue, chance))
        assert not [*faults(path)], done
    drain(queue)
    assert not [*faults(path)], done
