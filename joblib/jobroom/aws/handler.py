"""HTTP behind a gateway: one event in, one answer out, on one event loop for all calls."""

from __future__ import annotations

import asyncio
import logging
import weakref
from typing import TYPE_CHECKING, Any

from jobroom.aws import answering, deadline, events
from jobroom.http import exchange
from jobroom.store import patience

if TYPE_CHECKING:
    from mangum import Mangum
    from mangum.types import LambdaConfig
    from starlette.types import Message, Receive, Scope, Send

    from jobroom.aws.environment import Environment
    from jobroom.aws.events import GatewayEvent
    from jobroom.aws.sweep import Sweep

log = logging.getLogger("jobroom")

UNKNOWN = (
    "This event is neither an HTTP request of API Gateway, a function URL or a load balancer, nor"
    " a scheduled event of EventBridge; invoke this function by one of those."
)
UNREADABLE = "The gateway's event could not be read as a request; the function's log says why."

SETTLING_SECONDS = 1.0
"""What an answered request leaves on the loop is ended within this, or half of what is left."""


class Handler:
    """``handler(event, context)``: a gateway's request is answered, a schedule's event sweeps.

    Anything else raises ValueError: whoever invoked the function with it must see that nothing was
    done, which a quiet refusal would not tell.
    """

    def __init__(self, environment: Environment, sweep: Sweep) -> None:
        self._environment = environment
        self._app = environment.app
        self._sweep = sweep
        self._loop: asyncio.AbstractEventLoop | None = None
        self._adapter: Mangum | None = None

    def __call__(self, event: Any, context: Any) -> dict[str, Any]:
        """Answer a gateway's event, or sweep for a schedule's."""
        kind = events.kind_of(event)
        if kind is not None:
            return self._answer(kind, event, context)
        if events.is_scheduled(event):
            return self._sweep(event, context)
        raise ValueError(UNKNOWN)

    def _answer(
        self, kind: type[GatewayEvent], event: dict[str, Any], context: Any
    ) -> dict[str, Any]:
        loop = self._enter_loop()
        try:
            answer = self._mangum()(event, context)
        except Exception as error:  # noqa: BLE001 - the edge of the door: a caller waits behind it
            return _refused(kind, event, context, error)
        finally:
            loop.run_until_complete(_settle(deadline.seconds_left(context)))
            if self._environment.reporter is not None:
                self._environment.reporter.flush(self._environment.door)
        return answer

    def _enter_loop(self) -> asyncio.AbstractEventLoop:
        """The environment's one loop, current again where another's ``asyncio.run`` ended."""
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            weakref.finalize(self, self._loop.close)
        asyncio.set_event_loop(self._loop)
        return self._loop

    def _mangum(self) -> Mangum:
        if self._adapter is None:
            # Imported where it is used: a server in front of sockets needs none of it.
            from mangum import Mangum

            settings = self._environment.settings()
            adapter = Mangum(
                self._serve,
                lifespan="off",
                api_gateway_base_path=settings.gateway_base_path if settings else "",
                custom_handlers=[*events.KINDS],
            )
            if settings is None:
                return adapter
            self._adapter = adapter
        return self._adapter

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application; whatever leaves it, the gateway gets an answer."""
        limits = self._limits(scope)
        held: list[Message] = []

        async def hold(message: Message) -> None:
            held.append(message)

        try:
            with patience.until(limits.store_until):
                await self._app(scope, receive, hold)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the edge of the door
            held = _failed(scope, error)
        if not _is_whole(held):
            held = _failed(scope, RuntimeError("the application gave no whole answer"))
        for message in held:
            await send(message)

    def _limits(self, scope: Scope) -> deadline.Limits:
        """How long what the request waits for may take; the scope tells it to the application."""
        settings = self._environment.settings()
        if settings is None:
            return deadline.NO_LIMITS
        event, context = scope["aws.event"], scope["aws.context"]
        by = deadline.answer_by(event, context, settings)
        if by is not None:
            scope["jobroom.answer_by"] = by
        limits = deadline.limits(event, context, settings)
        if limits is not deadline.NO_LIMITS:
            scope["jobroom.last_moment"] = limits.last_moment
        return limits


def _refused(
    kind: type[GatewayEvent], event: dict[str, Any], context: Any, error: Exception
) -> dict[str, Any]:
    """Answer an event that looks like a request of this kind and is none in its parts."""
    log.error("lambda.unreadable kind=%s", kind.__name__, exc_info=error)
    config: LambdaConfig = {
        "api_gateway_base_path": "",
        "text_mime_types": [],
        "exclude_headers": [],
    }
    told = exchange.problem("internal-error", {"headers": ()}, UNREADABLE)
    return answering.refuse(kind(event, context, config), told)


def _is_whole(held: list[Message]) -> bool:
    last: Message = held[-1] if held else {"type": ""}
    return last["type"] == "http.response.body" and not last.get("more_body")


def _failed(scope: Scope, error: BaseException) -> list[Message]:
    """The messages of a problem document about what has left the application."""
    told = exchange.problem(error, scope)
    return [
        {"type": "http.response.start", "status": told.status, "headers": told.whole_headers()},
        {"type": "http.response.body", "body": told.body, "more_body": False},
    ]


async def _settle(seconds_left: float | None) -> None:
    """End what an answered request left behind: it would be frozen with the environment."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        longest = SETTLING_SECONDS if seconds_left is None else seconds_left / 2
        await asyncio.wait(left, timeout=min(SETTLING_SECONDS, longest))
