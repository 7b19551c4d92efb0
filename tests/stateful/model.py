"""What the queue should hold, as plain records: the state that the model's rules work on.

The rules are in ``model_work`` (jobs, workers, claim), ``model_submit``, ``model_ends`` (reports,
loss, sweep) and ``model_graph`` (dependencies, retry). They were written from the contract, not
from the queue's code. Time is whole seconds that pass only when a test says so; every span below
leaves a remainder when divided by ``TICK``, so the milliseconds that really pass never decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from model_edges import Need, settle, view_of_needs

from jobroom.domain.records import Caller

TICK = 7
WORKER_TIMEOUT = 60
SWEEP_INTERVAL = 30
RETENTION = 172_800
KEY_LIFE = 86_400
NOTICE_LIFE = 600
IDLE_CLAIMS = 10
GLOBAL = "@global"

OPEN = "open"
TYPED = "typed"
TYPED_OTHERWISE = "typed, spelled otherwise"

TERMINAL = frozenset({"completed", "failed", "cancelled"})
HELD = frozenset({"claimed", "running"})


class Refusal(Exception):
    """The queue must refuse with one of these slugs."""

    def __init__(self, *slugs: str) -> None:
        super().__init__(", ".join(slugs))
        self.slugs = frozenset(slugs)


def refuse(*slugs: str) -> NoReturn:
    """Predict a refusal."""
    raise Refusal(*slugs)


class Said(str):
    """A text that the queue words itself; it must hold this part, in either case."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """What a registration says beside the name and the schema."""

    order: str = "fifo"
    on_worker_lost: str = "fail"
    max_attempts: int | None = None
    retry_delay: int | None = None
    timeout: int | None = None
    claim_timeout: int | None = None
    result_ttl: int | None = None

    def attempts(self) -> int:
        """The default is 1, or 3 with requeue."""
        return self.max_attempts or (3 if self.on_worker_lost == "requeue" else 1)


@dataclass(eq=False, slots=True)
class ModelJob:
    """A job, the workers linked to it, and the turns of rooms."""

    room: str
    name: str
    schema: str
    policy: Policy
    schema_version: int = 1
    hidden: bool = False
    maybe_hidden: bool = False
    links: set[str] = field(default_factory=set)
    next_turn: dict[tuple[int, str], int] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The job's name outside."""
        return f"{self.room}:modifiers:{self.name}"


