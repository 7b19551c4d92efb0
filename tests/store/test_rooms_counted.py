"""Rooms are found and counted right on every store, by index, in a time that does not grow."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import pytest
from desk import Desk
from growing_store import finish_many, reads_of, steps_of

from jobroom.domain.records import Caller
from jobroom.service import overview
from jobroom.service.queue import JobQueue
from jobroom.store import crews, lists, room_jobs, rooms

ALL = Caller("anna")


@pytest.fixture
def desk(queue: JobQueue) -> Desk:
    return Desk(queue)


def listed(
    queue: JobQueue, caller: Caller = ALL, *, limit: int = 50, **part: Any
) -> tuple[list[str], int]:
    found, total = queue.run(overview.list_rooms, caller=caller, limit=limit, **part)
    return [room.room_id for room in found], total


def stats(queue: JobQueue, room_id: str = "r1", caller: Caller = ALL) -> overview.RoomStats:
    found: overview.RoomStats = queue.run(overview.room_stats, caller=caller, room_id=room_id)
    return found


def test_an_empty_store_has_no_rooms(queue: JobQueue) -> None:
    assert listed(queue) == ([], 0)
    assert stats(queue).by_status == dict.fromkeys(overview.ALL, 0)


def test_rooms_with_jobs_or_tasks_are_listed_by_name(
    queue: JobQueue, desk: Desk, alice: Caller, admin: Caller
) -> None:
    """Rooms whose names sort in odd ways, with a job alone, with tasks alone, with both."""
    names = ["R1", "r1", "a", "z-9", "r10", "é", "한"]
    everywhere = desk.job(admin, "All", room_id="@global")
    for n, room in enumerate(names):
        if n % 3 < 2:
            desk.job(alice, room_id=room)
        if n % 3 > 0:
            desk.submit(alice, everywhere, room_id=room)
    expected = sorted([*names, "@global"])
    assert listed(queue) == (expected, len(expected))
    pages = [listed(queue, limit=1, offset=n)[0] for n in range(len(expected))]
    assert [room for page in pages for room in page] == expected
    assert listed(queue, limit=2, after="a") == (["r1", "r10"], len(expected))
    assert listed(queue, limit=0) == ([], len(expected))


def test_a_token_bound_to_rooms_is_told_of_these_and_of_global(
    queue: JobQueue,
    desk: Desk,
    alice: Caller,
    admin: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rules, *Who sees what*; a token may name what is no room, even what no store can hold."""
    monkeypatch.setattr(rooms, "ROOMS_AT_ONCE", 8)
    desk.submit_many(alice, desk.job(admin, room_id="@global"), 20)
    desk.write("UPDATE task SET room_id = 'q' || (1000 + seq)")
    first, *_, last = names = [f"q{1000 + seq}" for (seq,) in desk.read("SELECT seq FROM task")]
    odd = {"none", "a\0b", "\ud800", "@local"}
    bound = Caller("carl", rooms=frozenset({first, last, *odd}))
    assert listed(queue, bound) == (["@global", first, last], 3)
    many = Caller("carl", rooms=frozenset([*names, "q1", "q2"]))
    assert listed(queue, many, limit=2, offset=18) == (sorted(names)[17:19], 21)
    assert listed(queue, Caller("carl", rooms=frozenset())) == (["@global"], 1)


def test_counts_are_what_a_count_of_all_rows_gives(
    queue: JobQueue, desk: Desk, alice: Caller, admin: Caller
) -> None:
    chance = random.Random(5)
    own = [desk.job(alice, f"N{n}") for n in range(3)]
    both = [*own, desk.job(admin, "All", room_id="@global")]
    expected: Counter[tuple[str, str]] = Counter()
    for n in range(40):
        job, run_at = chance.choice(both), desk.soon(3600) if n % 5 == 0 else None
        task = desk.submit(alice, job, run_at=run_at)
        if n % 7 == 0:
            task = desk.report(alice, task, "cancelled")
        expected[job.full_name, task.status] += 1
    for task in desk.claim(alice, limit=5):
        name = desk.view(alice, task).job_name
        expected[name, "pending"] -= 1
        expected[name, desk.report(alice, task, "running").status] += 1
    found = stats(queue)
    told = {
        (job.full_name, status): count
        for job in found.jobs
        for status, count in job.by_status.items()
        if count
    }
    assert told == +expected
    assert {status: count for status, count in found.by_status.items() if count} == Counter(
        status for (_, status), count in expected.items() for _ in range(count)
    )
    room = queue.run(overview.list_rooms, caller=ALL, limit=9)[0][1]
    assert room.by_status == {status: found.by_status[status] for status in overview.SHOWN}


