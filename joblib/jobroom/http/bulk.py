"""Submitting many tasks in one request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from anyio import to_thread

from jobroom import wire
from jobroom.domain import jsontext, names
from jobroom.domain.jsontext import pointer_to, shown
from jobroom.errors import (
    DependencyNotFound,
    FieldError,
    JobNotFound,
    PayloadInvalid,
    PayloadTooLarge,
    StoreUnavailable,
    ValidationFailed,
)
from jobroom.http import fitting, render
from jobroom.http.exchange import Call, Reply
from jobroom.http.tasks import (
    TRIES,
    check_can_be_claimed,
    find_job,
    idempotency_key,
    known_job,
)
from jobroom.service import access, bulk
from jobroom.service.new_task import NewTask
from jobroom.service.planning import Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobroom.domain.records import Job

MOST_EDGES = 20_000
"""On how many others the tasks of one request depend, all together."""
MOST_ON_THE_LOOP = 20
"""How many tasks are added in less time than it takes to change the thread and back."""
BARE_BYTES = 2048
"""What a task takes at most in an answer beside its names, when all is left out that can be."""
LONGEST_CHECK_SECONDS = 10.0
"""How long the payloads of one request are checked, all together."""


class _Request(NamedTuple):
    """What a body asks for: tasks, the names of their jobs, and their payloads as read."""

    news: list[NewTask]
    full_names: list[str]
    payloads: list[dict[str, Any]]
    key: str | None


class _Misfit(Exception):
    """A payload does not fit; ``n`` is its place in the request."""

    def __init__(self, n: int, error: PayloadInvalid) -> None:
        super().__init__(str(error))
        self.n = n
        self.error = error


async def submit_tasks(call: Call) -> Reply:
    """Add tasks, all or none; their payloads are checked by the schemas that the write guards."""
    body = await call.body(wire.SubmitTasks, limit=call.door.settings.max_body_bytes)
    room_id = call.path("room_id")
    asked = _read(call, body)
    _check_can_be_answered(call, room_id, asked)
    access.check_room(call.caller, room_id)
    for _ in range(TRIES):
        jobs = await _jobs(call, room_id, asked.full_names)
        try:
            await _check_payloads(call, asked, jobs)
        except _Misfit as misfit:
            # Another process may have replaced the schema: what is remembered must not refuse.
            full_name = asked.full_names[misfit.n]
            if (await find_job(call, room_id, full_name)).version != jobs[full_name].version:
                continue
            known = await call.run(
                bulk.find_repeat, caller=call.caller, news=asked.news, key=asked.key
            )
            if known is not None and known.has_new_key:
                known = await call.run(
                    bulk.keep_key, caller=call.caller, news=asked.news, key=asked.key
                )
            if known is not None:
                return _accepted(call, known)
            raise misfit.error from None
        done = await _submit(call, room_id, asked, jobs)
        if done is not None:
            return _accepted(call, done)
        for full_name in jobs:
            call.door.jobs.pop(full_name, None)
    raise StoreUnavailable("A job of these tasks keeps changing; try again in a moment.")


async def _submit(
    call: Call, room_id: str, asked: _Request, jobs: dict[str, Job]
) -> bulk.SubmittedTasks | None:
    wanted = [
        Asked(new, jobs[full_name], ("tasks", n))
        for n, (new, full_name) in enumerate(zip(asked.news, asked.full_names, strict=True))
    ]
    said = {"caller": call.caller, "room_id": room_id, "asked": wanted, "key": asked.key}
    work = call.post(bulk.submit_tasks, said, is_long=len(wanted) > MOST_ON_THE_LOOP)
    done: bulk.SubmittedTasks | None = await work.future
    return done


def _check_can_be_answered(call: Call, room_id: str, asked: _Request) -> None:
    """Refuse what could not be answered, or not be claimed, before any of it is taken."""
    most_bytes = call.most_answer_bytes
    if most_bytes is None:
        return
    for new in asked.news:
        check_can_be_claimed(call, new.payload)
    names_of_all = [room_id, call.caller.identity, call.caller.identity]
    each = BARE_BYTES + sum(map(_longest, names_of_all))
    own = sum(
        _longest(full_name) + _longest(new.key or "")
        for new, full_name in zip(asked.news, asked.full_names, strict=True)
    )
    if each * len(asked.news) + own > most_bytes:
        message = "The tasks are more than one answer here can name; submit fewer at once."
        raise PayloadTooLarge(message)


def _longest(name: str) -> int:
    """How long a name can be in JSON; it has no control characters, but may have quotes."""
    return 2 * len(name.encode())


def _accepted(call: Call, done: bulk.SubmittedTasks) -> Reply:
    document = render.task_document if done.replayed else render.sound_document
    replayed = ((b"idempotency-replayed", b"true"),) if done.replayed else ()
    return fitting.fitting_reply(
        call,
        {"items": [document(view) for view in done.views]},
        lambda left: {"items": [fitting.task(view, left) for view in done.views]},
        status=202,
        headers=((b"retry-after", b"1"), *replayed),
    )


# --- reading ----------------------------------------------------------------------------------


def _read(call: Call, body: wire.SubmitTasks) -> _Request:
    names_of = _Names(body.tasks)
    sources = call.objects("tasks")
    key = idempotency_key(call)
    fingerprint = None
    if key is not None or names_of.ids:
        # The ids in their one spelling: the same request may spell them in another way.
        said = [
            source.values if task.id is None else {**source.values, "id": task.id}
            for source, task in zip(sources, body.tasks, strict=True)
        ]
        fingerprint = jsontext.fingerprint("POST", call.address, {**call.values(), "tasks": said})
    news = [
        NewTask(
            payload=source.source("payload") or "{}",
            priority=task.priority,
            run_at=task.run_at,
            expires_at=task.expires_at,
            max_attempts=task.max_attempts,
            timeout_seconds=task.timeout_seconds,
            id=task.id,
            fingerprint=fingerprint,
            key=task.key,
            depends_on=names_of.dependencies_of(n),
            parent=task.parent,
        )
        for n, (source, task) in enumerate(zip(sources, body.tasks, strict=True))
    ]
    payloads = [task.payload for task in body.tasks]
    return _Request(news, [task.job for task in body.tasks], payloads, key)


class _Names:
    """What the tasks of a request may be called in it."""

    def __init__(self, tasks: Sequence[wire.BulkTask]) -> None:
        self._tasks = tasks
        self.keys: dict[str, int] = {}
        self.ids: dict[str, int] = {}
        for n, task in enumerate(tasks):
            _note(self.ids, task.id, n, "id")
            _note(self.keys, task.key, n, "key")
        for key, n in self.keys.items():
            if self.ids.get(names.parse_task_id(key) or "", n) != n:
                message = "is the id of another task of the request"
                raise _refused(message, "tasks", n, "key")
        if sum(len(task.depends_on) for task in tasks) > MOST_EDGES:
            message = f"must have at most {MOST_EDGES:,} dependencies in all; send it in parts"
            raise _refused(message, "tasks")

    def dependencies_of(self, n: int) -> tuple[tuple[str | int, str], ...]:
        """What a task depends on: places of others in the request, or ids of stored tasks."""
        return tuple(
            (self._find(named, n, place), named.condition.value)
            for place, named in enumerate(self._tasks[n].depends_on)
        )

    def _find(self, named: wire.DependencyInBulk, n: int, place: int) -> str | int:
        found: str | int | None = self.keys.get(named.key or named.id or "")
        if found is None and named.id is not None:
            task_id = names.parse_task_id(named.id)
            found = self.ids.get(task_id or "", task_id)
        if found is None:
            what = "key" if named.id is None else "key in this request, and no task's id,"
            message = f"There is no such {what} as {shown(named.key or named.id or '')}."
            fault = FieldError(pointer_to("tasks", n, "depends_on", place), message)
            raise DependencyNotFound(message, errors=(fault,))
        return found


def _note(known: dict[str, int], name: str | None, n: int, member: str) -> None:
    if name is not None and known.setdefault(name, n) != n:
        raise _refused(f"is the {member} of /tasks/{known[name]} too", "tasks", n, member)


def _refused(message: str, *place: str | int) -> ValidationFailed:
    pointer = pointer_to(*place)
    return ValidationFailed(
        f"The body does not fit the contract: {pointer} {message}.",
        errors=(FieldError(pointer, message),),
    )


# --- jobs and payloads ------------------------------------------------------------------------


async def _jobs(call: Call, room_id: str, full_names: Sequence[str]) -> dict[str, Job]:
    found: dict[str, Job] = {}
    for n, full_name in enumerate(full_names):
        if full_name in found:
            continue
        try:
            found[full_name] = await known_job(call, room_id, full_name)
        except JobNotFound as error:
            fault = FieldError(pointer_to("tasks", n, "job"), str(error))
            raise JobNotFound(str(error), errors=(fault,)) from None
    return found


async def _check_payloads(call: Call, asked: _Request, jobs: dict[str, Job]) -> None:
    """Raise ``_Misfit`` unless all payloads fit. In a thread: a thousand may take seconds."""
    checks: dict[str, Callable[..., None]] = {
        full_name: call.door.schemas.get(job.seq, job.schema_version, job.schema).check
        for full_name, job in jobs.items()
        if job.validate
    }

    def check_all() -> None:
        deadline = time.monotonic() + LONGEST_CHECK_SECONDS
        for n, full_name in enumerate(asked.full_names):
            if full_name in checks:
                at = pointer_to("tasks", n, "payload")
                try:
                    _check_in_time(deadline, at)
                    size = len(asked.news[n].payload)
                    checks[full_name](asked.payloads[n], characters=size, at=at)
                except PayloadInvalid as error:
                    raise _Misfit(n, error) from None

    if checks:
        await to_thread.run_sync(check_all)


def _check_in_time(deadline: float, at: str) -> None:
    if time.monotonic() > deadline:
        message = "The payloads take too long to check; submit fewer tasks at once."
        raise PayloadInvalid(message, errors=(FieldError(at, message),))
