"""Registering jobs, and what a room sees of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from jobroom.domain import names, schemas
from jobroom.domain.records import Caller, Job, JobView
from jobroom.errors import FieldError, SchemaConflict
from jobroom.service import access
from jobroom.service import workers as crew
from jobroom.service.use_case import reads, writes
from jobroom.store import jobs
from jobroom.store.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Sequence


class JobSpec(NamedTuple):
    """What a registration says of a job. ``schema`` is JSON text, checked by the door."""

    category: str
    name: str
    schema: str = "{}"
    description: str | None = None
    max_attempts: int | None = None
    on_worker_lost: str = "fail"
    claim_order: str = "fifo"
    retry_delay_seconds: float | None = None
    timeout_seconds: float | None = None
    claim_timeout_seconds: float | None = None
    result_ttl_seconds: float | None = None
    validate: bool = True

    def policy(self) -> dict[str, Any]:
        """The columns of the row that a later registration may change at will."""
        attempts = self.max_attempts or (3 if self.on_worker_lost == "requeue" else 1)
        return {
            "description": self.description,
            "max_attempts": attempts,
            "on_worker_lost": self.on_worker_lost,
            "claim_order": self.claim_order,
            "retry_delay_seconds": self.retry_delay_seconds,
            "timeout_seconds": self.timeout_seconds,
            "claim_timeout_seconds": self.claim_timeout_seconds,
            "result_ttl_seconds": self.result_ttl_seconds,
            "validate": int(self.validate),
        }


class Registered(NamedTuple):
    """A registration's outcome; ``created`` also when a hidden job came back."""

    view: JobView
    worker_id: str
    created: bool


@writes
def register_job(
    tx: Transaction,
    *,
    caller: Caller,
    room_id: str,
    spec: JobSpec,
    worker_id: str | None = None,
    replace: bool = False,
) -> Registered:
    """Make a job known, or join it, and link the caller's worker to it.

    Raises InvalidRoomId, InvalidCategory, ValidationFailed, NotFound, Forbidden, WorkerNotFound
    and SchemaConflict (the schema differs and ``replace`` was not asked for).
    """
    names.check_room(room_id)
    names.check_category(spec.category, tx.settings.allowed_categories)
    names.check_name(spec.name)
    access.check_room(caller, room_id)
    access.check_admin_for_global(caller, room_id, "Registering a job")
    tx.serialize()
    if worker_id is not None:
        crew.check_owner(tx, caller, worker_id)
    found = jobs.get(tx, room_id=room_id, category=spec.category, name=spec.name)
    if found is not None and not found.hidden and not replace:
        _check_same_schema(found, spec)
    created = found is None or bool(found.hidden) or found.id == tx.token
    worker = crew.speak_for(tx, caller, worker_id, registering=True)
    if found is not None and found.hidden:
        # The worker may have slept: waking it has listed its jobs again, this one with them.
        found = jobs.get_by_seq(tx, found.seq)
    job = _add(tx, room_id, spec) if found is None else _update(tx, found, spec)
    jobs.link(tx, worker_id=worker.id, job_seq=job.seq)
    tx.joined.append((worker.id, job.seq, job.room_id))
    tx.claimable[job.seq] = None
    return Registered(job_view(tx, job), worker.id, created)


def _add(tx: Transaction, room_id: str, spec: JobSpec) -> Job:
    new = Job(
        seq=0,
        id=tx.token or names.new_uuid7(),
        room_id=room_id,
        category=spec.category,
        name=spec.name,
        schema=spec.schema,
        schema_version=1,
        version=1,
        hidden=0,
        created_at=tx.now,
        last_seen=None,
        **spec.policy(),
    )
    return jobs.add(tx, new)


def _update(tx: Transaction, found: Job, spec: JobSpec) -> Job:
    """Another description or policy: the last one wins. Another schema: a new version of it."""
    changed = found._replace(hidden=0, **spec.policy())
    same_schema = found.schema == spec.schema or _difference(found, spec) is None
    if not same_schema:
        changed = changed._replace(schema=spec.schema, schema_version=found.schema_version + 1)
    if changed == found:
        return found
    written = jobs.replace(tx, changed)
    if written is None:
        message = f"The job {found.full_name} was changed at the same moment; register again."
        raise SchemaConflict(message)
    if not same_schema:
        jobs.add_schema(tx, written)
    return written


def _check_same_schema(found: Job, spec: JobSpec) -> None:
    if found.schema == spec.schema:
        return
    pointer = _difference(found, spec)
    if pointer is None:
        return
    message = (
        f"The job {found.full_name} is registered with another schema; the first difference is"
        f' at {pointer or "the top"}. Register with "replace": true to move to the new one.'
    )
    raise SchemaConflict(message, errors=(FieldError(f"/schema{pointer}", "differs"),))


def _difference(found: Job, spec: JobSpec) -> str | None:
    return schemas.first_difference(json.loads(found.schema), json.loads(spec.schema))


@reads
def find_job(tx: Transaction, *, caller: Caller, room_id: str, full_name: str) -> Job:
    """The job of that name that the room sees: its own or a global one, hidden or not.

    Raises JobNotFound for a malformed name, another room's private job, and an unknown one.
    """
    access.check_sight_of_room(caller, room_id)
    parsed = names.parse_full_name(full_name)
    if parsed is None or parsed.room_id not in (room_id, names.GLOBAL_ROOM):
        raise access.job_not_found(full_name)
    job = jobs.get(tx, room_id=parsed.room_id, category=parsed.category, name=parsed.name)
    if job is None:
        raise access.job_not_found(full_name)
    return job


@reads
def show_job(tx: Transaction, *, caller: Caller, room_id: str, full_name: str) -> JobView:
    """A job with its live workers."""
    return job_view(tx, find_job(tx, caller=caller, room_id=room_id, full_name=full_name))


@reads
def list_jobs(
    tx: Transaction, *, caller: Caller, room_id: str, limit: int, offset: int = 0, after: int = 0
) -> tuple[list[JobView], int]:
    """The jobs that a room sees, in order of registration; with their total."""
    access.check_sight_of_room(caller, room_id)
    found = jobs.list_visible(tx, room_id=room_id, after=after, limit=limit, offset=offset)
    return _views(tx, found), jobs.count_visible(tx, room_id)


def job_view(tx: Transaction, job: Job) -> JobView:
    """A job beside its live workers and the last moment that any of its workers was seen."""
    return _views(tx, [job])[0]


def _views(tx: Transaction, found: Sequence[Job]) -> list[JobView]:
    after = crew.alive_after(tx)
    linked = jobs.workers_of(tx, [job.seq for job in found])
    return [_view(job, linked.get(job.seq, ()), after) for job in found]


def _view(job: Job, linked: Sequence[tuple[str, int, str]], after: int) -> JobView:
    alive = tuple(
        worker_id for worker_id, beat, state in linked if state == "active" and beat > after
    )
    seen = [beat for _, beat, _ in linked]
    if job.last_seen is not None:
        seen.append(job.last_seen)
    return JobView(job, alive, max(seen, default=None))
