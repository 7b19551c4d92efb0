"""Group commit: a lane runs all requests that wait in one transaction and answers them after it.

One COMMIT pays for a whole group, which is what makes ``synchronous = FULL`` affordable: an
answered request survives power loss. There is one lane for writing and one for reading, each with
a connection of its own.

There are no savepoints. A use case refuses (raises a ``JobroomError``) before it writes, or
raises ``Refused`` to keep what it wrote and answer an error all the same. Anything else that is
raised rolls the whole group back, and its members are run again one by one: the faulty one fails
alone, and the price is paid only where there is a fault.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from jobroom.errors import JobroomError, StoreUnavailable
from jobroom.store import patience
from jobroom.store.courier import Courier
from jobroom.store.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobroom.settings import JobLibSettings
    from jobroom.store.dialect import LocalDatabase

    Mailbox = Callable[[list["Work"]], None]
    _Item: TypeAlias = "Work | Callable[[], None]"

log = logging.getLogger("jobroom")

CLOSED = "The queue is closed, or was opened before this process was forked; open it again here."
LARGEST_GROUP = 256
LONGEST_PAUSE_SECONDS = 0.003


class Refused(Exception):
    """What a use case raises to answer an error and keep what it wrote."""

    def __init__(self, error: JobroomError) -> None:
        super().__init__(str(error))
        self.error = error


class Parked(Exception):
    """What a use case raises when its request is to be answered later, by a hand-off."""

    def __init__(self, wish: Any, *, otherwise: Any) -> None:
        super().__init__()
        self.wish = wish
        self.otherwise = otherwise


class Work:
    """One request: a use case with its arguments, and where its answer goes.

    ``mailbox`` is called on the lane's thread with the finished works of a group that share it;
    None for a caller that waits for the lane itself.
    """

    __slots__ = (
        "error",
        "future",
        "kwargs",
        "leaving",
        "mailbox",
        "mark",
        "parked",
        "result",
        "since",
        "until",
        "use_case",
        "wish",
    )

    def __init__(
        self,
        use_case: Callable[..., Any],
        kwargs: dict[str, Any],
        mailbox: Mailbox | None = None,
        future: Any = None,
    ) -> None:
        self.use_case = use_case
        self.kwargs = kwargs
        self.mailbox = mailbox
        self.future = future
        self.result: Any = None
        self.error: Exception | None = None
        self.parked = False
        self.leaving = False
        """Whether who asked waits no more, so that it must not be parked."""
        self.wish: Any = None
        self.mark = 0
        """What had been offered to those who wait when the request was begun."""
        self.since = time.monotonic()
        self.until = patience.ENDS_AT.get()
        """When whoever asked must know what became of it."""

    def outcome(self) -> Any:
        """The result, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.result


class _Group:
    """Requests that were run in a transaction that is not committed yet."""

    __slots__ = ("fault", "served", "told", "tx", "works")

    def __init__(self, works: list[Work]) -> None:
        self.works = works
        self.served: list[Work] = []
        self.tx: Transaction | None = None
        self.fault: Exception | None = None
        self.told: Callable[[], None] | None = None


class _Busy(Exception):  # a signal: try again in a moment
    """Another process writes just now."""


class Hooks:
    """What the queue does around a group; the default does nothing."""

    submitted = 0
    """New tasks of transactions that did nothing else to be told of (``committed``)."""

    def park(self, _work: Work) -> bool:
        """Keep a request until its ``wish`` can be met; False where it is to be answered now."""
        return False

    def hand_off(self, tx: Transaction, served: list[Work]) -> None:
        """Serve parked requests inside the transaction; add those that got their answer.

        They are added one by one, so that none is lost where a later one raises.
        """

    def forget(self, works: list[Work]) -> None:
        """These were parked in a transaction that was rolled back."""

    def mark(self) -> int:
        """A number that rises with each offer to those who wait."""
        return 0

    def offered(self, _tx: Transaction) -> list[int]:
        """What a committed transaction has to offer: the jobs at which somebody waits for it."""
        return []

    def missed(self, _work: Work) -> list[int]:
        """The jobs of a parked request that got something while it was looking."""
        return []

    def next_waiting(self, _job_seq: int) -> Work | None:
        """The first who waits at the job; not parked any more, to be run again."""
        return None

    def unanswered(self, undo: Callable[[Transaction], None]) -> None:
        """Nobody can be told what became of a request, and this takes it back."""

    def unavailable(self) -> None:
        """The store did not take what was asked of it."""

    def committed(self, tx: Transaction) -> None:
        """The transaction is committed: count it, and tell those who wait for what it changed."""


