"""Submitting: what a new task is, and when the same request made it before."""

from __future__ import annotations

import pytest

from jobroom.errors import IdempotencyKeyReused, TaskExists, TaskNotFound
from jobroom.service import submission

DAY = 24 * 3600
AN_ID = "0190163d-8694-739b-aea5-966c26f8ad91"


def test_a_new_task_is_pending_and_made_by_its_caller(desk, bob, rotate) -> None:
    task = desk.submit(bob, rotate, payload='{"angle":90}', priority=5)
    assert (task.status, task.created_by_id, task.payload) == ("pending", "bob", '{"angle":90}')
    assert (task.attempt, task.starts, task.priority, task.max_attempts) == (0, 0, 5, 1)
    assert desk.get(bob, task) == task


def test_a_payload_is_kept_byte_for_byte(desk, bob, rotate) -> None:
    """Contract, *Errors*, bodies: numbers come back exactly as sent; rules, *Text*: NUL too."""
    payload = '{"big":123456789012345678901234567890, "one": 1.0,"nul":"\\u0000"}'
    task = desk.submit(bob, rotate, payload=payload)
    assert desk.get(bob, task).payload == payload


def test_a_task_has_the_policy_of_its_job_or_its_own(desk, alice, bob) -> None:
    job = desk.job(alice, max_attempts=4, timeout_seconds=9.0)
    plain = desk.submit(bob, job)
    own = desk.submit(bob, job, max_attempts=2, timeout_seconds=0.5)
    assert (plain.max_attempts, plain.timeout_seconds) == (4, 9.0)
    assert (own.max_attempts, own.timeout_seconds) == (2, 0.5)


def test_the_queue_position_counts_from_one_in_the_order_of_claims(desk, bob, rotate) -> None:
    """Contract, *Tasks*: among the claimable tasks of its job."""
    first, second = desk.submit(bob, rotate), desk.submit(bob, rotate)
    urgent = desk.submit(bob, rotate, priority=1)
    places = [desk.view(bob, task).queue_position for task in (urgent, first, second)]
    assert places == [1, 2, 3]


def test_the_queue_position_is_capped(desk, bob, rotate) -> None:
    """Contract, *Tasks*: capped at 1,000."""
    desk.submit_many(bob, rotate, 1001)
    last = desk.submit(bob, rotate)
    assert desk.view(bob, last).queue_position == 1000


@pytest.mark.parametrize("status", ["claimed", "running", "completed", "delayed"])
def test_only_a_claimable_task_has_a_queue_position(desk, alice, bob, rotate, status) -> None:
    """Rules, *Time fields*: one that waits for its ``run_at`` has none."""
    task = desk.submit(bob, rotate, run_at=desk.soon(9) if status == "delayed" else None)
    if status != "delayed":
        desk.claim(alice, start=status != "claimed")
    if status == "completed":
        desk.report(alice, task, "completed")
    assert desk.view(bob, task).queue_position is None


def test_a_submission_checked_by_an_older_job_is_not_taken(desk, alice, bob, rotate) -> None:
    """The schema may have changed since the payload was checked: the door reads it again."""
    desk.job(alice, schema='{"type": "object"}', replace=True)
    done = desk.queue.run(
        submission.submit_task, caller=bob, room_id="r1", job=rotate, new=submission.NewTask()
    )
    assert done is None
    assert desk.list(bob) == ([], 0)


# --- idempotency ------------------------------------------------------------------------------


def test_the_same_key_and_request_give_the_first_task_again(desk, bob, rotate) -> None:
    """Contract, *Tasks*: ``Idempotency-Key``."""
    first = desk.submitted(bob, rotate, idempotency_key="k", fingerprint="f")
    again = desk.submitted(bob, rotate, idempotency_key="k", fingerprint="f")
    assert (first.replayed, again.replayed) == (False, True)
    assert again.view.task.id == first.view.task.id
    assert desk.list(bob)[1] == 1


