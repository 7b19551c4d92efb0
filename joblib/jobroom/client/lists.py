"""The lists of the contract, page by page."""

from __future__ import annotations

from typing import Any

from jobroom.client import endpoints
from jobroom.client.call import Json
from jobroom.client.flow import Flow, Give
from jobroom.client.transport import Transport

LARGEST_PAGE = 500


def items(line: Transport, *segments: str, **query: Any) -> Flow[None]:
    """Give the items of a list one by one."""
    cursor: str | None = None
    while True:
        page = yield from _page(line, segments, query, cursor)
        yield from map(Give, page["items"])
        if not (cursor := page.get("next_cursor")):
            return


def whole(line: Transport, *segments: str, **query: Any) -> Flow[list[Json]]:
    """Return all items of a list."""
    found: list[Json] = []
    cursor: str | None = None
    while True:
        page = yield from _page(line, segments, query, cursor)
        found += page["items"]
        if not (cursor := page.get("next_cursor")):
            return found


def graph(line: Transport, task_id: str) -> Flow[Json]:
    """Return all pages of a graph as one: ``items`` and ``edges``."""
    found = page = yield from line.ask(endpoints.graph(task_id))
    while page.get("next_cursor"):
        page = yield from line.ask(endpoints.graph(task_id, cursor=page["next_cursor"]))
        found["items"] += page["items"]
        found["edges"] += page["edges"]
    return {**found, "next_cursor": None}


def _page(
    line: Transport, segments: tuple[str, ...], query: dict[str, Any], cursor: str | None
) -> Flow[Json]:
    call = endpoints.page(*segments, **query, limit=LARGEST_PAGE, cursor=cursor)
    return line.ask(call)
