"""The sweep inside a server that stays awake: APScheduler calls it at an interval."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobroom.service.queue import JobQueue

log = logging.getLogger("jobroom")


@contextmanager
def sweeping(queue: JobQueue) -> Iterator[None]:
    """Sweep at the interval of the settings for the time of the ``with``; 0 switches it off.

    Every server process may do so: a sweep is safe to run beside another.
    """
    seconds = queue.settings.sweeper_interval_seconds
    if not seconds:
        yield
        return
    from apscheduler.schedulers.background import BackgroundScheduler

    scheduler = BackgroundScheduler(timezone="UTC")
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
    scheduler.start()
    try:
        yield
    finally:
        scheduler.shutdown(wait=True)


def _sweep(queue: JobQueue) -> None:
    report = queue.sweep()
    if any(report[1:]):
        counts = " ".join(f"{name}={count}" for name, count in report._asdict().items() if count)
        log.info("sweep.done %s", counts)