def test_a_replay_shows_the_task_as_it_is_now(desk, alice, bob, rotate) -> None:
    """Rules, *Idempotency*."""
    task = desk.submit(bob, rotate, idempotency_key="k", fingerprint="f")
    desk.run_one(alice)
    desk.report(alice, task, "completed", result="7")
    again = desk.submit(bob, rotate, idempotency_key="k", fingerprint="f")
    assert (again.status, again.result) == ("completed", "7")


def test_the_same_key_with_another_request_is_refused(desk, bob, rotate) -> None:
    """Contract, *Tasks*: 422 ``idempotency-key-reused``."""
    desk.submit(bob, rotate, idempotency_key="k", fingerprint="f")
    with pytest.raises(IdempotencyKeyReused):
        desk.submit(bob, rotate, idempotency_key="k", fingerprint="g")


def test_a_key_belongs_to_its_identity(desk, alice, bob, rotate) -> None:
    """Rules, *Idempotency*: scope: identity + key."""
    first = desk.submit(bob, rotate, idempotency_key="k", fingerprint="f")
    second = desk.submitted(alice, rotate, idempotency_key="k", fingerprint="g")
    assert not second.replayed
    assert second.view.task.id != first.id


def test_a_key_lives_for_24_hours_by_the_stores_clock(desk, bob, rotate) -> None:
    first = desk.submit(bob, rotate, idempotency_key="k", fingerprint="f")
    desk.wait(DAY - 10)
    assert desk.submitted(bob, rotate, idempotency_key="k", fingerprint="f").replayed
    desk.wait(10)
    later = desk.submitted(bob, rotate, idempotency_key="k", fingerprint="g")
    assert not later.replayed
    assert later.view.task.id != first.id
    assert desk.submitted(bob, rotate, idempotency_key="k", fingerprint="g").replayed


def test_a_replay_is_answered_even_where_the_job_has_changed(desk, alice, bob, rotate) -> None:
    first = desk.submit(bob, rotate, idempotency_key="k", fingerprint="f")
    new = submission.NewTask(idempotency_key="k", fingerprint="f")
    desk.job(alice, description="changed")
    done = desk.queue.run(submission.submit_task, caller=bob, room_id="r1", job=rotate, new=new)
    assert done is not None
    assert done.view.task.id == first.id


def test_a_replay_does_not_cost_a_room_its_fair_turn(desk, admin, bob) -> None:
    job = desk.job(admin, room_id="@global", claim_order="fair")
    for _ in range(5):
        desk.submit(bob, job, room_id="a", idempotency_key="k", fingerprint="f")
    desk.submit(bob, job, room_id="b")
    desk.submit(bob, job, room_id="a")
    desk.submit(bob, job, room_id="b")
    rooms = [task.room_id for task in desk.claim(admin, limit=4)]
    assert rooms == ["a", "b", "a", "b"]


# --- ids chosen by the client -----------------------------------------------------------------


def test_a_key_that_comes_with_a_known_id_is_remembered(desk, bob, rotate) -> None:
    """Rules, *Idempotency*: only 2xx is remembered, and all of that; for the task's first day."""
    first = desk.submit(bob, rotate, id=AN_ID, fingerprint="f")
    known = {"id": AN_ID, "idempotency_key": "k", "fingerprint": "f"}
    assert desk.submitted(bob, rotate, **known).replayed
    kept = desk.get(bob, first)
    assert (kept.idempotency_key, kept.version) == ("k", first.version + 1)
    assert desk.submitted(bob, rotate, **known).replayed
    assert desk.get(bob, first) == kept
    with pytest.raises(IdempotencyKeyReused):
        desk.submit(bob, rotate, idempotency_key="k", fingerprint="g")
    desk.wait(DAY)
    assert desk.submit(bob, rotate, idempotency_key="k", fingerprint="g").id != AN_ID


