"""Endpoints of workers: make one, heartbeat, leave, list."""

from __future__ import annotations

from jobroom import wire
from jobroom.errors import WorkerNotFound
from jobroom.http import paging, render
from jobroom.http.exchange import Call, Reply, reply
from jobroom.service import workers

FRAME_BYTES = 4096
"""What the answer to a heartbeat has beside the tasks, with the longest id of a worker."""
ID_BYTES = 39
"""A task's id in a JSON array."""


async def create_worker(call: Call) -> Reply:
    """Make an instance worker of the caller."""
    body = await call.body(
        wire.CreateWorker, limit=call.door.settings.max_body_bytes, required=False
    )
    view = await call.run(workers.create_worker, caller=call.caller, name=body.name)
    timeout = call.door.settings.worker_timeout_seconds
    return reply({**render.worker_document(view), "timeout_seconds": timeout}, status=201)


async def heartbeat(call: Call) -> Reply:
    """A worker is alive; it learns what to stop. A body is allowed and not looked at."""
    done: workers.Heartbeat = await call.run(
        workers.heartbeat, caller=call.caller, worker_id=_worker_id(call)
    )
    document = render.heartbeat_document(
        done.worker.id,
        last_heartbeat=done.worker.last_heartbeat,
        cancel=done.cancel[: _most_cancelled(call)],
    )
    return reply({**document, "timeout_seconds": call.door.settings.worker_timeout_seconds})


def _most_cancelled(call: Call) -> int | None:
    """How many tasks to stop an answer can name; the next one names those that are left."""
    most_bytes = call.most_answer_bytes
    return None if most_bytes is None else (most_bytes - FRAME_BYTES) // ID_BYTES


async def delete_worker(call: Call) -> Reply:
    """A worker leaves in good order."""
    await call.run(workers.delete_worker, caller=call.caller, worker_id=_worker_id(call))
    return Reply(204, b"", ())


def _worker_id(call: Call) -> str:
    """The worker that the address names."""
    named = call.path("worker_id")
    if "\0" in named:  # which no store holds, and PostgreSQL cannot even be asked for
        raise WorkerNotFound("There is no worker with a NUL in its id; register again.")
    return named


async def list_workers(call: Call) -> Reply:
    """The caller's workers; an admin's all."""
    asked = paging.page(call, "workers")
    views, total = await call.run(
        workers.list_workers,
        caller=call.caller,
        limit=asked.limit + 1 if asked.limit else 0,
        offset=asked.offset,
        after=asked.after or "",
    )
    return reply(_page(call, asked, views, total))


async def list_room_workers(call: Call) -> Reply:
    """The workers that serve a job visible in the room."""
    asked = paging.page(call, "workers")
    views, total = await call.run(
        workers.list_room_workers,
        caller=call.caller,
        room_id=call.path("room_id"),
        limit=asked.limit + 1 if asked.limit else 0,
        offset=asked.offset,
        after=asked.after or "",
    )
    return reply(_page(call, asked, views, total))


def _page(call: Call, asked: paging.Page, views: list[object], total: int) -> render.Document:
    return paging.page_document(
        "workers",
        asked,
        views,
        total,
        key=lambda view: view.worker.id,
        show=render.worker_document,
        most_bytes=call.most_answer_bytes,
    )
