"""The floor of waiting: a bare Starlette application in which one request answers another."""

from __future__ import annotations

import asyncio
from collections import deque

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

_waiting: deque[asyncio.Future[None]] = deque()


async def wait(_request: Request) -> JSONResponse:
    """Answer when somebody else has asked for it: first come, first served."""
    told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    _waiting.append(told)
    await told
    return JSONResponse({"ok": True}, headers={"preference-applied": "wait"})


async def wake(request: Request) -> JSONResponse:
    """Answer the longest waiting request, and this one."""
    await request.body()
    if not _waiting:
        return JSONResponse({"waiting": 0}, 409)
    _waiting.popleft().set_result(None)
    return JSONResponse({"ok": True})


async def ready(_request: Request) -> JSONResponse:
    """Answer at once."""
    return JSONResponse({"ok": True})


app = Starlette(
    routes=[
        Route("/wait", wait),
        Route("/wake", wake, methods=["POST"]),
        Route("/ready", ready),
    ]
)
