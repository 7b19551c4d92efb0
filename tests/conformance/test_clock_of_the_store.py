"""C05: one clock, the store's, whatever the hosts of two processes believe.

On a SQLite file that is the host's own clock, whose jumps ``faults/test_clock_jumps.py`` makes.
"""

from __future__ import annotations

import pytest
from faults.hostclock import HostClock

pytestmark = pytest.mark.only_on("libsql", "postgresql")  # the clock is the server's, by any client
AHEAD = 600
MINUTE = 60_000_000


@pytest.fixture
def wrong(hand, tmp_path, request):
    """A process whose host is ten minutes ahead, or behind."""
    clock = HostClock(tmp_path)
    clock.jump(request.param)
    return hand(**clock.environment)


both_ways = pytest.mark.parametrize("wrong", [AHEAD, -AHEAD], indirect=True)


@both_ways
def test_two_hosts_that_disagree_read_one_clock(desk, bob, rotate, wrong) -> None:
    assert abs(wrong.ask("now") - desk.now()) < MINUTE
    task = wrong.ask("submit", who="bob", job=rotate.full_name)
    assert abs(task["created_at"] - desk.now()) < MINUTE


@both_ways
def test_nobody_is_lost_who_beats_through_the_one_while_the_other_sweeps(
    desk, alice, bob, rotate, wrong
) -> None:
    """C05, and the reverse: the worker is never swept while it beats."""
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    for _ in range(3):
        desk.wait(25)
        wrong.ask("wait", seconds=25)
        wrong.ask("beat", who="alice")
        assert desk.sweep().lost_workers == 0
        desk.wait(25)
        wrong.ask("wait", seconds=25)
        desk.beat(alice)
        assert wrong.ask("sweep")["lost_workers"] == 0
    assert desk.get(bob, task).status == "running"


@both_ways
def test_who_is_silent_is_lost_by_the_stores_clock_at_either(
    desk, alice, bob, rotate, wrong
) -> None:
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    assert wrong.ask("sweep")["lost_workers"] == 0
    wrong.ask("wait", seconds=61)
    assert wrong.ask("sweep")["lost_workers"] == 1
    assert desk.get(bob, task).status == "failed"


@both_ways
def test_what_is_delayed_becomes_due_by_the_stores_clock(desk, alice, bob, rotate, wrong) -> None:
    """A ``run_at`` five minutes ahead is not there yet for a host that is ten minutes ahead."""
    worker = desk.worker(alice)
    desk.job(alice, worker_id=worker)
    wrong.ask("submit", who="bob", job=rotate.full_name, run_at=desk.soon(300))
    asked = {"workers": [worker], "limit": 1}
    assert [got for got, _, _ in wrong.ask("claim_all", **asked)] == [[]]
    wrong.ask("wait", seconds=301)
    assert [len(got) for got, _, _ in wrong.ask("claim_all", **asked)] == [1, 0]
