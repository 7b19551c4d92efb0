"""Counts are of what was committed: once each, whoever does it and however many at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from desk import Desk

from jobroom.domain.records import Caller
from jobroom.errors import Forbidden
from jobroom.service.counting import BOUNDS, Counts, Histogram
from jobroom.service.queue import JobQueue

THREADS = 8
EACH = 12


def _total(counts: Counts) -> dict[str, int]:
    return {
        "submitted": counts.submitted,
        "claimed": counts.claimed,
        "unserved": counts.unserved,
        "requeued": counts.requeued,
        **counts.ended,
    }


def test_many_at_once_are_counted_exactly(queue: JobQueue, alice: Caller) -> None:
    desk = Desk(queue)
    job = desk.job(alice)
    start = threading.Barrier(THREADS)
    empty = [0] * THREADS

    def work(n: int) -> None:
        start.wait(timeout=30)
        for _ in range(EACH):
            desk.submit(alice, job)
        for _ in range(EACH):
            claimed = desk.claim(alice, start=True)
            empty[n] += not claimed
            for task in claimed:
                desk.report(alice, task, "completed")

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(work, range(THREADS)))
    done = THREADS * EACH - sum(empty)
    assert _total(queue.counts) == {
        "submitted": THREADS * EACH,
        "claimed": done,
        "unserved": sum(empty),
        "requeued": 0,
        "completed": done,
        "failed": 0,
        "cancelled": 0,
    }
    assert queue.counts.queued.count == done


def test_a_refused_request_counts_nothing(queue: JobQueue, alice: Caller, bob: Caller) -> None:
    desk = Desk(queue)
    desk.submit(alice, desk.job(alice))
    task = desk.claim_one(alice, start=True)
    before = _total(queue.counts)
    with pytest.raises(Forbidden):
        desk.report(bob, task, "completed")
    assert _total(queue.counts) == before


@pytest.mark.parametrize(
    ("seconds", "at"), [(0, 0), (0.005, 0), (0.0051, 1), (3600, 15), (3601, 16)]
)
def test_a_span_is_counted_where_it_belongs(seconds: float, at: int) -> None:
    """As Prometheus has it: a bucket holds what is at most its bound."""
    spans = Histogram()
    spans.observe(seconds)
    assert spans.counts.index(1) == at
    assert (spans.count, spans.total, len(spans.counts)) == (1, seconds, len(BOUNDS) + 1)
