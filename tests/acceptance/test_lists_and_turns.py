"""Turns, order of what becomes due, and what a list costs: C31 and C33, counted in the store."""

from __future__ import annotations

import random
import time

import pytest

from jobroom.domain.lifecycle import TaskStatus
from jobroom.domain.records import Caller
from jobroom.service import claiming, reading, registration, submission
from jobroom.service.queue import JobQueue
from jobroom.store import lists, tasks

SECOND = 1_000_000


class Desk:
    """A queue in this process, with a fair and a plain job that alice serves."""

    def __init__(self, queue):
        self.queue = queue
        self.alice = Caller("alice", is_admin=True)
        self.jobs = {
            order: queue.run(
                registration.register_job,
                caller=self.alice,
                room_id="@global",
                spec=registration.JobSpec("modifiers", order, claim_order=order),
            ).view.job
            for order in ("fifo", "fair")
        }

    def submit(self, *, room="r1", order="fair", sub="alice", **new):
        return self.queue.run(
            submission.submit_task,
            caller=self.alice._replace(identity=sub),
            room_id=room,
            job=self.jobs[order],
            new=submission.NewTask(**new),
        ).view.task

    def claim(self, **more):
        claimed = self.queue.run(claiming.claim_tasks, caller=self.alice, **more)
        return [view.task for view in claimed]

    def list(self, **more):
        asked = {"room_id": "r1", "full_name": None, "statuses": (), "created_by_id": None}
        asked |= {"before": None, "limit": 50, "offset": 0, "caller": self.alice, **more}
        found = self.queue.run(reading.list_tasks, **asked)
        return [view.task.id for view in found[0]], found[1]


@pytest.fixture
def desk(settings):
    with JobQueue.open(settings) as queue:
        yield Desk(queue)


@pytest.mark.parametrize("seed", range(3))
def test_no_room_waits_for_more_than_one_turn_of_each_other(desk, seed):
    """Acceptance C33, its kind: whatever was submitted and claimed before, a room that comes back
    is served within one claim for each room that has something.
    """
    chance = random.Random(seed)
    names = [f"r{number}" for number in range(6)]
    pending = dict.fromkeys(names, 0)
    waits = {}
    for _ in range(400):
        if chance.random() < 0.55:
            room = chance.choices(names, weights=[40, 20, 5, 2, 1, 1])[0]
            for _ in range(chance.choice([1, 1, 12])):
                if not pending[room]:
                    waits[room] = sum(count > 0 for count in pending.values()) + 1
                pending[room] += 1
                desk.submit(room=room)
        elif any(pending.values()):
            room = desk.claim()[0].room_id
            pending[room] -= 1
            waits.pop(room, None)
            waits = {name: left - 1 for name, left in waits.items()}
            assert all(left > 0 for left in waits.values()), (room, waits, pending)


def test_however_many_become_due_at_one_instant_the_first_in_line_comes_first(desk):
    """Contract, *Tasks*: highest priority first, then oldest; promotion goes in that order."""
    due = desk.queue.run(lambda tx: tx.now) + 10 * SECOND
    made = [desk.submit(order="fifo", priority=number % 7, run_at=due) for number in range(350)]
    desk.queue.clock_offset += 20 * SECOND
    claimed = [task.id for _ in range(4) for task in desk.claim(limit=100)]
    expected = sorted(made, key=lambda task: (-task.priority, task.seq))
    assert claimed == [task.id for task in expected]


def fill(queue, count, *, who, status, room="r1"):
    """Rows of others, or of one's own past."""
    if not count:
        return
    ended = 1 if status in {"completed", "failed", "cancelled"} else None
    queue.writer._connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)"
        " INSERT INTO task (id, job_seq, room_id, created_by_id, status, ready, priority, turn,"
        " payload, schema_version, created_at, completed_at, attempt, starts, idle_claims,"
        " max_attempts, has_dependencies, has_dependents, version)"
        " SELECT ?2 || ?3 || i, 1, ?5, ?2, ?3, 1, 0, 0, '{}', 1, 1, ?4, 0, 0, 0, 1, 0, 0, 1 FROM n",
        (count, who, status, ended, room),
    )


