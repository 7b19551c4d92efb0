"""Claiming: what a worker gets, in which order, and what it never gets."""

from __future__ import annotations

import pytest

from jobroom.errors import StoreUnavailable
from jobroom.service import claiming


def ids(tasks):
    return [task.id for task in tasks]


# --- order ------------------------------------------------------------------------------------


def test_tasks_are_claimed_first_in_first_out(desk, alice, bob, rotate) -> None:
    """Contract, *Tasks*: highest priority first, then oldest; times of one moment are equal."""
    submitted = [desk.submit(bob, rotate) for _ in range(20)]
    claimed = [desk.claim_one(alice) for _ in range(20)]
    assert ids(claimed) == ids(submitted)


def test_the_order_is_a_sequence_number_never_a_clock(desk, alice, bob, rotate) -> None:
    first = desk.submit(bob, rotate)
    desk.wait(-3600)
    second = desk.submit(bob, rotate)
    assert second.created_at < first.created_at
    assert ids(desk.claim(alice, limit=2)) == [first.id, second.id]


def test_between_jobs_too_the_order_is_no_clock(desk, alice, bob, rotate) -> None:
    other = desk.job(alice, "Other")
    first = desk.submit(bob, rotate)
    desk.wait(-3600)
    second = desk.submit(bob, other)
    assert ids(desk.claim(alice, limit=2)) == [first.id, second.id]


def test_a_higher_priority_goes_first(desk, alice, bob, rotate) -> None:
    low = desk.submit(bob, rotate, priority=-5)
    plain = desk.submit(bob, rotate)
    high = desk.submit(bob, rotate, priority=5)
    assert ids(desk.claim(alice, limit=3)) == [high.id, plain.id, low.id]


def test_between_jobs_priority_decides_then_the_sequence(desk, alice, bob, rotate) -> None:
    """Rules, *Claim*: between jobs of one worker, also for fair jobs."""
    other = desk.job(alice, "Other", claim_order="fair")
    first = desk.submit(bob, other)
    second = desk.submit(bob, rotate)
    third = desk.submit(bob, other)
    urgent = desk.submit(bob, rotate, priority=1)
    claimed = desk.claim(alice, limit=4)
    assert ids(claimed) == [urgent.id, first.id, second.id, third.id]


def test_a_worker_claims_only_for_the_jobs_it_is_linked_to(desk, alice, bob, rotate) -> None:
    desk.submit(bob, rotate)
    desk.job(bob, "Other")
    assert desk.claim(bob) == []


def test_a_global_job_is_claimed_for_every_room(desk, admin, bob) -> None:
    job = desk.job(admin, room_id="@global")
    desk.submit(bob, job, room_id="r7")
    assert desk.claim_one(admin).room_id == "r7"


# --- fair jobs --------------------------------------------------------------------------------


@pytest.fixture
def fair(desk, admin):
    return desk.job(admin, room_id="@global", claim_order="fair")


def rooms_of(desk, admin, limit):
    return "".join(task.room_id for task in desk.claim(admin, limit=limit))


def submit_in(desk, bob, job, rooms, **new):
    for room_id in rooms:
        desk.submit(bob, job, room_id=room_id, **new)


def test_a_rooms_first_task_is_served_within_the_next_two_claims(desk, admin, bob, fair) -> None:
    """C33: however much another room has queued."""
    submit_in(desk, bob, fair, "a" * 200)
    rooms_of(desk, admin, 50)
    submit_in(desk, bob, fair, "b")
    assert "b" in rooms_of(desk, admin, 2)


def test_rooms_take_turns(desk, admin, bob, fair) -> None:
    submit_in(desk, bob, fair, "aaaabbc")
    assert rooms_of(desk, admin, 7) == "abcabaa"


def test_a_room_that_was_served_much_does_not_starve_after_a_drain(desk, admin, bob, fair) -> None:
    """Rules, *Claim*: with nothing pending start from the job's greatest ``next``."""
    submit_in(desk, bob, fair, "aaaaa")
    rooms_of(desk, admin, 5)
    submit_in(desk, bob, fair, "bbba")
    assert rooms_of(desk, admin, 4) == "babb"


def test_a_room_does_not_save_up_turns_while_it_is_away(desk, admin, bob, fair) -> None:
    """Rules, *Claim*: a turn is never before the one of the job's head."""
    submit_in(desk, bob, fair, "aaaa")
    rooms_of(desk, admin, 3)
    submit_in(desk, bob, fair, "bbaa")
    assert rooms_of(desk, admin, 5) == "abbaa"


