"""A report whose answer was lost may be repeated; ``claim_next`` is remembered with it."""

from __future__ import annotations

import pytest

from jobroom.errors import Forbidden, InvalidTaskTransition


@pytest.fixture
def task(desk, alice, bob, rotate):
    """A task that alice runs."""
    submitted = desk.submit(bob, rotate)
    desk.run_one(alice)
    return submitted


# --- running ----------------------------------------------------------------------------------


@pytest.mark.parametrize("attempt", [1, None])
def test_running_repeated_keeps_started_at(desk, alice, task, attempt) -> None:
    """Rules, *Reports*: repeating ``running`` by the holder: 200, ``started_at`` unchanged."""
    before = desk.get(alice, task)
    desk.wait(5)
    again = desk.report(alice, task, "running", attempt=attempt)
    assert (again.started_at, again.starts) == (before.started_at, 1)


def test_running_repeated_takes_progress(desk, alice, task) -> None:
    assert desk.report(alice, task, "running", progress=0.5).progress == 0.5


def test_running_repeated_by_an_admin_takes_progress(desk, admin, task) -> None:
    assert desk.report(admin, task, "running", progress=0.5).progress == 0.5


def test_running_repeated_by_somebody_else_is_forbidden(desk, bob, task) -> None:
    with pytest.raises(Forbidden):
        desk.report(bob, task, "running")


# --- terminal reports -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "said"),
    [("completed", {"result": '{"x": 1}'}), ("completed", {}), ("failed", {"error": "boom"})],
)
def test_the_same_terminal_report_is_answered_with_the_stored_task(
    desk, alice, task, status, said
) -> None:
    """Contract, *Tasks*: repeating exactly the same report with the same ``attempt``."""
    first = desk.report(alice, task, status, attempt=1, **said)
    desk.wait(5)
    assert desk.report(alice, task, status, attempt=1, **said) == first


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("completed", {"result": '{"x":1}'}),
        ("completed", {"result": '{"x": 1.0}'}),
        ("completed", {}),
        ("failed", {"error": "boom"}),
    ],
)
def test_another_terminal_report_is_refused(desk, alice, task, status, said) -> None:
    """Rules, *Reports*: the same bytes, not the same meaning."""
    desk.report(alice, task, "completed", attempt=1, result='{"x": 1}')
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, task, status, attempt=1, **said)


def test_another_error_is_refused(desk, alice, task) -> None:
    desk.report(alice, task, "failed", attempt=1, error="boom")
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, task, "failed", attempt=1, error="bang")


@pytest.mark.parametrize(
    ("status", "said"), [("completed", {"result": "1"}), ("failed", {"error": "boom"})]
)
def test_a_repeat_without_attempt_is_refused(desk, alice, task, status, said) -> None:
    """Rules, *Reports*: without ``attempt`` a repeat is 409."""
    desk.report(alice, task, status, **said)
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, task, status, **said)


def test_a_repeat_that_names_another_worker_is_refused(desk, alice, task) -> None:
    desk.report(alice, task, "completed", attempt=1)
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, task, "completed", attempt=1, worker_id="w9")


def test_a_repeat_by_somebody_else_is_forbidden(desk, alice, bob, task) -> None:
    desk.report(alice, task, "completed", attempt=1)
    with pytest.raises(Forbidden):
        desk.report(bob, task, "completed", attempt=1)


def test_a_repeat_after_the_worker_was_deleted_is_answered(desk, alice, bob, rotate) -> None:
    worker = desk.worker(alice)
    desk.job(alice, worker_id=worker)
    task = desk.submit(bob, rotate)
    desk.run_one(alice, worker)
    said = {"attempt": 1, "result": "1", "worker_id": worker}
    first = desk.report(alice, task, "completed", **said)
    desk.leave(alice, worker)
    assert desk.report(alice, task, "completed", **said) == first


@pytest.mark.parametrize("worker_id", ["alice", None])
def test_a_failure_that_went_back_to_pending_may_be_repeated(desk, alice, bob, worker_id) -> None:
    """Contract, *Failing with attempts left*: the 200 shows ``pending``, again too."""
    job = desk.job(alice, "Retried", max_attempts=3)
    task = desk.submit(bob, job)
    desk.run_one(alice)
    said = {"attempt": 1, "error": "boom", "worker_id": worker_id}
    first = desk.report(alice, task, "failed", **said)
    assert first.status == "pending"
    assert desk.report(alice, task, "failed", **said) == first


def test_a_repeat_after_a_retry_is_late(desk, alice, bob, task) -> None:
    desk.report(alice, task, "failed", attempt=1, error="boom")
    desk.retry(bob, task)
    desk.run_one(alice)
    with pytest.raises(InvalidTaskTransition):
        desk.report(alice, task, "failed", attempt=1, error="boom")


# --- claim_next -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "said"),
    [("completed", {"result": "1"}), ("failed", {"error": "boom"}), ("cancelled", {})],
)
def test_claim_next_claims_and_starts_the_workers_next_task(
    desk, alice, bob, *, rotate, task, status, said
) -> None:
    """Contract, *Tasks*: one request a task for a busy worker."""
    other = desk.submit(bob, rotate)
    done = desk.reported(alice, task, status, claim_next=True, **said)
    assert done.view.task.status == status
    assert done.next_task is not None
    assert done.next_task.task.id == other.id
    assert done.next_task.task.status == "running"
    assert done.next_task.task.worker_id == "alice"
    assert done.next_task.lease_expires_at is not None