@dataclass(eq=False, slots=True)
class ModelWorker:
    """A worker; ``notices`` are the tasks to stop: since when, and whether that is certain."""

    id: str
    identity: str
    kind: str
    beat: int
    state: str = "active"
    notices: dict[str, tuple[int, bool]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Order:
    """What a submission says; ``run_in`` and ``expires_in`` count from now.

    ``depends_on`` pairs ids, or labels of the same request, with conditions.
    """

    payload: tuple[tuple[str, Any], ...] = ()
    priority: int = 0
    run_in: int | None = None
    expires_in: int | None = None
    max_attempts: int | None = None
    timeout: int | None = None
    id: str | None = None
    key: str | None = None
    label: str | None = None
    depends_on: tuple[tuple[str, str], ...] = ()
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """What a report says."""

    status: str | None = None
    error: str | None = None
    result: Any = None
    progress: float | None = None
    message: str | None = None
    attempt: int | None = None
    worker_id: str | None = None
    final: bool = False


@dataclass(eq=False, slots=True)
class ModelTask:
    """A task; ``seq`` is the order of submission, ``id`` what the queue called it.

    ``blame``: the dependencies that it may have failed for, with the words for it.
    """

    seq: int
    job: ModelJob
    room: str
    creator: str
    order: Order
    created: int
    run_at: int | None
    expires_at: int | None
    max_attempts: int
    timeout: int | None
    turn: int
    ready: bool
    schema_version: int
    id: str = ""
    status: str = "pending"
    worker: str | None = None
    attempt: int = 0
    starts: int = 0
    idle: int = 0
    due: int | None = None
    request_id: str | None = None
    error: str | None = None
    result: Any = None
    progress: float | None = None
    message: str | None = None
    needs: dict[str, Need] = field(default_factory=dict)
    blame: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands among the tasks of its job."""
        return (-self.order.priority, self.turn, self.seq)

    @property
    def is_held(self) -> bool:
        """Whether a worker has it."""
        return self.status in HELD

    @property
    def is_terminal(self) -> bool:
        """Whether it has ended."""
        return self.status in TERMINAL


@dataclass(eq=False, slots=True)
class State:
    """All that the model knows."""

    now: int = 0
    count: int = 0
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    workers: dict[str, ModelWorker] = field(default_factory=dict)
    tasks: list[ModelTask] = field(default_factory=list)
    removed: list[ModelTask] = field(default_factory=list)
    keys: dict[tuple[str, str], ModelTask] = field(default_factory=dict)
    swept_at: int | None = None
    judge_at: int | None = None
    may_refuse: str | None = None
    """The slug of a refusal that would be right too, where the last prediction is an answer."""

    def linked_to(self, worker: ModelWorker) -> list[ModelJob]:
        """The jobs that a worker serves."""
        return [job for job in self.jobs.values() if worker.id in job.links]

    def held_by(self, worker: ModelWorker) -> list[ModelTask]:
        """What a worker holds."""
        return [task for task in self.tasks if task.is_held and task.worker == worker.id]

    def in_line(self, job: ModelJob) -> list[ModelTask]:
        """The tasks of a job that wait for a claim, first one first."""
        waiting = (t for t in self.tasks if t.job is job and t.status == "pending" and t.ready)
        return sorted(waiting, key=lambda task: task.place)

    def owner_of(self, task: ModelTask) -> str | None:
        """The identity of the worker that has the task or had it last, while that is known."""
        worker = self.workers.get(task.worker or "")
        return worker.identity if worker else None

    def is_expired(self, task: ModelTask) -> bool:
        """Whether it waits past its ``expires_at``."""
        late = task.expires_at is not None and task.expires_at <= self.now
        return late and task.status in {"pending", "blocked"}

    def is_alive(self, worker: ModelWorker) -> bool:
        """Whether the worker was heard of within the timeout."""
        return worker.state == "active" and self.now - worker.beat < WORKER_TIMEOUT

    def sees_task(self, caller: Caller, task: ModelTask) -> bool:
        """The creator always, the holder whatever his rooms, else whoever sees the room."""
        return caller.identity in (task.creator, self.owner_of(task)) or caller.sees(task.room)

    def is_orphan(self, job: ModelJob) -> bool:
        """No worker that was not lost, and no unfinished task."""
        active = any(self.workers[worker_id].state == "active" for worker_id in job.links)
        return not active and all(t.is_terminal for t in self.tasks if t.job is job)

    def end(self, task: ModelTask, status: str, error: str | None) -> None:
        """Move a task to a terminal status, and let those that wait for it go on or fail."""
        self.finish(task, status, error)
        settle(self)

    def finish(self, task: ModelTask, status: str, error: str | None) -> None:
        """Move this one to a terminal status; from now on its retention counts."""
        task.status, task.error = status, error
        ttl = task.job.policy.result_ttl
        task.due = self.now + (RETENTION if ttl is None else ttl)

    def put_back(self, task: ModelTask) -> None:
        """Make a task pending again, in its old place."""
        task.status, task.ready = "pending", True
        task.worker = task.due = task.request_id = None

    def view(self, task: ModelTask, *, with_position: bool = True) -> dict[str, Any]:
        """The task as a reader must see it."""
        position = None
        if with_position and task.status == "pending" and task.ready:
            position = self.in_line(task.job).index(task) + 1
        return {
            "id": task.id,
            "job_name": task.job.full_name,
            "room_id": task.room,
            "status": task.status,
            "worker_id": task.worker,
            "error": task.error,
            "payload": dict(task.order.payload),
            "queue_position": position,
            "created_by_id": task.creator,
            "attempt": task.attempt,
            "starts": task.starts,
            "max_attempts": task.max_attempts,
            "priority": task.order.priority,
            "progress": task.progress,
            "message": task.message,
            "result": task.result,
            "schema_version": task.schema_version,
            "key": task.order.label,
            **view_of_needs(self, task),
        }


def check_room(caller: Caller, room: str) -> None:
    """A room that the token may not see is 404; ``@global`` is visible to all."""
    if room != GLOBAL and not caller.sees(room):
        refuse("not-found")


def visible_jobs(state: State, room: str) -> Iterator[ModelJob]:
    """A room sees its own jobs and the global ones, as long as they are not hidden."""
    for job in state.jobs.values():
        if not job.hidden and job.room in (room, GLOBAL):
            yield job