def test_fairness_holds_inside_one_priority(desk, admin, bob, fair) -> None:
    submit_in(desk, bob, fair, "aab")
    submit_in(desk, bob, fair, "cc", priority=1)
    assert rooms_of(desk, admin, 5) == "ccaba"


def test_turns_of_one_job_do_not_concern_another(desk, admin, bob, fair) -> None:
    other = desk.job(admin, "Other", room_id="@global", claim_order="fair")
    submit_in(desk, bob, fair, "aaaa")
    submit_in(desk, bob, other, "b")
    assert desk.submit(bob, other, room_id="a").turn == 0


# --- what is claimable ------------------------------------------------------------------------


def test_nothing_claimable_is_an_empty_list(desk, alice, rotate) -> None:
    assert desk.claim(alice) == []


def test_no_task_goes_to_two_claims(desk, alice, bob, rotate) -> None:
    """Contract, *Tasks*: never the same task to two claims."""
    worker = desk.worker(alice)
    desk.job(alice, worker_id=worker)
    desk.submit(bob, rotate)
    assert len(desk.claim(alice) + desk.claim(alice, worker)) == 1


def test_limit_returns_what_is_there(desk, alice, bob, rotate) -> None:
    """Rules, *Claim*: never waits to fill."""
    for _ in range(3):
        desk.submit(bob, rotate)
    assert len(desk.claim(alice, limit=2)) == 2
    assert len(desk.claim(alice, limit=2)) == 1


def test_a_claim_says_who_holds_the_task_and_until_when(desk, alice, bob, rotate) -> None:
    desk.submit(bob, rotate)
    [view] = desk.queue.run(claiming.claim_tasks, caller=alice)
    task = view.task
    assert (task.status, task.worker_id, task.attempt, task.starts) == ("claimed", "alice", 1, 0)
    assert task.claimed_at is not None
    assert view.lease_expires_at == task.claimed_at + 60_000_000


def test_each_claim_raises_the_attempt_by_one(desk, alice, bob, rotate) -> None:
    """Contract, *Losing a worker*: ``attempt`` only ever rises, by one with each claim."""
    task = desk.submit(bob, rotate)
    attempts = []
    for _ in range(3):
        attempts.append(desk.claim_one(alice).attempt)
        desk.report(alice, task, "pending")
    assert attempts == [1, 2, 3]


def test_start_goes_straight_to_running(desk, alice, bob, rotate) -> None:
    """Contract, *Tasks*: ``start``: straight to running."""
    desk.submit(bob, rotate)
    task = desk.run_one(alice)
    assert (task.status, task.starts) == ("running", 1)
    assert task.started_at == task.claimed_at


def test_a_delayed_task_is_claimable_from_its_time_on(desk, alice, bob, rotate) -> None:
    """Rules, *Time fields*: ``run_at`` reads ``pending``, claimable from then on."""
    task = desk.submit(bob, rotate, run_at=desk.soon(10))
    assert task.status == "pending"
    assert desk.claim(alice) == []
    desk.wait(10)
    assert desk.claim_one(alice).id == task.id


def test_a_delayed_task_does_not_hold_up_the_others(desk, alice, bob, rotate) -> None:
    desk.submit(bob, rotate, run_at=desk.soon(10))
    other = desk.submit(bob, rotate)
    assert desk.claim_one(alice).id == other.id


def test_a_due_task_keeps_its_place_by_sequence(desk, alice, bob, rotate) -> None:
    early = desk.submit(bob, rotate, run_at=desk.soon(10))
    desk.submit(bob, rotate)
    desk.wait(11)
    assert desk.claim_one(alice).id == early.id


def test_an_expired_head_is_failed_and_the_next_one_claimed(desk, alice, bob, rotate) -> None:
    """Rules, *Time fields*: an expired head is never handed out."""
    expired = [desk.submit(bob, rotate, expires_at=desk.soon(5)) for _ in range(3)]
    good = desk.submit(bob, rotate)
    desk.wait(5)
    assert desk.claim_one(alice).id == good.id
    for task in expired:
        ended = desk.get(bob, task)
        assert ended.status == "failed"
        assert "expired" in ended.error
        assert ended.attempt == 0


def test_a_task_that_has_not_expired_is_claimed(desk, alice, bob, rotate) -> None:
    task = desk.submit(bob, rotate, expires_at=desk.soon(50))
    assert desk.claim_one(alice).id == task.id


def test_expired_heads_of_all_jobs_are_cleared_before_the_answer(desk, alice, bob, rotate) -> None:
    other = desk.job(alice, "Other")
    for job in (rotate, other):
        desk.submit(bob, job, expires_at=desk.soon(5), priority=1)
    good = desk.submit(bob, other)
    desk.wait(5)
    assert desk.claim_one(alice).id == good.id


