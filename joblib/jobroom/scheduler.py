"""The sweep inside a server that stays awake: APScheduler calls it at an interval."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobroom.errors import JobroomError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    # A sweep that is still under way is not worth a line at each interval.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    scheduler.start()
    try:
        yield
    finally:
        scheduler.shutdown(wait=True)


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
