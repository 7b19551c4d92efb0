"""Claims that wait: served first come, first served per job, inside the transaction that can."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from jobroom.errors import Forbidden, WorkerNotFound
from jobroom.service import access, claiming
from jobroom.store.lane import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobroom.store.lane import Work
    from jobroom.store.transaction import Transaction


MOST_OFFERS = 10_000
"""So many jobs are remembered for claims that look while something comes."""


class WaitingClaims:
    """The parked claims of this process; the wish of each is ``work.wish``.

    They are parked and served on the writer's thread and withdrawn on any, so the tables change
    under one lock. A dictionary keeps the order of arrival.
    """

    def __init__(self, note_left: Callable[[], None] = lambda: None) -> None:
        self._note_left = note_left
        self._lock = threading.Lock()
        self._by_job: dict[int, dict[Work, None]] = {}
        self._by_worker: dict[str, dict[Work, None]] = {}
        self._serving: Work | None = None
        self._offers = 0
        self._offered: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._by_worker)

    def park(self, work: Work) -> bool:
        """Keep a claim until one of its jobs has something for it; False if it left already."""
        with self._lock:
            if work.leaving:
                return False
            self._by_worker.setdefault(work.wish.worker_id, {})[work] = None
            for job_seq in work.wish.job_seqs:
                self._line_up(work, job_seq)
            return True

    def _line_up(self, work: Work, job_seq: int) -> None:
        """Wait at a job; one that tried, and got nothing, has its old place again."""
        line = self._by_job.setdefault(job_seq, {})
        last = next(reversed(line), work)
        line[work] = None
        if last.since > work.since:
            self._by_job[job_seq] = dict.fromkeys(sorted(line, key=lambda each: each.since))

    def withdraw(self, work: Work) -> bool:
        """Stop waiting; False if the claim is not parked: its answer is on the way.

        It may be being served, have been served, or not have come to the writer yet.
        """
        with self._lock:
            work.leaving = True
            is_withdrawn = work is not self._serving and self._remove(work)
        if is_withdrawn:
            self._note_left()
        return is_withdrawn

    def forget(self, works: list[Work]) -> None:
        """The transaction that parked these was rolled back; they are run again."""
        with self._lock:
            for work in works:
                self._remove(work)

    def join(self, worker_id: str, job_seq: int, room_id: str) -> None:
        """The worker serves one more job: its waiting claims wait there too, if they may."""
        with self._lock:
            for work in self._by_worker.get(worker_id, ()):
                wish = work.wish
                if job_seq not in wish.job_seqs and access.claims_from(wish.caller, room_id):
                    work.wish = wish._replace(job_seqs=(*wish.job_seqs, job_seq))
                    self._by_job.setdefault(job_seq, {})[work] = None

    def serve(self, tx: Transaction, served: list[Work]) -> None:
        """Claim for those who wait at the jobs that got something; add the answered ones."""
        for joined in tx.joined:
            self.join(*joined)
        for job_seq in tx.claimable:
            while (work := self._first(job_seq)) is not None:
                if not self._serve(tx, work, served):
                    break

    def mark(self) -> int:
        """A number that rises with each offer."""
        return self._offers

    def offer(self, job_seqs: Iterable[int]) -> list[int]:
        """These jobs got something: those of them at which a claim waits.

        A claim that looked before and parks after would miss it: ``missed`` tells.
        """
        with self._lock:
            self._offers += 1
            if len(self._offered) > MOST_OFFERS:
                self._offered.clear()
            self._offered.update(dict.fromkeys(job_seqs, self._offers))
            return [job_seq for job_seq in job_seqs if job_seq in self._by_job]

    def missed(self, work: Work) -> list[int]:
        """The jobs of a parked claim that were offered after it had begun to look."""
        with self._lock:
            return [
                job_seq
                for job_seq in work.wish.job_seqs
                if self._offered.get(job_seq, 0) > work.mark
            ]

    def take_first(self, job_seq: int) -> Work | None:
        """The claim that waits longest at a job; it waits no more, but is to be tried again."""
        with self._lock:
            work = next(iter(self._by_job.get(job_seq, ())), None)
            if work is not None:
                self._remove(work)
            return work

    def workers(self) -> list[str]:
        """The ids of the workers with a waiting claim."""
        with self._lock:
            return list(self._by_worker)

    def jobs(self) -> list[int]:
        """The jobs at which a claim waits."""
        with self._lock:
            return list(self._by_job)

    def jobs_of(self, worker_ids: Iterable[str]) -> set[int]:
        """The jobs at which the claims of these workers wait."""
        with self._lock:
            works = [work for key in worker_ids for work in self._by_worker.get(key, ())]
            return {job_seq for work in works for job_seq in work.wish.job_seqs}

    def _first(self, job_seq: int) -> Work | None:
        with self._lock:
            self._serving = next(iter(self._by_job.get(job_seq, ())), None)
            return self._serving

    def _serve(self, tx: Transaction, work: Work, served: list[Work]) -> bool:
        """Answer one claim; False if there is nothing for it and it waits on, in its place."""
        try:
            # A worker that waits is there: one that was swept asleep meanwhile wakes.
            work.result = claiming.claim(tx, work.wish)
        except Refused as refused:
            work.error = refused.error
        except (Forbidden, WorkerNotFound) as error:
            work.error = error
        finally:
            with self._lock:
                self._serving = None
                answered = bool(work.error or work.result or work.leaving)
                if answered:
                    self._remove(work)
                    served.append(work)
        return answered

    def _remove(self, work: Work) -> bool:
        if work.wish is None:
            return False
        worker_id, job_seqs = work.wish.worker_id, work.wish.job_seqs
        of_worker = self._by_worker.get(worker_id, {})
        if work not in of_worker:
            return False
        del of_worker[work]
        if not of_worker:
            del self._by_worker[worker_id]
        for job_seq in job_seqs:
            at_job = self._by_job[job_seq]
            del at_job[work]
            if not at_job:
                del self._by_job[job_seq]
        return True
