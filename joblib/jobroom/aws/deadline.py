"""How much time the platform leaves: the function's own, and that of the gateway before it."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from jobroom.aws import events

if TYPE_CHECKING:
    from jobroom.settings import JobLibSettings


class Limits(NamedTuple):
    """Seconds of ``time.monotonic()``, one after the other, and all before the platform's end.

    Waits end before the first of them, by ``answer_by``: they still ask the store after that.
    """

    store_until: float
    """What the store answers later is of no use."""
    last_moment: float
    """Whatever is still under way, the request is answered."""


NO_LIMITS = Limits(math.inf, math.inf)


def seconds_left(context: Any) -> float | None:
    """Until the platform ends this call; None where nobody says."""
    ask = getattr(context, "get_remaining_time_in_millis", None)
    return None if ask is None else ask() / 1000


def answer_by(event: dict[str, Any], context: Any, settings: JobLibSettings) -> float | None:
    """The second of ``time.monotonic()`` by which the answer must be on its way.

    The gateway counts from when it got the request: a cold start went by since, of which the
    function's own time knows nothing.
    """
    limits = [seconds_left(context), _gateway_seconds_left(event, settings)]
    known = [limit for limit in limits if limit is not None]
    if not known:
        return None
    return time.monotonic() + min(known) - settings.gateway_reserve_seconds


def limits(event: dict[str, Any], context: Any, settings: JobLibSettings) -> Limits:
    """By when the store, and then the application, must have done with a request.

    A gateway whose time is up has gone, or its clock is behind ours by so much: then the function's
    own time counts.
    """
    given = [seconds_left(context), _gateway_seconds_left(event, settings)]
    known = [seconds for seconds in given if seconds is not None and seconds > 0]
    if not known:
        return NO_LIMITS
    left = min(known)
    # Half of it is for work, however little it is.
    reserve, end = min(settings.gateway_reserve_seconds, left / 2), time.monotonic() + left
    return Limits(store_until=end - reserve / 2, last_moment=end - reserve / 4)


def _gateway_seconds_left(event: dict[str, Any], settings: JobLibSettings) -> float | None:
    if not settings.gateway_timeout_seconds or events.is_function_url(event):
        return None
    received_at = events.received_at(event)
    # A clock that is ahead of ours gives no time away.
    age = 0.0 if received_at is None else max(0.0, time.time() - received_at)
    return settings.gateway_timeout_seconds - age
