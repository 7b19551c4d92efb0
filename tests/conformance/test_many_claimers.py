"""C35: many claimers of two processes on one backlog."""

from __future__ import annotations

from collections import Counter

import pytest

from jobroom.domain.records import Caller


@pytest.mark.parametrize(("limit", "count"), [(1, 1000), (7, 300)])
def test_ten_claimers_in_two_processes_share_a_backlog(
    desk, alice, bob, *, rotate, hand, tally, store, limit, count
) -> None:
    """Each task is claimed once, nobody is told "nothing" too early, the 1,001st claim is empty."""
    workers = [desk.worker(alice) for _ in range(10)]
    for worker in workers:
        desk.job(alice, worker_id=worker)
    desk.submit_many(bob, rotate, count)
    hands = [hand(), hand()]
    for number, each in enumerate(hands):
        each.send("claim_all", workers=workers[number::2], limit=limit)
    claims = [claim for each in hands for claim in each.answer()]
    assert desk.claim(alice) == []
    submitted = [row[0] for row in desk.read("SELECT id FROM task")]
    assert Counter(task_id for got, _, _ in claims for task_id in got) == Counter(submitted)
    # Nothing comes back here: once a claim was told "nothing", no later one gets a task.
    first_empty = min(answered for got, _, answered in claims if not got)
    assert max(sent for got, sent, _ in claims if got) < first_empty
    found = "SELECT status, attempt, count(*), count(DISTINCT worker_id) > 1 FROM task"
    [row] = desk.read(f"{found} GROUP BY status, attempt")
    assert row == ("claimed", 1, count, True)
    took = max(answered for _, _, answered in claims) - min(sent for _, sent, _ in claims)
    tally(f"C35 {store}, limit {limit} | {count} tasks, each claimed once | {took:.1f} s")


def test_a_claim_with_a_limit_takes_the_best_in_order(desk, alice, bob, rotate) -> None:
    tasks = [desk.submit(bob, rotate, priority=number % 3) for number in range(9)]
    wanted = sorted(tasks, key=lambda task: (-task.priority, task.seq))
    got = [*desk.claim(alice, limit=4), *desk.claim(alice, limit=100)]
    assert [task.id for task in got] == [task.id for task in wanted]
    assert desk.claim(alice, limit=100) == []


def test_what_one_holds_is_passed_over_and_not_waited_for(desk, other, alice, bob) -> None:
    """Two workers of several jobs, each claims to the end: nobody gets what the other has."""
    for name in ("A", "B", "C"):
        job = desk.job(alice, name)
        desk.job(bob, name)
        for _ in range(4):
            desk.submit(Caller("carol"), job)
    got = []
    for _ in range(6):
        got += [desk.claim_one(alice).id, other.claim_one(bob).id]
    assert len(set(got)) == 12
    assert desk.claim(alice) == other.claim(bob) == []
