"""``jobroom db check`` finds tasks whose state their dependencies deny."""

from __future__ import annotations

import pytest
from desk import Desk
from plots import Plot, tangles

from jobroom.domain.records import Caller
from jobroom.service.queue import JobQueue


@pytest.fixture
def plot(queue: JobQueue, alice: Caller, bob: Caller) -> Plot:
    """Two tasks, and one that waits for both."""
    desk = Desk(queue)
    drawn = Plot(desk, bob, desk.job(alice))
    drawn.draw(a="", b="", c="a b:afterany")
    assert tangles(desk) == []
    return drawn


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE edge SET state = 'met'", ["1 blocked tasks wait for nothing."]),
        (
            "UPDATE edge SET state = 'broken' WHERE condition = 'afterany'",
            ["1 blocked tasks wait in vain."],
        ),
        (
            "UPDATE task SET status = 'pending' WHERE status = 'blocked'",
            ["1 tasks go on without what they wait for."],
        ),
        (
            "UPDATE task SET status = 'cancelled', completed_at = 1 WHERE status = 'pending'",
            ["2 edges wait for a task that has ended."],
        ),
        (
            "UPDATE task SET has_dependents = 0",
            ["2 edges lead from a task that expects none."],
        ),
    ],
)
def test_a_tangle_is_told(plot: Plot, damage: str, told: list[str]) -> None:
    plot.desk.write(damage)
    assert tangles(plot.desk) == told


def test_what_was_settled_is_no_tangle(plot: Plot, alice: Caller) -> None:
    """A task that has ended may still wait for others, by its edges."""
    plot.fail("a", alice)
    assert plot.statuses() == {"a": "failed", "b": "pending", "c": "failed"}
    assert tangles(plot.desk) == []
