"""A door and the model side by side: answers compared, and what must always hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import model_work as work
from doors import ROOT, Door, DoorError, Filters
from draws import (
    CALLERS,
)
from hypothesis.stateful import RuleBasedStateMachine, invariant
from model import (
    GLOBAL,
    HELD,
    TERMINAL,
    ModelTask,
    Order,
    Refusal,
    Said,
    State,
    Word,
    visible_jobs,
)
from model_edges import narrow

from jobroom.domain.records import Caller

T = TypeVar("T")
U = TypeVar("U")


class Comparison(RuleBasedStateMachine):
    """A door beside the model: each answer is predicted, and the store compared each time."""

    def __init__(self, open_door: Callable[[], Door]) -> None:
        super().__init__()
        self.door = open_door()
        self.state = State()
        self.seen: dict[str, dict[str, Any]] = {}
        self.retried: set[str] = set()
        self.named: list[tuple[str, str, int, Order]] = []
        self.said: list[tuple[Caller, str, Word]] = []
        self.pages: list[tuple[Caller, Filters, ModelTask, Any]] = []

    def teardown(self) -> None:
        """Let go of the queue."""
        self.door.close()

    def both(self, predict: Callable[[], T], act: Callable[[], U]) -> tuple[T, U] | None:
        """Do it in the model and at the door; None where both refuse with the same slug."""
        self.state.may_refuse = None
        try:
            wanted = predict()
        except Refusal as refusal:
            slugs = refusal.slugs
        else:
            return self._answered(wanted, act)
        got: object
        try:
            got = act()
        except DoorError as error:
            got = error.slug
        assert isinstance(got, str), f"answered {got}, wanted a refusal: {sorted(slugs)}"
        assert got in slugs, f"got {got}, wanted a refusal: {sorted(slugs)}"
        return None

    def _answered(self, wanted: T, act: Callable[[], U]) -> tuple[T, U] | None:
        try:
            return wanted, act()
        except DoorError as error:
            if error.slug != self.state.may_refuse:
                raise
            return None

    def agree(self, task: ModelTask, seen: dict[str, Any], *, with_position: bool = False) -> None:
        """A task as the door shows it is the task of the model."""
        narrow(task, seen["failed_by"])
        wanted = self.state.view(task, with_position=with_position)
        if isinstance(wanted["error"], Said):
            assert wanted["error"].lower() in (seen["error"] or "").lower()
            wanted["error"] = seen["error"]
        same(seen, wanted)

    def a_worker(self, caller: Caller, pick: int) -> str | None:
        """Mostly the caller's own: the unnamed one or an instance; else anybody's."""
        workers = self.state.workers.values()
        own = [w.id for w in workers if w.identity == caller.identity and w.kind == "instance"]
        if pick < 10:
            return own[pick // 2 % len(own)] if own and pick % 2 else None
        known = [*self.state.workers, "never-made"]
        return known[pick % len(known)]

    def a_task(self, pick: int, prefer: Callable[[ModelTask], bool]) -> ModelTask | None:
        """Mostly one of the preferred, the newest first; else any, those removed included."""
        tasks = self.state.tasks[::-1]
        preferred = [task for task in tasks if prefer(task)]
        if pick < 10 and preferred:
            return preferred[pick % len(preferred)]
        known = [*self.state.removed, *tasks]
        return known[pick % len(known)] if known else None

    def someone(self, usual: str | None, pick: int) -> Caller:
        """Mostly the usual one, else one after the other."""
        if pick < 8 and usual is not None:
            return CALLERS[usual]
        return list(CALLERS.values())[pick % len(CALLERS)]

    @invariant()
    def the_store_is_the_model(self) -> None:
        """Status, attempt, starts, worker, and the place in line, of every task."""
        found = self.door.stored()
        same(found.keys(), {task.id for task in self.state.tasks})
        self._check_alone(found)
        for task in self.state.tasks:
            self.agree(task, found[task.id], with_position=True)
        self.seen = found
        self.retried.clear()

    def _check_alone(self, found: dict[str, dict[str, Any]]) -> None:
        """What must hold whatever the model says."""
        for task_id, task in found.items():
            assert (task["worker_id"] is not None) or task["status"] not in HELD
            assert task["worker_id"] is None or task["status"] != "pending"
            before = self.seen.get(task_id)
            if before is None:
                continue
            assert task["attempt"] >= before["attempt"]
            if before["status"] in TERMINAL and task_id not in self.retried:
                same(task, before)

    @invariant()
    def the_jobs_are_the_models(self) -> None:
        """Which jobs a room sees, and who serves them."""
        for room in ("r1", "r2"):
            got = self.door.jobs(ROOT, room)
            wanted = {
                job.full_name: work.live_workers(self.state, job)
                for job in visible_jobs(self.state, room)
            }
            same(got, wanted)

    def _settle_hidden(self) -> None:
        """Where the rules leave open whether a job is listed again, the door's word counts."""
        for job in self.state.jobs.values():
            if job.maybe_hidden:
                room = "r1" if job.room == GLOBAL else job.room
                job.hidden = job.full_name not in self.door.jobs(ROOT, room)
                job.maybe_hidden = False

    @invariant()
    def turns_are_kept(self) -> None:
        """In a fair job a room never has the same turn twice, and its turns rise with its tasks."""
        turns: dict[tuple[int, str, int], int] = {}
        for task in self.state.tasks:
            if task.job.policy.order == "fair":
                place = (id(task.job), task.room, task.order.priority)
                assert task.turn > turns.get(place, -1)
                turns[place] = task.turn


def same(got: object, wanted: object) -> None:
    """Assert that they are equal, and say where they are not."""
    if isinstance(got, dict) and isinstance(wanted, dict) and got.keys() == wanted.keys():
        parts = {key: (got[key], wanted[key]) for key in got if got[key] != wanted[key]}
        assert not parts, f"(got, wanted) by member: {parts}, of {got}"
    assert got == wanted, f"got {got}, wanted {wanted}"
