"""Where a check stands: what it looks at, and what earlier looks have brought."""

from __future__ import annotations

import urllib.request
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx

from jobroom.client import endpoints, intime
from jobroom.client.connection import Connection

TRY_SECONDS = 10.0
PORTS = {"http": 80, "https": 443, "socks5": 1080}


class Wrong(Exception):
    """Something is not as it must be; ``advice`` is the next step."""

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(found)
        self.advice = advice


class Skipped(Exception):
    """There is nothing to look at here; the message says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look came to; ``ok`` is None where it was skipped."""

    check: str
    ok: bool | None
    found: str
    advice: str | None = None


@dataclass(slots=True)
class Place:
    """What is looked at, and what the looks have brought so far."""

    connection: Connection
    token: str | None
    room: str | None
    category: str
    me: dict[str, Any] = field(default_factory=dict)
    date: str | None = None

    @property
    def url(self) -> httpx.URL:
        """The server's address."""
        return httpx.URL(self.connection.base_url)

    @property
    def proxy(self) -> str | None:
        """The proxy that the environment puts before the server."""
        host = self.url.host
        if urllib.request.proxy_bypass(host):
            return None
        found = urllib.request.getproxies()
        return found.get(self.url.scheme) or found.get("all")

    @property
    def nearest(self) -> tuple[str, int]:
        """The host and port that this machine itself speaks to."""
        url = self.url if self.proxy is None else _url_of(self.proxy)
        return url.host, url.port or PORTS.get(url.scheme, 80)

    def ask(self, method: str, path: str, *, wait: float = 0.0, **more: Any) -> httpx.Response:
        """Send one request, once."""
        headers = {**self.connection.get_headers(), **endpoints.prefer(wait)}
        request = partial(
            self.connection.http.request,
            method,
            f"{self.connection.base_url}{path}",
            headers=headers,
            timeout=httpx.Timeout(TRY_SECONDS + wait, connect=TRY_SECONDS),
            **more,
        )
        return intime.ask(request, TRY_SECONDS + wait)

    @property
    def proxy_without_password(self) -> str | None:
        """The proxy as it may be shown."""
        return None if self.proxy is None else without_password(_url_of(self.proxy))


def without_password(url: httpx.URL) -> str:
    """Return an address as it may be shown."""
    return f"{url.scheme}://{url.netloc.decode()}"


def object_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of an answer; an empty one if it is none."""
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def said_of(failure: httpx.HTTPError) -> str:
    """Return why there was no answer."""
    return f"{type(failure).__name__}: {str(failure) or 'no answer in time'}"


def _url_of(proxy: str) -> httpx.URL:
    return httpx.URL(proxy if "://" in proxy else f"http://{proxy}")
