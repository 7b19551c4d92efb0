"""The requests of the contract that workers and submitters make, as values."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from jobroom.client import problems
from jobroom.client.call import Call, Json, object_call
from jobroom.errors import ValidationFailed

PREFIX = "/v1/joblib"
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


def query_of(**given: Any) -> str:
    """Return what follows the path: the parameters that are not None."""
    text = urlencode({name: value for name, value in given.items() if value is not None})
    return f"?{text}" if text else ""


def me() -> Call[Json]:
    """Ask who the token says we are."""
    return object_call("GET", "/v1/me")


def create_worker(*, name: str | None = None) -> Call[Json]:
    """Make an instance worker."""
    body = {} if name is None else {"name": name}
    return object_call("POST", path_of("workers"), body=body, expect="id")


def beat(worker_id: str) -> Call[Json]:
    """Say that the worker is alive."""
    return object_call("PATCH", path_of("workers", worker_id), expect="id")


def delete_worker(worker_id: str) -> Call[Json]:
    """Take the worker away."""
    return object_call("DELETE", path_of("workers", worker_id))


def register(room: str, job: Mapping[str, Any]) -> Call[Json]:
    """Register a job and link the worker that ``job`` names."""
    return object_call("PUT", path_of("rooms", room, "jobs"), body=job, expect="full_name")


def page(*segments: str, **query: Any) -> Call[Json]:
    """Ask for a page of a list."""
    return object_call("GET", path_of(*segments) + query_of(**query), expect="items")


def jobs(room: str) -> Call[Json]:
    """Ask for the first page of the room's jobs and the global ones."""
    return object_call("GET", path_of("rooms", room, "jobs"))


def job(room: str, full_name: str) -> Call[Json]:
    """Ask for one job with its schema."""
    return object_call("GET", path_of("rooms", room, "jobs", full_name))


def submit(
    room: str, full_name: str, task: Mapping[str, Any], *, idempotency_key: str | None = None
) -> Call[Json]:
    """Submit a task; repeating it with its key gives the same task."""
    path = path_of("rooms", room, "tasks", full_name)
    return object_call("POST", path, body=task, headers=key_header(idempotency_key), expect="id")


def submit_all(
    room: str, tasks: Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None
) -> Call[Json]:
    """Submit tasks in one transaction; repeating them with their key gives the same tasks."""
    path, headers = path_of("rooms", room, "tasks"), key_header(idempotency_key)
    return object_call("POST", path, body={"tasks": list(tasks)}, headers=headers, expect="items")


def submit_encoded(room: str, body: bytes) -> Call[Json]:
    """Submit tasks whose JSON is there already, in one transaction."""
    call = object_call(
        "POST", path_of("rooms", room, "tasks"), headers=key_header(None), expect="items"
    )
    return replace(call, content=body)


def claim(worker_id: str, *, request_id: str, wait: int, limit: int = 1) -> Call[Json]:
    """Claim the worker's next tasks; repeating it with its ``request_id`` gives the same ones."""
    more = {} if limit == 1 else {"limit": limit}
    body = {"worker_id": worker_id, "request_id": request_id, **more}
    path = path_of("tasks", "claim")
    return object_call("POST", path, body=body, headers=prefer(wait), expect="task")


def task(task_id: str, *, wait: float = 0.0) -> Call[Json]:
    """Ask for a task, at its end or after ``wait`` seconds."""
    return object_call("GET", path_of("tasks", task_id), headers=prefer(wait), expect="status")


def result(task_id: str) -> Call[Any]:
    """Ask for a task's result as it was stored, however large."""
    return Call("GET", path_of("tasks", task_id, "result"), problems.read_any)


def task_version(
    task_id: str, *, known: str | None = None, wait: float = 0.0
) -> Call[tuple[str | None, Json] | None]:
    """Ask for a task and its tag; None when ``wait`` is over and it is still the known one."""
    condition = {} if known is None else {"If-None-Match": known}
    headers = {**condition, **prefer(wait)}
    return Call("GET", path_of("tasks", task_id), problems.read_version, headers=headers)


def log(task_id: str, *, offset: int, attempt: int | None, wait: float) -> Call[Json]:
    """Ask for a task's log from a place on, waiting up to ``wait`` seconds for more of it."""
    path = path_of("tasks", task_id, "log") + query_of(offset=offset, attempt=attempt)
    return object_call("GET", path, headers=prefer(wait), expect="next_offset")


def stats(room: str) -> Call[Json]:
    """Ask for a room's counts."""
    return object_call("GET", path_of("rooms", room, "stats"))


def put_schedule(room: str, spec: Mapping[str, Any]) -> Call[Json]:
    """Make a schedule, or change the one of that name."""
    return object_call("PUT", path_of("rooms", room, "schedules"), body=spec, expect="name")


def remove_schedule(room: str, name: str) -> Call[Json]:
    """Take a schedule away."""
    return object_call("DELETE", path_of("rooms", room, "schedules", name))


def report(task_id: str, changes: Mapping[str, Any]) -> Call[Json]:
    """Report on a task, or cancel it."""
    return object_call("PATCH", path_of("tasks", task_id), body=changes, expect="id")


def retry(task_id: str, *, dry_run: bool = False) -> Call[Json]:
    """Put a failed or cancelled task back to work, or name the tasks that this would."""
    path = path_of("tasks", task_id, "retry") + ("?dry_run=true" if dry_run else "")
    return object_call("POST", path, repeatable=dry_run)


def graph(task_id: str, *, limit: int = 500, cursor: str | None = None) -> Call[Json]:
    """Ask for a page of the tasks that a task is connected with, and their edges."""
    return page("tasks", task_id, "graph", limit=limit, cursor=cursor)


def sweep() -> Call[Json]:
    """Run one sweep now (admins)."""
    return object_call("POST", path_of("sweep"))


def key_header(idempotency_key: str | None) -> dict[str, str]:
    """Return the header of an idempotency key, of a new one for None."""
    key = uuid.uuid4().hex if idempotency_key is None else idempotency_key
    if not (key.isascii() and key.isprintable() and 0 < len(key) <= LONGEST_KEY):
        raise ValidationFailed("An idempotency key has 1 to 255 printable ASCII characters.")
    return {"Idempotency-Key": key}


def prefer(wait: float) -> dict[str, str]:
    """Return the header that asks for the answer to be held back (RFC 7240)."""
    return {"Prefer": f"wait={math.ceil(wait)}"} if wait > 0 else {}
