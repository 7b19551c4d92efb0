"""What a client asks of the server, as flows: the same for both colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobroom.client import endpoints, lists
from jobroom.client.call import Json
from jobroom.client.flow import Flow
from jobroom.client.submission import Submission
from jobroom.client.transport import Transport
from jobroom.errors import JobNotFound


class Rules:
    """The questions of one client; each method returns a flow."""

    def __init__(self, line: Transport) -> None:
        self.line = line

    def submit(self, asked: Submission, *, idempotency_key: str | None) -> Flow[Json]:
        """Return the submitted task."""
        call = endpoints.submit(
            *(asked.room, asked.job, asked.task), idempotency_key=idempotency_key
        )
        try:
            return (yield from self.line.ask(call))
        except JobNotFound:
            if (other := asked.elsewhere()) is None:
                raise
        return (yield from self.submit(other, idempotency_key=idempotency_key))

    def task(self, task_id: str) -> Flow[Json]:
        """Return a task as the server shows it now."""
        return self.line.ask(endpoints.task(task_id))

    def cancel(self, task_id: str) -> Flow[Json]:
        """Cancel a task."""
        return self.line.ask(endpoints.report(task_id, {"status": "cancelled"}))

    def retry(self, task_id: str, *, dry_run: bool) -> Flow[Json]:
        """Put a failed or cancelled task back to work."""
        return self.line.ask(endpoints.retry(task_id, dry_run=dry_run))

    def tasks(self, room: str, **query: Any) -> Flow[None]:
        """Give a room's tasks, newest first."""
        return lists.items(self.line, "rooms", room, "tasks", **query)

    def jobs(self, room: str) -> Flow[list[Json]]:
        """Return the jobs that a room sees."""
        return lists.whole(self.line, "rooms", room, "jobs")

    def job(self, full_name: str, room: str | None) -> Flow[Json]:
        """Return a job with its schema."""
        place = full_name.partition(":")[0] if room is None else room
        return self.line.ask(endpoints.job(place, full_name))

    def workers(self, room: str | None) -> Flow[list[Json]]:
        """Return the caller's own workers, or those that serve a room."""
        place = () if room is None else ("rooms", room)
        return lists.whole(self.line, *place, "workers")

    def rooms(self) -> Flow[list[Json]]:
        """Return the rooms that the token may see."""
        return lists.whole(self.line, "rooms")

    def stats(self, room: str) -> Flow[Json]:
        """Return a room's counts."""
        return self.line.ask(endpoints.stats(room))

    def schedules(self, room: str) -> Flow[list[Json]]:
        """Return a room's schedules."""
        return lists.whole(self.line, "rooms", room, "schedules")

    def put_schedule(self, room: str, spec: Mapping[str, Any]) -> Flow[Json]:
        """Make a schedule, or change the one of that name."""
        return self.line.ask(endpoints.put_schedule(room, spec))

    def remove_schedule(self, room: str, name: str) -> Flow[Json]:
        """Take a schedule away."""
        return self.line.ask(endpoints.remove_schedule(room, name))

    def graph(self, task_id: str) -> Flow[Json]:
        """Return all tasks that a task is connected with, and their edges."""
        return lists.graph(self.line, task_id)

    def me(self) -> Flow[Json]:
        """Return who the token says we are."""
        return self.line.ask(endpoints.me())
