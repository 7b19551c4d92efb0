"""Who waits for which task: no change is missed, whatever comes between reading and waiting."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from jobroom.http.taskwatch import UNREAD, TaskWatch

pytestmark = pytest.mark.anyio


@pytest.fixture
async def watch():
    made = TaskWatch(lambda: None)
    made.enter(asyncio.get_running_loop())
    return made


def version(number):
    return [SimpleNamespace(id="t", version=number)]


async def turn():
    """Let the loop do what was asked of it from outside."""
    await asyncio.sleep(0)


async def test_a_change_told_before_the_read_came_back_is_not_lost(watch):
    with watch.of("t") as waiting:
        watch.tell(version(2))
        await turn()
        waiting.saw(1)
        assert waiting.changed.done()


async def test_a_change_that_the_read_has_seen_already_is_no_news(watch):
    with watch.of("t") as waiting:
        watch.tell(version(2))
        await turn()
        waiting.saw(2)
        assert not waiting.changed.done()


async def test_of_two_changes_told_the_newer_counts(watch):
    with watch.of("t") as waiting:
        watch.tell(version(2))
        watch.tell(version(3))
        await turn()
        waiting.saw(2)
        assert waiting.changed.done()


async def test_what_one_waiter_reads_is_news_to_another(watch):
    """Another process changed it: the looking thread goes by the newest version read."""
    with watch.of("t") as first, watch.of("t") as second:
        first.saw(1)
        second.saw(2)
        assert (first.changed.done(), second.changed.done()) == (True, False)


async def test_who_has_read_nothing_yet_is_looked_out_for_all_the_same(watch):
    """Another process may write while the first read is on its way."""
    with watch.of("t"):
        assert watch.known == {"t": UNREAD}
    assert watch.known == {}


async def test_a_read_that_comes_back_after_leaving_leaves_nothing_behind(watch):
    with watch.of("t") as waiting:
        pass
    waiting.saw(1)
    assert watch.known == {}
