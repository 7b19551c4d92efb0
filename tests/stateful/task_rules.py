"""Rules of the machine for tasks: submit, claim, report, cancel, retry."""

from __future__ import annotations

import dataclasses
from typing import Any

import model_ends as ends
import model_graph as graph
import model_submit as submitting
import model_work as work
from comparison import same
from crew_rules import CrewRules
from doors import Accepted
from draws import (
    ADA,
    CALLERS,
    NAMES,
    fences,
    identities,
    named_orders,
    orders,
    picks,
    rooms,
)
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from model import (
    GLOBAL,
    ModelTask,
    Order,
    Word,
)
from model_edges import rename

from jobroom.domain.records import Caller


class TaskRules(CrewRules):
    """What becomes of a task."""

    @rule(identity=identities, room=rooms, number=st.integers(0, 3), order=orders | named_orders)
    def submit(self, identity: str, room: str, number: int, order: Order) -> None:
        """A task for a job, maybe with a key or an id that came before."""
        caller, name = CALLERS[identity], NAMES[number]
        done = self.both(
            lambda: submitting.submit(self.state, caller, room, name, order),
            lambda: self.door.submit(caller, room, name, order),
        )
        if order.key or order.id:
            self.named.append((identity, room, number, order))
        if done:
            self._accept(*done)

    @precondition(lambda self: self.named)
    @rule(back=st.integers(1, 4), change=st.sampled_from((None, None, None, "who", "job", "body")))
    def submit_again(self, back: int, change: str | None) -> None:
        """The answer was lost and the request comes again; or a key is used for another one."""
        identity, room, number, order = self.named[-min(back, len(self.named))]
        match change:
            case "who":
                identity = "bob" if identity == "alice" else "alice"
            case "job":
                number = 1 - number if number < 2 else 1
            case "body":
                order = dataclasses.replace(order, priority=order.priority + 1)
            case _:
                pass
        self.submit(identity, room, number, order)
        self.named.pop()

    def _accept(self, wanted: submitting.Submitted, got: Accepted) -> None:
        if not wanted.replayed:
            assert got.task["id"] not in self.seen
            rename(self.state, wanted.task, got.task["id"])
        same(got.replayed, wanted.replayed)
        self._settle_hidden()
        self.agree(wanted.task, got.task)

    @rule(
        identity=st.sampled_from(("alice", "bob")),
        batch=st.lists(st.tuples(st.sampled_from(("r1", "r2")), picks), min_size=2, max_size=5),
    )
    def submit_a_batch(self, identity: str, batch: list[tuple[str, int]]) -> None:
        """A backlog, so that order and turns between rooms show."""
        for room, pick in batch:
            number = 0 if pick % 2 else 1
            self.submit(identity, room, number, Order(priority=int(pick == 0)))

    @rule(
        identity=identities,
        pick=picks,
        limit=st.sampled_from((1, 1, 2, 5)),
        start=st.booleans(),
        request_id=st.sampled_from((None, None, "ask-1", "ask-2")),
    )
    def claim(
        self, identity: str, pick: int, limit: int, *, start: bool, request_id: str | None
    ) -> None:
        """A worker asks for work."""
        caller = CALLERS[identity]
        self._claim(
            caller, self.a_worker(caller, pick), limit=limit, start=start, request_id=request_id
        )

    @rule(
        pick=picks,
        limit=st.sampled_from((1, 1, 1, 2, 5)),
        start=st.booleans(),
        request_id=st.sampled_from((None, None, "ask-1", "ask-2")),
    )
    def claim_what_there_is(
        self, pick: int, limit: int, *, start: bool, request_id: str | None
    ) -> None:
        """A worker asks that has something waiting; both are made if they are missing."""
        caller, worker_id = self._who_has_work(pick)
        self._claim(caller, worker_id, limit=limit, start=start, request_id=request_id)

    @rule(
        pick=picks,
        limit=st.sampled_from((1, 1, 2, 5)),
        start=st.booleans(),
        request_id=st.sampled_from((None, None, "ask-1", "ask-2")),
        named=st.sampled_from(((), ("r1",), ("r2",), ("r1", "r2"), ("r1", GLOBAL))),
    )
    def claim_with_a_narrow_token(
        self,
        pick: int,
        limit: int,
        *,
        start: bool,
        request_id: str | None,
        named: tuple[str, ...],
    ) -> None:
        """It asks by a token of some rooms, whatever it has registered by another one."""
        caller, worker_id = self._who_has_work(pick)
        narrow = caller._replace(rooms=frozenset(named))
        self._claim(narrow, worker_id, limit=limit, start=start, request_id=request_id)

    def _who_has_work(self, pick: int) -> tuple[Caller, str | None]:
        waiting = [task for task in self.state.tasks if task.status == "pending"]
        if not waiting:
            self.submit("alice", ("r1", "r2")[pick % 2], pick % 2, Order())
            waiting = self.state.tasks[-1:]
        jobs = [task.job for task in waiting]
        workers = [
            worker
            for worker in self.state.workers.values()
            if any(worker.id in job.links for job in jobs)
        ]
        if not workers:
            job = jobs[pick % len(jobs)]
            number = NAMES.index(job.full_name)
            self._register(ADA, number, job.policy, job.schema, worker_id=None, replace=False)
            workers = [self.state.workers[ADA.identity]]
        worker = workers[pick % len(workers)]
        worker_id = None if worker.kind == "identity" else worker.id
        return CALLERS[worker.identity], worker_id

    def a_held_task(self, pick: int, *, start: bool) -> ModelTask:
        """Mostly one that is held, for which something is claimed if nothing is."""
        if not any(task.is_held for task in self.state.tasks):
            self.claim_what_there_is(pick, 1, start=start, request_id=None)
        task = self.a_task(pick, lambda task: task.is_held)
        assert task is not None
        return task

    def _claim(self, caller: Caller, worker_id: str | None, **asked: Any) -> None:
        done = self.both(
            lambda: work.claim(self.state, caller, worker_id, **asked),
            lambda: self.door.claim(caller, worker_id, **asked),
        )
        if done:
            wanted, got = done
            same([task["id"] for task in got], [task.id for task in wanted])
            for task, seen in zip(wanted, got, strict=True):
                self.agree(task, seen)
        self._settle_expired()

    def _settle_expired(self) -> None:
        """Which of the expired tasks a claim clears away is its own affair."""
        expired = [task for task in self.state.tasks if self.state.is_expired(task)]
        found = self.door.stored() if expired else {}
        for task in expired:
            told = found[task.id]
            if (told["status"], told["failed_by"]) == ("failed", None):
                ends.expire(self.state, task)

    @rule(pick=picks, who=picks, fence=fences, names_worker=picks)
    def start(self, pick: int, who: int, fence: int | None, names_worker: int) -> None:
        """The worker begins."""
        self._say("running", pick, who, fence, names_worker)

    @rule(pick=picks, who=picks, fence=fences, names_worker=picks)
    def complete(self, pick: int, who: int, fence: int | None, names_worker: int) -> None:
        """It is done."""
        self._say("completed", pick, who, fence, names_worker, result={"energy": 1})

    @rule(pick=picks, who=picks, fence=fences, names_worker=picks, final=st.booleans())
    def fail(
        self, pick: int, who: int, fence: int | None, names_worker: int, *, final: bool
    ) -> None:
        """It did not work out, for now or for good."""
        self._say("failed", pick, who, fence, names_worker, error="it broke", final=final)

    @rule(pick=picks, who=picks, fence=fences, names_worker=picks)
    def hand_back(self, pick: int, who: int, fence: int | None, names_worker: int) -> None:
        """The worker leaves it to another."""
        self._say("pending", pick, who, fence, names_worker)

    def _say(
        self, status: str, pick: int, who: int, fence: int | None, names_worker: int, **more: Any
    ) -> None:
        """A report, mostly by the holder on its current attempt."""
        task = self.a_held_task(pick, start=who % 2 == 0)
        word = Word(
            status,
            attempt=None if fence is None else max(task.attempt + fence, 1),
            worker_id=self._named(task, names_worker),
            **more,
        )
        self._report(self.someone(self.state.owner_of(task), who), task, word)

    def _named(self, task: ModelTask, pick: int) -> str | None:
        if pick < 6 or task.worker is None:
            return None
        others = list(self.state.workers)
        return task.worker if pick < 10 else others[pick % len(others)]

    def _report(self, caller: Caller, task: ModelTask, word: Word) -> None:
        done = self.both(
            lambda: ends.report(self.state, caller, task.id, word),
            lambda: self.door.report(caller, task.id, word),
        )
        if done:
            self.agree(*done)
        self.said.append((caller, task.id, word))

    @precondition(lambda self: self.said)
    @rule(back=st.integers(1, 3))
    def report_again(self, back: int) -> None:
        """The answer to a report was lost, so it comes again."""
        caller, task_id, word = self.said[-min(back, len(self.said))]
        done = self.both(
            lambda: ends.report(self.state, caller, task_id, word),
            lambda: self.door.report(caller, task_id, word),
        )
        if done:
            self.agree(*done)

    @rule(pick=picks, who=picks, progress=st.sampled_from((None, 0.25, 0.5)))
    def progress(self, pick: int, who: int, progress: float | None) -> None:
        """How far it is."""
        task = self.a_held_task(pick, start=who % 2 == 0)
        word = Word(progress=progress, message="at work")
        self._report(self.someone(self.state.owner_of(task), who), task, word)

    @rule(pick=picks, who=picks, names_worker=picks)
    def cancel(self, pick: int, who: int, names_worker: int) -> None:
        """By its creator, its worker, an admin, or a stranger."""
        task = self.a_held_task(pick, start=who % 2 == 0)
        if pick % 3 == 0:
            task = self.a_task(pick, lambda task: task.status == "pending") or task
        elif pick % 4 == 1:
            task = self.a_task(pick, lambda task: task.status in {"completed", "failed"}) or task
        usual = task.creator if who % 2 else self.state.owner_of(task)
        caller = self.someone(usual, who)
        is_worker = caller.identity == self.state.owner_of(task)
        word = Word("cancelled", worker_id=self._named(task, names_worker) if is_worker else None)
        self._report(caller, task, word)

    @precondition(lambda self: self.state.tasks)
    @rule(pick=picks, who=picks)
    def retry(self, pick: int, who: int) -> None:
        """A failed or cancelled task goes again."""
        task = self.a_task(pick, lambda task: task.status in {"failed", "cancelled"})
        assert task is not None
        caller = self.someone(task.creator, who)
        self._retry(caller, task)

    def _retry(self, caller: Caller, task: ModelTask) -> None:
        """What the dry run lists is what happens, and where that is refused so is the retry."""
        listed = self.both(
            lambda: graph.would_change(self.state, caller, task.id),
            lambda: self.door.would_change(caller, task.id),
        )
        before = self.door.stored()
        done = self.both(
            lambda: graph.retry(self.state, caller, task.id),
            lambda: self.door.retry(caller, task.id),
        )
        same(listed is None, done is None)
        if listed and done:
            (seen_ids, hidden_ids), (ids, hidden) = listed
            same((sorted(ids), hidden), (sorted(seen_ids), len(hidden_ids)))
            same(ids[0], task.id)
            (wanted, touched), seen = done
            self.agree(wanted, seen)
            self.retried.update(touched)
            found = self.door.stored()
            moved = [each for each in found if found[each]["status"] != before[each]["status"]]
            same(sorted(moved), sorted(seen_ids + hidden_ids))
