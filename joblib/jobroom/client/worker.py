"""The worker that this process is: how it comes, which jobs it serves, what it holds, how it goes.

It is an *instance worker*, made by ``POST /workers`` when first needed, so that two processes
with one token never disturb each other. When the server has forgotten it (it was swept), a new
one takes over all its jobs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from dataclasses import dataclass, field, replace

from jobroom.client import connection, problems
from jobroom.client.api import Api
from jobroom.client.ending import Ending
from jobroom.client.heart import Heart
from jobroom.client.holds import Hold, Holds
from jobroom.client.misfits import Misfits
from jobroom.client.options import Registration
from jobroom.client.transport import CALL, ONCE, Json, Patience
from jobroom.errors import (
    Forbidden,
    InvalidInput,
    JobroomError,
    SchemaConflict,
    Unauthorized,
    WorkerNotFound,
)

log = logging.getLogger("jobroom.client")

USUAL_TIMEOUT_SECONDS = 60.0
BEATS_PER_TIMEOUT = 3
LEAST_BEAT_SECONDS = 0.05
SHORTEST_TRY_SECONDS = 2.0
ROUNDS = 5
FORGETFUL = "The server forgot each new worker at once; is it being reset?"
BRIEF = Patience(5.0, timeout=3.0)
"""For what is said on the way out: a server that is away must not keep the program from ending."""


@dataclass(slots=True)
class _Instance:
    """The current worker on the server; ``linked`` are the jobs it was registered for."""

    id: str | None = None
    timeout_seconds: float = USUAL_TIMEOUT_SECONDS
    linked: set[str] = field(default_factory=set)


class ProcessWorker:
    """One process's worker; safe to use from several threads, and begins anew in a forked child.

    ``adopted`` is the id of a worker that somebody else made and takes away again.
    """

    def __init__(self, api: connection.ApiManager, *, adopted: str | None = None) -> None:
        self.jobs: dict[str, Registration] = {}
        self.connection = api
        self._adopted = adopted
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self.api = Api(self.connection)
        self._lock = threading.RLock()
        self._instance = _Instance(self._adopted)
        self.holds = Holds()
        self.misfits = Misfits()
        self._heart: Heart | None = None
        self._heart_lock = threading.Lock()
        self._claimers_lock = threading.Lock()
        self._claimers: set[threading.Thread] = set()
        self._left = False
        self.ending = Ending()
        self.answered_at: float | None = None
        self.takes_logs = True

    @property
    def id(self) -> str | None:
        """The worker's id on the server; None while there is none."""
        self._mind_the_fork()
        return self._instance.id

    @property
    def beat_seconds(self) -> float:
        """A third of the worker timeout, and never more than 20 seconds."""
        timeout = min(self._instance.timeout_seconds, USUAL_TIMEOUT_SECONDS)
        return max(timeout / BEATS_PER_TIMEOUT, LEAST_BEAT_SECONDS)

    # Coming

    def arrive(self, *, patience: Patience = CALL) -> str:
        """Be a worker of the server's (again), linked to every job; returns its id."""
        self._mind_the_fork()
        with self._lock:
            self._come()
            return self._ensure(patience)

    def register(self, registration: Registration) -> None:
        """Register a job for this worker; raises if the server refuses it."""
        self._mind_the_fork()
        with self._lock:
            self._come()
            for _ in range(ROUNDS):
                worker_id = self._ensure(CALL)
                try:
                    self._link(worker_id, registration, CALL)
                except WorkerNotFound:
                    self._replace(worker_id)
                    continue
                return
        raise WorkerNotFound(FORGETFUL)

    def start_beating(self) -> None:
        """Beat in the background from now on."""
        self._mind_the_fork()
        with self._heart_lock:  # the other one is held through an outage
            if self._heart is None and not self._left:
                self._heart = Heart(self.beat, lambda: self.beat_seconds)
                self._heart.start()

    def _come(self) -> None:
        self._left = False
        self.ending.put_off()

    def _ensure(self, patience: Patience) -> str:
        if self._left:
            raise WorkerNotFound("This worker has left; listen or register to come back.")
        for _ in range(ROUNDS):
            worker_id = self._instance.id or self._create(patience)
            try:
                self._link_all(worker_id, patience)
            except WorkerNotFound:
                self._replace(worker_id)
                continue
            return worker_id
        raise WorkerNotFound(FORGETFUL)

    def _create(self, patience: Patience) -> str:
        # For people who look for the process behind a worker.
        name = f"{socket.gethostname()}-{os.getpid()}"
        answer = self.api.create_worker(name=name, patience=patience)
        worker_id = str(answer["id"])
        self._instance = _Instance(worker_id)
        self._note_timeout(answer)
        self.note_answer()
        return worker_id

    def _link_all(self, worker_id: str, patience: Patience) -> None:
        for full_name in sorted(self.jobs.keys() - self._instance.linked):
            try:
                self._link(worker_id, self.jobs[full_name], patience)
            except (Forbidden, InvalidInput, SchemaConflict) as refusal:
                log.warning("job.not_registered_again job=%s reason=%r", full_name, str(refusal))
                self._instance.linked.add(full_name)

    def _link(self, worker_id: str, registration: Registration, patience: Patience) -> None:
        job = {**registration.job, "worker_id": worker_id}
        answer = self.api.register(registration.room, job, patience=patience)
        version = answer.get("schema_version")
        self.jobs[registration.full_name] = replace(registration, schema_version=version)
        self._instance.linked.add(registration.full_name)

    def _note_timeout(self, answer: Json) -> None:
        seconds = answer.get("timeout_seconds")
        if isinstance(seconds, int | float) and seconds > 0:
            self._instance.timeout_seconds = float(seconds)

    # Working

    def claim(
        self, *, request_id: str, wait: int, patience: Patience, limit: int = 1
    ) -> list[Json]:
        """Claim up to ``limit`` tasks, as a new worker if the server has forgotten this one."""
        self._mind_the_fork()
        for _ in range(ROUNDS):
            with self._lock:
                worker_id = self._ensure(patience)
            self.start_beating()
            try:
                tasks = self.api.claim(
                    *(worker_id,),
                    request_id=request_id,
                    wait=wait,
                    limit=limit,
                    patience=patience,
                )
            except WorkerNotFound:
                self.replace(worker_id)
                continue
            self.note_answer()
            for task in tasks:
                task.setdefault("worker_id", worker_id)
            return tasks
        raise WorkerNotFound(FORGETFUL)

    def beat(self) -> bool:
        """Say "alive"; False if the server is away. A worker it has forgotten comes back anew."""
        worker_id = self.id
        if worker_id is None:
            return True
        patience = Patience(0.0, timeout=max(self.beat_seconds, SHORTEST_TRY_SECONDS))
        try:
            answer = self.api.beat(worker_id, patience=patience)
        except WorkerNotFound:
            return self._come_back(worker_id, patience)
        except (*problems.ELSEWHERE, problems.Barred, Unauthorized):
            return False  # the transport tells of it
        self.note_answer()
        self._note_timeout(answer)
        self.holds.cancel(answer.get("cancel") or ())
        return True

    def arrive_and_beat(self) -> None:
        """Beat once, as a new worker if there is none yet; a server that is away is no error."""
        self._mind_the_fork()
        if self._left or not self._lock.acquire(timeout=SHORTEST_TRY_SECONDS):
            return  # a claim that waits for the server to come back holds the lock
        try:
            self.arrive(patience=ONCE)
        except problems.ELSEWHERE:
            return
        finally:
            self._lock.release()
        self.beat()

    def _come_back(self, worker_id: str, patience: Patience) -> bool:
        self.replace(worker_id)
        try:
            with self._lock:
                if not self._left:
                    self._ensure(patience)
        except (*problems.ELSEWHERE, problems.Barred, Unauthorized):
            return False
        return True

    def replace(self, worker_id: str, *, told: bool = False) -> None:
        """Forget a worker and what it held; ``told``: the log says already why."""
        with self._lock:
            self._replace(worker_id, told=told)

    def _replace(self, worker_id: str, *, told: bool = False) -> None:
        if self._adopted is not None:
            raise WorkerNotFound("The server does not know this worker (any more).")
        if self._instance.id == worker_id and not self._left:
            if not told:
                log.warning("worker.lost worker=%s next=%r", worker_id, "a new worker takes over")
            self._instance = _Instance(timeout_seconds=self._instance.timeout_seconds)
        self.holds.lose(worker_id)

    def note_answer(self) -> None:
        """Remember when the server was last heard of."""
        self.answered_at = time.monotonic()

    def note_refused_log(self, refusal: JobroomError) -> None:
        """Send no more logs to a server that does not know what they are."""
        if self.takes_logs and any("log" in fault.pointer for fault in refusal.errors):
            self.takes_logs = False
            log.warning("log.not_taken reason=%r", "the server keeps no logs of tasks; upgrade it")

    def note_claimer(self, thread: threading.Thread) -> None:
        """Remember a running thread that claims, so that leaving can wait for its end."""
        with self._claimers_lock:  # the other one is held through an outage
            self._claimers = {one for one in self._claimers if one.is_alive()} | {thread}

    # Holding tasks

    def hold(self, task_id: str, *, worker_id: str | None, attempt: int | None) -> Hold:
        """Remember a claimed task, until its last report."""
        return self.holds.add(task_id, worker_id=worker_id or self.id or "", attempt=attempt)

    def hand_back(self, hold: Hold, *, patience: Patience = BRIEF) -> None:
        """Give a task back unfinished; raises a conflict if it is not ours to give."""
        self.api.report(hold.task_id, {"status": "pending", **hold.fence}, patience=patience)
        self.holds.drop(hold)

    # Going

    def leave(self, *, claim_seconds: float = 0.0) -> None:
        """Hand back what was not started, then take the worker off the server; never raises.

        ``claim_seconds`` is how long claims under way may take to come to their end first.
        """
        self._mind_the_fork()
        with self._heart_lock:
            heart, self._heart, self._left = self._heart, None, True
        self._await_claimers(claim_seconds)
        if heart is not None:
            heart.stop(timeout=SHORTEST_TRY_SECONDS)
        # Whoever still holds the lock then waits for an answer, and finds out that we have left.
        locked = self._lock.acquire(timeout=SHORTEST_TRY_SECONDS)
        worker_id, self._instance = self._instance.id, _Instance(self._adopted)
        if locked:
            self._lock.release()
        holds = [hold for hold in self.holds if not hold.started]
        if worker_id is None:
            return
        patience = replace(BRIEF, seconds=0.0) if self.api.is_away else BRIEF
        try:
            for hold in holds:
                self._hand_back_quietly(hold, patience)
            if self._adopted is None:
                with contextlib.suppress(WorkerNotFound):
                    self.api.delete_worker(worker_id, patience=patience)
        except JobroomError as failure:
            log.warning("worker.not_signed_off worker=%s reason=%r", worker_id, str(failure))

    def _await_claimers(self, seconds: float) -> None:
        give_up_at = time.monotonic() + seconds
        for thread in tuple(self._claimers):
            thread.join(max(0.0, give_up_at - time.monotonic()))

    def _hand_back_quietly(self, hold: Hold, patience: Patience) -> None:
        try:
            self.hand_back(hold, patience=patience)
        except problems.ELSEWHERE:
            raise
        except JobroomError as refusal:
            log.info("task.not_handed_back task=%s reason=%r", hold.task_id, str(refusal))
            self.holds.drop(hold)

    def _mind_the_fork(self) -> None:
        if self._pid != os.getpid():
            # Locks and threads of the parent are useless here, and its worker is not ours.
            self._reset()
