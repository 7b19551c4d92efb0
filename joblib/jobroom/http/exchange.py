"""One request and its answer: a plain ASGI endpoint made from a function of a ``Call``.

Starlette routes to it; its Request and Response objects cost a third of the throughput and bring
nothing that an endpoint here needs (design, *The write path*).
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
from jobroom.http import problems, render
from jobroom.tokens import Identity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pydantic import BaseModel
    from starlette.types import Receive, Scope, Send

    from jobroom.http.door import Door
    from jobroom.http.routespec import RouteSpec
    from jobroom.service.use_case import UseCase

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


class ClientGone(Exception):
    """The client closed the connection: no answer is owed."""


def reply(
    document: Any, *, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Reply:
    """A JSON answer."""
    return Reply(status, render.dump(document), (JSON, *headers))


class Call:
    """One request, as an endpoint sees it."""

    __slots__ = ("_first", "_json", "door", "identity", "receive", "scope")

    def __init__(self, door: Door, scope: Scope, receive: Receive) -> None:
        self.door = door
        self.scope = scope
        self.receive = receive
        self.identity = NOBODY
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
        return self.door.post(use_case, kwargs).future  # type: ignore[no-any-return]  # a Work's future is of its door's kind


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


class Endpoint:
    """All methods of one path, as an ASGI application."""

    def __init__(self, specs: Mapping[str, RouteSpec], door: Door) -> None:
        self._specs = dict(specs)
        if "GET" in self._specs:
            self._specs["HEAD"] = self._specs["GET"]
        self._allow = ", ".join(sorted(self._specs))
        self._answers_json = {name for name, spec in self._specs.items() if spec.answers_json}
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever goes wrong is answered too."""
        try:
            answer = await self._answer(scope, receive)
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001 - the edge of the door: nothing may leave it
            answer = problem(error, scope)
            # The failed work holds its error, and the error by its trace the work and the body:
            # let go of now, not when the collector comes, which is after a thousand requests.
            error.__traceback__ = error.__context__ = error.__cause__ = None
        await _send(send, answer)

    async def _answer(self, scope: Scope, receive: Receive) -> Reply:
        spec = self._specs.get(scope["method"])
        if spec is None:
            detail = f"This address takes {self._allow}."
            return problem("method-not-allowed", scope, detail, headers={"Allow": self._allow})
        call = Call(self._door, scope, receive)
        if scope["method"] in self._answers_json and not call.accepts_json():
            return problem("not-acceptable", scope, "This address answers JSON; accept that.")
        if spec.secured:
            found = self._door.authenticate(scope)
            call.identity = found if isinstance(found, Identity) else await found
        handler: Handler = spec.endpoint  # type: ignore[assignment]  # the route table gives every route one
        return await handler(call)


async def unknown_address(scope: Scope, _receive: Receive, send: Send) -> None:
    """What the router does with an address that no route has."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
        return
    detail = "There is nothing at this address; /docs lists what there is."
    await _send(send, problem("not-found", scope, detail))


async def _send(send: Send, answer: Reply) -> None:
    length = (b"content-length", b"%d" % len(answer.body))
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [*answer.headers, length],
        }
    )
    body = answer.body
    if len(body) <= CHUNK:
        await send({"type": "http.response.body", "body": body})
        return
    for start in range(0, len(body), CHUNK):
        more = start + CHUNK < len(body)
        part = body[start : start + CHUNK]
        await send({"type": "http.response.body", "body": part, "more_body": more})


def problem(
    error: Exception | str,
    scope: Scope,
    detail: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Any error as a problem document (RFC 9457); a fault of ours is logged, never shown."""
    instance = request_id(scope) or uuid.uuid4().urn
    status, fields, body = problems.problem_response(
        error, detail=detail, request_id=instance, headers=headers
    )
    if status == INTERNAL_ERROR and isinstance(error, Exception):
        log.error("http.failed path=%s instance=%s", scope["path"], instance, exc_info=error)
    pairs = tuple((k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in fields.items())
    return Reply(status, body, pairs)


def request_id(scope: Scope) -> str | None:
    """The request id that the client sent, if it is fit to be repeated."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text: str = value.decode("latin-1")
            return text if text.isprintable() and 0 < len(text) <= LONGEST_REQUEST_ID else None
    return None
