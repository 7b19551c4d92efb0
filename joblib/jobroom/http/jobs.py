"""Endpoints of jobs: register, show, list."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread

from jobroom import wire
from jobroom.domain import jsontext
from jobroom.errors import PayloadTooLarge
from jobroom.http import fitting, paging, render
from jobroom.http.exchange import Call, Reply, reply
from jobroom.service import payloads, registration

if TYPE_CHECKING:
    from jobroom.domain.records import JobView

LARGE_SCHEMA = 16 * 1024
FRAME_BYTES = 40 * 1024
"""What a job takes in an answer beside its schema, with the longest names and description."""


async def register_job(call: Call) -> Reply:
    """Make a job known and link the caller's worker."""
    body = await call.body(wire.RegisterJob, limit=call.door.settings.max_body_bytes)
    schema = call.raw("schema") or call.raw("schema_") or "{}"
    _check_can_be_shown(call, schema)
    if len(schema) > LARGE_SCHEMA:
        await to_thread.run_sync(lambda: payloads.check_schema(body.job_schema, at="/schema"))
    else:
        payloads.check_schema(body.job_schema, at="/schema")
    spec = registration.JobSpec(
        category=body.category,
        name=body.name,
        schema=schema,
        description=body.description and jsontext.escape_nul(body.description),
        max_attempts=body.max_attempts,
        on_worker_lost=body.on_worker_lost,
        claim_order=body.order,
        retry_delay_seconds=body.retry_delay_seconds,
        timeout_seconds=body.timeout_seconds,
        claim_timeout_seconds=body.claim_timeout_seconds,
        result_ttl_seconds=body.result_ttl_seconds,
        validate=body.check_payload,
    )
    done: registration.Registered = await call.run(
        registration.register_job,
        caller=call.caller,
        room_id=call.path("room_id"),
        spec=spec,
        worker_id=body.worker_id,
        replace=body.replace,
    )
    call.door.jobs.pop(done.view.job.full_name, None)
    document = render.job_document(done.view, worker_id=done.worker_id)
    status = 201 if done.created else 200
    return fitting.fitting_reply(call, document, partial(fitting.job, document), status=status)


def _check_can_be_shown(call: Call, schema: str) -> None:
    """Refuse a schema that no answer could carry, before the job is registered."""
    most_bytes = call.most_answer_bytes
    if most_bytes is None:
        return
    most = most_bytes - FRAME_BYTES
    if len(schema.encode()) > most:
        raise PayloadTooLarge(f"The schema is over the {most} bytes that an answer here carries.")


async def show_job(call: Call) -> Reply:
    """A job with its schema and its live workers."""
    view = await call.run(
        registration.show_job,
        caller=call.caller,
        room_id=call.path("room_id"),
        full_name=call.path("full_name"),
    )
    document = render.job_document(view)
    return fitting.fitting_reply(call, document, partial(fitting.job, document))


async def list_jobs(call: Call) -> Reply:
    """The jobs that a room sees."""
    asked = paging.page(call, "jobs")
    views, total = await call.run(
        registration.list_jobs,
        caller=call.caller,
        room_id=call.path("room_id"),
        limit=asked.limit + 1 if asked.limit else 0,
        offset=asked.offset,
        after=asked.after or 0,
    )
    document = paging.page_document(
        "jobs",
        asked,
        views,
        total,
        key=lambda view: view.job.seq,
        show=render.job_summary,
        shorter=_shorter_summary,
        most_bytes=call.most_answer_bytes,
    )
    return reply(document)


def _shorter_summary(view: JobView) -> render.Document:
    return fitting.job(render.job_summary(view), fitting.Left.TEXTS)
