"""What one try of a request came to when it brought no answer of the server's own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any

import httpx

from jobroom import errors
from jobroom.client import problems
from jobroom.errors import JobroomError

LONGEST_RETRY_AFTER_SECONDS = 60.0


class OutOfTime(JobroomError):
    """The caller's time is over; ``last`` is what the last try came to."""

    def __init__(self, last: JobroomError) -> None:
        super().__init__(str(last))
        self.last = last

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.last,)


class Kind(Enum):
    """Why there is no answer; each is borne for a time of its own."""

    AWAY = auto()
    BUSY = auto()
    """The server is there, and says that it has too much to do."""
    BROKEN = auto()
    """The server's own answer is one that the contract does not name, an internal error."""
    FOREIGN = auto()
    """Somebody else answers in the server's place: a gateway, a login page."""
    REFUSED = auto()
    """The token is refused, and another one may come."""
    TOKENLESS = auto()
    """The token could not be had."""


@dataclass(frozen=True, slots=True)
class NotNow:
    """A try that came to nothing, and the error that it is if it was the last one.

    ``untaken``: the server certainly did not act on it. ``dropped``: it may have been nothing but
    a kept connection that was closed meanwhile. ``there``: the server itself said so.
    """

    kind: Kind
    error: JobroomError
    reason: str
    retry_after: float = 0.0
    untaken: bool = False
    dropped: bool = False
    there: bool = False


def unanswered(failure: httpx.HTTPError, where: str) -> NotNow:
    """Return what a try came to that ended without an answer."""
    reason = f"{type(failure).__name__}: {str(failure) or 'no answer in time'}"
    error = errors.StoreUnavailable(
        f"The server at {where} did not answer ({reason}): check that it runs there, and that"
        " this host reaches it."
    )
    error.__cause__ = failure
    early = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
    cut = (httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError)
    return NotNow(
        *(Kind.AWAY, error, f"The server did not answer: {reason}"),
        untaken=isinstance(failure, early),
        dropped=isinstance(failure, cut),
    )


def answered(response: httpx.Response, found: object) -> NotNow | None:
    """Return what an answer stands for that does not end the call; None for one that does."""
    status, own = response.status_code, problems.problem_of(response) is not None
    if not isinstance(found, JobroomError):
        return None
    if isinstance(found, problems.UnexpectedAnswer):
        kind = Kind.BROKEN if own else Kind.FOREIGN
    elif isinstance(found, errors.Unauthorized | problems.Barred):
        kind = Kind.REFUSED
    elif status in problems.AWAY:
        kind = Kind.BUSY if isinstance(found, errors.TooManyRequests) else Kind.AWAY
    else:
        return None
    later = isinstance(found, errors.StoreUnavailable | errors.TooManyRequests)
    untaken = (own and later) or kind is Kind.REFUSED
    there = own and kind in {Kind.BUSY, Kind.REFUSED}
    return NotNow(kind, found, str(found), _retry_after(response), untaken=untaken, there=there)


def tokenless(failure: Exception) -> NotNow:
    """Return what a try came to for which there was no token."""
    error = failure if isinstance(failure, JobroomError) else problems.TokenUnavailable(failure)
    # The failure's own text may hold a secret: what was sent to whoever gives out tokens.
    return NotNow(Kind.TOKENLESS, error, str(error), untaken=True)


def _retry_after(response: httpx.Response) -> float:
    """Return the seconds of ``Retry-After`` (RFC 9110, 10.2.3), bounded; 0 if unreadable."""
    text = response.headers.get("retry-after", "").strip()
    try:
        seconds = float(text) if text[:1].isdigit() else _seconds_until(text, response)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_SECONDS) if math.isfinite(seconds) else 0.0


def _seconds_until(date: str, response: httpx.Response) -> float:
    try:
        now = _moment(response.headers.get("date", ""))  # this host's own clock may be wrong
    except (TypeError, ValueError, OverflowError):
        now = datetime.now(UTC)
    return (_moment(date) - now).total_seconds()


def _moment(date: str) -> datetime:
    at = parsedate_to_datetime(date)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
