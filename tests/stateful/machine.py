"""A machine that drives a door and the model side by side and compares every answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import model_ends as ends
import model_work as work
from comparison import same
from doors import ROOT, Door, Filters
from draws import (
    ALICE,
    CALLERS,
    NAMES,
    SPANS,
    identities,
    picks,
    rooms,
    statuses,
)
from graph_rules import GraphRules
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from model import (
    GLOBAL,
    ModelTask,
    Order,
    Word,
    check_room,
)

from jobroom.domain.records import Caller


class QueueMachine(GraphRules):
    """Rules are what clients, time and operators do; each is predicted before it is done."""

    @rule(seconds=st.sampled_from(SPANS))
    def time_passes(self, seconds: int) -> None:
        """Nobody does anything."""
        self.state.now += seconds
        self.door.advance(seconds)

    @rule()
    def sweep(self) -> None:
        """One sweep, whenever it comes."""
        same(self.door.sweep(), ends.sweep(self.state))

    @rule(rounds=st.integers(1, 4), beating=st.sampled_from((None, "root", "alice", "ada")))
    def time_passes_swept(self, rounds: int, beating: str | None) -> None:
        """The sweep comes as it should; the workers of one identity, or all of them, beat."""
        for _ in range(rounds):
            self.time_passes(28)
            for worker in list(self.state.workers.values()):
                if beating in (None, worker.identity):
                    self._beat(CALLERS[worker.identity], worker.id)
            self.sweep()

    @rule(
        number=st.integers(0, 1),
        key=st.sampled_from(("key-1", "key-2")),
        is_cancelled=st.booleans(),
        seconds=st.sampled_from((3605, 86_408)),
    )
    def come_back_with_a_key(
        self, number: int, key: str, *, is_cancelled: bool, seconds: int
    ) -> None:
        """A key outlives the retention of its task, and ends after a day."""
        order = Order(key=key)
        self.submit("alice", "r1", number, order)
        task = self.state.keys["alice", key]
        if is_cancelled:
            self._report(ALICE, task, Word("cancelled"))
        self.time_passes(seconds)
        self.sweep()
        self.submit("alice", "r1", number, order)

    @rule(number=st.integers(0, 1), pick=picks)
    def come_too_late(self, number: int, pick: int) -> None:
        """The first in line expires before anybody asks."""
        self.submit("alice", "r1", number, Order(priority=1, expires_in=13))
        self.time_passes(35)
        self.claim_what_there_is(pick, 1, start=True, request_id=None)

    @rule()
    def restart(self) -> None:
        """Nothing is kept in memory alone."""
        self.door.restart()

    @rule(identity=identities, room=rooms, number=st.integers(0, 3), pick=picks)
    def look_around(self, identity: str, room: str, number: int, pick: int) -> None:
        """A task, the jobs of a room, one job by name, the workers."""
        caller = CALLERS[identity]
        if task := self.a_task(pick, lambda task: not task.is_terminal):
            self._read_task(caller, task)
        self._read_jobs(caller, room, NAMES[number])
        self._read_workers(caller)
        self._read_workers(caller._replace(rooms=frozenset({room})))

    def _read_task(self, caller: Caller, task: ModelTask) -> None:
        """One that was removed or may not be seen is 404."""
        done = self.both(
            lambda: ends.find_task(self.state, caller, task.id),
            lambda: self.door.task(caller, task.id),
        )
        if done:
            self.agree(*done, with_position=True)

    @rule(
        identity=identities,
        room=rooms,
        number=st.sampled_from((None, 0, 1, 2, 3)),
        wanted=st.sets(statuses, max_size=2),
        creator=st.sampled_from((None, None, "alice", "bob")),
        limit=st.sampled_from((1, 2, 50)),
    )
    def list_tasks(
        self,
        *,
        identity: str,
        room: str,
        number: int | None,
        wanted: set[str],
        creator: str | None,
        limit: int,
    ) -> None:
        """The first page of a list."""
        job = None if number is None else NAMES[number]
        asked = Filters(room, job, tuple(sorted(wanted)), creator)
        self._page(CALLERS[identity], asked, limit, after=None, cursor=None)

    @precondition(lambda self: self.pages)
    @rule(limit=st.sampled_from((1, 2, 50)))
    def turn_the_page(self, limit: int) -> None:
        """The cursor is stable while rows come and go."""
        caller, asked, after, cursor = self.pages.pop()
        self._page(caller, asked, limit, after=after, cursor=cursor)

    @rule(room=st.sampled_from(("r1", "r2")), limit=st.sampled_from((1, 2)))
    def read_all_pages(self, room: str, limit: int) -> None:
        """Everything that was submitted in a room, a little at a time."""
        self.pages.clear()
        self._page(ROOT, Filters(room), limit, after=None, cursor=None)
        while self.pages:
            self.turn_the_page(limit)

    def _page(
        self, caller: Caller, asked: Filters, limit: int, *, after: ModelTask | None, cursor: Any
    ) -> None:
        filters = asked._asdict()
        room = filters.pop("room")
        done = self.both(
            lambda: work.list_tasks(self.state, caller, room, **filters),
            lambda: self.door.tasks(caller, asked, limit=limit, cursor=cursor),
        )
        if done is None:
            return
        wanted, got = done
        rest = [task for task in wanted if after is None or task.seq < after.seq]
        same(got.total, len(wanted))
        same([task["id"] for task in got.items], [task.id for task in rest[:limit]])
        for task, seen in zip(rest, got.items, strict=False):
            self.agree(task, seen, with_position=True)
        same(got.cursor is not None, len(rest) > limit)
        if got.cursor is not None:
            self.pages.append((caller, asked, rest[limit - 1], got.cursor))

    def _read_jobs(self, caller: Caller, room: str, name: str) -> None:
        self.both(lambda: check_room(caller, room), lambda: self.door.jobs(caller, room))
        done = self.both(
            lambda: work.live_workers(self.state, work.find_job(self.state, caller, room, name)),
            lambda: self.door.workers_of(caller, room, name),
        )
        if done:
            same(done[1], done[0])

    def _read_workers(self, caller: Caller) -> None:
        """One's own workers, an admin's all, without those that were lost.

        Of their jobs and tasks those are counted that lie in the rooms of the token.
        """
        state = self.state
        sees_all = caller.is_admin and caller.rooms is None
        wanted = {
            worker.id: (
                state.is_alive(worker),
                sum(caller.sees(job.room) or job.room == GLOBAL for job in state.linked_to(worker)),
                sum(caller.sees(task.room) for task in state.held_by(worker)),
            )
            for worker in state.workers.values()
            if worker.state == "active" and (sees_all or worker.identity == caller.identity)
        }
        same(self.door.workers(caller), wanted)


def driving(open_door: Callable[[], Door]) -> type[QueueMachine]:
    """The machine on doors of this kind, a fresh one for each example."""

    class Driving(QueueMachine):
        def __init__(self) -> None:
            super().__init__(open_door)

    return Driving
