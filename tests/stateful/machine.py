"""A machine that drives a door and the model side by side and compares every answer."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any, TypeVar

import model_ends as ends
import model_work as work
from doors import ROOT, Accepted, Door, DoorError, Filters, Joined
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from model import (
    GLOBAL,
    HELD,
    OPEN,
    TERMINAL,
    TYPED,
    TYPED_OTHERWISE,
    ModelTask,
    Order,
    Policy,
    Refusal,
    Said,
    State,
    Word,
    visible_jobs,
)

from jobroom.domain.records import Caller

T = TypeVar("T")
U = TypeVar("U")

ALICE, BOB, ADA = Caller("alice"), Caller("bob"), Caller("ada", is_admin=True)
CAROL = Caller("carol", rooms=frozenset({"r1"}))
CALLERS = {caller.identity: caller for caller in (ALICE, BOB, CAROL, ROOT, ADA)}
JOBS = ((GLOBAL, "Turns"), (GLOBAL, "Line"), ("r1", "Own"), ("r2", "Own"))
NAMES = tuple(f"{room}:modifiers:{name}" for room, name in JOBS)

SPANS = (7, 7, 35, 63, 98, 609, 3605, 86_408, 172_802)
"""How much time passes at once: multiples of TICK, each just beyond one of the figures."""

SETTINGS = {
    # For every run: the same examples each time, about half a minute for both doors together.
    "ci": settings(
        max_examples=50,
        stateful_step_count=40,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    ),
    # A request costs some ten times as much as a call.
    "ci over http": settings(
        max_examples=12,
        stateful_step_count=40,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    ),
    # By hand: JOBROOM_STATEFUL=deep pytest tests/stateful
    "deep": settings(max_examples=3_000, stateful_step_count=100, deadline=None, database=None),
    # For the mutations: the first failure is enough, nobody reads the smallest one.
    "bite": settings(
        max_examples=100,
        stateful_step_count=40,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    ),
}
CHOSEN = os.environ.get("JOBROOM_STATEFUL", "ci")
PROFILE = SETTINGS[CHOSEN]
HTTP_PROFILE = SETTINGS["ci over http" if CHOSEN == "ci" else CHOSEN]

identities = st.sampled_from(("alice", "alice", "bob", "carol", "root", "root", "ada"))
picks = st.integers(0, 11)
fences = st.sampled_from((None, 0, 0, 0, -1, 1))
rooms = st.sampled_from(("r1", "r1", "r2", "r2", GLOBAL))
statuses = st.sampled_from(("pending", "claimed", "running", "completed", "failed", "cancelled"))
policies = st.builds(
    Policy,
    on_worker_lost=st.sampled_from(("fail", "requeue")),
    max_attempts=st.sampled_from((None, None, 1, 2, 3)),
    retry_delay=st.sampled_from((None, None, 5)),
    timeout=st.sampled_from((None, None, 20)),
    claim_timeout=st.sampled_from((None, None, 12)),
    result_ttl=st.sampled_from((None, 1000)),
)
payloads = st.sampled_from(((), (("n", 1),), (("n", "x"),)))
orders = st.builds(
    Order,
    payload=payloads,
    priority=st.sampled_from((0, 0, 0, 1, -1)),
    run_in=st.sampled_from((None, None, None, -5, 12, 100)),
    expires_in=st.sampled_from((None, None, None, 13, 104)),
    max_attempts=st.sampled_from((None, None, None, 2)),
    timeout=st.sampled_from((None, None, None, 40)),
)
named_orders = st.builds(
    Order,
    payload=payloads,
    priority=st.sampled_from((0, 1)),
    key=st.sampled_from(("key-1", "key-2")),
) | st.builds(
    Order,
    payload=payloads,
    id=st.sampled_from([f"01900000-0000-7000-8000-00000000000{n}" for n in range(3)]),
)


class QueueMachine(RuleBasedStateMachine):
    """Rules are what clients, time and operators do; each is predicted before it is done."""

    def __init__(self, open_door: Callable[[], Door]) -> None:
        super().__init__()
        self.door = open_door()
        self.state = State()
        self.seen: dict[str, dict[str, Any]] = {}
        self.retried: set[str] = set()
        self.has_claimed = False
        self.named: list[tuple[str, str, int, Order]] = []
        self.said: list[tuple[Caller, str, Word]] = []
        self.pages: list[tuple[Caller, Filters, ModelTask, Any]] = []

    def teardown(self) -> None:
        """Let go of the queue."""
        self.door.close()

    # --- both sides ---------------------------------------------------------------------------

    def both(self, predict: Callable[[], T], act: Callable[[], U]) -> tuple[T, U] | None:
        """Do it in the model and at the door; None where both refuse with the same slug."""
        self.state.may_refuse = None
        try:
            wanted = predict()
        except Refusal as refusal:
            try:
                got = act()
            except DoorError as error:
                assert error.slug in refusal.slugs, f"{error}, but it should be {refusal}"
                return None
            message = f"answered {got}, but it should refuse: {refusal}"
            raise AssertionError(message) from refusal
        try:
            return wanted, act()
        except DoorError as error:
            if error.slug != self.state.may_refuse:
                raise
            return None

    def agree(self, task: ModelTask, seen: dict[str, Any], *, with_position: bool = False) -> None:
        """A task as the door shows it is the task of the model."""
        wanted = self.state.view(task, with_position=with_position)
        if isinstance(wanted["error"], Said):
            assert wanted["error"].lower() in (seen["error"] or "").lower()
            wanted["error"] = seen["error"]
        same(seen, wanted)

    # --- choosing -----------------------------------------------------------------------------

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

    # --- jobs and workers ---------------------------------------------------------------------

    @initialize(policy=policies)
    def set_up(self, policy: Policy) -> None:
        """Examples begin with something to do."""
        self.register("root", 0, policy, OPEN, pick=0, replace=False)
        self.register("ada", 1, policy, OPEN, pick=0, replace=False)
        self.register("alice", 2, policy, TYPED, pick=0, replace=False)

    @rule(
        identity=identities,
        number=st.integers(0, 3),
        policy=policies,
        schema=st.sampled_from((OPEN, OPEN, TYPED, TYPED_OTHERWISE)),
        pick=picks,
        replace=st.booleans(),
    )
    def register(
        self, identity: str, number: int, policy: Policy, schema: str, *, pick: int, replace: bool
    ) -> None:
        """A worker offers a job; how a job orders its tasks is fixed by its name here."""
        caller = CALLERS[identity]
        worker_id = self.a_worker(caller, pick)
        self._register(caller, number, policy, schema, worker_id=worker_id, replace=replace)

    def _register(
        self,
        caller: Caller,
        number: int,
        policy: Policy,
        schema: str,
        *,
        worker_id: str | None,
        replace: bool,
    ) -> None:
        room, name = JOBS[number]
        said: dict[str, Any] = {
            "schema": schema,
            "policy": dataclasses.replace(policy, order="fair" if name == "Turns" else "fifo"),
            "worker_id": worker_id,
            "replace": replace,
        }
        done = self.both(
            lambda: work.register(self.state, caller, room, name, **said),
            lambda: self.door.register(caller, room, name, **said),
        )
        if done:
            wanted, got = done
            live = work.live_workers(self.state, wanted.job)
            same(got, Joined(wanted.created, wanted.worker.id, live))

    @rule(identity=identities, number=st.integers(0, 3), policy=policies, serves=st.booleans())
    def join_with_new_worker(
        self, identity: str, number: int, policy: Policy, *, serves: bool
    ) -> None:
        """A process makes a worker of its own, as our SDK does, and registers with it."""
        caller = CALLERS[identity]
        made = work.create_worker(self.state, caller, self.door.create_worker(caller))
        if serves:
            job = self.state.jobs.get(NAMES[number])
            schema = job.schema if job else OPEN
            self._register(caller, number, policy, schema, worker_id=made.id, replace=False)

    @rule(identity=identities, pick=picks)
    def heartbeat(self, identity: str, pick: int) -> None:
        """A worker is alive and is told what to stop."""
        caller = CALLERS[identity]
        worker_id = self.a_worker(caller, pick) or identity
        told = [worker for worker in self.state.workers.values() if worker.notices]
        if told and pick % 3:
            worker_id, caller = told[pick % len(told)].id, CALLERS[told[pick % len(told)].identity]
        self._beat(caller, worker_id)

    def _beat(self, caller: Caller, worker_id: str) -> None:
        done = self.both(
            lambda: work.heartbeat(self.state, caller, worker_id),
            lambda: set(self.door.heartbeat(caller, worker_id)),
        )
        if done:
            (must, may), got = done
            assert must <= got <= may, (must, got, may)

    @rule(identity=identities, pick=picks)
    def delete_worker(self, identity: str, pick: int) -> None:
        """A worker leaves, or an admin removes it; those that hold something first."""
        caller = CALLERS[identity]
        worker_id = self.a_worker(caller, pick) or identity
        busy = [task.worker for task in self.state.tasks if task.is_held and task.worker]
        if busy and pick % 3:
            worker_id = busy[pick % len(busy)]
            caller = self.someone(self.state.workers[worker_id].identity, pick)
        self.both(
            lambda: work.delete_worker(self.state, caller, worker_id),
            lambda: self.door.delete_worker(caller, worker_id),
        )

    # --- tasks --------------------------------------------------------------------------------

    @rule(identity=identities, room=rooms, number=st.integers(0, 3), order=orders | named_orders)
    def submit(self, identity: str, room: str, number: int, order: Order) -> None:
        """A task for a job, maybe with a key or an id that came before."""
        caller, name = CALLERS[identity], NAMES[number]
        done = self.both(
            lambda: work.submit(self.state, caller, room, name, order),
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

    def _accept(self, wanted: work.Submitted, got: Accepted) -> None:
        if not wanted.replayed:
            wanted.task.id = got.task["id"]
            assert wanted.task.id not in self.seen
        same(got.replayed, wanted.replayed)
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
        caller = CALLERS[worker.identity]
        self._claim(caller, worker_id, limit=limit, start=start, request_id=request_id)

    def a_held_task(self, pick: int, *, start: bool) -> ModelTask:
        """Mostly one that is held, for which something is claimed if nothing is."""
        if not any(task.is_held for task in self.state.tasks):
            self.claim_what_there_is(pick, 1, start=start, request_id=None)
        task = self.a_task(pick, lambda task: task.is_held)
        assert task is not None
        return task

    def _claim(self, caller: Caller, worker_id: str | None, **asked: Any) -> None:
        self.has_claimed = True
        done = self.both(
            lambda: work.claim(self.state, caller, worker_id, **asked),
            lambda: self.door.claim(caller, worker_id, **asked),
        )
        if done:
            wanted, got = done
            same([task["id"] for task in got], [task.id for task in wanted])
            for task, seen in zip(wanted, got, strict=True):
                self.agree(task, seen)

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
            task = self.a_task(pick, lambda task: task.is_terminal) or task
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
        done = self.both(
            lambda: ends.retry(self.state, caller, task.id),
            lambda: self.door.retry(caller, task.id),
        )
        if done:
            self.agree(*done)
            self.retried.add(task.id)

    # --- time ---------------------------------------------------------------------------------

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

    # --- reading ------------------------------------------------------------------------------

    @rule(identity=identities, room=rooms, number=st.integers(0, 3), pick=picks)
    def look_around(self, identity: str, room: str, number: int, pick: int) -> None:
        """A task, the jobs of a room, one job by name, the workers."""
        caller = CALLERS[identity]
        if task := self.a_task(pick, lambda task: not task.is_terminal):
            self._read_task(caller, task)
        self._read_jobs(caller, room, NAMES[number])
        self._read_workers(caller)

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
        onward=st.booleans(),
    )
    def list_tasks(
        self,
        identity: str,
        room: str,
        number: int | None,
        wanted: set[str],
        creator: str | None,
        limit: int,
        *,
        onward: bool,
    ) -> None:
        """The first page of a list, and maybe all others."""
        job = None if number is None else NAMES[number]
        asked = Filters(room, job, tuple(sorted(wanted)), creator)
        self._page(CALLERS[identity], asked, limit, after=None, cursor=None)
        while onward and self.pages:
            self.turn_the_page(limit)

    @precondition(lambda self: self.pages)
    @rule(limit=st.sampled_from((1, 2, 50)))
    def turn_the_page(self, limit: int) -> None:
        """The cursor is stable while rows come and go."""
        caller, asked, after, cursor = self.pages.pop()
        self._page(caller, asked, limit, after=after, cursor=cursor)

    def _page(
        self, caller: Caller, asked: Filters, limit: int, *, after: ModelTask | None, cursor: Any
    ) -> None:
        filters = asked._asdict()
        room = filters.pop("room")
        done = self.both(
            lambda: ends.list_tasks(self.state, caller, room, **filters),
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
        self.both(lambda: work.check_room(caller, room), lambda: self.door.jobs(caller, room))
        done = self.both(
            lambda: work.live_workers(self.state, work.find_job(self.state, caller, room, name)),
            lambda: self.door.workers_of(caller, room, name),
        )
        if done:
            same(done[1], done[0])

    def _read_workers(self, caller: Caller) -> None:
        """One's own workers, an admin's all, without those that were lost."""
        wanted = {
            worker.id: (
                self.state.is_alive(worker),
                len(self.state.linked_to(worker)),
                len(self.state.held_by(worker)),
            )
            for worker in self.state.workers.values()
            if worker.state == "active" and (caller.is_admin or worker.identity == caller.identity)
        }
        same(self.door.workers(caller), wanted)

    # --- always -------------------------------------------------------------------------------

    @invariant()
    def the_store_is_the_model(self) -> None:
        """Status, attempt, starts, worker, and the place in line, of every task."""
        found = self.door.stored()
        for task in self.state.tasks:
            if self.has_claimed and self.state.is_expired(task):
                # Which of the expired a claim clears away is its own affair.
                if found[task.id]["status"] == "failed":
                    ends.expire(self.state, task)
        self.has_claimed = False
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
            for job in self.state.jobs.values():
                if job.maybe_hidden and job.room in (room, GLOBAL):
                    job.hidden, job.maybe_hidden = job.full_name not in got, False
            wanted = {
                job.full_name: work.live_workers(self.state, job)
                for job in visible_jobs(self.state, room)
            }
            same(got, wanted)

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
