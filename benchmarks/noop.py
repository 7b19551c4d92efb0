"""The floor: what Starlette does for a JSON request that changes nothing."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def nothing(_request: Request) -> JSONResponse:
    """Answer without having looked."""
    return JSONResponse({"ok": True})


app = Starlette(routes=[Route("/{rest:path}", nothing, methods=["GET", "POST", "PATCH"])])
