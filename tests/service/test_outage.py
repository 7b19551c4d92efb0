"""After an outage nobody is failed for having been silent (C12; contract, *Losing a worker*)."""

from __future__ import annotations

import pytest

from jobroom.service import sweeping
from jobroom.service.queue import JobQueue


@pytest.fixture
def running(desk, alice, bob, rotate):
    """A task that alice runs, and a sweep that has just come to its end."""
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    assert desk.sweep().judged
    return task


def test_the_first_sweep_of_a_new_store_judges_at_once(desk, alice, bob, rotate) -> None:
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    desk.wait(10_000)
    assert desk.sweep().judged
    assert desk.get(bob, task).status == "failed"


def test_the_first_sweep_after_an_outage_fails_nobody(desk, bob, running) -> None:
    """C12: the last finished sweep lies more than 3 x the interval back."""
    desk.wait(180)
    report = desk.sweep()
    assert (report.judged, report.lost_workers, report.failed_tasks) == (False, 0, 0)
    assert desk.get(bob, running).status == "running"


def test_a_pause_of_three_intervals_is_no_outage(desk, bob, running) -> None:
    desk.wait(89)
    assert desk.sweep().judged
    assert desk.get(bob, running).status == "failed"


def test_sweeps_within_one_worker_timeout_of_the_outage_fail_nobody(desk, bob, running) -> None:
    desk.wait(180)
    desk.sweep()
    desk.wait(30)
    assert not desk.sweep().judged
    desk.wait(29)
    assert not desk.sweep().judged
    assert desk.get(bob, running).status == "running"


def test_a_sweep_one_worker_timeout_later_judges_as_usual(desk, bob, running) -> None:
    desk.wait(180)
    desk.sweep()
    desk.wait(61)
    report = desk.sweep()
    assert (report.judged, report.lost_workers) == (True, 1)
    assert desk.get(bob, running).status == "failed"


def test_a_worker_that_beats_again_after_the_outage_keeps_its_task(
    desk, alice, bob, running
) -> None:
    desk.wait(180)
    desk.sweep()
    for _ in range(4):
        desk.wait(30)
        desk.beat(alice)
        desk.sweep()
    assert desk.report(alice, running, "completed").status == "completed"


def test_a_schedule_slower_than_the_setting_says_still_judges(desk, bob, running) -> None:
    """Contract: the *next* sweep at least one worker timeout later judges, however late."""
    judged = []
    for _ in range(4):
        desk.wait(500)
        judged.append(desk.sweep().judged)
    assert judged == [False, True, False, True]
    assert desk.get(bob, running).status == "failed"


def test_the_last_sweep_is_remembered_by_the_store(desk, bob, running, settings) -> None:
    """Another process, or the next call of a scheduled function, knows of it."""
    offset = desk.queue.clock_offset + 180_000_000
    with JobQueue.open(settings, clock_offset=offset) as other:
        assert not other.sweep().judged
    assert desk.get(bob, running).status == "running"


def test_nothing_times_out_or_expires_after_an_outage_either(desk, alice, bob) -> None:
    """Contract: this sweep fails nobody."""
    job = desk.job(alice, timeout_seconds=5)
    running = desk.submit(bob, job)
    desk.run_one(alice)
    waiting = desk.submit(bob, job, expires_at=desk.soon(5))
    desk.sweep()
    desk.wait(180)
    desk.sweep()
    assert desk.get(bob, running).status == "running"
    assert desk.get(bob, waiting).status == "pending"


def test_an_interval_of_zero_knows_no_outage(settings, alice) -> None:
    """Where nobody sweeps by schedule, there is no lateness to tell an outage by."""
    by_hand = settings.model_copy(update={"sweeper_interval_seconds": 0.0})
    with JobQueue.open(by_hand) as queue:
        assert queue.sweep().judged
        queue.clock_offset += 10_000_000_000
        assert queue.sweep().judged


def test_a_worker_whose_clock_was_set_back_is_lost_one_timeout_later(desk, alice, bob, rotate):
    """Case C05: after a jump of the host's clock nothing is lost for ever."""
    desk.wait(600)
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    desk.wait(-600)
    assert desk.sweep().lost_workers == 0
    desk.wait(61)
    assert desk.sweep().lost_workers == 1
    assert desk.get(bob, task).status == "failed"


def test_a_grace_does_not_outlast_a_clock_that_is_set_back(desk, alice, bob, rotate):
    """Case C05: the grace after an outage is one worker timeout, whatever the clock does."""
    desk.submit(bob, rotate)
    desk.run_one(alice)
    desk.sweep()
    desk.wait(7200)
    assert not desk.sweep().judged
    desk.wait(-7200)
    assert not desk.sweep().judged
    desk.wait(61)
    assert desk.sweep().judged


def test_a_claim_after_the_clock_was_set_back_is_a_heartbeat_of_its_time(desk, alice):
    """Contract, *Workers*: a claim counts as a heartbeat."""
    desk.wait(600)
    desk.claim(alice)
    desk.wait(-600)
    desk.claim(alice)
    desk.wait(61)
    assert desk.sweep().lost_workers == 1


@pytest.mark.parametrize(
    "step", [sweeping.lose_workers, sweeping.remove_old, sweeping.finish_sweep]
)
def test_an_outage_in_the_middle_of_a_sweep_fails_nobody(desk, alice, running, monkeypatch, step):
    """C12: the file is locked, the process frozen, in the middle of a sweep."""
    run = desk.queue.run

    def away(use_case, *args, **kwargs):
        if use_case is step:
            desk.wait(180)
        return run(use_case, *args, **kwargs)

    monkeypatch.setattr(desk.queue, "run", away)
    report = desk.queue.sweep()
    assert (report.lost_workers, report.failed_tasks) == (0, 0)
    monkeypatch.undo()
    assert not desk.sweep().judged
    desk.beat(alice)
    desk.wait(30)
    assert not desk.sweep().judged
    assert desk.report(alice, running, "completed").status == "completed"
