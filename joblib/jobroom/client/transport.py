"""One request to the server: repeated while that is safe, with its outages told once each."""

from __future__ import annotations

import itertools
import json
import random
import time
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from jobroom.client import connection, problems, result, tries
from jobroom.client.spell import Troubles
from jobroom.client.tries import Kind, NotNow
from jobroom.errors import ConfigurationError, JobroomError

Json = dict[str, Any]

FIRST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 10.0
CONNECT_SECONDS = 10.0
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
    between two tries, unless the server asks for a longer one.
    """

    seconds: float
    timeout: float = 30.0
    pause: Callable[[float], bool] = sleep
    outlive_seconds: float = 0.0
    refused_seconds: float = 0.0
    longest_delay: float = LONGEST_DELAY_SECONDS

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


def encode(body: Mapping[str, Any]) -> bytes:
    """Return the body as JSON; raises ``NotJson`` for what JSON cannot carry."""
    try:
        text = json.dumps(body, allow_nan=False, separators=(",", ":"))
    except Exception as failure:  # a user's types may raise anything
        why = result.why_not(body, failure)
        raise problems.NotJson(f"This cannot be sent as JSON: {why}.") from failure
    return text.encode()


class Transport:
    """Sends requests for one ``ApiManager``; safe to use from several threads."""

    def __init__(self, api: connection.ApiManager) -> None:
        self.api = api
        troubles = getattr(api, "troubles", None)
        self._troubles = troubles if isinstance(troubles, Troubles) else Troubles()
        self._had_token = False

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
        content = None if body is None else encode(body)
        call = _Call(
            *(method, path, content, _headers_of(content, headers)),
            expect=expect,
            repeatable=repeatable,
        )
        try:
            return self._persist(call, patience)
        finally:
            self._troubles.forget(call)

    def _persist(self, call: _Call, patience: Patience) -> Json:
        first: dict[Kind, float] = {}
        for retry in itertools.count():
            asked_at = time.monotonic()
            found = self._try(call, patience.timeout)
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
            if seconds <= 0 or late or not patience.pause(delay):
                raise found.error
        raise AssertionError  # count() does not end

    def _borne(self, found: NotNow, patience: Patience) -> float:
        if found.kind is Kind.TOKENLESS and not self._had_token:
            return 0.0  # what never gave a token is a fault to mend, not an outage
        renews = getattr(self.api, "renews_token", False)
        if found.kind is Kind.REFUSED and not (renews or isinstance(found.error, problems.Barred)):
            return 0.0
        return patience.for_kind(found.kind)

    def _tell(self, call: _Call, found: NotNow, *, retry: int, once: bool, asked_at: float) -> None:
        outage, token = self._troubles.outage, self._troubles.token
        if found.there:
            outage.good(call, asked_at=asked_at)
        # Not at the first failure: a kept connection that was closed is no outage.
        news = retry > 0 or (once and not (found.dropped and not outage.doubt()))
        if not news or found.kind is Kind.BUSY:
            return
        spell, event = (
            (token, TOKEN_EVENTS[found.kind])
            if found.kind in TOKEN_EVENTS
            else (outage, "server.away")
        )
        proxy = _proxy_of(self.api) if spell is outage else None
        where = f"{self._where} proxy={proxy}" if proxy else self._where
        spell.met(call, event, where=where, reason=found.reason, asked_at=asked_at)

    @property
    def _where(self) -> str:
        return _without_secrets(self.api.base_url)

    def _try(self, call: _Call, timeout: float) -> Json | JobroomError | NotNow:
        try:
            return self._exchange(call, timeout)
        except (
            *(httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL),
            UnicodeError,  # a host name that cannot be asked for
        ) as failure:
            # The text of the failure may hold a header, and so the token.
            raise ConfigurationError(
                f"No request can be made to {self._where} ({type(failure).__name__}): "
                "check the address and the token."
            ) from None
        except (httpx.TransportError, httpx.DecodingError) as failure:
            return tries.unanswered(failure, self._where)

    def _exchange(self, call: _Call, timeout: float) -> Json | JobroomError | NotNow:
        identity = self._identity()
        if isinstance(identity, NotNow):
            return identity
        response = self._request(call, identity, timeout)
        found = problems.read(response, expect=call.expect)
        if isinstance(later := tries.answered(response, found), NotNow):
            if later.kind is not Kind.REFUSED:
                return later
            # The token may have expired on its way: another one is worth another try.
            renewed = self._identity()
            if isinstance(renewed, NotNow) or renewed == identity:
                return renewed if isinstance(renewed, NotNow) else later
            response = self._request(call, renewed, timeout)
            found = problems.read(response, expect=call.expect)
            return tries.answered(response, found) or found
        return found

    def _identity(self) -> Mapping[str, str] | NotNow:
        try:
            identity = self.api.get_headers()
        except Exception as failure:  # noqa: BLE001  # a user's callable may raise anything
            return tries.tokenless(failure)
        self._had_token = True
        return identity

    def _request(self, call: _Call, identity: Mapping[str, str], timeout: float) -> httpx.Response:
        http = self.api.http
        if getattr(http, "is_closed", False):
            raise problems.ConnectionClosed("The connection to the server was closed already.")
        return http.request(
            call.method,
            f"{self.api.base_url.rstrip('/')}{call.path}",
            content=call.content,
            headers={**identity, **call.headers},
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
        )


@dataclass(frozen=True, eq=False)
class _Call:
    """What stays the same over all tries of one call, its ``X-Request-Id`` above all."""

    method: str
    path: str
    content: bytes | None
    headers: Mapping[str, str]
    expect: str | None
    repeatable: bool


def _headers_of(content: bytes | None, more: Mapping[str, str] | None) -> dict[str, str]:
    headers = {"X-Request-Id": str(uuid.uuid4()), **(more or {})}
    return headers if content is None else {**headers, "Content-Type": "application/json"}


def _proxy_of(api: connection.ApiManager) -> str | None:
    """Return the proxy that the environment puts before the server, without its password."""
    try:
        url = httpx.URL(api.base_url)
    except (httpx.InvalidURL, TypeError):
        return None
    if not getattr(api.http, "trust_env", False) or urllib.request.proxy_bypass(url.host):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    return _without_secrets(proxy if "://" in proxy else f"http://{proxy}") if proxy else None


def _without_secrets(base_url: str) -> str:
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError):
        return "?"
    return f"{url.scheme}://{url.netloc.decode()}"
