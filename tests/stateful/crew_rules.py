"""Rules of the machine for jobs and workers."""

from __future__ import annotations

import dataclasses
from typing import Any

import model_work as work
from comparison import Comparison, same
from doors import Joined
from draws import (
    CALLERS,
    JOBS,
    NAMES,
    identities,
    picks,
    policies,
)
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from model import (
    OPEN,
    TYPED,
    TYPED_OTHERWISE,
    Policy,
)

from jobroom.domain.records import Caller


class CrewRules(Comparison):
    """Who registers, beats and leaves."""

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
