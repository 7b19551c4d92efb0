"""The traffic of one door: how many requests to which route were answered how, and who waited."""

from __future__ import annotations

from jobroom.service.counting import Histogram

NO_ROUTE = "(none)"
METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
OTHER_METHOD = "(other)"
REQUEST_ID = "jobroom.request_id"
"""Where a request's scope keeps the id that was made for it: its log and its problem say one."""
CLIENT_GONE = 499
"""What is counted and logged for a request that ended, by its client or its server, unanswered."""


class Traffic:
    """Counted on the event loop alone, so without a lock."""

    __slots__ = ("requests", "waits")

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}
        """By method, route and status: of few values each, whatever clients send."""
        self.waits = Histogram()
        """How long requests with ``Prefer: wait`` took that did wait."""

    def note(self, method: str, route: str, status: int) -> None:
        """Count a request."""
        asked = (method, route, status)
        self.requests[asked] = self.requests.get(asked, 0) + 1
