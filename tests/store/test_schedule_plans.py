"""What a sweep and a list ask of schedules searches an index, however many there are."""

from __future__ import annotations

import pytest

from jobroom.domain.records import Caller
from jobroom.service import registration, scheduling
from jobroom.service.queue import JobQueue
from jobroom.service.standing import StandingTask
from jobroom.store import schedules
from jobroom.store.statement import Statement
from jobroom.store.transaction import Transaction

PLANS: dict[str, tuple[Statement, str]] = {
    "due": (schedules.DUE, "schedule USING INDEX ix_schedule_due (next_at<?)"),
    "by name": (schedules._BY_NAME, "sqlite_autoindex_schedule_2 (room_id=? AND name=?)"),
    "page": (schedules._PAGE, "sqlite_autoindex_schedule_2 (room_id=? AND name>?)"),
    "count": (schedules._COUNT, "sqlite_autoindex_schedule_2 (room_id=?)"),
    "replace": (schedules._REPLACE, "USING INTEGER PRIMARY KEY (rowid=?)"),
    "advance": (schedules._ADVANCE, "USING INTEGER PRIMARY KEY (rowid=?)"),
    "remove": (schedules._REMOVE, "USING INTEGER PRIMARY KEY (rowid=?)"),
}


@pytest.fixture
def populated(queue: JobQueue) -> JobQueue:
    """A queue with two hundred schedules, half of which are paused."""

    def fill(tx: Transaction) -> None:
        alice = Caller("alice")
        for number in range(30):
            spec = registration.JobSpec("modifiers", f"Job{number}")
            job = registration.register_job(tx, caller=alice, room_id="r1", spec=spec).view.job
        for number in range(200):
            wanted = scheduling.ScheduleSpec(
                f"n{number}", StandingTask(), every_seconds=60.0, paused=bool(number % 2)
            )
            scheduling.put_schedule(tx, caller=alice, room_id="r1", job=job, spec=wanted)

    queue.run(fill)
    return queue


@pytest.mark.only_on("sqlite")
def test_statements_of_schedules_search_and_sort_nothing(populated: JobQueue) -> None:
    """Design, *Cost that does not grow*."""
    connection = populated.writer._connection
    for analysed in (False, True):
        if analysed:
            populated.run(lambda _: connection.execute("ANALYZE"))
        for name, (statement, wanted) in PLANS.items():
            text = statement.compiled(populated.database.spelling).text
            rows = connection.execute(
                f"EXPLAIN QUERY PLAN {text}", (1,) * text.count("?")
            ).fetchall()
            plan = "\n".join(row[3] for row in rows)
            assert wanted in plan, f"{name}: {plan}"
            assert "SCAN" not in plan, f"{name}: {plan}"
            assert "TEMP B-TREE" not in plan, f"{name}: {plan}"