class Lane:
    """One connection and the requests that wait for it."""

    def __init__(
        self,
        database: LocalDatabase,
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
        self._connection = database.connect(read_only=not write)
        self._foreign_version = database.foreign_version(self._connection)
        name = "writer" if write else "reader"
        self._works: Courier[_Item] = Courier(f"jobroom-{name}", self._serve)
        # A courier of their own: the other one may be waiting for the lock that they release.
        self._commits: Courier[_Group] = Courier(f"jobroom-{name}-commits", self._finish)
        # Held while a transaction is open, over two threads where ``try_run`` opened it.
        self._lock = threading.Lock()
        self._closed = False

    def post(self, work: Work) -> None:
        """Queue a request; its mailbox gets it back when it is committed or refused."""
        if self._closed:
            work.error = StoreUnavailable("The queue is shutting down; try again in a moment.")
            deliver([work])
            return
        self._put(work)

    def call(self, work: Work) -> Any:
        """Run a request on the caller's own thread, with whatever waits; return its result."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable(CLOSED)
            is_alone = self._works.is_empty
            self._run([work] if is_alone else [work, *self._waiting(LARGEST_GROUP - 1)])
        return work.outcome()

    def try_run(self, works: list[Work], *, told: Callable[[], None]) -> bool:
        """Run requests on the caller's thread, at once or not at all, and commit on the lane's.

        For an event loop: statements are short, only the commit waits for a disk. False where the
        lane or the store is busy: try again in a moment. ``told`` is called on the lane's thread
        when the group is answered and the next may come.
        """
        if not self._lock.acquire(blocking=False):
            return False
        if self._closed:
            self._lock.release()
            return False
        try:
            group = self._open(works, patient=False)
        except _Busy:
            self._lock.release()
            return False
        group.told = told
        self._commits.put(group)
        return True

    def check_foreign(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` on the lane's thread if another process has committed since last asked."""

        def check() -> None:
            seen = self._database.foreign_version(self._connection)
            if seen != self._foreign_version:
                self._foreign_version = seen
                tell()

        self._put(check)

    def abandon(self) -> None:
        """Take nothing more, in a process that has inherited the lane by a fork."""
        self._lock = threading.Lock()  # a thread of the other process may have held it
        self._closed = True

    def close(self) -> None:
        """Answer what waits, then close the connection; a second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._commits.stop()
        self._works.stop()
        with self._lock:
            rest = list(self._waiting(1_000_000))
            if rest:
                self._run(rest)
            self._connection.close()

    def _put(self, item: _Item) -> None:
        self._works.put(item)
        if self._closed:
            self._turn_away_late()

    def _turn_away_late(self) -> None:
        """Answer what was queued at the very moment of closing, after the last look."""
        with self._lock:
            late = list(self._waiting(LARGEST_GROUP))
        for work in late:
            work.error = StoreUnavailable("The queue is shutting down; try again in a moment.")
        deliver(late)

    def _serve(self, first: _Item) -> None:
        with self._lock:
            if isinstance(first, Work):
                self._run([first, *self._waiting(LARGEST_GROUP - 1)])
            else:
                first()

    def _finish(self, group: _Group) -> None:
        try:
            answered = self._conclude(group)
        finally:
            self._lock.release()
        # Only now: whoever is told asks for the lane at once.
        try:
            deliver(answered)
        finally:
            if group.told is not None:
                group.told()

    def _waiting(self, most: int) -> Iterator[Work]:
        """What waits with the courier; the lane is held, so it goes into the same group."""
        for item in self._works.take(most):
            if isinstance(item, Work):
                yield item
            else:
                item()

    def _run(self, works: list[Work]) -> None:
        deliver(self._conclude(self._open(works, patient=True)))

    def _open(self, works: list[Work], *, patient: bool) -> _Group:
        """Begin, and run the requests; a fault is kept for whoever closes the group.

        Raises ``_Busy`` where the store is busy and ``patient`` is False.
        """
        group = _Group(works)
        try:
            self._begin(works, patient=patient)
            tx = Transaction(self._connection, self._database, self._settings, self._clock_offset())
            group.tx = tx
            for work in works:
                self._answer(tx, work)
            if tx.claimable:
                self._hooks.hand_off(tx, group.served)
        except _Busy:
            raise
        except Exception as error:  # noqa: BLE001 - the driver's errors, and faults of our own
            group.fault = error
        return group

    def _conclude(self, group: _Group) -> list[Work]:
        """Commit, or undo; return the works that have their answer now."""
        if group.fault is None:
            try:
                self._connection.commit()
            except Exception as error:  # noqa: BLE001 - the driver's errors
                group.fault = error
        if group.fault is not None:
            return self._undo(group, group.fault)
        tx = group.tx
        if tx is not None:
            if tx.changed or tx.unserved or tx.fallen:
                self._hooks.committed(tx)
            else:
                # Most submissions: no call, and no lock but the lane's, which is held.
                self._hooks.submitted += tx.submitted
        if len(group.works) == 1 and not group.served and not group.works[0].parked:
            return group.works
        return [*(work for work in group.works if not work.parked), *group.served]

    def _answer(self, tx: Transaction, work: Work) -> None:
        dirty = tx.dirty
        try:
            work.result = work.use_case(tx, **work.kwargs)
        except Refused as refused:
            work.error = refused.error
        except Parked as parked:
            work.wish = parked.wish
            work.parked = self._hooks.park(work)
            work.result = parked.otherwise
        except JobroomError as error:
            if tx.dirty != dirty:
                raise
            work.error = error

    def _begin(self, works: list[Work], *, patient: bool) -> None:
        """Begin; while another process writes, try again after a random moment (measured best).

        The patience counts from when the first of the requests was made: it may have waited for
        the lane as well.
        """
        while True:
            try:
                self._database.begin(self._connection, write=self._write)
            except Exception as error:
                if not self._database.is_busy(error) or time.monotonic() > self._deadline(works):
                    raise
                if not patient:
                    raise _Busy from error
                time.sleep(random.uniform(0, LONGEST_PAUSE_SECONDS))  # noqa: S311 - no secret
            else:
                return

    def _deadline(self, works: list[Work]) -> float:
        since = min((work.since for work in works), default=0.0)
        until = min((work.until for work in works), default=math.inf)
        return min(since + self._settings.database_busy_seconds, until)

    def _undo(self, group: _Group, error: Exception) -> list[Work]:
        """Roll back, and answer: an error to all, or each by a transaction of its own."""
        self._roll_back(group.works)
        unavailable = self._database.is_unavailable(error)
        if unavailable:
            self._hooks.unavailable()
            log.warning("store.unavailable database=%s error=%s", self._database.location, error)
        for work in group.served:
            work.result, work.error = None, _not_taken()
        answered = [*group.served]
        is_shared = len(group.works) > 1
        if not unavailable and (self._database.tolerate(self._connection, error) or is_shared):
            for work in group.works:
                answered += self._conclude(self._open([work], patient=True))
            return answered
        for work in group.works:
            work.error = _not_taken() if unavailable else error
        return [*answered, *group.works]

    def _roll_back(self, group: list[Work]) -> None:
        self._hooks.forget([work for work in group if work.parked])
        for work in group:
            work.parked, work.result, work.error = False, None, None
        try:
            self._connection.rollback()
        except Exception:
            log.exception("store.rollback_failed database=%s", self._database.location)


def _not_taken() -> StoreUnavailable:
    return StoreUnavailable(
        "The store did not take the request; nothing of it was kept. Try again in a moment."
    )


def deliver(works: list[Work]) -> None:
    """Give each mailbox its works of this group, in one call."""
    by_mailbox: dict[Mailbox, list[Work]] = {}
    for work in works:
        if work.mailbox is not None:
            by_mailbox.setdefault(work.mailbox, []).append(work)
    for mailbox, finished in by_mailbox.items():
        mailbox(finished)
