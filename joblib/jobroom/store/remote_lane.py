"""Requests to a store across a network: each in a transaction of its own, several at a time.

What one of them waits for is the network, so each has a thread of a small pool. The store may be
busy, restarted or cut off at any moment; a request is then tried again, as a whole, for as long as
its caller may be kept waiting. Where nobody knows whether the store has kept it, it is run again
with ``tx.is_repeat``: every use case finds what it did before, by the ids and tokens that it made
(design, *The write path*).
"""

from __future__ import annotations

import logging
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobroom.domain import names
from jobroom.errors import JobroomError, PayloadTooLarge, StoreUnavailable
from jobroom.store import patience
from jobroom.store.lane import CLOSED, Hooks, Parked, Refused, deliver
from jobroom.store.remote import RemoteTransaction
from jobroom.store.session import Contended, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from jobroom.settings import JobLibSettings
    from jobroom.store.lane import Work
    from jobroom.store.network import NetworkDatabase

log = logging.getLogger("jobroom")

FIRST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 0.5
NOT_TAKEN = "The store did not take the request; nothing of it was kept. Try again in a moment."
TOO_LARGE = "The store keeps no task of that size; send less, or a reference to it."
MOST_FAULTS = 3
"""So often a request is tried again that failed for what others did at the same moment."""


