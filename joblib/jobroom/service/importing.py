"""Bringing the jobs of pyantz's own ``queue.db`` into the room ``@local``.

They come in the order in which they were added, some at a time: each transaction brings its jobs
with their edges or nothing, and what is there already stays as it is, so that the same import may
be run again where it was cut off. A dependency may come behind what waits for it, or never, as the
embedded queue allows it too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from jobroom.domain import graph, jsontext
from jobroom.domain.graph import Condition, EdgeState, Need
from jobroom.domain.lifecycle import TaskStatus, is_terminal
from jobroom.domain.local import task_id_of
from jobroom.service import local, old_jobs
from jobroom.service.use_case import reads, writes
from jobroom.store import edges, imported, planned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobroom.service.old_jobs import Config, Stand
    from jobroom.service.queue import JobQueue
    from jobroom.store.pyantz_file import OldJob, PyantzFile
    from jobroom.store.transaction import Transaction

FAR_BATCH, NEAR_BATCH = 200, 2000
"""Jobs per transaction, across a network and in a file of this host."""
READ_AT_ONCE = 100
LARGEST_BATCH = 4_000_000
"""Characters of configurations in a transaction, beyond which no more jobs are put into it."""


class Fault(NamedTuple):
    """A job that could not be taken over as it was, and why."""

    job_id: str
    reason: str


@dataclass
class Imported:
    """What an import did. ``blocked`` are the ids of those that waited when they came."""

    statuses: Counter[str] = field(default_factory=Counter)
    edges: int = 0
    were_running: int = 0
    known: int = 0
    faults: list[Fault] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    settled: bool = False

    @property
    def jobs(self) -> int:
        """How many were brought."""
        return self.statuses.total()

    def add(self, other: Imported) -> None:
        """Count what another transaction did."""
        self.statuses += other.statuses
        self.edges += other.edges
        self.were_running += other.were_running
        self.known += other.known
        self.faults += other.faults
        self.blocked += other.blocked
        self.settled = self.settled or other.settled


class Importing:
    """One import. ``run`` does it step by step; ``done`` is what it has brought."""

    def __init__(self, queue: JobQueue, file: PyantzFile, *, running: old_jobs.Running) -> None:
        self._queue = queue
        self._file = file
        self._running = running
        self._ids: dict[str, str] = {}
        self._needed = frozenset(map(task_id_of, file.needed))
        self.done = Imported()

    @property
    def cycle(self) -> list[str] | None:
        """Jobs that wait for each other, from one of them back to itself; pyantz allows it."""
        waits: dict[str, list[str]] = {}
        for dependent, dependency in self._file.dependencies():
            waits.setdefault(dependent, []).append(dependency)
            waits.setdefault(dependency, [])
        return graph.find_cycle(waits)

    def run(self) -> Iterator[int]:
        """Bring what is not there yet; yields how many of ``file.order`` are dealt with."""
        dealt_with = 0
        for batch in self._batches():
            jobs = [job for job in batch if self._is_first(job)]
            self.done.add(
                self._queue.run(import_jobs, jobs=jobs, needed=self._needed, running=self._running)
            )
            dealt_with += len(batch)
            yield dealt_with
        if self.done.settled:
            self._count_again()

    def _batches(self) -> Iterator[list[OldJob]]:
        most = NEAR_BATCH if self._queue.database.is_at_hand else FAR_BATCH
        batch: list[OldJob] = []
        size = 0
        for job in self._jobs():
            batch.append(job)
            size += len(job.config or "")
            if len(batch) >= most or size > LARGEST_BATCH:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _jobs(self) -> Iterator[OldJob]:
        order = self._file.order
        for first in range(0, len(order), READ_AT_ONCE):
            yield from self._file.read(order[first : first + READ_AT_ONCE])

    def _is_first(self, job: OldJob) -> bool:
        """Two spellings of one UUID are two jobs for pyantz, and one here."""
        first = self._ids.setdefault(task_id_of(job.job_id), job.job_id)
        if first == job.job_id:
            return True
        reason = f"not imported: its id is the same UUID as that of {jsontext.shown(first)}"
        self.done.faults.append(Fault(job.job_id, reason))
        return False

    def _count_again(self) -> None:
        """Some that waited have been settled by what came behind them."""
        now = self._queue.run(_statuses_of, ids=self.done.blocked)
        del self.done.statuses[TaskStatus.BLOCKED]
        self.done.statuses += now


@reads
def _statuses_of(tx: Transaction, *, ids: Sequence[str]) -> Counter[str]:
    return imported.count_statuses(tx, ids)


@writes
def import_jobs(
    tx: Transaction, *, jobs: Sequence[OldJob], needed: frozenset[str], running: old_jobs.Running
) -> Imported:
    """Add those of the jobs that are not there, each as it stood, with its edges.

    ``needed`` are the ids of all that anybody in the file depends on.
    """
    edges.lock(tx)
    ids = [task_id_of(job.job_id) for job in jobs]
    wanted = {task_id_of(name) for job in jobs for name in job.depends_on}
    found = planned.find(tx, wanted.union(ids))
    bringing = _Bringing(tx, running, {each.id: each.status for each in found.values()})
    bringing.awaited = imported.awaited(tx, ids)
    for task_id, job in zip(ids, jobs, strict=True):
        if task_id in found:
            # Where the answer to the first try was lost, what is found is what that one brought.
            bringing.done.known += not tx.is_repeat
            bringing.done.statuses[found[task_id].status] += tx.is_repeat
        else:
            bringing.add(task_id, job, is_needed=task_id in needed)
    planned.expect_dependents(tx, wanted.intersection(found))
    for task_id in bringing.late:
        edges.settle(tx, task_id)
    bringing.done.settled = bool(bringing.late)
    return bringing.done


class _Bringing:
    """What is known while the jobs of one transaction are added, in their order."""

    def __init__(
        self, tx: Transaction, running: old_jobs.Running, statuses: dict[str, str]
    ) -> None:
        self._tx = tx
        self._running = running
        self._statuses = statuses
        self._job_seqs: dict[str, int] = {}
        self.awaited: set[str] = set()
        """Those that somebody waits for who is there already."""
        self.late: list[str] = []
        """Those that have ended, and come behind what waits for them."""
        self.done = Imported()

    def add(self, task_id: str, job: OldJob, *, is_needed: bool) -> None:
        config = old_jobs.read_config(job)
        needs = self._needs(job, config)
        stands = old_jobs.find_stand(job, config, needs, self._running)
        imported.add(
            self._tx,
            {
                **config.columns,
                **stands.columns(job),
                "id": task_id,
                "job_seq": self._job_seq(config.function),
                "key": jsontext.escape_nul(job.job_id),
                "starts": min(config.attempted + stands.has_run, config.columns["max_attempts"]),
                "has_dependencies": int(bool(needs)),
                "has_dependents": int(is_needed or task_id in self.awaited),
            },
        )
        planned.add_edges(self._tx, task_id, needs)
        self._note(task_id, job, stands, needs)

    def _note(self, task_id: str, job: OldJob, stands: Stand, needs: list[Need]) -> None:
        self._statuses[task_id] = stands.status
        self.awaited.update(need.dependency_id for need in needs if need.state == EdgeState.WAITING)
        if is_terminal(stands.status) and task_id in self.awaited:
            self.late.append(task_id)
        if stands.status == TaskStatus.BLOCKED:
            self.done.blocked.append(task_id)
        self.done.statuses[stands.status] += 1
        self.done.edges += len(needs)
        self.done.were_running += job.status == old_jobs.RUNNING
        if stands.fault:
            self.done.faults.append(Fault(job.job_id, stands.fault))

    def _job_seq(self, function: str) -> int:
        if function not in self._job_seqs:
            self._job_seqs[function] = local.job_seq_of(self._tx, function)
        return self._job_seqs[function]

    def _needs(self, job: OldJob, config: Config) -> list[Need]:
        """Its edges. pyantz's own runner only knows ``afterok``: what it let run went by that."""
        waits = job.status == old_jobs.PENDING
        condition = config.condition if waits else Condition.AFTEROK
        named = {task_id_of(name): name for name in job.depends_on}
        return [
            Need(each, condition, self._statuses.get(each), jsontext.escape_nul(name))
            for each, name in named.items()
        ]
