"""Graphs of tasks drawn at a desk: each task has a name there, and is told what it waits for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from desk import Desk

from jobroom.domain import graph, names
from jobroom.domain.records import Caller, Job, Task, TaskView
from jobroom.service.use_case import writes
from jobroom.store import edges, planned, soundness
from jobroom.store.transaction import Transaction


class Node(NamedTuple):
    """A task to be added; ``needs``: the ids of what it depends on, with the conditions."""

    id: str
    needs: tuple[tuple[str, str], ...] = ()
    more: Mapping[str, Any] = {}


@writes
def plant(tx: Transaction, *, job: Job, identity: str, nodes: Sequence[Node]) -> list[TaskView]:
    """Add nodes and edges as any door does: lock, look, judge, write."""
    edges.lock(tx)
    named = {dependency_id for node in nodes for dependency_id, _ in node.needs}
    found = planned.find(tx, named - {node.id for node in nodes})
    status = {key: dependency.status for key, dependency in found.items()}
    for node in nodes:
        needs = [
            graph.Need(dependency_id, condition, status.get(dependency_id))
            for dependency_id, condition in node.needs
        ]
        begins = graph.begin(needs)
        status[node.id] = begins.status
        given = _given(job, identity, node) | begins._asdict()
        given["has_dependents"] = int(node.id in named)
        planned.add(tx, given, in_turn=job.claim_order == "fair")
        planned.add_edges(tx, node.id, needs)
    planned.expect_dependents(tx, found)
    if any(status[node.id] == "pending" for node in nodes):
        tx.claimable[job.seq] = None
    return planned.get_all(tx, [node.id for node in nodes])


def _given(job: Job, identity: str, node: Node) -> dict[str, Any]:
    given = {
        "id": node.id,
        "job_seq": job.seq,
        "job_version": job.version,
        "room_id": "r1",
        "created_by_id": identity,
        "priority": 0,
        "payload": "{}",
        "schema_version": job.schema_version,
        "run_at": None,
        "expires_at": None,
        "max_attempts": job.max_attempts,
        "timeout_seconds": job.timeout_seconds,
        "idempotency_key": None,
        "fingerprint": None,
        "key": None,
        "has_dependencies": int(bool(node.needs)),
        "kept_for": 3_600_000_000,
    }
    return given | dict(node.more)


class Plot:
    """A graph at a desk. ``needs`` are written ``"a b:afterany c:afternotok"``."""

    def __init__(self, desk: Desk, caller: Caller, job: Job) -> None:
        self.desk = desk
        self.caller = caller
        self.job = job
        self.ids: dict[str, str] = {}

    def draw(self, more: Mapping[str, Mapping[str, Any]] | None = None, /, **needs: str) -> None:
        """Add tasks in one transaction, by name; ``more``: further columns of some of them."""
        self.ids.update((name, names.new_uuid7()) for name in needs)
        nodes = [
            Node(self.ids[name], self._needs(said), (more or {}).get(name, {}))
            for name, said in needs.items()
        ]
        self.desk.queue.run(plant, job=self.job, identity=self.caller.identity, nodes=nodes)

    def _needs(self, said: str) -> tuple[tuple[str, str], ...]:
        pairs = (each.partition(":") for each in said.split())
        return tuple((self.ids.get(name, name), how or "afterok") for name, _, how in pairs)

    def named(self, task_id: str) -> str:
        return next(name for name, one in self.ids.items() if one == task_id)

    def rows(self) -> dict[str, tuple[str, int, str | None, str | None]]:
        """Status, version, whom it failed by, and the error of each; names for ids."""
        name_of = {task_id: name for name, task_id in self.ids.items()}
        found: dict[str, Any] = {}
        wanted = ", ".join(f"'{task_id}'" for task_id in name_of)
        for task_id, status, version, failed_by, error in self.desk.read(
            f"SELECT id, status, version, failed_by, error FROM task WHERE id IN ({wanted})"  # noqa: S608 - ids of ours
        ):
            said = error and error.replace(str(failed_by), name_of.get(failed_by, "?"))
            found[name_of[task_id]] = (status, version, name_of.get(failed_by), said)
        return found

    def statuses(self) -> dict[str, str]:
        rows = self.rows()
        return {name: rows[name][0] for name in self.ids}

    def view(self, name: str) -> TaskView:
        return self.desk.view(self.caller, self._stub(name))

    def task(self, name: str) -> Task:
        return self.view(name).task

    def edges_of(self, name: str) -> list[list[Any]]:
        """What a view of it tells: dependency (by name), condition, state, and its status."""
        told = json.loads(self.view(name).edges or "[]")
        return [[self.named(row[0]), row[1], row[2], row[5]] for row in told]

    def rewrite(self, name: str, columns: str) -> None:
        """Write to its row what no rule would: ``columns`` as in an UPDATE."""
        self.desk.write(f"UPDATE task SET {columns} WHERE id = '{self.ids[name]}'")  # noqa: S608 - ours

    def _stub(self, name: str) -> Any:
        return NamedTuple("Stub", [("id", str)])(self.ids[name])

    # --- ends ---------------------------------------------------------------------------------

    def start(self, name: str, worker: Caller, worker_id: str | None = None) -> Task:
        """Claim and start it, and whatever comes before it."""
        while True:
            [task] = self.desk.claim(worker, worker_id, start=True)
            if task.id == self.ids[name]:
                return task

    def complete(self, name: str, worker: Caller, **said: Any) -> Task:
        return self.desk.report(worker, self._held(name, worker), "completed", **said)

    def fail(self, name: str, worker: Caller, **said: Any) -> Task:
        said = {"error": "boom", "final": True, **said}
        return self.desk.report(worker, self._held(name, worker), "failed", **said)

    def cancel(self, name: str) -> Task:
        return self.desk.report(self.caller, self._stub(name), "cancelled")

    def _held(self, name: str, worker: Caller) -> Task:
        task = self.task(name)
        return task if task.status == "running" else self.start(name, worker)


def tangles(desk: Desk) -> list[str]:
    """What is wrong with the graphs of a queue, by its own check."""
    return desk.queue.run(soundness.tangles)
