"""Job rows, the versions of their schemas, and the links between workers and jobs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, exists, func, insert, or_, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.domain.records import Job
from jobroom.store import bounds, chunks
from jobroom.store.schema import job, job_schema, task, worker, worker_job_link
from jobroom.store.statement import Statement, literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobroom.store.transaction import Transaction

_COLUMNS = [c for c in job.c if c.name != "seq"]
_POLICY = (
    "description",
    "max_attempts",
    "on_worker_lost",
    "claim_order",
    "retry_delay_seconds",
    "timeout_seconds",
    "claim_timeout_seconds",
    "result_ttl_seconds",
    "validate",
)

_BY_NAME = Statement(
    select(job).where(
        job.c.room_id == bindparam("room_id"),
        job.c.category == bindparam("category"),
        job.c.name == bindparam("name"),
    )
)
_BY_SEQ = Statement(select(job).where(job.c.seq == bindparam("seq")))


def get(tx: Transaction, *, room_id: str, category: str, name: str) -> Job | None:
    """Find a job by its name."""
    row = tx.row(_BY_NAME, room_id=room_id, category=category, name=name)
    return None if row is None else Job._make(row)


def get_by_seq(tx: Transaction, seq: int) -> Job | None:
    """Find a job by its number."""
    row = tx.row(_BY_SEQ, seq=seq)
    return None if row is None else Job._make(row)


_INSERT = Statement(
    insert(job).values({c.name: bindparam(c.name) for c in _COLUMNS}).returning(*job.c)
)


def add(tx: Transaction, new: Job) -> Job:
    """Insert a job; its ``seq`` is given by the store."""
    values = new._asdict()
    del values["seq"]
    added = Job._make(tx.returning(_INSERT, **values)[0])
    add_schema(tx, added)
    return added


_UPDATE = Statement(
    update(job)
    .where(job.c.seq == bindparam("key"), job.c.version == bindparam("expect"))
    .values(
        {
            **{name: bindparam(name) for name in (*_POLICY, "schema", "schema_version", "hidden")},
            "version": job.c.version + literal(1),
        }
    )
    .returning(*job.c)
)


def replace(tx: Transaction, changed: Job) -> Job | None:
    """Write schema, policy and visibility if the row is still at ``changed.version``."""
    values = {name: getattr(changed, name) for name in _POLICY}
    rows = tx.returning(
        _UPDATE,
        key=changed.seq,
        expect=changed.version,
        schema=changed.schema,
        schema_version=changed.schema_version,
        hidden=changed.hidden,
        **values,
    )
    return Job._make(rows[0]) if rows else None


_ADD_SCHEMA = Statement(
    insert(job_schema).values(
        job_seq=bindparam("seq"), version=bindparam("schema_version"), schema=bindparam("schema")
    )
)


def add_schema(tx: Transaction, of: Job) -> None:
    """Keep this version of the job's schema for the tasks that are checked by it."""
    tx.later(_ADD_SCHEMA, seq=of.seq, schema_version=of.schema_version, schema=of.schema)


_LINK = Statement(
    upsert(worker_job_link)
    .values(worker_id=bindparam("worker_id"), job_seq=bindparam("job_seq"))
    .on_conflict_do_nothing()
)


def link(tx: Transaction, *, worker_id: str, job_seq: int) -> None:
    """Join a worker to a job; a second time changes nothing."""
    tx.later(_LINK, worker_id=worker_id, job_seq=job_seq)


_UNLINK = Statement(
    delete(worker_job_link)
    .where(worker_job_link.c.worker_id == bindparam("worker_id"))
    .returning(worker_job_link.c.job_seq)
)


def unlink_all(tx: Transaction, worker_id: str) -> list[int]:
    """Take a worker from all its jobs; return their numbers."""
    return [row[0] for row in tx.returning(_UNLINK, worker_id=worker_id)]


_LINKED = Statement(
    select(worker_job_link.c.job_seq).where(worker_job_link.c.worker_id == bindparam("worker_id"))
)


_LINKED_IN_ROOMS = Statement(
    select(worker_job_link.c.job_seq).where(*bounds.links_of_worker(worker_job_link, bound=True))
)


def linked_to(tx: Transaction, worker_id: str, *, rooms: str | None = None) -> list[int]:
    """The numbers of the jobs that a worker serves; of those of these rooms (a JSON array)."""
    statement = _LINKED if rooms is None else _LINKED_IN_ROOMS
    return [row[0] for row in tx.rows(statement, worker_id=worker_id, rooms=rooms)]


