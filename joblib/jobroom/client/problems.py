"""The server's error answers, turned back into the exceptions of ``jobroom.errors``."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import httpx

from jobroom import errors
from jobroom.errors import FieldError, JobroomError

BUSY = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE})
AWAY = BUSY | {HTTPStatus.GATEWAY_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
"""The statuses that say "later", whoever says it: our server or a proxy before it."""

DETAIL_LENGTH = 500
CHECK_ADDRESS = "it is no problem document of this API; check the address"


class UnexpectedAnswer(JobroomError):
    """An answer that the contract does not name; ``status`` and ``detail`` are what came."""

    def __init__(self, message: str, *, status: int, detail: str) -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail


class ConnectionClosed(JobroomError):
    """The program closed its connection and went on using it."""


class TokenUnavailable(errors.StoreUnavailable):
    """The program's own callable gave no token."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(
            f"There is no token to send: the callable that gives it raised"
            f" {type(failure).__name__}. Mend it, or what it asks."
        )
        self.__cause__ = failure


class Barred(errors.Forbidden):
    """Something between here and the server does not let the request through."""


class NotJson(errors.ValidationFailed):
    """A value that JSON cannot carry, noticed before it was sent."""


def _families(base: type[JobroomError]) -> Iterator[type[JobroomError]]:
    for child in base.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from _families(child)


ELSEWHERE = (errors.StoreUnavailable, errors.TooManyRequests, UnexpectedAnswer)
"""What a call raises whose server is away, or whose answers are not the server's own."""

# A class further down stands for the slug that it shares with its parent (ValidationFailed); one
# that inherits its slug is never an answer.
_BY_SLUG: dict[str, type[JobroomError]] = {
    kind.slug: kind for kind in _families(JobroomError) if "slug" in vars(kind)
}
_BY_STATUS: dict[int, type[JobroomError]] = {
    HTTPStatus.UNAUTHORIZED: errors.Unauthorized,
    HTTPStatus.FORBIDDEN: Barred,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: errors.PayloadTooLarge,
    HTTPStatus.TOO_MANY_REQUESTS: errors.TooManyRequests,
    **dict.fromkeys(AWAY - {HTTPStatus.TOO_MANY_REQUESTS}, errors.StoreUnavailable),
}
"""For answers without a problem document, as proxies and gateways give them."""


def problem_of(response: httpx.Response) -> dict[str, Any] | None:
    """Return the problem document of an error answer; None if it carries none."""
    if "json" not in response.headers.get("content-type", ""):
        return None
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) and isinstance(body.get("type"), str) else None


def read(response: httpx.Response, *, expect: str | None = None) -> dict[str, Any] | JobroomError:
    """Return the answer's JSON object ({} without a body), or the error that it stands for.

    An object without the member ``expect`` is of some other service.
    """
    if not response.is_success:
        return error_of(response)
    if expect is None and response.status_code == HTTPStatus.NO_CONTENT:
        return {}
    try:
        body = response.json()
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        return _unexpected(response, "it holds no JSON object; check the server's address")
    if expect is not None and expect not in body:
        return _unexpected(response, f"it has no {expect!r}; check the server's address")
    return body


def read_any(response: httpx.Response) -> Any:
    """Return the answer's JSON, of whatever type, or the error that it stands for."""
    if not response.is_success:
        return error_of(response)
    try:
        return response.json()
    except (ValueError, RecursionError):
        return _unexpected(response, "it holds no JSON; check the server's address")


def read_version(
    response: httpx.Response,
) -> tuple[str | None, dict[str, Any]] | JobroomError | None:
    """Return a task with its tag, None if it is the version that the request named."""
    if response.status_code == HTTPStatus.NOT_MODIFIED:
        return None
    found = read(response, expect="status")
    return found if isinstance(found, JobroomError) else (response.headers.get("etag"), found)


def error_of(response: httpx.Response) -> JobroomError:
    """Return the exception that an error answer stands for."""
    problem = problem_of(response)
    if problem is None:
        return _without_problem(response)
    slug = problem["type"].rstrip("/").rpartition("/")[2]
    detail = str(problem.get("detail") or problem.get("title") or slug)
    kind = _BY_SLUG.get(slug)
    if kind is None:
        return _unexpected(response, detail)
    return kind(detail, errors=tuple(_field_errors(problem.get("errors"))))


def _field_errors(found: object) -> Iterator[FieldError]:
    for fault in found if isinstance(found, list) else ():
        if isinstance(fault, dict):
            yield FieldError(str(fault.get("pointer", "")), str(fault.get("message", "")))


def _without_problem(response: httpx.Response) -> JobroomError:
    kind = _BY_STATUS.get(response.status_code)
    where = f"{response.request.method} {response.request.url.path}"
    if kind is None:
        return _unexpected(response, _moved_to(response) or CHECK_ADDRESS)
    return kind(f"{where} was answered {response.status_code}, not by the job queue itself.")


def _moved_to(response: httpx.Response) -> str | None:
    if not response.has_redirect_location:
        return None
    try:
        there = response.request.url.join(response.headers["location"])
    except httpx.InvalidURL:
        return None
    # Not followed: the token is for the address that it was given for.
    return f"it points to {there.scheme}://{there.netloc.decode()}; set JOBROOM_URL to the server"


def _unexpected(response: httpx.Response, detail: str) -> UnexpectedAnswer:
    where = f"{response.request.method} {response.request.url.path}"
    status, detail = response.status_code, detail[:DETAIL_LENGTH]
    return UnexpectedAnswer(
        f"{where} was answered {status}: {detail}", status=status, detail=detail
    )
