"""Reports: every move of the table, who may make it, and the fence."""

from __future__ import annotations

import pytest

from jobroom.domain.lifecycle import TRANSITIONS, TaskStatus
from jobroom.errors import Forbidden, InvalidTaskTransition, ValidationFailed

STATES = ("pending", "delayed", "claimed", "running", "completed", "failed", "cancelled")


@pytest.fixture
def job(desk, alice):
    """Requeued and with attempts left, so that handing back is allowed everywhere it ever is."""
    return desk.job(alice, on_worker_lost="requeue", max_attempts=3)


@pytest.fixture
def bring(desk, alice, bob, job):
    """A task of bob's in the wanted state, held by alice where it is held."""

    def _bring(state):
        task = desk.submit(bob, job, run_at=desk.soon(99) if state == "delayed" else None)
        if state in {"pending", "delayed"}:
            return task
        if state == "cancelled":
            return desk.report(bob, task, "cancelled")
        task = desk.claim_one(alice, start=state != "claimed")
        if state in {"completed", "failed"}:
            task = desk.report(alice, task, state, final=True)
        assert task.status == state
        return task

    return _bring


def allowed(status, state):
    asked = TaskStatus(status)
    return state in TRANSITIONS.get(asked, ()) or (state == "delayed" and status == "cancelled")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("status", ["running", "completed", "failed", "pending", "cancelled"])
def test_every_move_of_the_table_is_taken_and_no_other(desk, admin, bring, status, state) -> None:
    """Contract, *States*: all pairs, by an admin, whom nothing but the table stops."""
    task = bring(state)
    if allowed(status, state) or (status == state == "cancelled"):
        assert desk.report(admin, task, status, final=True).status == status
    else:
        before = desk.get(admin, task)
        with pytest.raises(InvalidTaskTransition):
            desk.report(admin, task, status, final=True)
        assert desk.get(admin, task) == before


@pytest.mark.parametrize("status", ["claimed", "blocked"])
@pytest.mark.parametrize("state", STATES)
def test_claimed_and_blocked_cannot_be_reported(desk, admin, bring, status, state) -> None:
    """Contract, *States*: ``pending -> claimed`` happens by a claim alone, for admins too."""
    task = bring(state)
    with pytest.raises(InvalidTaskTransition):
        desk.report(admin, task, status)


def test_claimed_to_completed_is_refused(desk, alice, bring) -> None:
    """Rules, *Reports*: start first, or claim with ``start: true``."""
    with pytest.raises(InvalidTaskTransition, match="only from running"):
        desk.report(alice, bring("claimed"), "completed")


def test_claimed_to_failed_is_allowed(desk, alice, bob) -> None:
    """Contract, *States* (0.1.7)."""
    job = desk.job(alice, "Once")
    task = desk.submit(bob, job)
    desk.claim_one(alice)
    assert desk.report(alice, task, "failed", error="no licence").status == "failed"


def test_starting_notes_the_time_and_counts_the_start(desk, alice, bring) -> None:
    task = bring("claimed")
    desk.wait(5)
    started = desk.report(alice, task, "running")
    assert started.starts == 1
    assert started.started_at is not None
    assert started.started_at >= task.claimed_at + 5_000_000


def test_a_completed_task_has_its_result_byte_for_byte(desk, alice, bob, bring) -> None:
    """Contract, *Errors*, bodies; rules, *Text*."""
    task = bring("running")
    result = '{"big": 123456789012345678901234567890,"nul":"\\u0000", "one":1.0}'
    desk.report(alice, task, "completed", result=result)
    ended = desk.get(bob, task)
    assert (ended.status, ended.result, ended.error) == ("completed", result, None)
    assert ended.completed_at is not None


def test_a_failed_task_has_its_error_and_its_worker_stays_in_the_history(
    desk, alice, bob, bring
) -> None:
    """Contract, *Tasks*: ``worker_id`` stays in the history after the worker is gone."""
    task = bring("running")
    desk.report(alice, task, "failed", error="boom", final=True)
    desk.leave(alice)
    ended = desk.get(bob, task)
    assert (ended.status, ended.error, ended.worker_id) == ("failed", "boom", "alice")


def test_every_report_raises_the_row_version(desk, alice, bring) -> None:
    """Rules, *ETag*: rises with each write of the row."""
    task = bring("claimed")
    versions = [
        desk.report(alice, task, status, progress=0.5).version
        for status in ("running", None, "completed")
    ]
    assert [task.version, *versions] == sorted({task.version, *versions})


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("failed", {"result": "1"}),
        ("running", {"result": "1"}),
        (None, {"result": "1"}),
        ("completed", {"error": "boom"}),
        (None, {"error": "boom"}),
        ("running", {"claim_next": True}),
        ("pending", {"claim_next": True}),
        (None, {"claim_next": True}),
    ],
)
def test_a_report_that_says_two_things_at_once_is_refused(desk, alice, bring, status, said) -> None:
    """Rules, *Reports*: ``result`` only with ``completed``; ``claim_next`` beside an end."""
    task = bring("running")
    with pytest.raises(ValidationFailed):
        desk.report(alice, task, status, **said)
    assert desk.get(alice, task) == task


# --- progress ---------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["claimed", "running"])
def test_progress_alone_is_taken_while_the_task_is_held(desk, alice, bring, state) -> None:
    """Rules, *Reports*: no status: progress and message, by the holder."""
    task = desk.report(alice, bring(state), progress=0.25, message="step 1")
    assert (task.status, task.progress, task.message) == (state, 0.25, "step 1")


