"""Gauges of the queue: how much waits, where, and for how long."""

from __future__ import annotations

from typing import NamedTuple

from jobroom.domain.records import MICROSECONDS
from jobroom.service.use_case import reads
from jobroom.store import gauges
from jobroom.store.transaction import Transaction


class Backlog(NamedTuple):
    """What waits for one job in one room; ``oldest_seconds`` None: nothing is claimable.

    A task is as old as its submission, or as the ``run_at`` that it waited for.
    """

    room_id: str
    job_name: str
    pending: int
    delayed: int
    oldest_seconds: float | None


class Gauges(NamedTuple):
    """The store's gauges. ``others``: claimable tasks of the pairs that are not told singly."""

    backlogs: list[Backlog]
    others: int
    pending: int
    delayed: int
    blocked: int
    held: int
    oldest_seconds: float


@reads
def read_gauges(tx: Transaction) -> Gauges:
    """Read them, in a time that does not grow with the store."""
    groups, has_more = gauges.read_groups(tx)
    totals = gauges.read_totals(tx)
    backlogs = [
        Backlog(
            each.room_id,
            each.job_name,
            each.ready,
            each.delayed,
            None if each.since is None else max(0.0, (tx.now - each.since) / MICROSECONDS),
        )
        for each in groups
    ]
    told = sum(each.pending for each in backlogs)
    return Gauges(
        backlogs=backlogs,
        others=max(0, totals.ready - told) if has_more else 0,
        pending=totals.ready,
        delayed=totals.delayed,
        blocked=totals.blocked,
        held=totals.held,
        oldest_seconds=max((each.oldest_seconds or 0.0 for each in backlogs), default=0.0),
    )
