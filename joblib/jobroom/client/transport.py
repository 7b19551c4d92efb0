"""One request to the server: repeated while that is safe, with its outages told once each."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from jobroom.client import problems, tries, where
from jobroom.client.call import Call, Json, encode, object_call
from jobroom.client.drive import Driver
from jobroom.client.flow import Exchange, Flow, exchange, identify, pause
from jobroom.client.spell import Troubles
from jobroom.client.tries import Kind, NotNow
from jobroom.errors import ConfigurationError, JobroomError

__all__ = ["CALL", "ONCE", "Json", "Patience", "Transport", "delay_before", "encode"]

T = TypeVar("T")

FIRST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 10.0
CONNECT_SECONDS = 10.0
LAST_ANSWER_SECONDS = 1.0
"""What an answer may take at the end of the caller's time."""
TOKEN_EVENTS = {Kind.REFUSED: "token.refused", Kind.TOKENLESS: "token.unavailable"}


def sleep(seconds: float) -> bool:
    """Wait out a delay; True, for nobody can cut it short."""
    time.sleep(seconds)
    return True


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call is repeated before it gives up (``seconds``), and how long one try may take.

    ``pause`` waits between two tries and says whether to go on. ``outlive_seconds`` is how long
    an internal error of the server is borne; if that is any time at all, pages that somebody else
    answers with are borne like an outage. ``refused_seconds`` is how long a token is refused
    before that is an error, where another token may come. ``longest_delay`` bounds the pause
    between two tries, unless the server asks for a longer one. ``ends_at`` is a moment of the
    monotonic clock, the end of the caller's time: there is one last try then, and no try goes on
    for long after it, however its answer comes.
    """

    seconds: float
    timeout: float = 30.0
    pause: Callable[[float], bool] = sleep
    outlive_seconds: float = 0.0
    refused_seconds: float = 0.0
    longest_delay: float = LONGEST_DELAY_SECONDS
    ends_at: float = math.inf

    @property
    def left(self) -> float:
        """The seconds of the caller's time that are left."""
        return max(0.0, self.ends_at - time.monotonic())

    def for_kind(self, kind: Kind) -> float:
        """Return how long this kind of trouble is borne."""
        match kind:
            case Kind.BROKEN:
                return self.outlive_seconds
            case Kind.FOREIGN:
                return self.seconds if self.outlive_seconds > 0 else 0.0
            case Kind.REFUSED:
                return self.refused_seconds
            case Kind.AWAY | Kind.BUSY | Kind.TOKENLESS:
                return self.seconds


ONCE = Patience(0.0)
CALL = Patience(60.0)


def delay_before(retry: int, longest_delay: float = LONGEST_DELAY_SECONDS) -> float:
    """Return the pause before a retry (0 is the first): growing, jittered, bounded."""
    longest = min(longest_delay, FIRST_DELAY_SECONDS * 2.0 ** min(retry, 20))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  # jitter, no secret


