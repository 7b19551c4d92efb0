"""``GET /metrics``: the counts of this process and the gauges of the store, for Prometheus."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from jobroom.errors import NotFound, StoreUnavailable
from jobroom.service import access, gauging
from jobroom.service.counting import BOUNDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.core import Metric

    from jobroom.http.exchange import Call
    from jobroom.http.traffic import Traffic
    from jobroom.service.counting import Counts, Histogram
    from jobroom.service.gauging import Backlog, Gauges

GAUGE_SECONDS = 5.0
"""So long the gauges are told again as they were read: who scrapes cannot load the store."""
ANSWER_SECONDS = 5.0
"""So long a scrape waits for the store: Prometheus gives up after 10 s, and then has no counts."""
OTHERS = "(others)"


class GaugeCache:
    """The gauges as they were read last; those who ask at once share one reading."""

    def __init__(self) -> None:
        self._read_at = 0.0
        self._gauges: Gauges | None = None
        self._reading: asyncio.Future[Gauges] | None = None

    async def read(self, call: Call) -> Gauges | None:
        """The gauges, a few seconds old at most; None while the store does not answer."""
        if self._gauges is not None and time.monotonic() - self._read_at <= GAUGE_SECONDS:
            return self._gauges
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(self._shared(call))
        except (StoreUnavailable, TimeoutError):
            return None

    def _shared(self, call: Call) -> asyncio.Future[Gauges]:
        reading, loop = self._reading, asyncio.get_running_loop()
        if reading is None or reading.done() or reading.get_loop() is not loop:
            reading = self._reading = call.run(gauging.read_gauges)
            reading.add_done_callback(self._note)
        return reading

    def _note(self, done: asyncio.Future[Gauges]) -> None:
        is_read = not done.cancelled() and done.exception() is None
        self._gauges, self._read_at = done.result() if is_read else None, time.monotonic()


async def read_text(call: Call) -> tuple[str, bytes]:
    """The metrics as text, with its media type.

    For admins of all rooms. Without gauges while the store is away: then the counts are wanted
    most. Raises Forbidden, and NotFound where prometheus-client is missing.
    """
    access.check_admin(call.caller, "Reading the metrics")
    try:
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
    except ImportError:
        message = "There are no metrics here: prometheus-client, of jobroom[server], is missing."
        raise NotFound(message) from None
    gauges = await call.door.gauges.read(call)
    told = _Told(call, gauges)
    return CONTENT_TYPE_LATEST, generate_latest(told)


class _Told:
    """What prometheus-client calls a collector."""

    def __init__(self, call: Call, gauges: Gauges | None) -> None:
        self._door = call.door
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        """All families, in the order of a task's life."""
        yield from _of_tasks(self._door.counts)
        yield from _of_sweeps(self._door.counts)
        yield from _of_requests(self._door.traffic, self._door.waiters)
        if self._gauges is not None:
            yield from _of_store(self._gauges)


def _of_tasks(counts: Counts) -> Iterator[Metric]:
    yield _counter("jobroom_tasks_submitted", "Tasks submitted.", counts.submitted)
    yield _counter("jobroom_tasks_claimed", "Tasks handed to a worker.", counts.claimed)
    yield _counter("jobroom_claims_empty", "Claims that got nothing.", counts.unserved)
    yield _counter(
        "jobroom_tasks_requeued",
        "Tasks that went back to be claimed again: handed back, lost, retried.",
        counts.requeued,
    )
    yield _counters("jobroom_tasks_ended", "Tasks ended, by how.", "status", counts.ended.items())
    yield _histogram(
        "jobroom_queue_seconds",
        "Seconds from when a task could be claimed to its first claim.",
        counts.queued,
    )
    yield _counter(
        "jobroom_store_errors", "Times that the store did not take a request.", counts.store_errors
    )


def _of_sweeps(counts: Counts) -> Iterator[Metric]:
    yield _counter("jobroom_sweeps", "Sweeps that came to their end.", counts.sweeps)
    yield _counters("jobroom_swept", "What sweeps dealt with.", "what", counts.swept.items())


def _of_requests(traffic: Traffic, waiters: int) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    labels = ("method", "route", "status")
    told = CounterMetricFamily("jobroom_requests", "Requests answered.", labels=labels)
    for (method, route, status), count in sorted(traffic.requests.items()):
        told.add_metric((method, route, str(status)), count)
    yield told
    yield _histogram(
        "jobroom_wait_seconds", "Seconds that long-polls took which did wait.", traffic.waits
    )
    yield _gauge("jobroom_waiting_requests", "Long-polls held now.", waiters)


def _of_store(gauges: Gauges) -> Iterator[Metric]:
    states = {
        "pending": gauges.pending,
        "delayed": gauges.delayed,
        "blocked": gauges.blocked,
        "held": gauges.held,
    }
    yield _gauges(
        "jobroom_tasks",
        "Unfinished tasks by state, counted up to 100,000; pending: claimable now.",
        ("state",),
        (((state,), count) for state, count in states.items()),
    )
    told = gauges.backlogs
    pending = [(_labels(each), each.pending) for each in told]
    if gauges.others:
        pending.append(((OTHERS, OTHERS), gauges.others))
    labels = ("room", "job")
    yield _gauges("jobroom_pending_tasks", "Claimable tasks of a job in a room.", labels, pending)
    yield _gauges(
        "jobroom_delayed_tasks",
        "Tasks of a job in a room whose time has not come, or that no claim has looked at since.",
        labels,
        ((_labels(each), each.delayed) for each in told),
    )
    yield _gauges(
        "jobroom_oldest_pending_seconds",
        "Age of the oldest claimable task of a job in a room.",
        labels,
        ((_labels(each), each.oldest_seconds) for each in told if each.oldest_seconds is not None),
    )


def _labels(backlog: Backlog) -> tuple[str, str]:
    return backlog.room_id, backlog.job_name


def _counter(name: str, meaning: str, value: float) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    return CounterMetricFamily(name, meaning, value=value)


def _counters(name: str, meaning: str, label: str, values: Iterable[tuple[str, int]]) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    told = CounterMetricFamily(name, meaning, labels=(label,))
    for value, count in values:
        told.add_metric((value,), count)
    return told


def _gauge(name: str, meaning: str, value: float) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, meaning, value=value)


def _gauges(
    name: str,
    meaning: str,
    labels: tuple[str, ...],
    values: Iterable[tuple[tuple[str, ...], float]],
) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    told = GaugeMetricFamily(name, meaning, labels=labels)
    for labelled, value in values:
        told.add_metric(labelled, value)
    return told


def _histogram(name: str, meaning: str, spans: Histogram) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    told = HistogramMetricFamily(name, meaning)
    buckets: list[tuple[str, float]] = []
    reached = 0
    for bound, count in zip((*BOUNDS, float("inf")), spans.counts, strict=True):
        reached += count
        buckets.append(("+Inf" if bound == float("inf") else f"{bound:g}", reached))
    told.add_metric((), buckets, spans.total)
    return told
