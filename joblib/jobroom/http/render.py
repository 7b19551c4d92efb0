"""From records to the JSON of answers; stored JSON text goes out as it came in."""

from __future__ import annotations

from typing import Any

import orjson

from jobroom.domain import jsontext
from jobroom.domain.records import JobView, SweepReport, Task, TaskView, WorkerView
from jobroom.domain.timetext import format_time

LIST_LIMIT_BYTES = 4096
LIST_TEXT_BYTES = 1024
"""How much of an error or a message a list shows: a page must fit into 6 MB."""

Document = dict[str, Any]

dump = orjson.dumps


def task_document(view: TaskView, *, in_list: bool = False) -> Document:
    """A task as the contract writes it; in a list without a payload or result over 4 KiB."""
    task = view.task
    document: Document = {
        "id": task.id,
        "job_name": view.job_name,
        "room_id": task.room_id,
        "status": task.status,
        "created_at": format_time(task.created_at),
        "started_at": format_time(task.started_at),
        "completed_at": format_time(task.completed_at),
        "worker_id": task.worker_id,
        "error": task.error,
        "payload": orjson.Fragment(task.payload),
        "queue_position": view.queue_position,
        "created_by_id": task.created_by_id,
        "claimed_at": format_time(task.claimed_at),
        "attempt": task.attempt,
        "starts": task.starts,
        "max_attempts": task.max_attempts,
        "priority": task.priority,
        "run_at": format_time(task.run_at),
        "expires_at": format_time(task.expires_at),
        "progress": task.progress,
        "message": task.message,
        "result": None if task.result is None else orjson.Fragment(task.result),
        "depends_on": [],
        "waiting_on": [],
        "lease_expires_at": format_time(view.lease_expires_at),
        "schema_version": task.schema_version,
        "timeout_seconds": task.timeout_seconds,
    }
    if in_list:
        _leave_out(document, "payload", task.payload)
        _leave_out(document, "result", task.result)
        document["error"] = _shortened(task.error)
        document["message"] = _shortened(task.message)
    return document


def _shortened(text: str | None) -> str | None:
    return None if text is None else jsontext.cut_text(text, LIST_TEXT_BYTES)


def _leave_out(document: Document, member: str, text: str | None) -> None:
    # A character is at most four bytes: most texts need no encoding to be known as short.
    if text is None or len(text) * 4 <= LIST_LIMIT_BYTES:
        return
    size = len(text.encode())
    if size > LIST_LIMIT_BYTES:
        document[member] = None
        document[f"{member}_bytes"] = size


def claim_document(views: list[TaskView]) -> Document:
    """What a claim got, possibly nothing."""
    tasks = [task_document(view) for view in views]
    return {"task": tasks[0] if tasks else None, "tasks": tasks}


def report_document(view: TaskView, next_task: TaskView | None) -> Document:
    """A task after a report that asked for the worker's next one."""
    following = None if next_task is None else task_document(next_task)
    return {**task_document(view), "next_task": following}


def etag(task: Task) -> str:
    """The weak entity tag of a task (RFC 9110, 8.8.3): it rises with each write of the row."""
    return f'W/"{task.version}"'


def job_summary(view: JobView) -> Document:
    """A job in a list."""
    job = view.job
    return {
        "id": job.id,
        "room_id": job.room_id,
        "category": job.category,
        "name": job.name,
        "full_name": job.full_name,
        "description": job.description,
        "workers": view.workers,
        "alive_workers": len(view.workers),
        "created_at": format_time(job.created_at),
        "last_seen": format_time(view.last_seen),
    }


def job_document(view: JobView, *, worker_id: str | None = None) -> Document:
    """A job with its schema and policy, and the worker that this call linked, if one was."""
    job = view.job
    return {
        **job_summary(view),
        "schema": orjson.Fragment(job.schema),
        "schema_version": job.schema_version,
        "worker_id": worker_id,
        "max_attempts": job.max_attempts,
        "on_worker_lost": job.on_worker_lost,
        "order": job.claim_order,
        "retry_delay_seconds": job.retry_delay_seconds,
        "timeout_seconds": job.timeout_seconds,
        "claim_timeout_seconds": job.claim_timeout_seconds,
        "result_ttl_seconds": job.result_ttl_seconds,
        "validate": bool(job.validate),
    }


def worker_document(view: WorkerView) -> Document:
    """A worker, in a list or when it was made."""
    worker = view.worker
    return {
        "id": worker.id,
        "last_heartbeat": format_time(worker.last_heartbeat),
        "job_count": view.job_count,
        "alive": view.alive,
        "running_tasks": view.running_tasks,
        "name": worker.name,
        "identity": worker.identity,
        "kind": worker.kind,
        "created_at": format_time(worker.created_at),
    }


def heartbeat_document(worker_id: str, *, last_heartbeat: int, cancel: list[str]) -> Document:
    """The answer to a heartbeat, with the tasks that the worker should stop."""
    return {"id": worker_id, "last_heartbeat": format_time(last_heartbeat), "cancel": cancel}


def page(
    items: list[Document],
    *,
    total: int,
    limit: int,
    offset: int,
    next_cursor: str | None,
    total_capped: bool = False,
) -> Document:
    """A part of a list."""
    return {
        "items": items,
        "total": total,
        "limit": limit,
        "offset": offset,
        "next_cursor": next_cursor,
        "total_capped": total_capped,
    }


def sweep_document(report: SweepReport) -> Document:
    """What a sweep did, count by count."""
    return report._asdict()