@pytest.mark.parametrize(
    "statuses", [(), ("pending",), ("pending", "completed"), ("cancelled",), ("running",)]
)
@pytest.mark.parametrize("of_job", [False, True])
def test_a_list_of_ones_own_tasks_costs_what_one_has_not_what_others_have(desk, statuses, of_job):
    """Design, *Cost that does not grow*: the steps of SQLite's machine are counted, not seconds."""
    asked = {"created_by_id": "me", "statuses": statuses, "limit": 51}
    asked["full_name"] = "@global:modifiers:fifo" if of_job else None
    mine = [desk.submit(order="fifo", sub="me").id for _ in range(3)]
    expected = mine[::-1] if not statuses or "pending" in statuses else []
    steps = []
    for others in (0, 20_000):
        for status in ("pending", "completed"):
            fill(desk.queue, others, who="others", status=status)
        steps.append(steps_of(desk, asked))
        assert desk.list(**asked) == (expected, len(expected))
    assert steps[1] < steps[0] + 100 * (len(expected) + 1)  # each is told its place in the queue


def steps_of(desk, asked):
    """How many hundreds of instructions of SQLite's machine a list takes, without the places."""
    count = 0

    def tick():
        nonlocal count
        count += 1
        return 0

    connection = desk.queue.reader._connection
    connection.set_progress_handler(tick, 100)
    try:
        desk.list(**{**asked, "limit": 0})
        found = desk.queue.run(
            lists.list_tasks,
            room_id="r1",
            statuses=asked["statuses"] or tuple(TaskStatus),
            job_seq=None if asked["full_name"] is None else desk.jobs["fifo"].seq,
            created_by_id="me",
            before=None,
            limit=51,
            offset=0,
        )
        assert len(found) <= 3
    finally:
        connection.set_progress_handler(None, 0)
    return count


@pytest.mark.parametrize("statuses", range(7))
@pytest.mark.parametrize("of_job", [False, True])
def test_a_creators_list_is_searched_by_its_own_index(desk, statuses, of_job):
    """Design, *Cost that does not grow*: query plans are tests."""
    for statement in (
        lists._page_of_creator(statuses, of_job=of_job),
        lists._count_of_creator(statuses, of_job=of_job),
    ):
        text = statement.compiled(desk.queue.database.spelling).text
        rows = desk.queue.writer._connection.execute(
            f"EXPLAIN QUERY PLAN {text}", (1,) * text.count("?")
        )
        plan, beside = [], set()  # what is shown beside each task has a plan of its own
        for number, parent, _, step in rows:
            if parent in beside or step.startswith("CORRELATED SCALAR SUBQUERY"):
                beside.add(number)
            else:
                plan.append(step)
        assert any("ix_task_creator (created_by_id=? AND room_id=?" in line for line in plan)
        assert not [line for line in plan if line.startswith("SCAN task") or "TEMP B-TREE" in line]


@pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 513, 1100])
def test_versions_of_any_number_of_tasks_are_looked_up(desk, count):
    """A long-poll wakes on what another process did: one statement looks for 512 tasks."""
    fill(desk.queue, count, who="w", status="pending")
    ids = [f"wpending{number}" for number in range(1, count + 1)]
    found = desk.queue.run(lambda tx: tasks.versions(tx, [*ids, "none"]))
    assert found == dict.fromkeys(ids, 1)
    text = tasks._versions(8).compiled(desk.queue.database.spelling).text
    rows = desk.queue.writer._connection.execute(f"EXPLAIN QUERY PLAN {text}", (1,) * 8)
    assert "(id=?)" in next(iter(rows))[3]


class Listener:
    """A door with a thousand long-polls, of which one sees a change."""

    def __init__(self, known):
        self.known = known
        self.logs: dict[str, tuple[int, int]] = {}
        self.told = []

    def tell(self, changed):
        self.told += [task.id for task in changed]


def test_looks_at_what_others_commit_do_not_pile_up(settings, desk):
    """Looks that take longer than the pause between two commits kept reads waiting for seconds."""
    fill(desk.queue, 2000, who="w", status="pending")
    listener = Listener({f"wpending{number}": 1 for number in range(1, 2001)})
    desk.queue.listeners.append(listener)
    desk.queue.watch()
    longest = 0
    with JobQueue.open(settings) as other:
        fair = Desk(other)
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            fair.submit()
            longest = max(longest, desk.queue.reader._works._inbox.qsize())
        other.writer._connection.execute("UPDATE task SET version = 2 WHERE id = 'wpending7'")
        patience = time.monotonic() + 20
        while "wpending7" not in listener.told:
            assert time.monotonic() < patience
            time.sleep(0.01)
    listener.known = {}
    assert longest <= 4
    assert set(listener.told) == {"wpending7"}