class Transport:
    """Asks for one ``ApiManager``; the rules of repeating, whoever carries out their steps."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self._own_troubles = Troubles()
        self._had_token = False

    @property
    def _troubles(self) -> Troubles:
        # A connection knows them over all that use it, and begins anew in a child process.
        troubles = getattr(self.api, "troubles", None)
        return troubles if isinstance(troubles, Troubles) else self._own_troubles

    @property
    def is_away(self) -> bool:
        """Whether the server is known to be away just now."""
        return self._troubles.outage.lasts

    def send(
        self,
        method: str,
        path: str,
        *,
        patience: Patience,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
        expect: str | None = None,
    ) -> Json:
        """Return the JSON object of a good answer; raises what ``jobroom.errors`` has for others.

        ``repeatable`` False repeats only what the server certainly did not take. ``expect`` is a
        member that the object has; one without it is somebody else's.
        """
        call = object_call(
            *(method, path),
            body=body,
            headers=headers,
            repeatable=repeatable,
            expect=expect,
        )
        return Driver(self.api).run(self.ask(call, patience=patience))

    def ask(self, call: Call[T], *, patience: Patience = CALL) -> Flow[T]:
        """Return what the call's answer is read into; raises what it stands for otherwise."""
        try:
            return (yield from self._persist(call, patience))
        finally:
            self._troubles.forget(call)

    def _persist(self, call: Call[T], patience: Patience) -> Flow[T]:
        first: dict[Kind, float] = {}
        for retry in itertools.count():
            asked_at = time.monotonic()
            found = yield from self._try(call, patience)
            if not isinstance(found, NotNow):
                self._troubles.good(call, asked_at=asked_at)
                if isinstance(found, JobroomError):
                    raise found
                return found
            if not (call.repeatable or found.untaken):
                raise found.error
            seconds = self._borne(found, patience)
            self._tell(call, found, retry=retry, once=patience.seconds <= 0, asked_at=asked_at)
            delay = max(delay_before(retry, patience.longest_delay), found.retry_after)
            until = first.setdefault(found.kind, asked_at) + seconds
            # The first repeat is free: one slow try must not use up all patience.
            late = retry > 0 and time.monotonic() + delay > until
            if seconds <= 0 or late:
                raise found.error
            if patience.left <= 0:
                raise tries.OutOfTime(found.error) from found.error
            if not (yield from pause(min(delay, patience.left), patience.pause)):
                raise found.error
        raise AssertionError  # count() does not end

    def _borne(self, found: NotNow, patience: Patience) -> float:
        if found.kind is Kind.TOKENLESS and not self._had_token:
            return 0.0  # what never gave a token is a fault to mend, not an outage
        renews = getattr(self.api, "renews_token", False)
        if found.kind is Kind.REFUSED and not (renews or isinstance(found.error, problems.Barred)):
            return 0.0
        return patience.for_kind(found.kind)

    def _tell(
        self, call: Call[T], found: NotNow, *, retry: int, once: bool, asked_at: float
    ) -> None:
        outage, token = self._troubles.outage, self._troubles.token
        if found.there:
            outage.good(call, asked_at=asked_at)
        # Not at the first failure: a kept connection that was closed is no outage.
        news = retry > 0 or (once and not (found.dropped and not outage.doubt()))
        if not news or found.kind is Kind.BUSY:
            return
        if found.kind in TOKEN_EVENTS:
            spell, event, place = token, TOKEN_EVENTS[found.kind], where.server_of(self.api)
        else:
            spell, event, place = outage, "server.away", where.server_and_proxy_of(self.api)
        spell.met(call, event, where=place, reason=found.reason, asked_at=asked_at)

    def _try(self, call: Call[T], patience: Patience) -> Flow[T | JobroomError | NotNow]:
        try:
            return (yield from self._exchange(call, patience))
        except (
            *(httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL),
            UnicodeError,  # a host name that cannot be asked for
        ) as failure:
            # The text of the failure may hold a header, and so the token.
            raise ConfigurationError(
                f"No request can be made to {where.server_of(self.api)}"
                f" ({type(failure).__name__}): check the address and the token."
            ) from None
        except (httpx.TransportError, httpx.DecodingError) as failure:
            return tries.unanswered(failure, where.server_of(self.api))

    def _exchange(self, call: Call[T], patience: Patience) -> Flow[T | JobroomError | NotNow]:
        identity = yield from self._identity()
        if isinstance(identity, NotNow):
            return identity
        response = yield from _send(call, identity, patience)
        found = call.read(response)
        if isinstance(later := tries.answered(response, found), NotNow):
            if later.kind is not Kind.REFUSED:
                return later
            # The token may have expired on its way: another one is worth another try.
            renewed = yield from self._identity()
            if isinstance(renewed, NotNow) or renewed == identity:
                return renewed if isinstance(renewed, NotNow) else later
            response = yield from _send(call, renewed, patience)
            found = call.read(response)
            return tries.answered(response, found) or found
        return found

    def _identity(self) -> Flow[Mapping[str, str] | NotNow]:
        try:
            identity = yield from identify()
        except Exception as failure:  # noqa: BLE001  # a user's callable may raise anything
            return tries.tokenless(failure)
        self._had_token = True
        return identity


def _send(call: Call[T], identity: Mapping[str, str], patience: Patience) -> Flow[httpx.Response]:
    whole = patience.left + LAST_ANSWER_SECONDS
    timeout = min(patience.timeout, whole)
    step = Exchange(
        *(call.method, call.path, call.content, call.all_headers(identity)),
        timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
        seconds=whole,
    )
    return exchange(step)
