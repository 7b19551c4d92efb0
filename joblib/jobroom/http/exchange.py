"""One request and its answer, as the endpoints see them: a ``Call`` and a ``Reply``.

Starlette's Request and Response objects cost a third of the throughput and bring nothing that an
endpoint here needs (design, *The write path*).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qs

from jobroom import wire
from jobroom.domain import jsontext
from jobroom.domain.records import Caller
from jobroom.errors import JobroomError, PayloadTooLarge, ValidationFailed
from jobroom.http import problems, render, requestlog
from jobroom.http.traffic import REQUEST_ID
from jobroom.tokens import Identity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pydantic import BaseModel
    from starlette.types import Receive, Scope

    from jobroom.http.door import Door
    from jobroom.service.use_case import UseCase
    from jobroom.store.lane import Work

    Handler = Callable[["Call"], Awaitable["Reply"]]

log = logging.getLogger("jobroom")

Model = TypeVar("Model", bound="BaseModel")
JSON = (b"content-type", b"application/json")
NOBODY = Identity(Caller(""))
CHUNK = 64 * 1024
LONGEST_REQUEST_ID = 255
MOST_DIGITS = 19
INTERNAL_ERROR = 500


class Reply(NamedTuple):
    """A complete answer."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = (JSON,)

    def whole_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers as they are sent: with the length of the body."""
        return [*self.headers, (b"content-length", b"%d" % len(self.body))]


class ClientGone(Exception):
    """The client closed the connection: no answer is owed."""


def reply(
    document: Any, *, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Reply:
    """A JSON answer."""
    return Reply(status, render.dump(document), (JSON, *headers))


class Call:
    """One request, as an endpoint sees it."""

    __slots__ = ("_first", "_json", "door", "identity", "noted", "receive", "scope")

    def __init__(self, door: Door, scope: Scope, receive: Receive) -> None:
        self.door = door
        self.scope = scope
        self.receive = receive
        self.identity = NOBODY
        self.noted: requestlog.Noted | None = None
        """What is to be logged of the request; None where no line is written for it."""
        # The first of a name is what counts, so the last that a dictionary takes.
        self._first: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        self._json: jsontext.JsonObject | None = None

    @property
    def caller(self) -> Caller:
        """Who asks."""
        return self.identity.caller

    def path(self, name: str) -> str:
        """A parameter of the path, decoded."""
        value: str = self.scope["path_params"][name]
        return value

    def headers(self, name: bytes) -> list[str]:
        """All values of a header, in order."""
        return [value.decode("latin-1") for key, value in self.scope["headers"] if key == name]

    def header(self, name: bytes) -> str | None:
        """The first value of a header."""
        value = self._first.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def address(self) -> str:
        """The path below whatever the application is mounted at: the same through each door."""
        path: str = self.scope["path"]
        return path.removeprefix(self.scope.get("root_path", ""))

    @property
    def most_answer_bytes(self) -> int | None:
        """How long an answer may be, by the setting or by the gateway that it goes through."""
        most = self.door.settings.max_answer_bytes
        here: int | None = self.scope.get("jobroom.most_answer_bytes")
        if most is None or here is None:
            return most if here is None else here
        return min(most, here)

    def accepts_json(self) -> bool:
        """Whether the client takes JSON (RFC 9110, 12.5.1); it does where it says nothing."""
        accepted = self._first.get(b"accept", b"*/*")
        if b"*/*" in accepted or b"json" in accepted:
            return True
        ranges = [part.partition(b";")[0].strip() for part in accepted.lower().split(b",")]
        return not any(ranges) or b"application/*" in ranges

    def query(self) -> dict[str, list[str]]:
        """The query's parameters."""
        return parse_qs(self.scope["query_string"].decode("latin-1"), keep_blank_values=True)

    async def body(self, model: type[Model], *, limit: int, required: bool = True) -> Model:
        """Read and check the body; ``raw`` then gives its members as they came.

        Raises PayloadTooLarge, UnsupportedMediaType (415) and ValidationFailed.
        """
        data = await self._read(limit)
        if not data and not required:
            return wire.validate(model, {})
        check_media_type(self.header(b"content-type"))
        self._json = jsontext.parse_object(data)
        return wire.validate(model, self._json.values)

    async def check_no_body(self, instead: str) -> None:
        """Refuse what would be ignored; an empty object says nothing and is taken."""
        data = await self._read(self.door.settings.max_body_bytes)
        if data.strip() not in (b"", b"{}"):
            raise ValidationFailed(f"This request has no body; {instead}.")

    async def _read(self, limit: int) -> bytes:
        """The whole body; 413 as soon as it is known to be over the limit, before it is read."""
        if _is_over(self._first.get(b"content-length", b""), limit):
            raise _too_large(limit)
        parts: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            part = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            parts.append(part)
            more = message.get("more_body", False)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def raw(self, member: str) -> str | None:
        """The source text of a member of the body; None where it is absent or null."""
        return None if self._json is None else self._json.source(member)

    def objects(self, member: str) -> list[jsontext.JsonObject]:
        """The objects of a member of the body that is a list of objects, with their sources."""
        return [] if self._json is None else self._json.objects(member)

    def values(self) -> dict[str, Any]:
        """The decoded body."""
        return {} if self._json is None else self._json.values

    def run(self, use_case: UseCase[Any, Any], **kwargs: Any) -> asyncio.Future[Any]:
        """Run a use case in the next group of its lane; await the result."""
        work = self.door.post(use_case, kwargs)
        if self.noted is not None:
            self.noted.watch(use_case, kwargs, work.future)
        return work.future  # type: ignore[no-any-return]  # a Work's future is of its door's kind

    def post(
        self, use_case: UseCase[Any, Any], kwargs: dict[str, Any], *, is_long: bool = False
    ) -> Work:
        """As ``Door.post``, noted for the log."""
        work = self.door.post(use_case, kwargs, is_long=is_long)
        if self.noted is not None:
            self.noted.watch(use_case, kwargs, work.future)
        return work


def _is_over(length: bytes, limit: int) -> bool:
    """Whether a declared length is over the limit; Python reads no number of 5,000 digits."""
    digits = length.lstrip(b"0")
    return digits.isdigit() and (len(digits) > MOST_DIGITS or int(digits) > limit)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is over the limit of {limit} bytes; send less.")


class UnsupportedMediaType(JobroomError):
    """The body is said to be something else than JSON."""

    slug = "unsupported-media-type"


def check_media_type(content_type: str | None) -> None:
    """Refuse a body that is declared as anything but JSON; without a declaration it is JSON."""
    if content_type is None:
        return
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise UnsupportedMediaType("Send the body as JSON, with Content-Type: application/json.")


def problem(
    error: BaseException | str,
    scope: Scope,
    detail: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Any error as a problem document (RFC 9457); a fault of ours is logged, never shown."""
    instance = scope.get(REQUEST_ID) or id_for(scope)
    status, fields, body = problems.problem_response(
        error, detail=detail, request_id=instance, headers=headers
    )
    if status == INTERNAL_ERROR and isinstance(error, BaseException):
        log.error("http.failed path=%r instance=%s", scope["path"], instance, exc_info=error)
    pairs = tuple((k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in fields.items())
    return Reply(status, body, pairs)


def id_for(scope: Scope) -> str:
    """What this request is known by: the id that the client sent, or a new one."""
    return request_id(scope) or uuid.uuid4().urn


def request_id(scope: Scope) -> str | None:
    """The request id that the client sent, if it is fit to be repeated."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text: str = value.decode("latin-1")
            return text if text.isprintable() and 0 < len(text) <= LONGEST_REQUEST_ID else None
    return None
