"""The sweep leaves the embedded queue's room alone: its workers are processes, not rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from jobroom.domain.records import Caller, SweepReport
from jobroom.service import sweeping

HOLDER = "host:123"
DAY = 86_400


@pytest.fixture
def local(desk, alice, bob, rotate):
    """Makes a task of room @local that says so of itself; its id."""

    def make(**values):
        task = desk.submit(bob, rotate)
        told = {"room_id": "@local", **values}
        said = ", ".join(f"{name} = {value!r}" for name, value in told.items())
        desk.write(f"UPDATE task SET {said} WHERE id = '{task.id}'")  # noqa: S608 - our own values
        return task.id

    return make


@pytest.fixture
def running(local):
    """A task that a process runs, long overdue by any measure."""
    return local(
        status="running", worker_id=HOLDER, started_at=1, attempt=1, starts=1, timeout_seconds=1
    )


def rows(desk):
    return desk.read("SELECT id, status, worker_id, version FROM task ORDER BY seq")


def sweep_for_days(desk):
    """Sweeps that judge, for some days."""
    done = []
    for _ in range(5):
        desk.wait(60)
        done.append(desk.sweep())
    return [report._replace(hidden_jobs=0, lost_workers=0) for report in done]


def test_what_a_process_runs_survives_any_number_of_sweeps(desk, running) -> None:
    """Contract, *embedded*: the sweep's steps about workers leave @local alone."""
    before = rows(desk)
    assert set(sweep_for_days(desk)) == {SweepReport()}
    assert rows(desk) == before


@pytest.mark.parametrize("status", ["claimed", "running"])
def test_its_timeout_is_for_the_process_to_see(desk, local, status) -> None:
    local(status=status, worker_id=HOLDER, attempt=1, due_at=1)
    before = rows(desk)
    assert set(sweep_for_days(desk)) == {SweepReport()}
    assert rows(desk) == before


def test_a_worker_that_is_called_like_the_process_takes_nothing_along(desk, running) -> None:
    """An identity may be spelled like a process; its worker is lost, and deleted, alone."""
    stranger = Caller(HOLDER)
    desk.job(stranger)
    before = rows(desk)
    desk.wait(61)
    report = desk.sweep()
    assert (report.lost_workers, report.failed_tasks, report.requeued_tasks) == (2, 0, 0)
    assert rows(desk) == before
    desk.leave(stranger)
    assert rows(desk) == before


def test_an_expiry_counts_there_too(desk, local) -> None:
    """``expires_at`` is said by whoever made it."""
    late = local(expires_at=1, due_at=1)
    local()
    assert desk.sweep().expired_tasks == 1
    assert [row[:2] for row in rows(desk) if row[1] == "failed"] == [(late, "failed")]


def test_what_has_ended_there_is_kept(desk, local) -> None:
    """Retention: what the embedded queue keeps is its owner's to remove."""
    local(status="completed", completed_at=1, due_at=1)
    desk.wait(1)
    assert desk.sweep().removed_tasks == 0
    assert len(rows(desk)) == 1


@pytest.mark.only_on("sqlite")
def test_what_is_damaged_there_is_left_to_its_queue(desk, local, settings) -> None:
    """Rows in no state that there is, which only a file can have."""
    damaged = local()
    with closing(sqlite3.connect(settings.database_url.removeprefix("sqlite:///"))) as store:
        store.execute("PRAGMA ignore_check_constraints = ON")
        store.execute("UPDATE task SET status = 'lost' WHERE id = ?", (damaged,))
        store.commit()
    before = rows(desk)
    assert desk.queue.run(sweeping.fail_unreachable).failed_tasks == 0
    assert rows(desk) == before