def test_progress_keeps_what_it_does_not_name(desk, alice, bring) -> None:
    task = bring("running")
    desk.report(alice, task, progress=0.25, message="step 1")
    assert desk.report(alice, task, progress=0.5).message == "step 1"
    assert desk.report(alice, task, message="step 2").progress == 0.5


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
def test_progress_of_an_ended_task_is_refused(desk, alice, bring, state) -> None:
    task = bring(state)
    with pytest.raises((InvalidTaskTransition, Forbidden)):
        desk.report(alice, task, progress=0.5)


def test_progress_by_somebody_else_is_forbidden(desk, bob, bring) -> None:
    task = bring("running")
    with pytest.raises(Forbidden):
        desk.report(bob, task, progress=0.5)


# --- who --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["running", "completed", "failed", "pending", None])
def test_only_the_owner_of_the_holding_worker_may_report(desk, alice, bob, bring, status) -> None:
    """Contract, *Tasks*: else 403; here the creator, who may only cancel."""
    task = bring("running")
    with pytest.raises(Forbidden):
        desk.report(bob, task, status)
    assert desk.get(bob, task) == task


def test_a_report_on_a_task_that_was_never_claimed_is_forbidden(desk, alice, bring) -> None:
    with pytest.raises(Forbidden):
        desk.report(alice, bring("pending"), "running")


def test_an_admin_may_report_on_any_task(desk, admin, bring) -> None:
    task = bring("running")
    assert desk.report(admin, task, "completed", result="1").status == "completed"


def test_an_admin_of_other_rooms_may_not(desk, admin, bob, alice) -> None:
    """Rules, *Who sees what*: ``is_admin`` only adds rights inside the token's rooms."""
    job = desk.job(admin, room_id="@global")
    task = desk.submit(bob, job, room_id="r1")
    desk.run_one(admin)
    elsewhere = bob._replace(is_admin=True, rooms=frozenset({"r2"}))
    with pytest.raises(Forbidden):
        desk.report(elsewhere, task, "completed")


def test_another_worker_of_the_same_identity_counts(desk, alice, bob, job) -> None:
    """Rules, *Reports*: ``worker_id`` unsent: any worker of the same identity counts."""
    instance = desk.worker(alice)
    desk.job(alice, worker_id=instance, on_worker_lost="requeue", max_attempts=3)
    task = desk.submit(bob, job)
    desk.run_one(alice, instance)
    assert desk.report(alice, task, "completed").status == "completed"


def test_a_worker_that_is_named_must_be_the_holder(desk, alice, bob, job, bring) -> None:
    """Rules, *Reports*: ``worker_id``, if sent, must be the holder."""
    task = bring("running")
    other = desk.worker(alice)
    with pytest.raises(InvalidTaskTransition, match="another worker"):
        desk.report(alice, task, "completed", worker_id=other)
    assert desk.report(alice, task, "completed", worker_id="alice").status == "completed"


# --- the fence --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["running", "completed", "failed", "pending", "cancelled", None])
def test_an_attempt_that_is_not_the_current_one_is_refused(desk, alice, bring, status) -> None:
    """Contract, *Tasks*: ``attempt`` is the fence: 409."""
    task = bring("running")
    for attempt in (task.attempt - 1, task.attempt + 1):
        with pytest.raises(InvalidTaskTransition, match=f"Attempt {attempt} of task"):
            desk.report(alice, task, status, attempt=attempt)
    assert desk.get(alice, task) == task


def test_the_fence_holds_for_admins_too(desk, admin, bring) -> None:
    task = bring("running")
    with pytest.raises(InvalidTaskTransition):
        desk.report(admin, task, "completed", attempt=task.attempt + 1)


def test_the_current_attempt_passes_the_fence(desk, alice, bring) -> None:
    task = bring("running")
    assert desk.report(alice, task, "completed", attempt=task.attempt).status == "completed"


def test_an_attempt_unsent_asks_only_who_holds_the_task(desk, alice, bob, bring) -> None:
    """Rules, *Reports*: being the holder is the whole check."""
    task = bring("claimed")
    desk.report(alice, task, "pending")
    again = desk.run_one(alice)
    assert again.attempt == 2
    assert desk.report(alice, task, "completed").status == "completed"


def test_an_old_attempt_of_a_task_claimed_anew_by_another_is_late(desk, alice, bob, job) -> None:
    """C02: the first worker's token is one of the past; the second's result stands."""
    desk.job(bob, on_worker_lost="requeue", max_attempts=3)
    task = desk.submit(bob, job)
    first = desk.run_one(alice)
    desk.wait(61)
    desk.beat(bob)
    desk.sweep()
    second = desk.run_one(bob)
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, task, "completed", result="1", attempt=first.attempt)
    ended = desk.report(bob, task, "completed", result="2", attempt=second.attempt)
    assert (ended.result, ended.attempt) == ("2", 2)


def test_a_terminal_state_never_changes(desk, alice, admin, bring) -> None:
    """Contract, *States*: except by ``retry``."""
    for state in ("completed", "failed", "cancelled"):
        task = bring(state)
        for status in ("running", "pending", "completed", "failed"):
            said = {"failed": {"error": "another"}, "completed": {"result": "9"}}.get(status, {})
            with pytest.raises(InvalidTaskTransition):
                desk.report(admin, task, status, attempt=task.attempt, **said)
        assert desk.get(admin, task) == task