class RemoteLane:
    """The requests of one kind, reading or writing, to a store across a network."""

    def __init__(
        self,
        database: NetworkDatabase,
        settings: JobLibSettings,
        *,
        write: bool,
        hooks: Hooks | None = None,
        clock_offset: Callable[[], int] = lambda: 0,
    ) -> None:
        self._database = database
        self._settings = settings
        self._write = write
        self._hooks = hooks or Hooks()
        self._clock_offset = clock_offset
        name = "writer" if write else "reader"
        self._threads = ThreadPoolExecutor(database.threads, f"jobroom-{name}")
        self._closing = threading.Lock()
        self._closed = False
        self._absence = _Absence()
        self._handed_on = _HandedOn()

    def post(self, work: Work) -> None:
        """Queue a request; its mailbox gets it back when it is committed or refused."""
        # Not behind those that wait in vain: each of them has one of the few threads.
        if self._absence.is_being_looked_at:
            work.error = StoreUnavailable(NOT_TAKEN)
        elif not self._queue(work):
            work.error = StoreUnavailable("The queue is shutting down; try again in a moment.")
        else:
            return
        deliver([work])

    def _queue(self, work: Work) -> bool:
        """Have a thread serve a request; False where there are no threads any more."""
        with self._closing:
            if not self._closed:
                self._threads.submit(self._serve, work)
            return not self._closed

    def call(self, work: Work) -> Any:
        """Run a request on the caller's own thread; return its result."""
        if self._closed:
            raise StoreUnavailable(CLOSED)
        self._serve(work)
        return work.outcome()

    def check_foreign(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` if another process may have committed since last asked."""
        if self._database.has_news():
            tell()

    def abandon(self) -> None:
        """Take nothing more, in a process that has inherited the lane by a fork."""
        self._closing = threading.Lock()  # a thread of the other process may have held it
        self._closed = True

    def close(self) -> None:
        """Answer what waits, then end the threads; a second call does nothing."""
        with self._closing:
            self._closed = True
        self._threads.shutdown(wait=True)

    def _serve(self, work: Work, *, since: float | None = None) -> bool:
        """Answer a request; False if it is parked instead."""
        tx = self._run(work, work.since if since is None else since)
        if tx is None:
            deliver([work])
            return True
        self._hooks.committed(tx)
        if not tx.is_parked:
            deliver([work])
        # A parked request is in the hands of whichever thread offers it something from here on.
        self._hand_on(self._hooks.missed(work) if tx.is_parked else self._hooks.offered(tx))
        return not tx.is_parked

    def _hand_on(self, job_seqs: list[int]) -> None:
        """Let those who wait at these jobs claim, one after the other, first come first served.

        Not inside the transaction that made something claimable: a claim is a round trip, and
        the store hands one task to one of those who ask, whoever they are.
        """
        for job_seq in job_seqs:
            # One thread at a time, or the second who waits would overtake the first.
            if self._handed_on.enter(job_seq):
                try:
                    self._serve_waiting(job_seq)
                except BaseException:
                    self._handed_on.abandon(job_seq)
                    raise

    def _serve_waiting(self, job_seq: int) -> None:
        while True:
            while (waiting := self._hooks.next_waiting(job_seq)) is not None:
                if not self._serve(waiting, since=time.monotonic()):
                    break
            if self._handed_on.leave(job_seq):
                return

    def _run(self, work: Work, since: float) -> RemoteTransaction | None:
        """Run a request, if the store may answer it in time; its transaction, if committed."""
        deadline = since + self._settings.database_busy_seconds
        # By hand: ``patience.until`` would cost each request a microsecond more.
        before = patience.ENDS_AT.set(work.until)
        try:
            with self._absence.look() as may_look:
                if may_look and time.monotonic() < min(deadline, work.until):
                    return self._try(work, min(deadline, work.until - patience.SPARE_SECONDS))
        finally:
            patience.ENDS_AT.reset(before)
        work.error = StoreUnavailable(NOT_TAKEN)
        return None

    def _try(self, work: Work, deadline: float) -> RemoteTransaction | None:
        """Run a request until it is answered; its transaction, if that was committed.

        It is tried once at least, and again until the deadline.
        """
        token = names.new_uuid7()
        pause, faults, is_repeat = FIRST_PAUSE_SECONDS, 0, False
        begun_at = time.monotonic()
        while True:
            tx = self._begin(token, is_repeat=is_repeat)
            try:
                is_kept = self._answer(work, tx)
            except Exception as error:  # noqa: BLE001 - the driver's errors, and faults of our own
                outcome = self._outcome(error)
                faults += outcome is Outcome.FAULT
                if outcome in (None, Outcome.TOO_LARGE) or faults > MOST_FAULTS:
                    is_large = outcome is Outcome.TOO_LARGE
                    work.error = PayloadTooLarge(TOO_LARGE) if is_large else error
                    return None
                is_repeat = is_repeat or tx.kept or outcome is Outcome.UNKNOWN
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
                moment = random.uniform(0, pause)  # noqa: S311 - no secret
                is_away = outcome is not Outcome.BUSY
                gives_up = self._absence.is_known and is_away
                if gives_up or time.monotonic() + moment > deadline:
                    if is_away:
                        self._absence.begin(begun_at)
                    self._give_up(work, error, is_repeat=is_repeat)
                    if is_repeat and tx.undo is not None:
                        self._hooks.unanswered(tx.undo)
                    return None
                time.sleep(moment)
            else:
                if not is_kept:
                    return None
                if self._absence.end():
                    log.info("store.available database=%s", self._database.location)
                return tx

    def _begin(self, token: str, *, is_repeat: bool) -> RemoteTransaction:
        return RemoteTransaction(
            self._database.session(write=self._write),
            self._database,
            self._settings,
            self._clock_offset(),
            writes=self._write,
            token=token,
            is_repeat=is_repeat,
        )

    def _answer(self, work: Work, tx: RemoteTransaction) -> bool:
        """Run a request once; False where it was refused, and nothing of it is kept."""
        work.error, work.mark = None, self._hooks.mark()
        try:
            try:
                work.result = work.use_case(tx, **work.kwargs)
            except Refused as refused:
                work.error = refused.error
            except Parked as parked:
                work.wish, work.result = parked.wish, parked.otherwise
                tx.commit()
                work.parked = True  # before another thread may serve it
                tx.is_parked = work.parked = self._hooks.park(work)
                return True
            except JobroomError as error:
                work.error = error
                return False
            tx.commit()
            return True
        finally:
            tx.close()

    def _outcome(self, error: Exception) -> Outcome | None:
        if isinstance(error, Contended):
            return Outcome.BUSY
        outcome = self._database.outcome(error)
        if outcome not in (None, Outcome.FAULT):
            _let_go(error)  # nobody reads the trace of these
        return outcome

    def _give_up(self, work: Work, error: Exception, *, is_repeat: bool) -> None:
        self._hooks.unavailable()
        log.warning("store.unavailable database=%s error=%s", self._database.location, error)
        if is_repeat:
            work.error = StoreUnavailable(
                "The store was lost while it took the request, which may have been kept. Send it"
                " again, with the same Idempotency-Key or request id if it had one."
            )
        else:
            work.error = StoreUnavailable(NOT_TAKEN)


def _let_go(error: BaseException | None) -> None:
    """Free what an error holds by its trace: the request, which holds the error.

    The collector, which a server runs seldom, would find them long after their bodies have filled
    the memory.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


class _Absence:
    """Whether the store is away, and who goes to look whether it is back: one at a time.

    All others are refused at once. A store that does not even refuse keeps whoever asks it waiting
    for as long as may be, and would soon have all threads wait.
    """

    def __init__(self) -> None:
        self.is_known = False
        self._looking = threading.Lock()
        self._answered_at = 0.0

    @property
    def is_being_looked_at(self) -> bool:
        """Whether somebody is looking already."""
        return self.is_known and self._looking.locked()

    @contextmanager
    def look(self) -> Iterator[bool]:
        """Whether the store may be asked, within the ``with``."""
        if not self.is_known:
            yield True
        elif self._looking.acquire(blocking=False):
            try:
                yield True
            finally:
                self._looking.release()
        else:
            yield False

    def begin(self, asked_since: float) -> None:
        """The store has left a request without an answer; but not if it answers others."""
        self.is_known = self._answered_at < asked_since

    def end(self) -> bool:
        """The store has answered; True if it was away."""
        was_known, self.is_known = self.is_known, False
        self._answered_at = time.monotonic()
        return was_known


class _HandedOn:
    """The jobs at which a thread is letting those who wait claim."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[int, bool] = {}

    def enter(self, job_seq: int) -> bool:
        """Whether nobody is there; whoever is goes round once more otherwise."""
        with self._lock:
            is_free = job_seq not in self._jobs
            self._jobs[job_seq] = not is_free
            return is_free

    def leave(self, job_seq: int) -> bool:
        """Whether nobody has come meanwhile, and the job is left."""
        with self._lock:
            if self._jobs[job_seq]:
                self._jobs[job_seq] = False
                return False
            del self._jobs[job_seq]
            return True

    def abandon(self, job_seq: int) -> None:
        """Leave it, whoever has come."""
        with self._lock:
            self._jobs.pop(job_seq, None)