def test_a_key_that_has_died_elsewhere_may_come_with_a_known_id(desk, bob, rotate) -> None:
    old = desk.submit(bob, rotate, idempotency_key="k", fingerprint="old")
    desk.wait(DAY)
    desk.submit(bob, rotate, id=AN_ID, fingerprint="f")
    known = {"id": AN_ID, "idempotency_key": "k", "fingerprint": "f"}
    assert desk.submit(bob, rotate, **known).idempotency_key == "k"
    assert desk.get(bob, old).idempotency_key is None


def test_a_key_that_comes_late_holds_off_the_retention(desk, alice, bob) -> None:
    """Rules, *Idempotency*: retention never removes a task while its key lives."""
    job = desk.job(alice, result_ttl_seconds=1)
    task = desk.submit(bob, job, id=AN_ID, fingerprint="f")
    desk.report(alice, desk.run_one(alice), "completed")
    desk.submit(bob, job, id=AN_ID, idempotency_key="k", fingerprint="f")
    for seconds, removed in ((DAY - 10, 0), (11, 1)):
        desk.wait(seconds)
        assert desk.sweep().removed_tasks == removed
    with pytest.raises(TaskNotFound):
        desk.get(bob, task)


def test_a_task_keeps_the_first_of_two_keys(desk, bob, rotate) -> None:
    """A second one is no other request, for the id is known; but there is one place for a key."""
    desk.submit(bob, rotate, id=AN_ID, idempotency_key="k", fingerprint="f")
    known = {"id": AN_ID, "fingerprint": "f"}
    again = desk.submitted(bob, rotate, idempotency_key="l", **known)
    assert (again.replayed, again.view.task.idempotency_key) == (True, "k")
    with pytest.raises(IdempotencyKeyReused):
        desk.submit(bob, rotate, idempotency_key="k", fingerprint="g")


def test_the_same_id_and_request_of_the_same_identity_is_a_replay(desk, bob, rotate) -> None:
    """Rules, *Idempotency*: client-chosen ``id``."""
    first = desk.submitted(bob, rotate, id=AN_ID, fingerprint="f")
    again = desk.submitted(bob, rotate, id=AN_ID, fingerprint="f")
    assert first.view.task.id == again.view.task.id == AN_ID
    assert again.replayed


def test_the_same_id_with_another_request_is_a_conflict(desk, bob, rotate) -> None:
    """Rules, *Idempotency*: else 409 ``task-exists``."""
    desk.submit(bob, rotate, id=AN_ID, fingerprint="f")
    with pytest.raises(TaskExists):
        desk.submit(bob, rotate, id=AN_ID, fingerprint="g")


def test_the_same_id_of_another_identity_is_a_conflict(desk, alice, bob, rotate) -> None:
    desk.submit(bob, rotate, id=AN_ID, fingerprint="f")
    with pytest.raises(TaskExists):
        desk.submit(alice, rotate, id=AN_ID, fingerprint="f")


def test_a_refused_id_leaves_no_trace_of_the_fair_turn(desk, admin, bob) -> None:
    job = desk.job(admin, room_id="@global", claim_order="fair")
    desk.submit(bob, job, room_id="a", id=AN_ID, fingerprint="f")
    with pytest.raises(TaskExists):
        desk.submit(bob, job, room_id="a", id=AN_ID, fingerprint="g")
    assert desk.submit(bob, job, room_id="a").turn == 1


def test_a_submission_that_has_to_read_the_job_again_costs_no_fair_turn(desk, admin, bob) -> None:
    old = desk.job(admin, room_id="@global", claim_order="fair")
    job = desk.job(admin, room_id="@global", claim_order="fair", description="changed")
    stale = desk.queue.run(
        submission.submit_task, caller=bob, room_id="a", job=old, new=submission.NewTask()
    )
    assert stale is None
    assert desk.submit(bob, job, room_id="a").turn == 0
