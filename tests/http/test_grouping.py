"""Group commit on an event loop: who runs together, and what happens when the lane is busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jobroom.http import grouping
from jobroom.http.grouping import Grouping
from jobroom.store.lane import LARGEST_GROUP, Work

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class FakeLane:
    """A lane that keeps what it is asked, and is free when the test says so."""

    def __init__(self, *, busy: int = 0) -> None:
        self.busy = busy
        self.groups: list[list[Work]] = []
        self.posted: list[Work] = []
        self.told: list[Callable[[], None]] = []

    def try_run(self, works: list[Work], *, told: Callable[[], None]) -> bool:
        if self.busy:
            self.busy -= 1
            return False
        self.groups.append(works)
        self.told.append(told)
        return True

    def post(self, work: Work) -> None:
        self.posted.append(work)


def _work(group: Grouping) -> Work:
    return Work(lambda tx: None, {}, group.mailbox, asyncio.get_running_loop().create_future())


async def _turn() -> None:
    await asyncio.sleep(0)


async def _until(condition: Callable[[], Any]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.001)
    pytest.fail("it did not come to that in two seconds")


async def test_what_comes_in_one_turn_of_the_loop_is_one_group() -> None:
    """Design, *The write path*: group commit."""
    lane = FakeLane()
    group = Grouping(lane, asyncio.get_running_loop())  # type: ignore[arg-type]
    works = [_work(group) for _ in range(3)]
    for work in works:
        group.add(work)
    await _until(lambda: lane.groups)
    assert lane.groups == [works]


async def test_a_group_grows_as_long_as_each_turn_brings_it_something() -> None:
    """Clients that were answered together ask again within a few turns: one commit for all."""
    lane = FakeLane()
    group = Grouping(lane, asyncio.get_running_loop())  # type: ignore[arg-type]
    for _ in range(3):
        group.add(_work(group))
        await _turn()
    await _until(lambda: lane.groups)
    assert [len(works) for works in lane.groups] == [3]


async def test_a_group_that_never_stops_growing_runs_all_the_same() -> None:
    lane = FakeLane()
    group = Grouping(lane, asyncio.get_running_loop())  # type: ignore[arg-type]
    for _ in range(3 * grouping.GATHERING_TURNS):
        group.add(_work(group))
        await _turn()
    assert len(lane.groups) == 1


async def test_what_comes_while_a_group_is_committed_is_the_next_group() -> None:
    lane = FakeLane()
    group = Grouping(lane, asyncio.get_running_loop())  # type: ignore[arg-type]
    group.add(_work(group))
    await _until(lambda: lane.groups)
    later = [_work(group) for _ in range(2)]
    for work in later:
        group.add(work)
        await _turn()
    assert len(lane.groups) == 1
    lane.told[0]()
    await _until(lambda: len(lane.groups) == 2)
    assert lane.groups[1] == later


async def test_a_group_has_its_limit_and_the_rest_follows() -> None:
    lane = FakeLane()
    group = Grouping(lane, asyncio.get_running_loop())  # type: ignore[arg-type]
    for _ in range(LARGEST_GROUP + 1):
        group.add(_work(group))
    await _until(lambda: lane.groups)
    lane.told[0]()
    await _until(lambda: len(lane.groups) == 2)
    assert [len(works) for works in lane.groups] == [LARGEST_GROUP, 1]


async def test_a_busy_lane_is_tried_again_and_nothing_changes_its_place() -> None:
    """Design, *The write path*: another process writes; try again after a random moment."""
    lane = FakeLane(busy=3)
    group = Grouping(lane, asyncio.get_running_loop())  # type: ignore[arg-type]
    works = [_work(group) for _ in range(3)]
    for work in works:
        group.add(work)
    await _until(lambda: lane.groups)
    assert lane.groups == [works]


async def test_a_lane_that_stays_busy_waits_on_its_own_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grouping, "PATIENCE_TURNS", 2)
    lane = FakeLane(busy=1_000)
    group = Grouping(lane, asyncio.get_running_loop())  # type: ignore[arg-type]
    work = _work(group)
    group.add(work)
    await _until(lambda: lane.posted)
    assert lane.posted == [work]


async def test_after_a_group_was_handed_over_the_next_one_runs() -> None:
    lane = FakeLane(busy=grouping.PATIENCE_TURNS + 1)
    group = Grouping(lane, asyncio.get_running_loop())  # type: ignore[arg-type]
    group.add(_work(group))
    await _until(lambda: lane.posted)
    later = _work(group)
    group.add(later)
    await _until(lambda: lane.groups)
    assert lane.groups == [[later]]


async def test_answers_settle_their_futures_and_skip_who_went_away() -> None:
    lane = FakeLane()
    group = Grouping(lane, asyncio.get_running_loop())  # type: ignore[arg-type]
    good, bad, gone = (_work(group) for _ in range(3))
    good.result, bad.error = "done", ZeroDivisionError()
    gone.future.cancel()
    group.mailbox([good, bad, gone])
    assert await good.future == "done"
    with pytest.raises(ZeroDivisionError):
        await bad.future
