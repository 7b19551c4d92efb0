"""Endpoints of tasks: submit, claim, report, read, retry, list."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread

from jobroom import wire
from jobroom.domain import jsontext, names, sizes
from jobroom.domain.lifecycle import is_terminal
from jobroom.errors import (
    NotFound,
    PayloadInvalid,
    PayloadTooLarge,
    StoreUnavailable,
    ValidationFailed,
)
from jobroom.http import fitting, longpoll, paging, ranges, render, tasklogs
from jobroom.http.exchange import Call, Reply, reply
from jobroom.service import access, claiming, reading, registration, reporting, retrying, submission
from jobroom.service import workers as crew
from jobroom.service.new_task import NewTask

if TYPE_CHECKING:
    from jobroom.domain.records import Job, TaskView
    from jobroom.store.lane import Work

PREFIX = "/v1/joblib"
TRIES = 5
LARGE_PAYLOAD = 64 * 1024
LONGEST_KEY = 255


async def submit_task(call: Call) -> Reply:
    """Add a task; the payload is checked before the write, by the schema that the write guards."""
    body = await call.body(wire.SubmitTask, limit=call.door.settings.max_body_bytes, required=False)
    room_id, full_name = call.path("room_id"), call.path("full_name")
    new = _new_task(call, body)
    check_can_be_claimed(call, new.payload)
    access.check_room(call.caller, room_id)
    for _ in range(TRIES):
        job = await known_job(call, room_id, full_name)
        try:
            if job.validate:
                await _check_payload(call, job, new.payload)
        except PayloadInvalid:
            # Another process may have replaced the schema: what is remembered must not refuse.
            if (await find_job(call, room_id, full_name)).version == job.version:
                if known := await _find_repeat(call, new):
                    return _accepted(call, known)
                raise
            continue
        done: submission.Submitted | None = await call.run(
            submission.submit_task, caller=call.caller, room_id=room_id, job=job, new=new
        )
        if done is not None:
            return _accepted(call, done)
        call.door.jobs.pop(full_name, None)
    raise StoreUnavailable(f"The job {full_name} keeps changing; try again in a moment.")


def _new_task(call: Call, body: wire.SubmitTask) -> NewTask:
    key = idempotency_key(call)
    fingerprint = None
    if key is not None or body.id is not None:
        # The id in its one spelling: the same request may spell it in another way.
        said = call.values() if body.id is None else {**call.values(), "id": body.id}
        fingerprint = jsontext.fingerprint("POST", call.address, said)
    return NewTask(
        payload=call.raw("payload") or "{}",
        priority=body.priority,
        run_at=body.run_at,
        expires_at=body.expires_at,
        max_attempts=body.max_attempts,
        timeout_seconds=body.timeout_seconds,
        id=body.id,
        idempotency_key=key,
        fingerprint=fingerprint,
        depends_on=tuple((each.id, each.condition.value) for each in body.depends_on),
        parent=body.parent,
    )


def check_can_be_claimed(call: Call, payload: str) -> None:
    """Refuse a payload that no claim through this server could bring to a worker."""
    most_bytes = call.most_answer_bytes
    if most_bytes is None:
        return
    most = sizes.largest_payload(most_bytes)
    if len(payload.encode()) > most:
        raise PayloadTooLarge(f"The payload is over the {most} bytes that a claim here can bring.")


def idempotency_key(call: Call) -> str | None:
    """The header ``Idempotency-Key``, up to 255 characters."""
    key = call.header(b"idempotency-key")
    if key is not None and not 0 < len(key) <= LONGEST_KEY:
        raise ValidationFailed(f"Idempotency-Key must have 1 to {LONGEST_KEY} characters.")
    return key


async def known_job(call: Call, room_id: str, full_name: str) -> Job:
    """A job that the room sees, as it was when it was last read."""
    job = call.door.jobs.get(full_name)
    if job is None or job.room_id not in (room_id, names.GLOBAL_ROOM):
        job = await find_job(call, room_id, full_name)
    return job


async def find_job(call: Call, room_id: str, full_name: str) -> Job:
    """A job that the room sees, read now."""
    job: Job = await call.run(
        registration.find_job, caller=call.caller, room_id=room_id, full_name=full_name
    )
    call.door.remember(job)
    return job


async def _find_repeat(call: Call, new: NewTask) -> submission.Submitted | None:
    """A request that was accepted once is not judged again by a newer schema."""
    if new.fingerprint is None:
        return None
    known: submission.Submitted | None = await call.run(
        submission.find_repeat, caller=call.caller, new=new
    )
    if known is not None and known.has_new_key:
        known = await call.run(submission.keep_key, caller=call.caller, new=new)
    return known


async def _check_payload(call: Call, job: Job, text: str) -> None:
    check = call.door.schemas.get(job.seq, job.schema_version, job.schema)
    payload = call.values().get("payload") or {}
    size = len(text)
    if size > LARGE_PAYLOAD:
        await to_thread.run_sync(lambda: check.check(payload, characters=size, at="/payload"))
    else:
        check.check(payload, characters=size, at="/payload")


def _accepted(call: Call, done: submission.Submitted) -> Reply:
    root = call.scope.get("root_path", "")
    location = f"{root}{PREFIX}/tasks/{done.view.task.id}".encode()
    headers = [(b"location", location), (b"retry-after", b"1")]
    if done.replayed:
        headers.append((b"idempotency-replayed", b"true"))
    document = render.task_document if done.replayed else render.sound_document
    shorter = partial(fitting.task, done.view)
    return fitting.fitting_reply(
        call, document(done.view), shorter, status=202, headers=tuple(headers)
    )


async def claim_tasks(call: Call) -> Reply:
    """Claim what there is, or wait for it."""
    body = await call.body(wire.ClaimTasks, limit=call.door.settings.max_body_bytes, required=False)
    seconds = longpoll.granted_wait(call)
    wish = {
        "caller": call.caller,
        "worker_id": body.worker_id,
        "limit": body.limit,
        "start": body.start,
        "request_id": body.request_id,
        "most_bytes": call.most_answer_bytes,
    }
    if not seconds:
        return _claimed(call, await call.run(claiming.claim_tasks, **wish))
    with longpoll.place_to_wait(call):
        work = call.post(claiming.claim_tasks, {**wish, "wait": True})
        claimed, waited = await _wait_for_claim(call, work, seconds)
    headers = ((b"preference-applied", b"wait=%d" % seconds),) if waited else ()
    return _claimed(call, claimed, *headers)


def _claimed(call: Call, views: list[TaskView], *headers: tuple[bytes, bytes]) -> Reply:
    shorter = partial(fitting.claim, views)
    return fitting.fitting_reply(call, render.claim_document(views), shorter, headers=headers)


async def _wait_for_claim(call: Call, work: Work, seconds: int) -> tuple[list[TaskView], bool]:
    future: asyncio.Future[list[TaskView]] = work.future
    beat_seconds = call.door.settings.worker_timeout_seconds / 3
    try:
        with longpoll.Patience(call, seconds) as patience:
            while not await patience.wait(future, at_most=beat_seconds):
                if patience.over:
                    break
                await _stay_alive(call, work)
    except BaseException:
        # The client went away or its token ended: what was claimed for it goes back.
        await asyncio.shield(_withdraw(call, work))
        raise
    waited = work.parked
    if not future.done() and call.door.queue.waiting.withdraw(work):
        return [], waited
    return await future, waited


async def _stay_alive(call: Call, work: Work) -> None:
    """A worker whose claim waits is alive, whatever its heartbeats."""
    if work.wish is not None:
        await call.run(crew.heartbeat, caller=call.caller, worker_id=work.wish.worker_id)


async def _withdraw(call: Call, work: Work) -> None:
    if call.door.queue.waiting.withdraw(work):
        return
    await asyncio.wait({work.future})
    if work.future.exception() is not None:
        return
    claimed = work.future.result()
    if not claimed:
        return
    started = bool(work.kwargs["start"])
    try:
        await call.run(claiming.give_back, claimed=claimed, started=started)
    except StoreUnavailable:
        # Nobody will ask for it again: it would be held for as long as its worker beats.
        undo = partial(claiming.give_back.rule, claimed=claimed, started=started)
        call.door.queue.unanswered(undo)


async def report(call: Call) -> Reply:
    """Take a worker's report, or a cancellation."""
    body = await call.body(wire.UpdateTask, limit=call.door.settings.max_result_bytes)
    task_id = task_id_of(call)
    said = reporting.Report(
        status=body.status,
        error=_text(body.error),
        result=call.raw("result"),
        progress=body.progress,
        message=_text(body.message),
        attempt=body.attempt,
        worker_id=body.worker_id,
        claim_next=body.claim_next,
        final=body.final,
        most_bytes=call.most_answer_bytes,
        log=body.log,
        log_offset=body.log_offset,
    )
    done: reporting.Reported = await call.run(
        reporting.report, caller=call.caller, task_id=task_id, report=said
    )
    if done.log_bytes is not None:
        return tasklogs.reported(call, done, claims=body.claim_next)
    if body.claim_next:
        document = render.report_document(done.view, done.next_task)
        shorter = partial(fitting.report, done.view, done.next_task)
        return fitting.fitting_reply(call, document, shorter)
    return _shown(call, done.view)


