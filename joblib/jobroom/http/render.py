"""From records to the JSON of answers; stored JSON text goes out as it came in."""

from __future__ import annotations

from json import JSONDecoder
from typing import Any, NoReturn

import orjson

from jobroom.domain import damage, jsontext, sizes
from jobroom.domain.graph import EdgeState
from jobroom.domain.lifecycle import TaskStatus
from jobroom.domain.records import JobView, SweepReport, Task, TaskView, WorkerView
from jobroom.domain.timetext import format_time

CHECKED_CHARACTERS = 64 * 1024
"""Stored JSON up to this length is read before it goes out; of longer text only the ends are."""

Document = dict[str, Any]


def dump(document: Any) -> bytes:
    """A document as JSON; what is no text in it, of a damaged row, is shown as well as may be."""
    try:
        return orjson.dumps(document)
    except TypeError:
        return orjson.dumps(_as_text(document))


def _as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_text(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_as_text(member) for member in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return value


def task_document(view: TaskView, *, in_list: bool = False) -> Document:
    """Any stored task as the contract writes it; a damaged one as well as may be.

    In a list with the beginning of a long error or message.
    """
    if damage.is_sound(view.task) and view.job_name:
        try:
            return _checked_document(view, in_list=in_list)
        except (AttributeError, OverflowError, TypeError, ValueError):
            pass  # a time that no calendar has, or bytes where there should be text
    whole = view._replace(task=damage.mended(view.task), job_name=view.job_name or "")
    return _checked_document(whole, in_list=in_list)


def _checked_document(view: TaskView, *, in_list: bool) -> Document:
    task = view.task
    document = sound_document(view)
    if view.payload_bytes:
        document["payload"], document["payload_bytes"] = None, view.payload_bytes
    elif not is_whole(task.payload) or task.payload[0] != "{":
        document["payload"] = None
    if view.result_bytes:
        document["result_bytes"] = view.result_bytes
    elif task.result is not None and is_whole(task.result):
        document["result"] = orjson.Fragment(task.result)
    if in_list:
        document["error"] = _shortened(task.error, view.error_bytes)
        document["message"] = _shortened(task.message, view.message_bytes)
        if view.dependency_count > len(document["depends_on"]):
            document["dependency_count"] = view.dependency_count
    return document


def sound_document(view: TaskView) -> Document:
    """A task that was just submitted or claimed: it is known to be whole, and has no result."""
    task = view.task
    depends_on, waiting_on = _dependencies(view)
    return {
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
        "result": None,
        "depends_on": depends_on,
        "waiting_on": waiting_on,
        "lease_expires_at": format_time(view.lease_expires_at),
        "schema_version": task.schema_version,
        "timeout_seconds": task.timeout_seconds,
        "key": task.key,
        "failed_by": task.failed_by,
    }


def _dependencies(view: TaskView) -> tuple[list[str], list[Document]]:
    """What a task depends on, and while it is blocked, what of that it still waits for."""
    if view.edges is None:
        return [], []
    try:
        edges = [_edge(each) for each in orjson.loads(view.edges)]
    except (TypeError, ValueError):
        return [], []  # somebody else has written to the tables
    waiting = edges if view.task.status == TaskStatus.BLOCKED else []
    return (
        [document["id"] for _, document in edges],
        [document for state, document in waiting if state == EdgeState.WAITING],
    )


def _edge(edge: list[Any]) -> tuple[str, Document]:
    task_id, condition, state, key, job_name, status = edge
    return state, {
        "id": task_id,
        "key": key,
        "job_name": job_name,
        "status": status,
        "condition": condition,
    }


def is_whole(text: str | bytes) -> bool:
    """Whether stored JSON is still JSON; of a long text only the ends are looked at."""
    if not isinstance(text, str):
        return False  # a blob: the file was written by somebody else
    return _is_json(text) if len(text) <= CHECKED_CHARACTERS else text[0] + text[-1] in _ENDS


_ENDS = ("{}", "[]", '""')


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except ValueError:
        return _is_unusual_json(text)
    return True


def _is_unusual_json(text: str) -> bool:
    # The fast reader refuses integers of some hundred digits and lone surrogates.
    try:
        text.encode()
        _DECODER.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(token: str) -> NoReturn:
    raise ValueError(token)


_DECODER = JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)


def _shortened(text: str | None, size: int) -> str | None:
    if text is None:
        return None
    return jsontext.cut_text(text, sizes.SHOWN_TEXT_BYTES, whole_bytes=size)


def claim_document(views: list[TaskView]) -> Document:
    """What a claim got, possibly nothing."""
    tasks = [sound_document(view) for view in views]
    return {"task": tasks[0] if tasks else None, "tasks": tasks}


def report_document(view: TaskView, next_task: TaskView | None) -> Document:
    """A task after a report that asked for the worker's next one."""
    following = None if next_task is None else sound_document(next_task)
    return {**task_document(view), "next_task": following}


def etag(task: Task) -> str:
    """The weak entity tag of a task (RFC 9110, 8.8.3): it rises with each write of the row."""
    return f'W/"{task.version if damage.is_sound(task) else 0}"'


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
        "schema": orjson.Fragment(job.schema) if is_whole(job.schema) else {},
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
    items: list[Any],
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