def test_claim_next_with_nothing_to_claim_answers_none(desk, alice, task) -> None:
    assert desk.reported(alice, task, "completed", claim_next=True).next_task is None


def test_without_claim_next_nothing_is_claimed(desk, alice, bob, rotate, task) -> None:
    other = desk.submit(bob, rotate)
    assert desk.reported(alice, task, "completed").next_task is None
    assert desk.get(bob, other).status == "pending"


def test_a_repeated_report_answers_the_same_next_task(desk, alice, bob, rotate, task) -> None:
    """Contract, *Tasks*: remembered with (task, attempt)."""
    for _ in range(3):
        desk.submit(bob, rotate)
    said = {"attempt": 1, "result": "1", "claim_next": True}
    first = desk.reported(alice, task, "completed", **said)
    again = desk.reported(alice, task, "completed", **said)
    assert first.next_task is not None
    assert again.next_task is not None
    assert again.next_task.task == first.next_task.task
    assert desk.list(bob, statuses=("running",))[1] == 1


def test_a_repeated_report_whose_next_task_has_ended_claims_nothing(
    desk, alice, bob, rotate, task
) -> None:
    for _ in range(3):
        desk.submit(bob, rotate)
    said = {"attempt": 1, "result": "1", "claim_next": True}
    first = desk.reported(alice, task, "completed", **said)
    desk.report(alice, first.next_task.task, "completed")
    assert desk.reported(alice, task, "completed", **said).next_task is None
    assert desk.list(bob, statuses=("running",))[1] == 0


def test_a_report_that_is_refused_claims_nothing(desk, alice, bob, rotate, task) -> None:
    """Contract, *Tasks*: a report that gets 409 claims nothing."""
    other = desk.submit(bob, rotate)
    with pytest.raises(InvalidTaskTransition):
        desk.reported(alice, task, "completed", attempt=9, claim_next=True)
    assert desk.get(bob, other).status == "pending"


def test_claim_next_serves_the_worker_that_held_the_task(desk, alice, bob, rotate) -> None:
    worker = desk.worker(alice)
    desk.job(alice, worker_id=worker)
    task, other = desk.submit(bob, rotate), desk.submit(bob, rotate)
    desk.run_one(alice, worker)
    done = desk.reported(alice, task, "completed", claim_next=True)
    assert done.next_task is not None
    assert (done.next_task.task.id, done.next_task.task.worker_id) == (other.id, worker)


def test_claim_next_by_an_admin_claims_nothing_for_the_worker(
    desk, admin, bob, rotate, task
) -> None:
    other = desk.submit(bob, rotate)
    assert desk.reported(admin, task, "completed", claim_next=True).next_task is None
    assert desk.get(bob, other).status == "pending"


def test_claim_next_beside_a_cancel_by_the_creator_claims_nothing(desk, bob, rotate) -> None:
    desk.job(bob)
    task, other = desk.submit(bob, rotate), desk.submit(bob, rotate)
    assert desk.reported(bob, task, "cancelled", claim_next=True).next_task is None
    assert desk.get(bob, other).status == "pending"


def test_claim_next_beside_a_failure_with_attempts_left(desk, alice, bob) -> None:
    """The worker is free, and its next task is claimed, whatever becomes of this one."""
    job = desk.job(alice, "Retried", max_attempts=3, retry_delay_seconds=10)
    task, other = desk.submit(bob, job), desk.submit(bob, job)
    desk.run_one(alice)
    said = {"attempt": 1, "error": "boom", "worker_id": "alice", "claim_next": True}
    done = desk.reported(alice, task, "failed", **said)
    assert done.view.task.status == "pending"
    assert done.next_task is not None
    assert done.next_task.task.id == other.id
    again = desk.reported(alice, task, "failed", **said)
    assert again.next_task is not None
    assert again.next_task.task == done.next_task.task


SAID = {"attempt": 1, "error": "boom", "worker_id": "alice", "claim_next": True}


def gone_on(desk, alice, second):
    """A task that alice reported as failed, and that runs again by another; and her next one."""
    job = desk.job(alice, "Retried", max_attempts=3, retry_delay_seconds=10)
    desk.job(second, "Retried", max_attempts=3, retry_delay_seconds=10)
    task, following = desk.submit(second, job), desk.submit(second, job)
    desk.run_one(alice)
    desk.reported(alice, task, "failed", **SAID)
    desk.wait(20)
    assert desk.run_one(second).id == task.id
    return task, following


def test_a_repeated_claim_next_finds_its_task_though_the_reported_one_went_on(
    desk, alice, bob
) -> None:
    """Contract, *Tasks*: remembered with (task, attempt). Else the next task is held for ever."""
    task, following = gone_on(desk, alice, bob)
    again = desk.reported(alice, task, "failed", **SAID)
    assert again.view.task.attempt == 2
    assert again.next_task is not None
    assert again.next_task.task.id == following.id


def test_a_repeated_claim_next_of_another_identity_finds_nothing(desk, alice, bob, admin) -> None:
    task, _ = gone_on(desk, alice, admin)
    with pytest.raises(InvalidTaskTransition):
        desk.reported(bob, task, "failed", **SAID)
