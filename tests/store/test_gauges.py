"""The gauges say what is in the tables, on every store, and are read in bounded time."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from desk import Desk
from growing_store import finish_many, reads_of, steps_of

from jobroom.domain.records import MICROSECONDS, Caller, Job
from jobroom.service import gauging
from jobroom.service.gauging import Gauges
from jobroom.service.queue import JobQueue
from jobroom.store import gauges

SECOND = MICROSECONDS


@pytest.fixture
def desk(queue: JobQueue) -> Desk:
    return Desk(queue)


def read(queue: JobQueue) -> Gauges:
    return queue.run(gauging.read_gauges)


def told(found: Gauges) -> dict[tuple[str, str], tuple[int, int]]:
    return {(each.room_id, each.job_name): (each.pending, each.delayed) for each in found.backlogs}


def jobs_of(desk: Desk, admin: Caller, count: int) -> list[Job]:
    return [desk.job(admin, f"N{n}", room_id="@global") for n in range(count)]


def test_an_empty_store_has_nothing_to_tell(queue: JobQueue) -> None:
    assert read(queue) == Gauges([], 0, 0, 0, 0, 0, 0.0)


def test_they_are_what_a_count_of_all_rows_gives(
    queue: JobQueue, desk: Desk, alice: Caller, admin: Caller
) -> None:
    """Jobs with and without tasks, in rooms whose names sort in odd ways."""
    chance = random.Random(7)
    jobs = jobs_of(desk, admin, 6)
    rooms = ["r1", "R1", "a", "z-9", "r10", "r2"]
    expected: Counter[tuple[str, str, str]] = Counter()
    for _ in range(60):
        job, room = chance.choice(jobs[:4]), chance.choice(rooms)
        kind = chance.choice(["ready", "ready", "delayed", "cancelled"])
        run_at = desk.soon(3600) if kind == "delayed" else None
        task = desk.submit(alice, job, room_id=room, run_at=run_at)
        if kind == "cancelled":
            desk.report(alice, task, "cancelled")
        expected[room, job.full_name, kind] += 1
    held = desk.claim(admin, limit=7)
    for task in held:
        expected[task.room_id, desk.view(admin, task).job_name, "ready"] -= 1
    found = read(queue)
    pairs = {key[:2] for key, count in expected.items() if count and key[2] != "cancelled"}
    assert told(found) == {
        pair: (expected[(*pair, "ready")], expected[(*pair, "delayed")]) for pair in pairs
    }
    kinds = Counter[str]()
    for (_, _, kind), count in expected.items():
        kinds[kind] += count
    totals = (found.pending, found.delayed, found.blocked, found.held)
    assert totals == (kinds["ready"], kinds["delayed"], 0, 7)


def test_the_oldest_is_told_by_its_submission(queue: JobQueue, desk: Desk, alice: Caller) -> None:
    job = desk.job(alice)
    first = desk.submit(alice, job)
    desk.wait(50)
    desk.submit(alice, job, priority=9)
    desk.wait(10)
    [backlog] = read(queue).backlogs
    assert backlog.oldest_seconds == pytest.approx((desk.now() - first.created_at) / SECOND, abs=30)
    assert read(queue).oldest_seconds >= 60
    desk.report(alice, first, "cancelled")
    assert 10 <= read(queue).oldest_seconds < 50


def test_one_whose_time_has_come_is_as_old_as_its_time(
    queue: JobQueue, desk: Desk, alice: Caller
) -> None:
    """Nobody claims, so nobody has looked at it: an alarm must not wait for that."""
    job = desk.job(alice)
    desk.submit(alice, job, run_at=desk.soon(100))
    [backlog] = read(queue).backlogs
    assert (backlog.pending, backlog.delayed, backlog.oldest_seconds) == (0, 1, None)
    desk.wait(145)
    [backlog] = read(queue).backlogs
    assert backlog.oldest_seconds is not None
    assert 45 <= backlog.oldest_seconds < 75


def test_one_that_became_claimable_at_its_time_counts_from_then(
    queue: JobQueue, desk: Desk, alice: Caller
) -> None:
    job = desk.job(alice)
    desk.submit(alice, job, run_at=desk.soon(100))
    desk.submit(alice, job, run_at=desk.soon(100))
    desk.wait(145)
    desk.claim_one(alice)
    [backlog] = read(queue).backlogs
    assert (backlog.pending, backlog.delayed) == (1, 0)
    assert backlog.oldest_seconds is not None
    assert 45 <= backlog.oldest_seconds < 75


def test_delayed_ones_before_it_do_not_hide_the_oldest(
    queue: JobQueue, desk: Desk, alice: Caller
) -> None:
    job = desk.job(alice)
    for _ in range(5):
        desk.submit(alice, job, run_at=desk.soon(9999))
    desk.submit(alice, job)
    desk.wait(20)
    [backlog] = read(queue).backlogs
    assert (backlog.pending, backlog.delayed) == (1, 5)
    assert backlog.oldest_seconds is not None
    assert backlog.oldest_seconds >= 20


def test_blocked_and_held_tasks_are_totals_alone(
    queue: JobQueue, desk: Desk, alice: Caller
) -> None:
    job = desk.job(alice)
    first = desk.submit(alice, job)
    desk.submit(alice, job, depends_on=((first.id, "afterok"),))
    desk.claim_one(alice)
    found = read(queue)
    assert found.backlogs == []
    assert (found.pending, found.blocked, found.held) == (0, 1, 1)


def test_of_many_pairs_some_are_told_and_the_rest_is_summed(
    queue: JobQueue,
    desk: Desk,
    alice: Caller,
    admin: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for n, job in enumerate(jobs_of(desk, admin, 4)):
        for room in range(3):
            desk.submit(alice, job, room_id=f"r{n}{room}")
    few = 5
    groups, has_more = queue.run(lambda tx: gauges.read_groups(tx, most=few))
    assert (len(groups), has_more) == (few, True)
    monkeypatch.setattr(gauges.read_groups, "__kwdefaults__", {"most": few})
    found = read(queue)
    assert (len(found.backlogs), found.others, found.pending) == (few, 7, 12)


def test_a_count_ends_at_its_limit(
    queue: JobQueue, desk: Desk, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gauges, "MOST_COUNTED", 10)
    monkeypatch.setattr(gauges, "FEWEST_COUNTED", 3)
    job = desk.job(alice)
    desk.submit_many(alice, job, 15)
    assert [each.pending for each in read(queue).backlogs] == [10]
    monkeypatch.setattr(gauges, "MOST_LOOKED_AT", 4)
    assert [each.pending for each in read(queue).backlogs] == [4]


# --- what it costs --------------------------------------------------------------------------------

STATEMENTS = {
    "who waits": gauges._KEYS,
    "how much waits": gauges._MEASURES,
    "since when": gauges._since_of(4),
    "totals": gauges._TOTALS,
}
BOUNDED = re.compile(r"SCAN (walk|first_ones|some|CONSTANT ROW)$")
"""What the statement itself has found, each of it with a limit."""
SEARCHED = re.compile(
    r"SEARCH (both$"
    r"|ready USING INDEX ix_task_ready \(job_seq>\?\)"
    r"|delayed USING INDEX ix_task_delayed \(job_seq(>\?|=\? AND run_at<\?)\)"
    r"|of_room USING (COVERING )?INDEX ix_task_job \(job_seq=\? AND status=\? AND room_id[=>]\?\)"
    r"|blocked USING INDEX ix_task_blocked \(seq>\?\)"
    r"|held USING INDEX ix_task_held \(worker_id>\?\)"
    r"|(job|task) USING INTEGER PRIMARY KEY \(rowid=\?\))"
)


@pytest.mark.only_on("sqlite")  # PostgreSQL's plans are looked at in tests/postgres
@pytest.mark.parametrize("is_analyzed", [False, True])
@pytest.mark.parametrize("name", STATEMENTS)
def test_each_statement_searches_the_index_that_has_just_those(
    desk: Desk, alice: Caller, name: str, is_analyzed: bool
) -> None:
    """Design, *Cost that does not grow*; whatever the planner knows of the tables."""
    reads = reads_of(desk, alice, STATEMENTS[name], is_analyzed=is_analyzed)
    assert [each for each in reads if not (BOUNDED.match(each) or SEARCHED.match(each))] == []


@pytest.mark.only_on("sqlite")  # the one that tells how many steps it takes
def test_a_reading_takes_no_longer_with_all_that_has_ended(desk: Desk, alice: Caller) -> None:
    desk.submit_many(alice, desk.job(alice), 30)

    before = steps_of(desk, lambda: read(desk.queue))
    finish_many(desk, alice, 20_000)
    assert steps_of(desk, lambda: read(desk.queue)) == pytest.approx(before, rel=0.2)