def test_a_claim_clears_away_a_bounded_number_and_says_so(
    desk, alice, bob, rotate, monkeypatch
) -> None:
    """Rules, *Time fields*: a bounded number; contract: never a false ``null``."""
    monkeypatch.setattr(claiming, "MOST_SKIPPED", 2)
    for _ in range(3):
        desk.submit(bob, rotate, expires_at=desk.soon(5))
    good = desk.submit(bob, rotate)
    desk.wait(5)
    with pytest.raises(StoreUnavailable, match="claim again"):
        desk.claim(alice)
    assert desk.claim_one(alice).id == good.id


def test_a_claim_that_has_something_stops_clearing_away(
    desk, alice, bob, rotate, monkeypatch
) -> None:
    monkeypatch.setattr(claiming, "MOST_SKIPPED", 2)
    good = desk.submit(bob, rotate)
    for _ in range(5):
        desk.submit(bob, rotate, expires_at=desk.soon(5))
    desk.wait(5)
    assert ids(desk.claim(alice, limit=100)) == [good.id]
    assert desk.list(bob, statuses=("failed",))[1] == 2


def test_many_due_tasks_that_have_expired_do_not_hide_a_good_one(
    desk, alice, bob, rotate, monkeypatch
) -> None:
    """Contract: ``null`` only if nothing was claimable at that moment."""
    monkeypatch.setattr(claiming, "PROMOTED", 2)
    for _ in range(5):
        desk.submit(bob, rotate, run_at=desk.soon(1), expires_at=desk.soon(5))
    good = desk.submit(bob, rotate, run_at=desk.soon(2))
    desk.wait(6)
    assert desk.claim_one(alice).id == good.id


# --- repeating a claim ------------------------------------------------------------------------


def test_repeating_a_request_id_gives_the_same_tasks_again(desk, alice, bob, rotate) -> None:
    """Contract, *Tasks*, C11: repeating the request after a lost answer."""
    for _ in range(3):
        desk.submit(bob, rotate)
    first = desk.claim(alice, request_id="x", limit=2)
    again = desk.claim(alice, request_id="x", limit=2)
    assert ids(again) == ids(first)
    assert [task.attempt for task in again] == [1, 1]


def test_another_request_id_gives_another_task(desk, alice, bob, rotate) -> None:
    for _ in range(2):
        desk.submit(bob, rotate)
    first = desk.claim_one(alice, request_id="x")
    assert desk.claim_one(alice, request_id="y").id != first.id


def test_a_request_id_belongs_to_its_worker(desk, alice, bob, rotate) -> None:
    worker = desk.worker(alice)
    desk.job(alice, worker_id=worker)
    desk.submit(bob, rotate)
    desk.claim_one(alice, request_id="x")
    assert desk.claim(alice, worker, request_id="x") == []


def test_a_request_id_is_forgotten_with_the_hold(desk, alice, bob, rotate) -> None:
    task = desk.submit(bob, rotate)
    desk.claim_one(alice, request_id="x")
    desk.report(alice, task, "pending")
    assert desk.claim_one(alice, request_id="x").attempt == 2


# --- claims that never start ------------------------------------------------------------------


def test_after_ten_claims_without_a_start_the_task_fails_and_says_so(desk, alice, bob) -> None:
    """Contract, *Losing a worker*; a claim that never started leaves ``starts`` alone."""
    job = desk.job(alice, on_worker_lost="requeue")
    task = desk.submit(bob, job)
    for claim in range(1, 11):
        assert desk.claim_one(alice).attempt == claim
        desk.wait(61)
        desk.sweep()
    ended = desk.get(bob, task)
    assert (ended.status, ended.starts, ended.attempt) == ("failed", 0, 10)
    assert "claimed 10 times and never started" in ended.error


def test_a_start_begins_the_count_of_idle_claims_anew(desk, alice, bob) -> None:
    job = desk.job(alice, on_worker_lost="requeue", max_attempts=5)
    task = desk.submit(bob, job)
    for claim in range(1, 13):
        desk.claim(alice, start=claim == 9)
        desk.wait(61)
        desk.sweep()
    assert desk.get(bob, task).status == "pending"


def test_the_eleventh_claim_without_a_start_is_not_handed_out(desk, alice, bob) -> None:
    """Failing from ``claimed`` again and again never starts either."""
    job = desk.job(alice, max_attempts=50)
    task = desk.submit(bob, job)
    for _ in range(10):
        desk.claim_one(alice)
        desk.report(alice, task, "failed", error="no memory")
    assert desk.claim(alice) == []
    assert "10 times and never started" in desk.get(bob, task).error
