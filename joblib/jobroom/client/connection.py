"""Where the server is and how to be known there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol, Self

import httpx

from jobroom.errors import ConfigurationError

Token = str | Callable[[], str]


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

    ``token`` may be a callable, asked before each request, for tokens that expire.
    """

    def __init__(
        self, base_url: str, token: Token | None = None, *, http: httpx.Client | None = None
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ConfigurationError(
                "The server's address must begin with http:// or https://; set JOBROOM_URL so."
            )
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
        token = self._token() if callable(self._token) else self._token
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def close(self) -> None:
        """Close the connections, unless the client was given by the caller."""
        if self._own:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
