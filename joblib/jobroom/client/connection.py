"""Where the server is and how to be known there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol, Self

import httpx

from jobroom.errors import ConfigurationError

Token = str | Callable[[], str]

ON_REFUSAL = (
    "Put a good one into JOBROOM_TOKEN and start again, or give the Connection a callable that"
    " fetches a fresh one."
)
"""What to do about a token that the server refuses."""


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

    ``token`` may be a callable, for tokens that expire: it is asked before each request, and once
    more when the server refuses what it gave.
    """

    def __init__(
        self, base_url: str, token: Token | None = None, *, http: httpx.Client | None = None
    ) -> None:
        if not str(base_url).startswith(("http://", "https://")):
            raise ConfigurationError(
                "The server's address must begin with http:// or https://; set JOBROOM_URL so."
            )
        if not callable(token):
            bearer(token)
        self._base_url = base_url.rstrip("/")
        self._token = token
        self._http = httpx.Client() if http is None else http
        self._own = http is None
        self._pid = os.getpid()

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
        if self._own and self._pid != os.getpid():
            # A forked child must not write into its parent's sockets.
            self._http, self._pid = httpx.Client(), os.getpid()
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
        return bearer(self._token() if callable(self._token) else self._token)

    def close(self) -> None:
        """Close the connections, unless the client was given by the caller."""
        if self._own:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def bearer(token: str | None) -> dict[str, str]:
    """Return the header of a token, none for None; ``ConfigurationError`` if no header holds it."""
    if token is None:
        return {}
    if not isinstance(token, str):
        raise ConfigurationError(f"The token must be a str, and is a {type(token).__name__}.")
    if not token or not all("!" <= letter <= "~" for letter in token):
        raise ConfigurationError(
            "The token is empty or holds what no header can carry (a space, a line end, a letter"
            " outside ASCII); copy it again."
        )
    return {"Authorization": f"Bearer {token}"}
