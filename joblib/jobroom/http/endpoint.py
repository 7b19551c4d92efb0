"""Where a request begins and ends: the methods of a path as an ASGI application."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from jobroom.errors import AnswerTooLarge, StoreUnavailable
from jobroom.http import requestlog
from jobroom.http.exchange import CHUNK, Call, ClientGone, Reply, id_for, problem
from jobroom.http.traffic import CLIENT_GONE, METHODS, NO_ROUTE, OTHER_METHOD, REQUEST_ID
from jobroom.tokens import Identity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from starlette.types import Receive, Scope, Send

    from jobroom.http.door import Door
    from jobroom.http.exchange import Handler
    from jobroom.http.routespec import RouteSpec

TOO_LATE = (
    "The request was not answered in the time that the platform leaves it, and may have been kept."
    " Send it again, with the same Idempotency-Key or request id if it had one."
)


class Endpoint:
    """All methods of one path, as an ASGI application."""

    def __init__(self, specs: Mapping[str, RouteSpec], door: Door) -> None:
        self._specs = dict(specs)
        if "GET" in self._specs:
            self._specs["HEAD"] = self._specs["GET"]
        self._allow = ", ".join(sorted(self._specs))
        self._answers_json = {name for name, spec in self._specs.items() if spec.answers_json}
        self._route = next((spec.plain_path for spec in specs.values()), NO_ROUTE)
        self._waits = any("Preference-Applied" in spec.answer_headers for spec in specs.values())
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, count it, and log it where that is wanted."""
        begun = time.monotonic()
        call = Call(self._door, scope, receive)
        answer = None
        try:
            answer = await self._try(call)
            if answer is not None:
                await _send(send, answer)
        finally:
            # Also where a server that must end, or a host, takes the request away from us.
            self._tell(call, answer, begun)

    def _tell(self, call: Call, answer: Reply | None, begun: float) -> None:
        """Count a request, and log it where that is wanted."""
        asked_for = call.scope["method"]
        method = asked_for if asked_for in METHODS else OTHER_METHOD
        status = CLIENT_GONE if answer is None else answer.status
        self._door.traffic.note(method, self._route, status)
        has_waited = self._waits and answer is not None and _has_waited(answer)
        if has_waited:
            self._door.traffic.waits.observe(time.monotonic() - begun)
        if call.noted is not None:
            asked = {"method": method, "route": self._route, "status": status}
            requestlog.write(call, asked, answer, begun=begun, has_waited=has_waited)

    async def _try(self, call: Call) -> Reply | None:
        """The answer, whatever goes wrong; None where there is nobody to answer."""
        scope = call.scope
        try:
            if self._door.logs_requests:
                call.noted = requestlog.Noted()
                scope.setdefault(REQUEST_ID, id_for(scope))
            last = scope.get("jobroom.last_moment")
            answering = self._answer(call)
            answer = await (answering if last is None else _by(last, answering))
            if len(answer.body) > CHUNK:
                _check_size(call, answer)
        except ClientGone:
            return None
        except Exception as error:  # noqa: BLE001 - the edge of the door: nothing may leave it
            answer = problem(error, scope)
            # The failed work holds its error, and the error by its trace the work and the body:
            # let go of now, not when the collector comes, which is after a thousand requests.
            error.__traceback__ = error.__context__ = error.__cause__ = None
        return answer

    async def _answer(self, call: Call) -> Reply:
        scope = call.scope
        spec = self._specs.get(scope["method"])
        if spec is None:
            detail = f"This address takes {self._allow}."
            return problem("method-not-allowed", scope, detail, headers={"Allow": self._allow})
        if scope["method"] in self._answers_json and not call.accepts_json():
            return problem("not-acceptable", scope, "This address answers JSON; accept that.")
        if spec.secured:
            found = self._door.authenticate(scope)
            call.identity = found if isinstance(found, Identity) else await found
        handler: Handler = spec.endpoint  # type: ignore[assignment]  # the route table gives every route one
        return await handler(call)


class UnknownAddress(Endpoint):
    """What the router does with an address that no route has."""

    def __init__(self, door: Door) -> None:
        super().__init__({}, door)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say that there is nothing."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        await super().__call__(scope, receive, send)

    async def _answer(self, call: Call) -> Reply:
        detail = "There is nothing at this address; /docs lists what there is."
        return problem("not-found", call.scope, detail)


async def _by(last: float, answering: Awaitable[Reply]) -> Reply:
    """The answer, if it comes by that second of ``time.monotonic()``; else StoreUnavailable.

    The store's lanes have given up before (``store/patience.py``), and said more: this is for what
    has no bound of its own, a disk or the name of a host. What was begun there ends as it would.
    """
    try:
        async with asyncio.timeout(last - time.monotonic()) as bound:
            return await answering
    except TimeoutError:
        if not bound.expired():
            raise
        raise StoreUnavailable(TOO_LATE) from None


def _check_size(call: Call, answer: Reply) -> None:
    """Refuse what a gateway would cut off or replace by an error of its own.

    Endpoints make answers that fit; this is for those that cannot, a large schema or page.
    """
    most = call.most_answer_bytes
    if most is not None and len(answer.body) > most:
        message = f"The answer has {len(answer.body)} bytes, and may have {most} at most."
        raise AnswerTooLarge(message)


def _has_waited(answer: Reply) -> bool:
    """Whether a long-poll did wait: it says so in its answer (RFC 7240)."""
    return any(name == b"preference-applied" for name, _ in answer.headers)


async def _send(send: Send, answer: Reply) -> None:
    headers = answer.whole_headers()
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    body = answer.body
    if len(body) <= CHUNK:
        await send({"type": "http.response.body", "body": body})
        return
    for start in range(0, len(body), CHUNK):
        more = start + CHUNK < len(body)
        part = body[start : start + CHUNK]
        await send({"type": "http.response.body", "body": part, "more_body": more})
