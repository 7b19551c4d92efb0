"""A look at the database for whoever runs it: is it there, ours, writable, whole, and how far."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobroom.errors import ConfigurationError, StoreUnavailable
from jobroom.service import health, scheduling
from jobroom.service.queue import JobQueue
from jobroom.service.use_case import reads
from jobroom.store import dialect, migrate, soundness

if TYPE_CHECKING:
    from jobroom.settings import JobLibSettings
    from jobroom.store.dialect import Database
    from jobroom.store.transaction import Transaction

ROUNDS = 5


@dataclass
class Inspection:
    """What was found; ``faults`` are sentences on what is wrong, none where all is well."""

    database: str
    server: str
    schema: str | None
    wanted_schema: str = migrate.HEAD
    write_milliseconds: float | None = None
    round_trip_milliseconds: float | None = None
    clock_milliseconds: float | None = None
    """How far the store's clock is ahead of this host's; None where it is this host's."""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    counts_are_bounded: bool = False
    checked: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def inspect(settings: JobLibSettings) -> Inspection:
    """Look at the database and change nothing but the one row that a health check writes.

    Raises ConfigurationError where it cannot be opened at all.
    """
    database = dialect.open_database(settings)
    try:
        schema = migrate.current(database)
        found = Inspection(database.location, soundness.server_of(database), schema)
        found.faults += soundness.damages(database)
        at_hand = database.is_at_hand
    finally:
        database.close()
    if at_hand:
        found.checked.append("pages")
    if schema != migrate.HEAD:
        found.faults.append(_outdated(database, schema))
        return found
    if found.faults:
        return found  # what lies in a damaged file is not worth counting
    with JobQueue.open(settings) as queue:
        _try_writing(queue, found)
        found.round_trip_milliseconds, lead = _measure(queue)
        found.clock_milliseconds = None if at_hand else lead
        found.counts, found.counts_are_bounded = queue.run(_count)
        found.faults += queue.run(_orphans)
        found.checked.append("references")
        found.faults += queue.run(_tangles)
        found.checked.append("dependencies")
        found.faults += queue.run(scheduling.damaged)
        found.checked.append("schedules")
    return found


def _outdated(database: Database, schema: str | None) -> str:
    try:
        migrate.check_known(database, schema)
    except ConfigurationError as error:
        return str(error)
    state = "holds no queue yet" if schema is None else f"has schema {schema}"
    return f"It {state}, this jobroom wants {migrate.HEAD}: run jobroom db upgrade."


def _try_writing(queue: JobQueue, found: Inspection) -> None:
    began = time.perf_counter()
    try:
        queue.run(health.check_writable)
    except StoreUnavailable:
        found.faults.append(f"It cannot be written: {queue.database.advice}.")
    else:
        found.write_milliseconds = _milliseconds(time.perf_counter() - began)


def _measure(queue: JobQueue) -> tuple[float, float]:
    """Ask for the time, which was told half a round trip ago: the round trip, and their lead."""
    trips, leads = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        theirs = queue.run(_clock)
        trips.append(time.perf_counter() - began)
        leads.append(theirs / 1e6 + trips[-1] / 2 - time.time())
    return _milliseconds(statistics.median(trips)), _milliseconds(statistics.median(leads))


@reads
def _clock(tx: Transaction) -> int:
    return tx.now


@reads
def _count(tx: Transaction) -> tuple[dict[str, dict[str, int]], bool]:
    return soundness.count(tx)


@reads
def _orphans(tx: Transaction) -> list[str]:
    return soundness.orphans(tx)


@reads
def _tangles(tx: Transaction) -> list[str]:
    return soundness.tangles(tx)


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
