"""The sweep inside a server that stays awake: APScheduler calls it at an interval."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from jobroom.errors import JobroomError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apscheduler.schedulers.background import BackgroundScheduler

    from jobroom.service.queue import JobQueue

log = logging.getLogger("jobroom")

LEAST_JUMP_SECONDS = 1.0
"""Less is the clock being steered, which moves the plan by as little."""


@contextmanager
def sweeping(queue: JobQueue) -> Iterator[None]:
    """Sweep at the interval of the settings for the time of the ``with``; 0 switches it off.

    Every server process may do so: a sweep is safe to run beside another.
    """
    seconds = _interval(queue)
    if not seconds:
        yield
        return
    scheduler = _steady_scheduler(seconds)
    scheduler.add_job(
        _sweep,
        "interval",
        args=[queue],
        seconds=seconds,
        # Servers started together should not sweep together for ever.
        jitter=int(seconds / 10) or None,
        max_instances=1,
        coalesce=True,
        misfire_grace_time=None,
    )
    # A sweep that is still under way is not worth a line at each interval.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    scheduler.start()
    try:
        yield
    finally:
        scheduler.shutdown(wait=True)


def _steady_scheduler(longest_wait: float) -> BackgroundScheduler:
    """A scheduler whose plan moves with the host's clock when that is set.

    APScheduler plans by the clock: set back by ten minutes, it would sweep nothing for ten
    minutes; set forward by years, it would count up each interval that it has missed.
    """
    from apscheduler.schedulers.background import BackgroundScheduler

    class SteadyScheduler(BackgroundScheduler):  # type: ignore[misc]  # APScheduler has no types
        _ahead = _clock_ahead()

        def _process_jobs(self) -> float | None:
            """Called each time that the scheduler has waited, which it does by a steady clock."""
            ahead = _clock_ahead()
            jump, self._ahead = ahead - self._ahead, ahead
            if abs(jump) > LEAST_JUMP_SECONDS:
                for job in self.get_jobs():
                    job.modify(next_run_time=job.next_run_time + timedelta(seconds=jump))
            wait: float | None = super()._process_jobs()
            # The clock may have been set just now, while the wait was being computed from it.
            return None if wait is None else min(wait, longest_wait)

    return SteadyScheduler(timezone="UTC")


def _clock_ahead() -> float:
    """How far the host's clock is ahead of the steady one: it moves when the clock is set."""
    return time.time() - time.monotonic()


def _sweep(queue: JobQueue) -> None:
    try:
        report = queue.sweep()
    except JobroomError as error:
        log.warning("sweep.failed reason=%r again_in=%gs", str(error), _interval(queue))
        return
    if any(report[1:]):
        counts = " ".join(f"{name}={count}" for name, count in report._asdict().items() if count)
        log.info("sweep.done %s", counts)


def _interval(queue: JobQueue) -> float:
    return queue.settings.sweeper_interval_seconds
