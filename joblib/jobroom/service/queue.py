"""JobQueue: the one place where transactions are opened; every door goes through it."""

from __future__ import annotations

import os
import time
import weakref
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from jobroom.domain.records import SweepReport
from jobroom.service import sweeping
from jobroom.service.counting import Counts
from jobroom.service.undoing import Undoing
from jobroom.service.waiting import WaitingClaims
from jobroom.service.watching import Watcher
from jobroom.store import dialect, migrate
from jobroom.store.lane import Hooks, Lane, Work
from jobroom.store.remote_lane import RemoteLane

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobroom.domain.records import Change, Logged, Task
    from jobroom.service.use_case import UseCase
    from jobroom.settings import JobLibSettings
    from jobroom.store.transaction import Transaction

P = ParamSpec("P")
T = TypeVar("T")

SWEEP_SECONDS = 20.0


class Listener(Protocol):
    """Who waits for tasks to change."""

    known: dict[str, int]
    """The tasks waited for, with the row version seen last."""
    logs: dict[str, tuple[int, int]]
    """Those of them whose log is followed, with the attempt and the end that were seen last."""

    def tell(self, changed: Sequence[Task | Change | Logged]) -> None:
        """Called on a lane's thread, after a commit, with the tasks that it changed."""


class JobQueue(Hooks):
    """A queue of tasks in a database.

    ``run`` executes a use case on the caller's thread and returns its result; ``post`` queues one
    and answers through a mailbox, which is how the HTTP door works. Both share group commits.

    >>> import tempfile
    >>> from jobroom import JobLibSettings
    >>> from jobroom.domain.records import Caller
    >>> from jobroom.service import registration, submission, claiming
    >>> me = Caller("alice", is_admin=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     settings = JobLibSettings(database_url=f"sqlite:///{folder}/queue.db")
    ...     with JobQueue.open(settings) as queue:
    ...         spec = registration.JobSpec("modifiers", "Rotate")
    ...         registered = queue.run(
    ...             registration.register_job, caller=me, room_id="r1", spec=spec
    ...         )
    ...         submitted = queue.run(
    ...             submission.submit_task,
    ...             caller=me,
    ...             room_id="r1",
    ...             job=registered.view.job,
    ...             new=submission.NewTask('{"angle": 90}'),
    ...         )
    ...         [claimed] = queue.run(claiming.claim_tasks, caller=me)
    >>> claimed.task.payload, claimed.task.status, claimed.task.attempt
    ('{"angle": 90}', 'claimed', 1)
    """

    def __init__(self, settings: JobLibSettings, *, clock_offset: int = 0) -> None:
        self.settings = settings
        self.clock_offset = clock_offset
        """Microseconds added to the store's clock in every transaction; for tests."""
        self.listeners: list[Listener] = []
        self.counts = Counts(lambda: self.submitted)
        """What this process has done; plain numbers, for whoever shows them."""
        self.waiting = WaitingClaims(self.counts.note_left)
        self.database = dialect.open_database(settings)
        try:
            migrate.prepare(self.database)
        except BaseException:
            self.database.close()
            raise
        self.writer = self._lane(write=True)
        self.reader = self._lane(write=False)
        self._watcher = Watcher(self)
        self._is_inherited = False
        _forget_after_fork(self)
        self._undoing = Undoing(self.run, pause_seconds=settings.database_busy_seconds)

    def _lane(self, *, write: bool) -> Lane | RemoteLane:
        kind = Lane if self.database.is_at_hand else RemoteLane
        return kind(
            self.database,
            self.settings,
            write=write,
            hooks=self if write else _Reading(self.counts),
            clock_offset=lambda: self.clock_offset,
        )

    @classmethod
    def open(cls, settings: JobLibSettings, *, clock_offset: int = 0) -> JobQueue:
        """Open the database that the settings name, made and upgraded if it is a local file.

        That of a server is neither: ``jobroom db upgrade`` does both.

        Raises ConfigurationError with one sentence on what to do.
        """
        return cls(settings, clock_offset=clock_offset)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Answer what waits, then let go of the database."""
        if self._is_inherited:
            return
        self._watcher.stop()
        self._undoing.stop()
        self.writer.close()
        self.reader.close()
        self.database.close()

    def run(
        self,
        use_case: UseCase[P, T] | Callable[Concatenate[Transaction, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a use case in its transaction, on this thread; its result, or its error raised."""
        lane = self.writer if getattr(use_case, "writes", True) else self.reader
        work = Work(lambda tx: use_case(tx, *args, **kwargs), {})
        result: T = lane.call(work)
        return result

    def post(self, use_case: UseCase[Any, Any], work: Work) -> None:
        """Queue a request of a use case; the work's mailbox gets it back when it is done."""
        (self.writer if use_case.writes else self.reader).post(work)

    def sweep(self, *, seconds: float = SWEEP_SECONDS) -> SweepReport:
        """One bounded pass over lost workers, timeouts, orphan jobs and old tasks.

        Safe to run twice at once and to be cut off; the counts are of what was committed.
        """
        deadline = time.monotonic() + seconds
        judges = self.run(sweeping.begin_sweep)
        total = SweepReport(judged=judges)
        for step in (*(sweeping.JUDGING if judges else ()), *sweeping.TIDYING):
            while time.monotonic() < deadline:
                done = self.run(step)
                total = sweeping.add(total, done)
                self.counts.note_swept(done)
                if sweeping.rows_of(done) < self.database.batch:
                    break
        self.run(sweeping.finish_sweep)
        self.counts.note_sweep()
        return total

    def abandon(self) -> None:
        """This process is a fork of the one that opened the queue: the connections are not its own.

        Both would write on one connection, and read each other's answers.
        """
        self._is_inherited = True
        self.writer.abandon()
        self.reader.abandon()

    def watch(self) -> None:
        """Somebody waits: look for what other processes and the time bring."""
        self._watcher.start()

    # --- what the writer asks around a group -------------------------------------------------

    def park(self, work: Work) -> bool:
        """A claim found nothing and waits, unless it has left."""
        parked = self.waiting.park(work)
        self.watch()
        return parked

    def forget(self, works: list[Work]) -> None:
        """The transaction that parked these was rolled back."""
        self.waiting.forget(works)

    def hand_off(self, tx: Transaction, served: list[Work]) -> None:
        """Claim for those who wait, inside the transaction that made something claimable."""
        if self.waiting:
            self.waiting.serve(tx, served)

    def mark(self) -> int:
        """What has been offered so far to those who wait."""
        return self.waiting.mark()

    def offered(self, tx: Transaction) -> list[int]:
        """The jobs at which those who wait should try again, now that this is committed."""
        for joined in tx.joined:
            self.waiting.join(*joined)
        return self.waiting.offer(tx.claimable) if tx.claimable else []

    def missed(self, work: Work) -> list[int]:
        """The jobs that got something while this claim was on its way to wait for it."""
        return self.waiting.missed(work)

    def next_waiting(self, job_seq: int) -> Work | None:
        """The claim that waits longest at a job, to be tried again."""
        return self.waiting.take_first(job_seq)

    def unanswered(self, undo: Callable[[Transaction], None]) -> None:
        """A request was given up that the store may have kept: take it back when it answers."""
        self._undoing.add(undo)

    def unavailable(self) -> None:
        """The store did not take what was asked of it."""
        self.counts.note_store_error()

    def committed(self, tx: Transaction) -> None:
        """Count what was done, and tell those who wait for a task what has changed."""
        self.counts.note(tx)
        if tx.changed:
            for listener in self.listeners:
                listener.tell(tx.changed)


class _Reading(Hooks):
    """What the queue does around a group of reads: nothing, but that it counts the store's faults.

    A class of its own, for nobody waits for what is read.
    """

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def unavailable(self) -> None:
        self._counts.note_store_error()


def _forget_after_fork(queue: JobQueue) -> None:
    """Let a forked process know that an open queue is not its own."""
    reference = weakref.ref(queue)

    def forget() -> None:
        inherited = reference()
        if inherited is not None:
            inherited.abandon()

    os.register_at_fork(after_in_child=forget)
