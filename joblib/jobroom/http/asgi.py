"""The Starlette application: one route per path, and every error a problem document."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import Route

from jobroom.http import pages
from jobroom.http.endpoint import Endpoint, UnknownAddress
from jobroom.http.exchange import Call, Reply, reply
from jobroom.http.finder import Finder
from jobroom.http.routes import ROUTES
from jobroom.http.routespec import RouteSpec
from jobroom.http.service import Documents, page_headers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from starlette.types import ASGIApp, Receive, Scope, Send

    from jobroom.http.door import Door


class Application(Starlette):
    """Starlette without its error middleware, as long as nobody adds middleware of his own.

    Every endpoint answers its own errors, so the two layers that would catch them only cost time.
    """

    finder: Finder

    def build_middleware_stack(self) -> ASGIApp:
        """The router alone, unless there is something to wrap it in."""
        return super().build_middleware_stack() if self.user_middleware else self._dispatch

    def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http" and not scope.get("root_path"):
            found = self.finder.find(scope["path"])
            if found is not None:
                endpoint, scope["path_params"] = found
                scope["router"] = self.router
                return endpoint(scope, receive, send)
        return self.router(scope, receive, send)


class ExactRoute(Route):
    """A route that takes its own addresses alone.

    Starlette's expressions end with ``$``, which a line break at the end slips past: a heartbeat
    to ``/workers/w%0A`` would be one of ``w``. And its ``:path`` may be empty; no id is.
    """

    def __init__(self, path: str, endpoint: Endpoint) -> None:
        super().__init__(path, endpoint)
        pattern = self.path_regex.pattern.removesuffix("$").replace(".*", ".+")
        self.path_regex = re.compile(rf"{pattern}\Z", re.DOTALL)


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
    endpoints = {path: Endpoint(specs, door) for path, specs in by_path.items()}
    app = Application(
        routes=[ExactRoute(path, endpoint) for path, endpoint in endpoints.items()],
        lifespan=lifespan,
    )
    app.finder = Finder(endpoints)
    # A slash too many names nothing here; a redirect would be an answer that is no problem.
    app.router.redirect_slashes = False
    app.router.default = UnknownAddress(door)
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