@cache
def _workers_of(count: int) -> Statement:
    seqs = [bindparam(f"id_{n}", type_=job.c.seq.type) for n in range(count)]
    return Statement(
        select(worker_job_link.c.job_seq, worker.c.id, worker.c.last_heartbeat, worker.c.state)
        .select_from(worker_job_link.join(worker, worker.c.id == worker_job_link.c.worker_id))
        .where(worker_job_link.c.job_seq.in_(seqs))
        .order_by(worker.c.id)
    )


def workers_of(tx: Transaction, job_seqs: Iterable[int]) -> dict[int, list[tuple[str, int, str]]]:
    """The workers linked to each of these jobs: (id, last heartbeat, state), by id."""
    found: dict[int, list[tuple[str, int, str]]] = {}
    for count, named in chunks.of_ids(job_seqs):
        for seq, *linked in tx.rows(_workers_of(count), **named):
            found.setdefault(seq, []).append((linked[0], linked[1], linked[2]))
    return found


_SEEN = Statement(
    update(job)
    .where(
        job.c.seq == bindparam("key"),
        or_(job.c.last_seen.is_(None), job.c.last_seen < bindparam("at")),
    )
    .values(last_seen=bindparam("at"))
)


def note_seen(tx: Transaction, *, job_seq: int, at: int) -> None:
    """Remember when a worker of the job that is gone now was last alive."""
    tx.later(_SEEN, key=job_seq, at=at)


_VISIBLE = (
    or_(job.c.room_id == bindparam("room_id"), job.c.room_id == literal("@global")),
    job.c.hidden == literal(0),
)
_LIST = Statement(
    select(job)
    .where(*_VISIBLE, job.c.seq > bindparam("after"))
    .order_by(job.c.seq)
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)
_COUNT = Statement(select(func.count()).select_from(job).where(*_VISIBLE))


def list_visible(
    tx: Transaction, *, room_id: str, after: int, limit: int, offset: int
) -> list[Job]:
    """The jobs that a room sees: its own and the global ones, in order of registration."""
    rows = tx.rows(_LIST, room_id=room_id, after=after, limit=limit, offset=offset)
    return [Job._make(row) for row in rows]


def count_visible(tx: Transaction, room_id: str) -> int:
    """How many jobs a room sees."""
    return int(tx.rows(_COUNT, room_id=room_id)[0][0])


def _has_task(*statuses: str) -> list[object]:
    # One probe of the index per status: an OR over them would not be searched.
    return [
        exists(
            select(literal(1)).where(
                task.c.job_seq == job.c.seq,
                # Not its equal: PostgreSQL may read the index of all that is blocked, of any job.
                task.c.status.between(literal(status), literal(status)),
            )
        )
        for status in statuses
    ]


_UNUSED = (
    job.c.hidden == literal(0),
    job.c.room_id != literal("@local"),
    ~exists(
        select(literal(1))
        .select_from(worker_job_link.join(worker, worker.c.id == worker_job_link.c.worker_id))
        .where(worker_job_link.c.job_seq == job.c.seq, worker.c.state == literal("active"))
    ),
    *(~condition for condition in _has_task("blocked", "pending", "claimed", "running")),  # type: ignore[operator]  # exists() is an operand of ~
)
_HIDE = Statement(
    update(job)
    .where(job.c.seq == bindparam("key"), *_UNUSED)
    .values(hidden=literal(1), version=job.c.version + literal(1))
)
_ORPHANS = Statement(select(job.c.seq).where(*_UNUSED).limit(bindparam("limit")))


_LOCK = Statement(select(job.c.seq).where(job.c.seq == bindparam("key")).with_for_update())


def hide_if_orphan(tx: Transaction, seq: int) -> bool:
    """Hide a job that has neither a live worker nor an unfinished task."""
    tx.serialize()
    tx.lock(_LOCK, key=seq)  # a submission that is on its way is seen, or finds the job hidden
    return tx.change(_HIDE, key=seq) > 0


def list_orphans(tx: Transaction, *, limit: int) -> list[int]:
    """Jobs with neither a live worker nor an unfinished task, still listed."""
    return [row[0] for row in tx.rows(_ORPHANS, limit=limit)]


_shown = (
    update(job)
    .where(job.c.seq == bindparam("key"), job.c.hidden == literal(1))
    .values(hidden=literal(0), version=job.c.version + literal(1))
)
_SHOW = Statement(_shown.returning(*job.c))
_SHOW_TOO = Statement(_shown)


def show_too(tx: Transaction, seqs: Iterable[int]) -> None:
    """As ``show``, along with other statements."""
    for seq in seqs:
        tx.later(_SHOW_TOO, key=seq)


def show(tx: Transaction, seq: int) -> Job | None:
    """List a hidden job again; None if it was not hidden."""
    rows = tx.returning(_SHOW, key=seq)
    return Job._make(rows[0]) if rows else None
