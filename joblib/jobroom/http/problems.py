"""From errors to problem documents (RFC 9457): the only shape in which the API fails."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.client import responses
from typing import Any, ClassVar
from urllib.parse import quote

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from jobroom.errors import FieldError, JobroomError
from jobroom.http.problem_table import PROBLEM_PATH, PROBLEMS, ProblemKind

__all__ = [
    "MEDIA_TYPE",
    "PROBLEMS",
    "Forbidden",
    "InvalidCategory",
    "InvalidRoomId",
    "InvalidTaskTransition",
    "JobNotFound",
    "NotFound",
    "ProblemException",
    "ProblemKind",
    "ProblemType",
    "SchemaConflict",
    "TaskNotFound",
    "Unauthorized",
    "WorkerNotFound",
    "problem_exception_handler",
    "problem_response",
]

MEDIA_TYPE = "application/problem+json"
INTERNAL_ERROR = 500

_HEADERS: dict[int, dict[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    429: {"Retry-After": "1"},
    503: {"Retry-After": "1"},
}
# What the router and a host's framework raise as a bare status.
_SLUG_OF_STATUS = {
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    409: "conflict",
    413: "payload-too-large",
    415: "unsupported-media-type",
    422: "validation-error",
    429: "too-many-requests",
    503: "store-unavailable",
}
_RESERVED = frozenset({"type", "title", "status", "detail", "instance", "errors"})


class ProblemType:
    """A kind of problem, as a class (the seed's name).

    A subclass takes slug, title and status from the table by its own name; a host that makes
    a kind of its own states ``title`` and ``status`` itself.
    """

    slug: ClassVar[str] = "internal-error"
    title: ClassVar[str] = PROBLEMS["internal-error"].title
    status: ClassVar[int] = PROBLEMS["internal-error"].status

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "slug" not in cls.__dict__:
            cls.slug = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()
        kind = PROBLEMS.get(cls.slug)
        if kind is not None:
            cls.title, cls.status = kind.title, kind.status

    @classmethod
    def type_uri(cls) -> str:
        """The member ``type`` of its documents."""
        return PROBLEM_PATH + cls.slug


class Unauthorized(ProblemType):
    """No token, or one that does not verify."""


class Forbidden(ProblemType):
    """The caller may not do this."""


class NotFound(ProblemType):
    """Nothing at this address."""


class JobNotFound(ProblemType):
    """No such job in this room."""


class WorkerNotFound(ProblemType):
    """No such worker any more."""


class TaskNotFound(ProblemType):
    """No such task."""


class SchemaConflict(ProblemType):
    """The job has another schema."""


class InvalidTaskTransition(ProblemType):
    """The task's state does not allow it."""


class InvalidRoomId(ProblemType):
    """No valid room id."""


class InvalidCategory(ProblemType):
    """No allowed category."""


class ProblemException(Exception):
    """An error that answers itself: a problem type, or an error of this package.

    ``members`` are added to the document (RFC 9457, 3.2).
    """

    def __init__(
        self,
        problem: type[ProblemType] | JobroomError,
        detail: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        errors: Sequence[FieldError] = (),
        **members: object,
    ) -> None:
        clash = sorted(_RESERVED.intersection(members))
        if clash:
            raise TypeError(f"{clash[0]} is a member of every problem and cannot be replaced")
        super().__init__(detail)
        self.problem = problem
        self.detail = detail
        self.headers = dict(headers or {})
        self.errors = tuple(errors)
        self.members = members


@dataclass(frozen=True, slots=True)
class _Case:
    """What is known of one failure before the request's own part is added."""

    type: str
    title: str
    status: int
    detail: str
    errors: tuple[FieldError, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, object] = field(default_factory=dict)


def problem_response(
    problem: BaseException | type[ProblemType] | str,
    *,
    detail: str | None = None,
    request_id: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body for an error, a problem type or a slug of the table.

    Whatever is not an error made for callers is a 500 that tells nothing of it.
    """
    case = _read(problem)
    document: dict[str, Any] = {
        "type": case.type,
        "title": case.title,
        "status": case.status,
        "detail": detail or case.detail,
        "instance": _instance(request_id),
    }
    if case.errors:
        document["errors"] = [
            {"pointer": fault.pointer, "message": fault.message} for fault in case.errors
        ]
    document.update(case.members)
    all_headers = {
        "Content-Type": MEDIA_TYPE,
        **_HEADERS.get(case.status, {}),
        **case.headers,
        **(headers or {}),
    }
    return case.status, all_headers, _dump(document)


async def problem_exception_handler(request: Request, exc: Exception) -> Response:
    """Answer ``exc`` as a problem; for ``add_exception_handler`` of Starlette and FastAPI."""
    known = getattr(request.state, "request_id", None) or request.headers.get("x-request-id")
    status, headers, body = problem_response(exc, request_id=known)
    return Response(body, status_code=status, headers=headers)


def _read(problem: BaseException | type[ProblemType] | str) -> _Case:
    if isinstance(problem, str):
        return _of_slug(problem)
    if isinstance(problem, type):
        return _of_type(problem)
    if isinstance(problem, ProblemException):
        return _of_problem_exception(problem)
    if isinstance(problem, JobroomError) and problem.slug != "internal-error":
        return _of_slug(problem.slug, str(problem), errors=problem.errors)
    if isinstance(problem, HTTPException) and problem.status_code != INTERNAL_ERROR:
        return _of_status(problem)
    return _of_slug("internal-error")


def _of_slug(slug: str, detail: str = "", *, errors: tuple[FieldError, ...] = ()) -> _Case:
    kind = PROBLEMS[slug]
    return _Case(PROBLEM_PATH + slug, kind.title, kind.status, detail or kind.cause, errors)


def _of_type(problem: type[ProblemType]) -> _Case:
    kind = PROBLEMS.get(problem.slug)
    detail = kind.cause if kind else problem.title
    return _Case(problem.type_uri(), problem.title, problem.status, detail)


def _of_problem_exception(exc: ProblemException) -> _Case:
    case = _read(exc.problem)
    return replace(
        case,
        detail=exc.detail or case.detail,
        errors=exc.errors or case.errors,
        headers=exc.headers,
        members=exc.members,
    )


def _of_status(exc: HTTPException) -> _Case:
    """The router's and a host's bare status; one of a host's own is RFC 9457's about:blank."""
    phrase = responses.get(exc.status_code, "Error")
    detail: object = exc.detail  # FastAPI lets it be any JSON
    said = detail if isinstance(detail, str) and detail != phrase else ""
    slug = _SLUG_OF_STATUS.get(exc.status_code)
    if slug is not None:
        return replace(_of_slug(slug, said), headers=exc.headers or {})
    return _Case("about:blank", phrase, exc.status_code, said or phrase, headers=exc.headers or {})


def _instance(request_id: str | None) -> str:
    """The request's id as a URI reference, which RFC 9457 asks for."""
    return quote(request_id, safe=":/?#[]@!$&'()*+,;=") if request_id else uuid.uuid4().urn


def _dump(document: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(document)
    except TypeError:  # a lone surrogate, or a host's member of a type that JSON has not
        return json.dumps(document, default=str).encode()
