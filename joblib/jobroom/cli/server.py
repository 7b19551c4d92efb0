"""The server as the verbs see it: documents as the API gives them, asked for with patience."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from jobroom.cli import exits, shapes
from jobroom.cli.fields import alike
from jobroom.client import endpoints, watching
from jobroom.client.call import Call, Json, object_call
from jobroom.client.connection import Connection
from jobroom.client.drive import Driver
from jobroom.client.transport import Patience, Transport
from jobroom.client.tries import OutOfTime
from jobroom.domain.lifecycle import is_terminal
from jobroom.errors import JobNotFound, JobroomError

T = TypeVar("T")

BRIEF_SECONDS = 4.0
"""How long a verb that asks once bears a server that is away: somebody looks at the prompt."""
SILENT_SECONDS = 10.0
"""How long it waits for an answer: a server that starts with the request needs some seconds."""
LONG_SECONDS = 120.0
"""How long a verb that waits for a task bears it: a server is restarted meanwhile."""
LONGEST_POLL_SECONDS = 20.0
SPARE_SECONDS = 10.0
"""What a long-poll may take beyond the wait that was asked for."""
SHORTEST_LOOK_SECONDS = 0.5
"""Between two looks at a server that does not hold a request open."""
LARGEST_PAGE = 500


class Server:
    """Asks for one connection; safe to use from several threads."""

    def __init__(self, connection: Connection, *, patient: bool = False) -> None:
        self._connection = connection
        self._transport = Transport(connection)
        self.seconds: float | None = None
        """How long all that is asked may take, and the moment of the clock that ends it."""
        self.until: float | None = None
        self.patience = Patience(LONG_SECONDS)
        if not patient:
            self.patience = Patience(BRIEF_SECONDS, timeout=SILENT_SECONDS)

    def be_patient(self) -> None:
        """From now on bear that the server is away for a while."""
        self.patience = Patience(LONG_SECONDS)

    def give_up_after(self, seconds: float | None) -> None:
        """Bound all that is asked from now on."""
        self.seconds = seconds
        self.until = None if seconds is None else time.monotonic() + seconds

    def ask(
        self,
        call: Call[T],
        *,
        wait: float = 0.0,
        shape: shapes.Shape | None = None,
        is_long: bool = False,
    ) -> T:
        """Return the answer to a call that may be held open for ``wait`` seconds.

        ``Away`` where it has not the shape that is read, ``TimedOut`` when the time is over.
        ``is_long``: it may take its time to come, if only it comes.
        """
        patience = self._patience_for(wait, is_long=is_long)
        try:
            answer = Driver(self._connection).run(self._transport.ask(call, patience=patience))
        except OutOfTime as late:
            if self.until is None or time.monotonic() < self.until:
                raise late.last from None
            raise exits.TimedOut(
                f"{self.seconds:g} s are over, and the server has not answered; what was submitted"
                f" goes on. The last try: {late}"
            ) from None
        if shape is not None:
            shapes.check(answer, shape, f"{call.method} {call.path}")
        return answer

    def _patience_for(self, wait: float, *, is_long: bool) -> Patience:
        timeout = max(self.patience.timeout, wait + SPARE_SECONDS)
        is_brief = self.patience.seconds < LONG_SECONDS and not is_long
        ends_at = min(
            time.monotonic() + timeout if is_brief else math.inf,
            math.inf if self.until is None else self.until,
        )
        return replace(self.patience, timeout=timeout, longest_delay=2.0, ends_at=ends_at)

    def page(self, *segments: str, **query: Any) -> Json:
        """Return a page of a list, whose kind is the last of the segments."""
        return self.ask(endpoints.page(*segments, **query), shape=shapes.page_of(segments[-1]))

    def items(self, *segments: str, most: int | None = None, **query: Any) -> Iterator[Json]:
        """Yield what a list holds, page by page, up to ``most``."""
        limit = LARGEST_PAGE if most is None else min(most, LARGEST_PAGE)
        left, cursor = most, None
        while left is None or left > 0:
            page = self.page(*segments, limit=limit, cursor=cursor, **query)
            found = page["items"] if left is None else page["items"][:left]
            yield from found
            left = None if left is None else left - len(found)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def task(self, task_id: str) -> Json:
        """Return a task as it is now."""
        return self.ask(endpoints.task(task_id), shape=shapes.TASK)

    def result_of(self, task: Json) -> Any:
        """Return the result of a completed task, also one that was too long to come with it."""
        if task.get("result") is None and task.get("result_bytes"):
            return self.ask(endpoints.result(task["id"]), is_long=True)
        return task.get("result")

    def job(self, full_name: str, *, room: str | None = None) -> Json:
        """Return a job; ``JobNotFound`` names one that is like it."""
        place = full_name.partition(":")[0] if room is None else room
        try:
            return self.ask(endpoints.job(place, full_name), shape=shapes.JOB_WITH_SCHEMA)
        except JobNotFound:
            named = {job["name"]: job["full_name"] for job in self._jobs_near(place)}
            found = alike(full_name.rpartition(":")[2], named)
            hint = (
                f"; jobroom jobs {place} lists what there is."
                if found is None
                else f"; did you mean {named[found]}?"
            )
            raise JobNotFound(f"There is no job {full_name!r} in room {place!r}{hint}") from None

    def _jobs_near(self, room: str) -> list[Json]:
        try:
            return list(self.items("rooms", room, "jobs", most=LARGEST_PAGE))
        except JobroomError:
            return []

    def cancel(self, task_id: str) -> Json:
        """Cancel a task."""
        return self.ask(endpoints.report(task_id, {"status": "cancelled"}), shape=shapes.TASK)

    def retry(self, task_id: str, *, dry_run: bool) -> Json:
        """Put a task back to work, or name the tasks that this would."""
        shape = shapes.PLAN if dry_run else shapes.RETRIED
        return self.ask(endpoints.retry(task_id, dry_run=dry_run), shape=shape)

    def submit(
        self, room: str, full_name: str, task: Mapping[str, Any], *, key: str | None
    ) -> Json:
        """Submit a task."""
        call = endpoints.submit(room, full_name, task, idempotency_key=key)
        return self.ask(call, shape=shapes.TASK)

    def stats(self, room: str) -> Json:
        """Return what goes on in a room."""
        return self.ask(endpoints.stats(room), shape=shapes.STATS)

    def why(self, task_id: str) -> Json:
        """Return why a task is not running."""
        path = endpoints.path_of("tasks", task_id, "why")
        return self.ask(object_call("GET", path, expect="reason"), shape=shapes.REASON)

    def changes(self, task_id: str, *, until: float | None = None) -> Iterator[Json]:
        """Yield a task as it is now and at each change, to its end or to the moment ``until``.

        The last one yielded has not ended only if the time is over.
        """
        tag: str | None = None
        while True:
            left = LONGEST_POLL_SECONDS if until is None else until - time.monotonic()
            if tag is not None and left <= 0:
                return
            began, wait = time.monotonic(), 0.0 if tag is None else min(left, LONGEST_POLL_SECONDS)
            call = endpoints.task_version(task_id, known=tag, wait=wait)
            found = self.ask(call, wait=wait)
            if found is not None:
                tag, task = found
                shapes.check(task, shapes.TASK, f"{call.method} {call.path}")
                yield task
                if is_terminal(task["status"]):
                    return
            if found is None or tag is None:
                # A server that does not hold the request open must not be asked without end.
                pause_out(began, min(max(left, 0.0), SHORTEST_LOOK_SECONDS))

    def log(self, task_id: str, *, follow: bool, attempt: int | None) -> Iterator[str]:
        """Yield the pieces of a log; with ``follow`` those to come, of later attempts too."""
        flow = watching.log(self._transport, task_id, follow=follow, attempt=attempt)
        try:
            yield from Driver(self._connection).iterate(flow)
        except (AttributeError, KeyError, TypeError, ValueError) as failure:
            raise exits.Away(
                f"The log of {task_id} was answered by what is not the job queue; check the"
                " server's address."
            ) from failure

    def log_documents(self, task_id: str, *, follow: bool, attempt: int | None) -> Iterator[Json]:
        """Yield the pieces of one attempt's log as the API gives them."""
        offset, wait = 0, LONGEST_POLL_SECONDS if follow else 0.0
        while True:
            began = time.monotonic()
            call = endpoints.log(task_id, offset=offset, attempt=attempt, wait=wait)
            piece = self.ask(call, wait=wait, shape=shapes.LOG)
            moved = piece["next_offset"] > offset
            if moved or offset == 0:
                yield piece
            offset, attempt = piece["next_offset"], piece["attempt"] or None
            if not moved and (piece["ended"] or not follow):
                return
            if not moved:
                pause_out(began, SHORTEST_LOOK_SECONDS)


def pause_out(began: float, seconds: float) -> None:
    """Wait until so many seconds have passed since a moment."""
    time.sleep(max(0.0, began + seconds - time.monotonic()))
