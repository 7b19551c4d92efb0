"""The sweep inside a server that stays awake: APScheduler calls it at an interval."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from jobroom.errors import JobroomError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apscheduler.schedulers.background import BackgroundScheduler
    from apscheduler.triggers.interval import IntervalTrigger

    from jobroom.service.queue import JobQueue

log = logging.getLogger("jobroom")


@contextmanager
def sweeping(queue: JobQueue) -> Iterator[None]:
    """Sweep at the interval of the settings for the time of the ``with``; 0 switches it off.

    Every server process may do so: a sweep is safe to run beside another.
    """
    seconds = _interval(queue)
    if not seconds:
        yield
        return
    # Servers started together should not sweep together for ever.
    jitter = int(seconds / 10) or None
    # Workers beat at least three times in a timeout.
    beat = min(seconds, queue.settings.worker_timeout_seconds / 3)
    scheduler = _steady_scheduler(seconds + (jitter or 0), beat)
    scheduler.add_job(
        _sweep,
        _from_now(seconds, jitter),
        args=[queue],
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


def _steady_scheduler(longest_wait: float, beat: float) -> BackgroundScheduler:
    """A scheduler that comes to its jobs within so many seconds, however the clock is set back.

    APScheduler plans by the host's clock: set back by ten minutes, it would do nothing for ten.
    After the process stood still a job waits for a ``beat`` more, once: the workers' heartbeats of
    that time lie unread, and to judge before they are read would lose workers that were there.
    """
    from apscheduler.schedulers.background import BackgroundScheduler

    class SteadyScheduler(BackgroundScheduler):  # type: ignore[misc]  # APScheduler has no types
        put_off_to: datetime | None = None

        def _process_jobs(self) -> float | None:
            """Called each time that the scheduler has waited, which it does by a steady clock."""
            now = datetime.now(self.timezone)
            latest, breath = now + timedelta(seconds=longest_wait), timedelta(seconds=beat)
            for job in self.get_jobs():
                if job.next_run_time > latest:  # planned before the clock was set back
                    job.modify(next_run_time=latest)
                elif job.next_run_time + breath < now and job.next_run_time != self.put_off_to:
                    self.put_off_to = now + breath  # it was planned before a standstill
                    job.modify(next_run_time=self.put_off_to)
            wait: float | None = super()._process_jobs()
            # The clock may have been set just now, while the wait was being computed from it.
            return None if wait is None else min(wait, longest_wait)

    return SteadyScheduler(timezone="UTC")


def _from_now(seconds: float, jitter: int | None) -> IntervalTrigger:
    """A trigger that is due an interval after the last time, and misses none.

    APScheduler's own counts up each interval that was missed; for a clock that was set forward
    by years, that takes minutes.
    """
    from apscheduler.triggers.interval import IntervalTrigger

    class FromNow(IntervalTrigger):  # type: ignore[misc]  # as above
        def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
            """Plan from the clock as it is."""
            found: datetime | None = super().get_next_fire_time(previous and now, now)
            return found

    return FromNow(seconds=seconds, jitter=jitter, timezone="UTC")


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