def _shown(call: Call, view: TaskView, *headers: tuple[bytes, bytes]) -> Reply:
    shorter = partial(fitting.task, view)
    return fitting.fitting_reply(call, render.task_document(view), shorter, headers=headers)


def _text(said: str | None) -> str | None:
    """An error or message fit for every store: cut at 64 KiB, NUL made visible."""
    return None if said is None else jsontext.cut_text(jsontext.escape_nul(said))


async def get_task(call: Call) -> Reply:
    """A task, at once or when it has ended (or changed, with ``If-None-Match``)."""
    task_id = task_id_of(call)
    seconds = longpoll.granted_wait(call)
    known = call.header(b"if-none-match")
    if not seconds:
        view = await call.run(reading.get_task, caller=call.caller, task_id=task_id)
        return _known_or_shown(call, view, known)
    with longpoll.place_to_wait(call), call.door.watching(task_id) as waiting:
        view = await call.run(reading.get_task, caller=call.caller, task_id=task_id)
        if _is_news(view, known):
            return _known_or_shown(call, view, known)
        with longpoll.Patience(call, seconds) as patience:
            waiting.saw(view.task.version)
            while await patience.wait(waiting.changed):
                view = await call.run(reading.get_task, caller=call.caller, task_id=task_id)
                if _is_news(view, known):
                    break
                waiting.saw(view.task.version)
    return _known_or_shown(call, view, known, (b"preference-applied", b"wait=%d" % seconds))


