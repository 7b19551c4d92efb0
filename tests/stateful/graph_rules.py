"""Rules of the machine for tasks that depend on others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import model_graph as graph
import model_submit as submitting
from comparison import same
from doors import ROOT
from draws import (
    ADA,
    CALLERS,
    NAMES,
    conditions,
    graph_orders,
    graphs,
    identities,
    needs,
    picks,
    spoilings,
    turns,
)
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from model import ModelTask, Order, Word
from model_edges import rename, stands
from task_rules import TaskRules

from jobroom.domain.records import Caller

NOWHERE = "01900000-0000-7000-8000-ffffffffffff"
MOST_NEAR = 12
"""Among so many of the newest tasks dependencies are chosen, so that graphs are tangled."""


class GraphRules(TaskRules):
    """Who waits for whom."""

    @rule(
        identity=identities,
        room=st.sampled_from(("r1", "r1", "r2")),
        number=st.integers(0, 3),
        order=graph_orders,
        wanted=needs,
        spoiling=spoilings,
    )
    def submit_after(
        self,
        *,
        identity: str,
        room: str,
        number: int,
        order: Order,
        wanted: list[tuple[int, str]],
        spoiling: str | None,
    ) -> None:
        """A task that depends on those that are there; maybe on one that may not be named."""
        depends_on = self._needs(wanted)
        if spoiling == "unknown":
            depends_on.append((NOWHERE, "afterany"))
        elif spoiling == "twice" and depends_on:
            depends_on += [(each, "afterany") for each, how in depends_on if how != "afterany"]
        elif spoiling == "itself":
            order = dataclasses.replace(order, id=NOWHERE)
            depends_on.append((NOWHERE, "afterok"))
        elif spoiling == "unseen":
            # Carol does not see what bob does there.
            self.submit("bob", "r2", 1, Order())
            identity, room = "carol", "r1"
            depends_on.append((self.state.tasks[-1].id, "afterok"))
        self.submit(
            identity, room, number, dataclasses.replace(order, depends_on=tuple(depends_on))
        )

    def _needs(self, wanted: Sequence[tuple[int, str]]) -> list[tuple[str, str]]:
        """Dependencies on some of the newest tasks; an id that a client chose may come twice."""
        near = [task.id for task in self.state.tasks[-MOST_NEAR:] if task.order.id is None]
        chosen = {near[-1 - pick % len(near)]: how for pick, how in wanted if near}
        return list(chosen.items())

    @rule(
        identity=identities,
        room=st.sampled_from(("r1", "r1", "r2")),
        nodes=graphs,
        spoiling=spoilings,
        has_key=st.booleans(),
    )
    def submit_graph(
        self,
        *,
        identity: str,
        room: str,
        nodes: list[tuple[int, Order, list[tuple[int, str]], list[tuple[int, str]]]],
        spoiling: str | None,
        has_key: bool,
    ) -> None:
        """Tasks that depend on those before them in the request, and on stored ones."""
        wanted: list[tuple[str, Order]] = []
        for n, (number, order, inside, outside) in enumerate(nodes):
            among = {f"n{pick % n}": how for pick, how in inside if n}
            depends_on = (*among.items(), *self._needs(outside))
            # A repeated request says the same time, which the door would make of now.
            run_in = None if has_key else order.run_in
            more: dict[str, Any] = {"label": f"n{n}", "depends_on": depends_on, "run_in": run_in}
            wanted.append((NAMES[number], dataclasses.replace(order, **more)))
        caller = CALLERS[identity]
        self._submit_many(caller, room, _spoiled(wanted, spoiling), has_key=has_key)

    def _submit_many(
        self, caller: Caller, room: str, wanted: list[tuple[str, Order]], *, has_key: bool
    ) -> None:
        key = f"graph-{self.state.count}" if has_key else None
        asked = (caller, room, wanted, key)
        done = self.both(
            lambda: submitting.submit_many(self.state, *asked),
            lambda: self.door.submit_many(*asked),
        )
        if not done:
            return
        made, (got, replayed) = done
        assert not replayed
        same(len(got), len(made))
        for task, seen in zip(made, got, strict=True):
            assert seen["id"] not in self.seen
            rename(self.state, task, seen["id"])
        if key is not None:
            again, replayed = self.door.submit_many(*asked)
            same((again, replayed), (got, True))
        for task, seen in zip(made, got, strict=True):
            self.agree(task, seen)

    @rule(pick=picks, who=picks, number=st.integers(0, 1), wanted=needs, has_needs=st.booleans())
    def submit_child(
        self,
        *,
        pick: int,
        who: int,
        number: int,
        wanted: list[tuple[int, str]],
        has_needs: bool,
    ) -> None:
        """By who holds the parent, mostly while others wait for that."""
        parent = self._an_awaited_task(pick)
        caller = self.someone(self.state.owner_of(parent), who)
        order = Order(parent=parent.id, depends_on=tuple(self._needs(wanted)) if has_needs else ())
        room = parent.room if parent.room in {"r1", "r2"} else "r1"
        self.submit(caller.identity, room, number, order)

    def _an_awaited_task(self, pick: int) -> ModelTask:
        """A held task that others wait for; made if there is none, but for one pick in twelve."""
        if pick == 11 and (stored := self._stored(lambda _: True)):
            return stored[-1 - pick % len(stored)]
        held = self._stored(lambda task: task.is_held and self._is_awaited(task))
        if not held:
            held = [self.a_held_task(pick, start=True)]
            if held[0].order.id is None:
                needed = Order(depends_on=((held[0].id, "afterok"),))
                self.submit(ADA.identity, "r1", pick % 2, needed)
        return held[pick % len(held)]

    def _stored(self, holds: Callable[[ModelTask], bool]) -> list[ModelTask]:
        return [task for task in self.state.tasks if task.order.id is None and holds(task)]

    def _is_awaited(self, task: ModelTask) -> bool:
        return bool(graph.heirs(self.state, task.id))

    @rule(pick=picks, ends=st.lists(st.sampled_from(("completed", "failed", "cancelled"))))
    def work_off(self, pick: int, ends: list[str]) -> None:
        """What is first in line is run and ends, one after the other."""
        for status in ends[:4]:
            task = self.a_held_task(pick, start=True)
            owner = CALLERS.get(self.state.owner_of(task) or "", ADA)
            if task.status == "claimed":
                self._report(owner, task, Word("running", attempt=task.attempt))
            more: dict[str, Any] = {}
            if status == "failed":
                more = {"error": "it broke", "final": pick % 3 != 0}
            self._report(owner, task, Word(status, **more))

    @precondition(lambda self: any(task.status == "blocked" for task in self.state.tasks))
    @rule(pick=picks, who=picks)
    def cancel_what_waits(self, pick: int, who: int) -> None:
        """A blocked task is cancelled, and those that wait for it settle."""
        waiting = self._stored(lambda task: task.status == "blocked")
        if waiting:
            task = waiting[pick % len(waiting)]
            self._report(self.someone(task.creator, who), task, Word("cancelled"))

    @precondition(lambda self: any(task.needs for task in self.state.tasks))
    @rule(pick=picks, who=picks, fallen=st.booleans())
    def retry_a_cause(self, pick: int, who: int, *, fallen: bool) -> None:
        """What others failed because of goes again; or one of those, which is refused mostly."""
        causes = {each for task in self.state.tasks for each in task.blame}
        found = self._stored(lambda task: bool(task.blame) if fallen else task.id in causes)
        if found:
            task = found[-1 - pick % len(found)]
            self._retry(self.someone(task.creator, who), task)

    @rule(number=st.integers(0, 1), how=conditions, again=turns)
    def fail_for_two(self, number: int, how: str, again: Sequence[int]) -> None:
        """A task fails for two others; these and it are to go again, one after the other."""
        for _ in range(2):
            self.submit("root", "r1", number, Order())
        two = self.state.tasks[-2:]
        self.submit("root", "r1", number, Order(depends_on=tuple((t.id, "afterok") for t in two)))
        three = [*two, self.state.tasks[-1]]
        self.submit("root", "r1", number, Order(depends_on=((three[-1].id, how),)))
        for task in two:
            self._report(ROOT, task, Word("cancelled"))
        for n in again:
            self._retry(ROOT, three[n])

    @rule(seconds=st.sampled_from((14, 105)), wanted=needs, number=st.integers(0, 1))
    def wait_too_long(self, seconds: int, wanted: list[tuple[int, str]], number: int) -> None:
        """A task that waits for others expires with a sweep, and so does what waits for it."""
        order = Order(expires_in=13, depends_on=tuple(self._needs(wanted)))
        self.submit("alice", "r1", number, order)
        after = Order(depends_on=((self.state.tasks[-1].id, wanted[0][1]),))
        self.submit("alice", "r1", number, after)
        self.state.now += seconds
        self.door.advance(seconds)
        self.sweep()

    def sweep(self) -> None:
        """A sweep is a rule of the whole machine."""
        raise NotImplementedError

    def _check_alone(self, found: dict[str, dict[str, Any]]) -> None:
        """Who waits is who must, and nobody waits for himself."""
        super()._check_alone(found)
        now = {task_id: task["status"] for task_id, task in found.items()}
        for task in self.state.tasks:
            edges = {
                stands(need.condition, now[each])
                for each, need in task.needs.items()
                if each in now
            }
            if now[task.id] == "blocked":
                assert "waiting" in edges, f"{task} waits for nothing"
                assert "broken" not in edges, f"{task} waits in vain"
            elif now[task.id] == "pending" and not task.attempt:
                assert edges <= {"met"}, f"{task} does not wait"
        waits = {task.id: set(task.needs) for task in self.state.tasks}
        while free := {each for each, needed in waits.items() if waits.keys().isdisjoint(needed)}:
            for each in free:
                del waits[each]
        assert not waits, f"they may come to wait for one another: {waits}"


def _spoiled(wanted: list[tuple[str, Order]], spoiling: str | None) -> list[tuple[str, Order]]:
    """The same graph with a fault in its first task."""
    job, first = wanted[0]
    more: dict[str | None, tuple[tuple[str, str], ...]] = {
        "unknown": ((NOWHERE, "afterok"),),
        "itself": (("n0", "afterany"),),
        "cycle": ((f"n{len(wanted) - 1}", "afterok"),),
    }
    depends_on = first.depends_on + more.get(spoiling, ())
    return [(job, dataclasses.replace(first, depends_on=depends_on)), *wanted[1:]]
