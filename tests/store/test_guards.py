"""Writes are guarded: what is no longer as it was read is left as it is."""

from __future__ import annotations

import pytest

from jobroom.domain.records import Task
from jobroom.service import claiming, registration, submission
from jobroom.service.queue import JobQueue
from jobroom.store import jobs, reports, reruns, tasks, workers


@pytest.fixture
def held(queue: JobQueue, alice) -> Task:
    """A task that alice has claimed."""
    spec = registration.JobSpec("modifiers", "Rotate")
    job = queue.run(registration.register_job, caller=alice, room_id="r1", spec=spec).view.job
    queue.run(submission.submit_task, caller=alice, room_id="r1", job=job, new=submission.NewTask())
    [view] = queue.run(claiming.claim_tasks, caller=alice)
    return view.task


def stored(queue: JobQueue, task: Task) -> Task:
    found = queue.run(lambda tx: tasks.get(tx, task.id))
    assert found is not None
    return found[0].task


@pytest.mark.parametrize(
    "was",
    [{"status": "running"}, {"status": "pending"}, {"attempt": 2}, {"attempt": 0}],
)
def test_a_task_that_has_moved_on_is_neither_failed_nor_requeued(queue, held, was) -> None:
    """Style, rule 10: every status change is guarded by the expected status, and the fence."""
    read = held._replace(**was)
    assert queue.run(lambda tx: reports.fail(tx, read, error="lost")) is None
    assert queue.run(lambda tx: reports.requeue(tx, read, error=None, starts=0)) is None
    assert stored(queue, held) == held


def test_a_task_that_is_as_it_was_read_is_failed_once(queue, held) -> None:
    assert queue.run(lambda tx: reports.fail(tx, held, error="lost")) is not None
    assert queue.run(lambda tx: reports.fail(tx, held, error="lost")) is None


def test_a_task_of_another_version_is_not_retried(queue, held) -> None:
    failed = queue.run(lambda tx: reports.fail(tx, held, error="lost")).task
    older = failed._replace(version=failed.version - 1)
    assert queue.run(lambda tx: reruns.retry(tx, older, status="pending")) is None
    assert stored(queue, held).status == "failed"


def test_a_worker_that_beat_meanwhile_is_not_put_to_sleep(queue, held) -> None:
    """Rules, *Alive*: a stale worker is alive again with its next heartbeat."""
    before = queue.run(lambda tx: tx.now) - 10_000_000
    assert not queue.run(lambda tx: workers.put_to_sleep(tx, worker_id="alice", before=before))
    assert queue.run(lambda tx: workers.get(tx, "alice")).state == "active"


def test_a_worker_in_another_state_is_not_moved(queue, held) -> None:
    moved = queue.run(
        lambda tx: workers.set_state(tx, worker_id="alice", expect="asleep", state="gone")
    )
    assert not moved


def test_a_job_of_another_version_is_not_replaced(queue, held) -> None:
    job = queue.run(lambda tx: jobs.get_by_seq(tx, held.job_seq))
    older = job._replace(version=job.version - 1, description="older")
    assert queue.run(lambda tx: jobs.replace(tx, older)) is None
    assert queue.run(lambda tx: jobs.get_by_seq(tx, held.job_seq)) == job


def test_a_job_in_use_is_not_hidden(queue, held) -> None:
    assert not queue.run(lambda tx: jobs.hide_if_orphan(tx, held.job_seq))


def test_an_id_that_is_taken_is_not_taken_again(queue, held) -> None:
    worker = queue.run(lambda tx: workers.get(tx, "alice"))
    impostor = worker._replace(identity="mallory", kind="instance")
    assert not queue.run(lambda tx: workers.add(tx, impostor))
    assert queue.run(lambda tx: workers.get(tx, "alice")) == worker
