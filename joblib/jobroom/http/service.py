"""Endpoints beside the queue's own: who am I, health, the sweep, and the documents."""

from __future__ import annotations

import asyncio
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from jobroom import __version__
from jobroom.errors import JobroomError, StoreUnavailable
from jobroom.http import metrics, openapi, pages, render
from jobroom.http.exchange import Call, Reply, reply
from jobroom.service import access, health
from jobroom.service.queue import SWEEP_SECONDS

if TYPE_CHECKING:
    from jobroom.http.routespec import RouteSpec

VERDICT_SECONDS = 1.0
LONGEST_CHECK_SECONDS = 2.0
"""A write that takes longer does not get through, though a store across a network may say so late.

Whoever asks is a load balancer, which does not wait as long as a client does.
"""


async def me(call: Call) -> Reply:
    """Who the token says the caller is."""
    caller = call.caller
    rooms = None if caller.rooms is None else sorted(caller.rooms)
    return reply({"id": caller.identity, "is_admin": caller.is_admin, "rooms": rooms})


async def healthz(_call: Call) -> Reply:
    """The process answers."""
    return reply({"status": "ok"})


async def readyz(call: Call) -> Reply:
    """Tokens can be checked and the store takes writes; kept for a second (rules, *Sweep*)."""
    call.door.check_keys()
    checked_at, ready = call.door.readiness
    if time.monotonic() - checked_at > VERDICT_SECONDS:
        try:
            await asyncio.wait_for(call.run(health.check_writable), LONGEST_CHECK_SECONDS)
            ready = True
        except (JobroomError, TimeoutError):
            ready = False
        call.door.readiness = (time.monotonic(), ready)
    if not ready:
        raise StoreUnavailable("The store does not take writes now; it is being retried.")
    return reply({"status": "ready"})


async def sweep(call: Call) -> Reply:
    """One sweep now, for any scheduler that can send a request."""
    access.check_admin(call.caller, "Sweeping")
    # The rest of its time, a platform gives to the last step and the answer.
    answer_by: float = call.scope.get("jobroom.answer_by", math.inf)
    seconds = max(0.0, min(SWEEP_SECONDS, answer_by - time.monotonic()))
    sweeping = partial(call.door.queue.sweep, seconds=seconds)
    return reply(render.sweep_document(await to_thread.run_sync(sweeping)))


async def show_metrics(call: Call) -> Reply:
    """Counts and gauges, as Prometheus reads them."""
    kind, text = await metrics.read_text(call)
    return Reply(200, text, ((b"content-type", kind.encode()),))


class Documents:
    """``/openapi.json``, ``/docs`` and the problem pages, made once from the route table."""

    def __init__(self) -> None:
        self._openapi: dict[str, dict[str, Any]] = {}

    def openapi_of(self, call: Call, routes: tuple[RouteSpec, ...]) -> dict[str, Any]:
        """The OpenAPI document under the mount's root path."""
        root_path = call.scope.get("root_path", "")
        found = self._openapi.get(root_path)
        if found is None:
            build = partial(openapi.build_openapi, routes, root_path=root_path)
            found = self._openapi[root_path] = build(version=__version__)
        return found


async def problem_page(call: Call) -> Reply:
    """What a kind of problem means, and how to mend it."""
    kind, text = pages.explain(call.path("slug"), accept=call.header(b"accept"))
    return Reply(200, text.encode(), page_headers(kind))


def page_headers(kind: str) -> tuple[tuple[bytes, bytes], ...]:
    """Headers of a page for people: no script, nothing from elsewhere."""
    return (
        (b"content-type", kind.encode()),
        (b"content-security-policy", pages.CONTENT_SECURITY_POLICY.encode()),
        (b"vary", b"Accept"),
    )