def test_workers_are_counted_while_they_live(
    queue: JobQueue, desk: Desk, alice: Caller, bob: Caller, admin: Caller
) -> None:
    """One who serves two jobs is one; who serves @global serves every room."""
    desk.job(alice, "A")
    desk.job(alice, "B")
    desk.job(alice, "C", room_id="r2")
    desk.job(admin, "All", room_id="@global")
    desk.register(bob, "A")
    desk.register(admin, "B")

    def alive() -> dict[str, int]:
        found, _ = queue.run(overview.list_rooms, caller=ALL, limit=9)
        return {room.room_id: room.alive_workers for room in found}

    assert alive() == {"@global": 1, "r1": 3, "r2": 2}
    desk.wait(50)
    desk.beat(alice)
    desk.wait(50)
    assert alive() == {"@global": 0, "r1": 1, "r2": 1}
    assert [(job.full_name, job.alive_workers) for job in stats(queue).jobs] == [
        ("r1:modifiers:A", 1),
        ("r1:modifiers:B", 1),
    ]


def test_the_oldest_claimable_task_tells_its_age(
    queue: JobQueue, desk: Desk, alice: Caller
) -> None:
    first, second = desk.job(alice, "A"), desk.job(alice, "B")
    desk.submit(alice, first, run_at=desk.soon(1000))
    desk.submit(alice, second)
    desk.wait(40)
    desk.submit(alice, second)
    found = stats(queue)
    assert [job.oldest_seconds for job in found.jobs] == [None, pytest.approx(40, abs=9)]
    assert found.oldest_seconds == pytest.approx(40, abs=9)
    assert [job.by_status["pending"] for job in found.jobs] == [1, 2]


def test_counts_end_at_their_limits(
    queue: JobQueue, desk: Desk, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (overview, room_jobs):
        monkeypatch.setattr(module, "COUNT_LIMIT", 5)
    monkeypatch.setattr(overview, "MOST_COUNTED", 3)
    desk.submit_many(alice, desk.job(alice), 20)
    found = stats(queue)
    assert (found.by_status["pending"], found.jobs[0].by_status["pending"]) == (6, 6)
    [room] = queue.run(overview.list_rooms, caller=ALL, limit=9)[0]
    assert room.by_status is not None
    assert room.by_status["pending"] == 4
    monkeypatch.setattr(room_jobs, "MOST_LOOKED_AT", 14)
    assert (stats(queue).counted_to, stats(queue).jobs[0].by_status["pending"]) == (2, 3)


STATEMENTS = {
    "which rooms": rooms._ROOMS,
    "how many rooms": rooms._COUNT_ROOMS,
    "named rooms": rooms._present(4),
    "how much in rooms": rooms._counts(4, overview.SHOWN),
    "how many jobs": room_jobs._HOW_MANY_JOBS,
    "how much for each job": room_jobs._JOB_COUNTS,
    "who serves a job": crews._CREW,
}
BOUNDED = re.compile(
    r"SCAN (walk|rooms|jobs|at|first_ones|both|first_walk|\d+ CONSTANT ROWS?|CONSTANT ROW|"
    r"\(subquery-\d+\))"
)


@pytest.mark.only_on("sqlite")  # PostgreSQL's plans are looked at in tests/postgres
@pytest.mark.parametrize("is_analyzed", [False, True])
@pytest.mark.parametrize("name", STATEMENTS)
def test_each_statement_only_searches(
    desk: Desk, alice: Caller, name: str, is_analyzed: bool
) -> None:
    """Design, *Cost that does not grow*; whatever the planner knows of the tables."""
    reads = reads_of(desk, alice, STATEMENTS[name], is_analyzed=is_analyzed)
    scans = [each for each in reads if each.startswith("SCAN") and not BOUNDED.match(each)]
    assert scans == []


@pytest.mark.only_on("sqlite")  # the one that tells how many steps it takes
def test_the_overview_takes_no_longer_with_all_that_has_ended(desk: Desk, alice: Caller) -> None:
    desk.submit_many(alice, desk.job(alice), 30)
    finish_many(desk, alice, lists.COUNT_LIMIT + 5000)

    def read() -> None:
        listed(desk.queue)
        stats(desk.queue)

    before = steps_of(desk, read)
    desk.write("UPDATE task SET id = 'x' || id")
    finish_many(desk, alice, 30_000)
    assert steps_of(desk, read) == pytest.approx(before, rel=0.2)
