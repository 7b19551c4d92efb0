"""A start that fails says why in one sentence: servers print what the lifespan sends them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jobroom.errors import JobroomError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import Message, Receive, Scope, Send


def explain_failure(app: Starlette) -> None:
    """Send the sentence of our own errors, where Starlette would send a trace.

    Anything else that is raised at start is a fault, and keeps its trace.
    """
    run_lifespan = app.router.lifespan

    async def lifespan(scope: Scope, receive: Receive, send: Send) -> None:
        async def say(message: Message) -> None:
            error = sys.exception()
            if message["type"] == "lifespan.startup.failed" and isinstance(error, JobroomError):
                message = {**message, "message": f"jobroom: {error}"}
            await send(message)

        await run_lifespan(scope, receive, say)

    app.router.lifespan = lifespan  # type: ignore[method-assign]  # the router asks itself for it
