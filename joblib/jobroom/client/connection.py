"""Where the server is and how to be known there."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable
from typing import Protocol, Self, TypeVar

import httpx

from jobroom.client import address
from jobroom.client.spell import Troubles
from jobroom.errors import ConfigurationError

Token = str | Callable[[], str]
H = TypeVar("H")

ON_REFUSAL = (
    "Put a good one into JOBROOM_TOKEN and start again, or give the Connection a callable that"
    " fetches a fresh one."
)
"""What to do about a token that the server refuses."""

ON_RENEWED_REFUSAL = (
    "The callable that gives it must fetch a fresh one; if it is fresh, check the clock of the"
    " host that made it."
)
"""The same where a callable gives the tokens."""


class ApiManager(Protocol):
    """What the SDK needs of its host application; ``Connection`` is a ready-made one."""

    http: httpx.Client

    def get_headers(self) -> dict[str, str]:
        """Return the headers that prove who asks; called for every request."""
        ...

    @property
    def base_url(self) -> str:
        """Where the server is, without ``/v1/joblib``."""
        ...


class Connection:
    """An ``ApiManager`` for programs without a host application.

    ``token`` may be a callable, for tokens that expire: it is asked before each request, by one
    thread at a time, and once more when the server refuses what it gave. Let it keep a token
    for as long as that is good. When it raises, or goes on giving tokens that are refused, after
    it had given a good one, that is borne for a while like an outage.
    """

    def __init__(
        self, base_url: str, token: Token | None = None, *, http: httpx.Client | None = None
    ) -> None:
        address.check(base_url)
        if not callable(token):
            bearer(token)
        self._base_url = base_url.rstrip("/")
        self._token = token
        self._http = new_client() if http is None else http
        self._own = http is None
        self._pid = os.getpid()
        self._asking = threading.RLock()
        self._troubles = Troubles()

    @classmethod
    def from_env(cls) -> Self:
        """Take the address from ``JOBROOM_URL`` and the token from ``JOBROOM_TOKEN``."""
        base_url = os.environ.get("JOBROOM_URL")
        if not base_url:
            raise ConfigurationError("Set JOBROOM_URL to the server's address, http://host:port.")
        return cls(base_url, os.environ.get("JOBROOM_TOKEN") or None)

    @property
    def http(self) -> httpx.Client:
        """The client that all requests go through."""
        self._mind_the_fork()
        return self._http

    @http.setter
    def http(self, client: httpx.Client) -> None:
        self._http, self._own = client, False

    @property
    def base_url(self) -> str:
        """Where the server is, without ``/v1/joblib``."""
        return self._base_url

    def get_headers(self) -> dict[str, str]:
        """Return the bearer token's header, or nothing without a token."""
        if not callable(self._token):
            return bearer(self._token)
        self._mind_the_fork()
        with self._asking:
            return bearer(self._token())

    @property
    def renews_token(self) -> bool:
        """Whether another token may come when one is refused."""
        return callable(self._token)

    @property
    def troubles(self) -> Troubles:
        """What stands between this connection and its server, over all that use it."""
        self._mind_the_fork()
        return self._troubles

    def _mind_the_fork(self) -> None:
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        # Locks may be held by threads that are not in the child.
        self._asking, self._troubles = threading.RLock(), Troubles()
        if self._own:
            self._http = new_client()  # it must not write into its parent's sockets

    def close(self) -> None:
        """Close the connections, unless the client was given by the caller."""
        if self._own:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def new_client() -> httpx.Client:
    """Return an HTTP client; ``ConfigurationError`` for proxies that it cannot use."""
    return guarded(httpx.Client)


def guarded(make: Callable[[], H]) -> H:
    """Return what ``make`` makes of the environment, whose faults are told in one sentence."""
    try:
        return make()
    except (ImportError, ValueError, httpx.InvalidURL) as failure:
        # The text of the failure may hold the proxy's password.
        missing = " (or pip install 'httpx[socks]')" if isinstance(failure, ImportError) else ""
        raise ConfigurationError(
            "The proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names is of a kind that cannot be"
            f" used here: set another one, or unset it{missing}."
        ) from None


def on_refusal(api: ApiManager) -> str:
    """Return what to do about a token that the server refuses."""
    return ON_RENEWED_REFUSAL if getattr(api, "renews_token", False) else ON_REFUSAL


def bearer(token: object) -> dict[str, str]:
    """Return the header of a token, none for None; ``ConfigurationError`` if no header holds it."""
    if token is None:
        return {}
    if not isinstance(token, str):
        if inspect.iscoroutine(token):
            token.close()
            raise ConfigurationError("The callable of the token is async; give a plain one.")
        raise ConfigurationError(f"The token must be a str, and is a {type(token).__name__}.")
    if not token or not all("!" <= letter <= "~" for letter in token):
        raise ConfigurationError(
            "The token is empty or holds what no header can carry (a space, a line end, a letter"
            " outside ASCII); copy it again."
        )
    return {"Authorization": f"Bearer {token}"}
