"""Who is asking: from a bearer token, or from what the host application says of its request."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import cached_property
from http import HTTPStatus
from typing import Protocol

import anyio
from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Scope

from jobroom import tokens
from jobroom.domain.records import Caller
from jobroom.errors import Forbidden, Unauthorized

# Waiting for an issuer's keys must not use up the threads that reads of the store need.
FETCHING_THREADS = 4


class Authenticator(Protocol):
    """Says who sent a request; raises ``Unauthorized``, or ``Forbidden`` for the unwelcome."""

    def authenticate(self, scope: Scope) -> tokens.Identity | Awaitable[tokens.Identity]:
        """Identify the caller: at once where nothing blocks, else by something to await."""
        ...


class BearerAuthenticator:
    """Takes the one token of the ``Authorization`` header (RFC 6750)."""

    def __init__(self, verifier: tokens.TokenVerifier) -> None:
        self._verifier = verifier

    def authenticate(self, scope: Scope) -> tokens.Identity | Awaitable[tokens.Identity]:
        """Identify the caller; to be awaited only where an issuer's keys may have to be fetched."""
        token = _bearer_token(scope["headers"])
        identity = self._verifier.recall(token) or self._verifier.verify_at_hand(token)
        if identity is not None:
            return identity
        if self._verifier.may_fetch:
            return self._verify_in_thread(token)
        return self._verifier.verify(token)

    @cached_property
    def _limiter(self) -> anyio.CapacityLimiter:
        # Made where it is used: it loads all of anyio, 3 % of a cold start.
        return anyio.CapacityLimiter(FETCHING_THREADS)

    async def _verify_in_thread(self, token: bytes) -> tokens.Identity:
        return await to_thread.run_sync(
            self._verifier.verify, token, abandon_on_cancel=True, limiter=self._limiter
        )


def _bearer_token(headers: list[tuple[bytes, bytes]]) -> bytes:
    found: bytes | None = None
    for name, value in headers:
        if name == b"authorization":
            if found is not None:
                raise Unauthorized("Send exactly one Authorization header.")
            found = value
    if found is None:
        raise Unauthorized("Send a token, in the header Authorization: Bearer <token>.")
    scheme, _, token = found.strip().partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token:
        raise Unauthorized("The header must read Authorization: Bearer <token>.")
    return token


class CallableAuthenticator:
    """Asks the host's two callables of the request, the seed's names.

    A synchronous callable runs in a thread, because it may block; make it ``async`` if it only
    looks at the request. There are no room rights and no expiry with it.
    """

    def __init__(
        self,
        get_current_identity: Callable[[Request], str | Awaitable[str]],
        get_is_admin: Callable[[Request], bool | Awaitable[bool]] | None = None,
    ) -> None:
        self._get_current_identity = get_current_identity
        self._get_is_admin = get_is_admin

    async def authenticate(self, scope: Scope) -> tokens.Identity:
        """Identify the caller as the host does; its 401 and 403 become ours."""
        request = Request(scope)
        try:
            identity = await _ask(self._get_current_identity, request)
            if not tokens.is_identity(identity):
                message = "The application gave no identity: it must be text of 1 to 255 characters"
                raise Unauthorized(f"{message} without control characters.")
            is_admin = self._get_is_admin and await _ask(self._get_is_admin, request)
        except HTTPException as error:
            raise _refusal_for(error) from error
        return tokens.Identity(Caller(identity, is_admin is True))


async def _ask(question: Callable[[Request], object], request: Request) -> object:
    called = getattr(question, "__call__", None)  # noqa: B004 - an object's own, to look at
    if inspect.iscoroutinefunction(question) or inspect.iscoroutinefunction(called):
        answer: object = question(request)
    else:
        answer = await to_thread.run_sync(question, request)
    return await answer if inspect.isawaitable(answer) else answer


def _refusal_for(error: HTTPException) -> Exception:
    if error.status_code == HTTPStatus.UNAUTHORIZED:
        return Unauthorized(str(error.detail))
    if error.status_code == HTTPStatus.FORBIDDEN:
        return Forbidden(str(error.detail))
    return error
