"""One request to the server: repeated while that is safe, with its outages told once each."""

from __future__ import annotations

import itertools
import json
import logging
import math
import random
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import httpx

from jobroom import errors
from jobroom.client import connection, problems, result
from jobroom.errors import ConfigurationError, JobroomError, StoreUnavailable

Json = dict[str, Any]

log = logging.getLogger("jobroom.client")

FIRST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 10.0
LONGEST_RETRY_AFTER_SECONDS = 60.0
CONNECT_SECONDS = 10.0


def sleep(seconds: float) -> bool:
    """Wait out a delay; True, for nobody can cut it short."""
    time.sleep(seconds)
    return True


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call is repeated before it gives up (``seconds``), and how long one try may take.

    ``pause`` waits between two tries and says whether to go on. ``outlive_seconds`` is how long
    answers that the contract does not name are borne as well: an internal error, a proxy's page.
    ``longest_delay`` bounds the pause between two tries, unless the server asks for a longer one.
    """

    seconds: float
    timeout: float = 30.0
    pause: Callable[[float], bool] = sleep
    outlive_seconds: float = 0.0
    longest_delay: float = LONGEST_DELAY_SECONDS


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


class Outage:
    """Whether the server is away just now; logs one line when that begins and one when it ends."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._lock = threading.Lock()
        self._since: float | None = None

    def begin(self, reason: str, *, proxy: str | None = None) -> None:
        """Note a try that was not answered; ``proxy`` is what stood between."""
        with self._lock:
            if self._since is not None:
                return
            self._since = time.monotonic()
        by = f" proxy={proxy}" if proxy else ""
        log.warning("server.away url=%s%s reason=%r retrying=yes", self._where, by, reason)

    def end(self) -> None:
        """Note an answer."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.warning("server.back url=%s seconds=%.1f", self._where, time.monotonic() - since)


class Transport:
    """Sends requests for one ``ApiManager``; safe to use from several threads."""

    def __init__(self, api: connection.ApiManager) -> None:
        self.api = api
        self._outage = Outage(_without_secrets(api.base_url))

    def send(
        self,
        method: str,
        path: str,
        *,
        patience: Patience,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
    ) -> Json:
        """Return the JSON object of a good answer; raises what ``jobroom.errors`` has for others.

        ``repeatable`` False repeats only what the server certainly did not take.
        """
        request = _Request(method, path, None if body is None else encode(body), headers)
        began = time.monotonic()
        for retry in itertools.count():
            found = self._try(request, patience.timeout)
            if isinstance(found, dict):
                return found
            if not (repeatable or found.untaken):
                raise found.error
            if (retry > 0 or patience.seconds <= 0) and not found.busy:
                # Not at the first failure: a kept connection that was closed is no outage.
                self._outage.begin(str(found.error), proxy=_proxy_of(self.api))
            delay = max(delay_before(retry, patience.longest_delay), found.retry_after)
            odd = isinstance(found.error, problems.UnexpectedAnswer)
            seconds = patience.outlive_seconds if odd else patience.seconds
            # The first repeat is free: one slow try must not use up all patience.
            late = retry > 0 and time.monotonic() + delay > began + seconds
            if seconds <= 0 or late or not patience.pause(delay):
                raise found.error
        raise AssertionError  # count() does not end

    def _try(self, request: _Request, timeout: float) -> Json | _NotNow:
        try:
            response = self._exchange(request, timeout)
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL) as failure:
            # The text of the failure may hold a header, and so the token.
            where = _without_secrets(self.api.base_url)
            raise ConfigurationError(
                f"No request can be made to {where} ({type(failure).__name__}): "
                "check the address and the token."
            ) from None
        except (httpx.TransportError, httpx.DecodingError) as failure:
            return _unanswered(failure)
        found = problems.read(response)
        if isinstance(found, problems.UnexpectedAnswer) or response.status_code in problems.AWAY:
            return _answered_later(response, found)
        self._outage.end()
        if isinstance(found, JobroomError):
            raise found
        return found

    def _exchange(self, request: _Request, timeout: float) -> httpx.Response:
        identity = self.api.get_headers()
        response = self._request(request, identity, timeout)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            # The token may have expired on its way: another one is worth another try.
            renewed = self.api.get_headers()
            if renewed != identity:
                response = self._request(request, renewed, timeout)
        return response

    def _request(
        self, request: _Request, identity: Mapping[str, str], timeout: float
    ) -> httpx.Response:
        http = self.api.http
        if getattr(http, "is_closed", False):
            raise problems.ConnectionClosed("The connection to the server was closed already.")
        return http.request(
            request.method,
            f"{self.api.base_url.rstrip('/')}{request.path}",
            content=request.content,
            headers={**identity, **request.headers},
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
        )


class _Request:
    """What stays the same over all tries of one call, its ``X-Request-Id`` above all."""

    def __init__(
        self,
        method: str,
        path: str,
        content: bytes | None,
        headers: Mapping[str, str] | None,
    ) -> None:
        self.method = method
        self.path = path
        self.content = content
        self.headers = {"X-Request-Id": str(uuid.uuid4()), **(headers or {})}
        if content is not None:
            self.headers["Content-Type"] = "application/json"


@dataclass(frozen=True, slots=True)
class _NotNow:
    """A try that came to nothing.

    ``untaken``: the server certainly did not act on it. ``busy``: it is there, and says so.
    """

    error: JobroomError
    retry_after: float = 0.0
    untaken: bool = False
    busy: bool = False


def _unanswered(failure: httpx.HTTPError) -> _NotNow:
    reason = str(failure) or "no answer in time"
    error = StoreUnavailable(f"The server did not answer: {type(failure).__name__}: {reason}")
    error.__cause__ = failure
    early = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
    return _NotNow(error, untaken=isinstance(failure, early))


def _answered_later(response: httpx.Response, found: Json | JobroomError) -> _NotNow:
    error = found if isinstance(found, JobroomError) else problems.error_of(response)
    own = problems.problem_of(response) is not None
    refused = isinstance(error, errors.StoreUnavailable | errors.TooManyRequests)
    busy = isinstance(error, errors.TooManyRequests)
    return _NotNow(error, _retry_after(response), untaken=own and refused, busy=busy)


def _retry_after(response: httpx.Response) -> float:
    """Return the seconds of ``Retry-After`` (RFC 9110, 10.2.3), bounded; 0 if unreadable."""
    text = response.headers.get("retry-after", "").strip()
    try:
        seconds = float(text) if text[:1].isdigit() else _seconds_until(text)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_SECONDS) if math.isfinite(seconds) else 0.0


def _seconds_until(date: str) -> float:
    at = parsedate_to_datetime(date)
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (at - datetime.now(UTC)).total_seconds()


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
