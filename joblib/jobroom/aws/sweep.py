"""The scheduled function: one sweep, bounded by the time that the platform leaves."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any

from jobroom.aws import deadline
from jobroom.errors import JobroomError
from jobroom.service.queue import SWEEP_SECONDS
from jobroom.store import patience

if TYPE_CHECKING:
    from jobroom.aws.environment import Environment

UNFORESEEN = "The sweep failed in a way that was not foreseen; the function's log says more."
RESERVE_SECONDS = 5.0
"""For the step that is under way when the time is up, the last one, and the answer."""
TELLING_SECONDS = 1.0
"""Of that, for the answer alone."""

log = logging.getLogger("jobroom")


class Sweep:
    """``sweep(event, context)``: whatever the event, sweep once and return the counts.

    Safe when delivered twice, at once or late, and when cut off: each step is a transaction of its
    own. A store that is away raises, so that the platform counts a failure and tells somebody.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __call__(self, _event: Any, context: Any) -> dict[str, Any]:
        """Sweep; the counts are those of ``POST /v1/joblib/sweep``.

        ``finished`` is added: false where the time was up before all was done.
        """
        with patience.until(_store_until(context)):
            return self._sweep(context)

    def _sweep(self, context: Any) -> dict[str, Any]:
        reporter = self._environment.reporter  # also: lets the log be seen
        seconds = _seconds(context)
        began = time.monotonic()
        try:
            queue = self._environment.door.queue
            report = queue.sweep(seconds=seconds)
        except JobroomError as error:
            log.error("sweep.failed reason=%r", str(error))  # noqa: TRY400 - the sentence says all
            if reporter is not None:
                reporter.flush(self._environment.door)  # what the store refused is told now
            raise
        except Exception:
            # The platform would log its words, in which a database may quote a row.
            log.exception("sweep.failed")
            raise RuntimeError(UNFORESEEN) from None
        took = time.monotonic() - began
        done = {**report._asdict(), "finished": took < seconds}
        log.info("sweep.done seconds=%.3f %s", took, " ".join(f"{k}={v}" for k, v in done.items()))
        if reporter is not None:
            reporter.flush_sweep(queue, report)
        return done


def _store_until(context: Any) -> float:
    """By when the store must have answered, so that a hanging one is told of, not cut off."""
    left = deadline.seconds_left(context)
    if left is None:
        return math.inf
    return time.monotonic() + left - min(TELLING_SECONDS, left / 4)


def _seconds(context: Any) -> float:
    """How long to sweep: what the platform leaves, less what one step and the answer may take."""
    left = deadline.seconds_left(context)
    return SWEEP_SECONDS if left is None else max(0.0, left - min(RESERVE_SECONDS, left / 2))
