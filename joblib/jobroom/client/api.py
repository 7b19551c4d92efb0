"""One method per endpoint that workers and submitters use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobroom.client import connection, endpoints, lists, waiting
from jobroom.client.call import Call
from jobroom.client.drive import Driver
from jobroom.client.endpoints import path_of
from jobroom.client.transport import CALL, ONCE, Json, Patience, Transport

__all__ = ["CALL", "Api", "path_of"]

SPARE_SECONDS = 10.0
"""What a long-poll may take beyond the wait that was asked for."""


class Api:
    """The REST contract as Python calls; answers are the server's JSON objects."""

    def __init__(self, api: connection.ApiManager) -> None:
        self._transport = Transport(api)
        self._driver = Driver(api)

    def _ask(self, call: Call[Json], patience: Patience) -> Json:
        return self._driver.run(self._transport.ask(call, patience=patience))

    @property
    def is_away(self) -> bool:
        """Whether the server is known to be away just now."""
        return self._transport.is_away

    def me(self) -> Json:
        """Ask who the token says we are."""
        return self._ask(endpoints.me(), CALL)

    def create_worker(self, *, name: str | None = None, patience: Patience = CALL) -> Json:
        """Make an instance worker. A lost answer may leave one more, which never beats."""
        return self._ask(endpoints.create_worker(name=name), patience)

    def beat(self, worker_id: str, *, patience: Patience = ONCE) -> Json:
        """Say that the worker is alive; the answer names the tasks it should stop."""
        return self._ask(endpoints.beat(worker_id), patience)

    def delete_worker(self, worker_id: str, *, patience: Patience = CALL) -> None:
        """Take the worker away; its unfinished tasks follow their jobs' policy."""
        self._ask(endpoints.delete_worker(worker_id), patience)

    def register(self, room: str, job: Mapping[str, Any], *, patience: Patience = CALL) -> Json:
        """Register a job and link the worker that ``job`` names."""
        return self._ask(endpoints.register(room, job), patience)

    def jobs(self, room: str) -> Json:
        """Return the first page of the room's jobs and the global ones."""
        return self._ask(endpoints.jobs(room), CALL)

    def job(self, room: str, full_name: str) -> Json:
        """Return one job with its schema."""
        return self._ask(endpoints.job(room, full_name), CALL)

    def submit(
        self,
        room: str,
        full_name: str,
        task: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> Json:
        """Submit a task; repeating it with its key gives the same task."""
        call = endpoints.submit(room, full_name, task, idempotency_key=idempotency_key)
        return self._ask(call, CALL)

    def submit_all(
        self,
        room: str,
        tasks: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
    ) -> Json:
        """Submit tasks in one transaction; repeating them with their key gives the same tasks."""
        return self._ask(endpoints.submit_all(room, tasks, idempotency_key=idempotency_key), CALL)

    def claim(
        self, worker_id: str, *, request_id: str, wait: int, patience: Patience, limit: int = 1
    ) -> list[Json]:
        """Claim up to ``limit`` tasks, waiting up to ``wait`` seconds for the first."""
        call = endpoints.claim(worker_id, request_id=request_id, wait=wait, limit=limit)
        answer = self._ask(call, _with_wait(patience, wait))
        found = answer.get("tasks")
        tasks = found if isinstance(found, list) and found else [answer.get("task")]
        return [task for task in tasks if isinstance(task, dict)]

    def task(self, task_id: str) -> Json:
        """Return a task as it is now."""
        return self._ask(endpoints.task(task_id), CALL)

    def end_or_now(self, task_id: str, *, timeout: float | None) -> Json:
        """Return a task at its end, or after ``timeout`` seconds as it is then."""
        return self._driver.run(waiting.end_or_now(self._transport, task_id, timeout=timeout))

    def report(
        self, task_id: str, changes: Mapping[str, Any], *, patience: Patience = CALL
    ) -> Json:
        """Report on a task; safe to repeat because ``changes`` carries the attempt."""
        return self._ask(endpoints.report(task_id, changes), patience)

    def retry(self, task_id: str, *, dry_run: bool = False) -> Json:
        """Put a failed or cancelled task back to work, with what failed because of it.

        ``dry_run``: change nothing, and name the tasks.
        """
        return self._ask(endpoints.retry(task_id, dry_run=dry_run), CALL)

    def graph(self, task_id: str) -> Json:
        """Return all tasks that a task is connected with, and their edges."""
        return self._driver.run(lists.graph(self._transport, task_id))

    def sweep(self) -> Json:
        """Run one sweep now (admins)."""
        return self._ask(endpoints.sweep(), CALL)


def _with_wait(patience: Patience, wait: float) -> Patience:
    if wait <= 0:
        return patience
    return replace(patience, timeout=max(patience.timeout, wait + SPARE_SECONDS))
