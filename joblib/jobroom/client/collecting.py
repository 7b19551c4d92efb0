"""What became of the tasks of a map: asked for one by one, or, where many end, by lists."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from jobroom.client import endpoints, waiting
from jobroom.client.bulk import Entry
from jobroom.client.call import Json
from jobroom.client.flow import Flow, pause
from jobroom.client.lists import LARGEST_PAGE
from jobroom.client.transport import Transport
from jobroom.domain.lifecycle import TERMINAL, is_terminal
from jobroom.errors import Forbidden, NotFound, TaskNotFound

WORTH_A_LIST = 4
"""How many tasks a list must bring to cost less than asking for each."""
PACE_SECONDS = 0.1
PACE_PER_TASK_SECONDS = 0.001
"""How long ended tasks may gather before they are asked for, by the size of the window."""
SLOWEST_PACE_SECONDS = 1.0
"""Where nothing ends, and the source of the payloads pauses."""


class Collector:
    """Finds out which tasks of a map have ended."""

    def __init__(self, line: Transport, window: int) -> None:
        self._line = line
        self._pace = self._fastest = min(PACE_SECONDS, PACE_PER_TASK_SECONDS * window)
        self._asked_at = 0.0
        self._found = 0
        self._may_list = True

    @property
    def rest(self) -> float:
        """The seconds until it is time to ask again."""
        return max(0.0, self._pace - (time.monotonic() - self._asked_at))

    def expect_more(self) -> None:
        """Look often again: something was submitted."""
        self._pace = self._fastest

    def collect(self, entries: Sequence[Entry], first: Json, *, hold: bool) -> Flow[None]:
        """Note which entries have ended; with ``hold`` not before the first of them has.

        ``first`` is any task of the same map.
        """
        yield from pause(self.rest)
        self._asked_at = time.monotonic()
        yield from self._look_around(entries, first, hold=hold)
        found = hold or any(entry.outcome is not None for entry in entries)
        self._pace = self._fastest if found else min(2 * self._pace, SLOWEST_PACE_SECONDS)

    def _look_around(self, entries: Sequence[Entry], first: Json, *, hold: bool) -> Flow[None]:
        if self._found >= WORTH_A_LIST and self._may_list:
            yield from self._look_at_all(entries, first)
            if hold and entries[0].outcome is None:
                yield from self._look(entries[0], hold=True)
            return
        for n, entry in enumerate(entries[:WORTH_A_LIST]):
            if not (yield from self._look(entry, hold=hold and n == 0)):
                return
        if self._may_list and (left := entries[WORTH_A_LIST:]):
            yield from self._look_at_all(left, first)

    def _look(self, entry: Entry, *, hold: bool) -> Flow[bool]:
        """Ask for one task; return whether it has ended, or is there no more."""
        try:
            task = yield from self._task(str(entry.id), hold=hold)
        except TaskNotFound as gone:  # results are not kept for ever
            entry.outcome = gone
            return True
        if is_terminal(task["status"]):
            entry.outcome = task
        return entry.outcome is not None

    def _task(self, task_id: str, *, hold: bool) -> Flow[Json]:
        if hold:
            return waiting.wait(self._line, task_id, timeout=None)
        patience = waiting.Deadline(None).patience()
        return self._line.ask(endpoints.task(task_id), patience=patience)

    def _look_at_all(self, entries: Sequence[Entry], first: Json) -> Flow[None]:
        """Ask for the list of what has ended, newest first, as long as it brings news."""
        waited_for = {entry.id: entry for entry in entries}
        before = len(waited_for)
        cursor: str | None = None
        # What ends out of turn further down is found when it is the first to be given.
        limit = min(LARGEST_PAGE, len(entries), 2 * max(self._found, WORTH_A_LIST))
        while waited_for:
            try:
                page = yield from self._page(first, limit, cursor)
            except (Forbidden, NotFound):
                self._may_list = False
                return
            news = [task for task in page["items"] if task["id"] in waited_for]
            for task in news:
                waited_for.pop(task["id"]).outcome = task
            cursor = page.get("next_cursor")
            if not cursor or not news:
                break
            limit = min(LARGEST_PAGE, max(limit, len(waited_for)))
        self._found = before - len(waited_for)

    def _page(self, first: Json, limit: int, cursor: str | None) -> Flow[Json]:
        filters: dict[str, Any] = {
            "job": first["job_name"],
            "created_by_id": first["created_by_id"],
            "status": ",".join(sorted(TERMINAL)),
        }
        call = endpoints.page(
            *("rooms", first["room_id"], "tasks"), **filters, limit=limit, cursor=cursor
        )
        return self._line.ask(call, patience=waiting.Deadline(None).patience())
