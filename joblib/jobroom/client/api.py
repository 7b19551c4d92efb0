"""One method per endpoint that workers and submitters use."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from jobroom.client import connection
from jobroom.client.transport import CALL, ONCE, Json, Patience, Transport
from jobroom.errors import ValidationFailed

PREFIX = "/v1/joblib"
SPARE_SECONDS = 10.0
"""What a long-poll may take beyond the wait that was asked for."""

LONGEST_KEY = 255


def path_of(*segments: str) -> str:
    """Return the address of these path segments, each percent-encoded as a whole."""
    return "".join((PREFIX, *map(_encode, segments)))


def _encode(segment: str) -> str:
    if not segment:
        raise ValidationFailed("A room, a job and an id have at least one character.")
    # Literal dots would be taken for a way up, and resolved before they are sent.
    dots = segment in {".", ".."}
    return "/" + (segment.replace(".", "%2E") if dots else quote(segment, safe=""))


class Api:
    """The REST contract as Python calls; answers are the server's JSON objects."""

    def __init__(self, api: connection.ApiManager) -> None:
        self._transport = Transport(api)
        self._send = self._transport.send

    @property
    def is_away(self) -> bool:
        """Whether the server is known to be away just now."""
        return self._transport.is_away

    def me(self) -> Json:
        """Ask who the token says we are."""
        return self._send("GET", "/v1/me", patience=CALL)

    def create_worker(self, *, name: str | None = None, patience: Patience = CALL) -> Json:
        """Make an instance worker. A lost answer may leave one more, which never beats."""
        body = {} if name is None else {"name": name}
        path = path_of("workers")
        return self._send("POST", path, body=body, patience=patience, expect="id")

    def beat(self, worker_id: str, *, patience: Patience = ONCE) -> Json:
        """Say that the worker is alive; the answer names the tasks it should stop."""
        return self._send("PATCH", path_of("workers", worker_id), patience=patience, expect="id")

    def delete_worker(self, worker_id: str, *, patience: Patience = CALL) -> None:
        """Take the worker away; its unfinished tasks follow their jobs' policy."""
        self._send("DELETE", path_of("workers", worker_id), patience=patience)

    def register(self, room: str, job: Mapping[str, Any], *, patience: Patience = CALL) -> Json:
        """Register a job and link the worker that ``job`` names."""
        path = path_of("rooms", room, "jobs")
        return self._send("PUT", path, body=job, patience=patience, expect="full_name")

    def jobs(self, room: str) -> Json:
        """Return the first page of the room's jobs and the global ones."""
        return self._send("GET", path_of("rooms", room, "jobs"), patience=CALL)

    def job(self, room: str, full_name: str) -> Json:
        """Return one job with its schema."""
        return self._send("GET", path_of("rooms", room, "jobs", full_name), patience=CALL)

    def submit(
        self,
        room: str,
        full_name: str,
        task: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> Json:
        """Submit a task; repeating it with its key gives the same task."""
        path = path_of("rooms", room, "tasks", full_name)
        headers = _key(idempotency_key)
        return self._send("POST", path, body=task, patience=CALL, headers=headers, expect="id")

    def submit_all(
        self,
        room: str,
        tasks: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
    ) -> Json:
        """Submit tasks in one transaction; repeating them with their key gives the same tasks."""
        path = path_of("rooms", room, "tasks")
        headers = _key(idempotency_key)
        body = {"tasks": list(tasks)}
        return self._send("POST", path, body=body, patience=CALL, headers=headers, expect="items")

    def claim(
        self, worker_id: str, *, request_id: str, wait: int, patience: Patience
    ) -> Json | None:
        """Claim the worker's next task, waiting up to ``wait`` seconds; None if there is none."""
        patience = _with_wait(patience, wait)
        headers = {"Prefer": f"wait={wait}"} if wait > 0 else None
        body = {"worker_id": worker_id, "request_id": request_id}
        path = path_of("tasks", "claim")
        answer = self._send(
            "POST", path, body=body, patience=patience, headers=headers, expect="task"
        )
        task = answer.get("task")
        return task if isinstance(task, dict) else None

    def task(self, task_id: str, *, wait: float = 0.0, patience: Patience = CALL) -> Json:
        """Return a task, at its end or after ``wait`` seconds."""
        headers = {"Prefer": f"wait={math.ceil(wait)}"} if wait > 0 else None
        patience = _with_wait(patience, wait)
        path = path_of("tasks", task_id)
        return self._send("GET", path, patience=patience, headers=headers, expect="status")

    def report(
        self, task_id: str, changes: Mapping[str, Any], *, patience: Patience = CALL
    ) -> Json:
        """Report on a task; safe to repeat because ``changes`` carries the attempt."""
        path = path_of("tasks", task_id)
        return self._send("PATCH", path, body=changes, patience=patience, expect="id")

    def retry(self, task_id: str, *, dry_run: bool = False) -> Json:
        """Put a failed or cancelled task back to work, with what failed because of it.

        ``dry_run``: change nothing, and name the tasks.
        """
        path = path_of("tasks", task_id, "retry") + ("?dry_run=true" if dry_run else "")
        return self._send("POST", path, patience=CALL, repeatable=dry_run)

    def graph(self, task_id: str, *, limit: int = 500, cursor: str | None = None) -> Json:
        """Return a page of the tasks that a task is connected with, and their edges."""
        query = f"?limit={limit}" + ("" if cursor is None else f"&cursor={quote(cursor, safe='')}")
        path = path_of("tasks", task_id, "graph") + query
        return self._send("GET", path, patience=CALL, expect="items")

    def sweep(self) -> Json:
        """Run one sweep now (admins)."""
        return self._send("POST", path_of("sweep"), patience=CALL)


def _key(idempotency_key: str | None) -> dict[str, str]:
    key = uuid.uuid4().hex if idempotency_key is None else idempotency_key
    if not (key.isascii() and key.isprintable() and 0 < len(key) <= LONGEST_KEY):
        raise ValidationFailed("An idempotency key has 1 to 255 printable ASCII characters.")
    return {"Idempotency-Key": key}


def _with_wait(patience: Patience, wait: float) -> Patience:
    if wait <= 0:
        return patience
    return replace(patience, timeout=max(patience.timeout, wait + SPARE_SECONDS))