def _is_news(view: TaskView, known: str | None) -> bool:
    """Whether the wait is over: the task has ended, or is not what the client knows."""
    return is_terminal(view.task.status) or (known is not None and not _matches(view, known))


def _matches(view: TaskView, known: str | None) -> bool:
    """Weak comparison with a list of entity tags (RFC 9110, 13.1.2)."""
    if known is None:
        return False
    opaque = render.etag(view.task).removeprefix("W/")
    tags = [tag.strip().removeprefix("W/") for tag in known.split(",")]
    return opaque in tags or "*" in tags


def _known_or_shown(
    call: Call, view: TaskView, known: str | None, *headers: tuple[bytes, bytes]
) -> Reply:
    tag = (b"etag", render.etag(view.task).encode())
    if _matches(view, known):
        return Reply(304, b"", (tag, *headers))
    return _shown(call, view, tag, *headers)


async def get_result(call: Call) -> Reply:
    """The result as it was stored, or the part of it that ``Range`` asks for."""
    task_id = task_id_of(call)
    view: TaskView = await call.run(reading.get_task, caller=call.caller, task_id=task_id)
    if view.task.result is None:
        message = f"Task {task_id} is {view.task.status} and has no result."
        raise NotFound(message)
    if not render.is_whole(view.task.result):
        message = f"The stored result of task {task_id} is damaged; run the task again."
        raise NotFound(message)
    if _matches(view, call.header(b"if-none-match")):  # before Range (RFC 9110, 13.2.2)
        return Reply(304, b"", ((b"etag", ranges.strong_tag(view.task).encode()),))
    return ranges.result_reply(call, view.task, view.task.result.encode())


async def retry_task(call: Call) -> Reply:
    """A failed or cancelled task goes again, and what failed because of it."""
    is_dry_run = paging.flag(call, "dry_run")
    await call.check_no_body("say dry_run in the query: ?dry_run=true")
    task_id = task_id_of(call)
    if is_dry_run:
        plan = await call.run(retrying.plan_retry, caller=call.caller, task_id=task_id)
        return reply({"tasks": plan.ids, "hidden": plan.hidden})
    return _shown(call, await call.run(retrying.retry_task, caller=call.caller, task_id=task_id))


async def list_room_tasks(call: Call) -> Reply:
    """The tasks submitted in a room."""
    return await _list(call, paging.one(call, "job"))


async def list_job_tasks(call: Call) -> Reply:
    """The tasks of a job submitted in a room."""
    return await _list(call, call.path("full_name"))


async def _list(call: Call, full_name: str | None) -> Reply:
    asked = paging.task_page(call, full_name)
    views, total = await call.run(
        reading.list_tasks,
        caller=call.caller,
        room_id=call.path("room_id"),
        full_name=asked.full_name,
        statuses=asked.statuses,
        created_by_id=asked.created_by_id,
        before=asked.before,
        limit=asked.limit + 1 if asked.limit else 0,
        offset=asked.offset,
    )
    most_bytes = call.most_answer_bytes
    return reply(paging.task_page_document(asked, views, total, most_bytes=most_bytes))


def task_id_of(call: Call) -> str:
    """The id of the path in its one spelling; what is no UUID names no task."""
    text = call.path("task_id")
    task_id = names.parse_task_id(text)
    if task_id is None:
        raise access.task_not_found(text)
    return task_id
