"""The Starlette application: one route per path, and every error a problem document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import Route

from jobroom.http import exchange, pages
from jobroom.http.exchange import Call, Endpoint, Reply, reply
from jobroom.http.routes import ROUTES
from jobroom.http.routespec import RouteSpec
from jobroom.http.service import Documents, page_headers

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from starlette.types import ASGIApp

    from jobroom.http.door import Door


class Application(Starlette):
    """Starlette without its error middleware, as long as nobody adds middleware of his own.

    Every endpoint answers its own errors, so the two layers that would catch them only cost time.
    """

    def build_middleware_stack(self) -> ASGIApp:
        """The router alone, unless there is something to wrap it in."""
        return super().build_middleware_stack() if self.user_middleware else self.router


def build_app(
    door: Door,
    *,
    me: bool = True,
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None,
) -> Application:
    """The application of a door; ``me`` False leaves ``/v1/me`` to the host."""
    routes = tuple(spec for spec in ROUTES if me or spec.operation_id != "me")
    by_path: dict[str, dict[str, RouteSpec]] = {}
    for spec in (*routes, *_documents(routes)):
        by_path.setdefault(spec.path, {})[spec.method] = spec
    app = Application(
        routes=[Route(path, Endpoint(specs, door)) for path, specs in by_path.items()],
        lifespan=lifespan,
    )
    # A slash too many names nothing here; a redirect would be an answer that is no problem.
    app.router.redirect_slashes = False
    app.router.default = exchange.unknown_address
    app.state.door = door
    return app


def _documents(routes: tuple[RouteSpec, ...]) -> tuple[RouteSpec, ...]:
    """The two documents that are made from the route table, so cannot stand in it."""
    documents = Documents()

    async def openapi(call: Call) -> Reply:
        return reply(documents.openapi_of(call, routes))

    async def docs(call: Call) -> Reply:
        page = pages.docs_page(documents.openapi_of(call, routes))
        return Reply(200, page.encode(), page_headers(pages.HTML))

    return (
        RouteSpec(
            "GET",
            "/openapi.json",
            "openapi",
            "This API as OpenAPI 3.1",
            "service",
            {200: "application/json"},
            endpoint=openapi,
            secured=False,
        ),
        RouteSpec(
            "GET",
            "/docs",
            "docs",
            "This API for readers",
            "service",
            {200: pages.HTML},
            endpoint=docs,
            secured=False,
        ),
    )
