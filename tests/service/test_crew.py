"""Workers: identity and instance workers, whose they are, and when they are alive."""

from __future__ import annotations

import uuid

import pytest

from jobroom.domain.records import Caller
from jobroom.errors import Forbidden, WorkerNotFound
from jobroom.service import workers


def only(desk, caller):
    [view], _ = desk.queue.run(workers.list_workers, caller=caller, limit=50, offset=0)
    return view


def test_an_identity_worker_has_the_identity_as_its_id(desk, alice) -> None:
    """Contract, *Workers*: made the first time that identity registers a job."""
    assert desk.register(alice).worker_id == "alice"
    assert only(desk, alice).worker.kind == "identity"


def test_a_claim_without_a_worker_makes_an_identity_worker(desk, alice) -> None:
    assert desk.claim(alice) == []
    assert desk.workers(alice) == ["alice"]


def test_an_instance_worker_is_a_uuid_owned_by_its_identity(desk, alice) -> None:
    made = desk.worker(alice, name="node 7")
    worker = only(desk, alice).worker
    assert uuid.UUID(made).version == 7
    assert (worker.id, worker.identity, worker.kind, worker.name) == (
        made,
        "alice",
        "instance",
        "node 7",
    )


def test_a_thousand_registrations_leave_one_identity_worker(desk, alice) -> None:
    """Contract, *Jobs*; C13 with fewer rounds: the count is what matters."""
    for _ in range(100):
        desk.job(alice)
    assert desk.workers(alice, "r1") == ["alice"]


def test_an_identity_spelled_like_somebodys_worker_is_forbidden(desk, alice) -> None:
    """Rules: it gets 403, never that worker."""
    own = desk.worker(alice)
    impostor = Caller(own)
    with pytest.raises(Forbidden):
        desk.claim(impostor)
    with pytest.raises(Forbidden):
        desk.job(impostor)
    with pytest.raises(Forbidden):
        desk.beat(impostor)
    assert only(desk, alice).worker.identity == "alice"


def test_a_worker_of_somebody_else_is_forbidden(desk, alice, bob) -> None:
    """Contract, *Workers* and *Tasks*: 403 ``forbidden`` if owned by somebody else."""
    own = desk.worker(alice)
    with pytest.raises(Forbidden):
        desk.beat(bob, own)
    with pytest.raises(Forbidden):
        desk.claim(bob, own)
    with pytest.raises(Forbidden):
        desk.job(bob, worker_id=own)
    with pytest.raises(Forbidden):
        desk.leave(bob, own)


def test_an_admin_has_no_heartbeat_for_others(desk, alice, admin) -> None:
    own = desk.worker(alice)
    with pytest.raises(Forbidden):
        desk.beat(admin, own)


def test_an_unknown_worker_is_not_found(desk, alice) -> None:
    """Contract, *Workers*: 404 ``worker-not-found``."""
    for act in (desk.beat, desk.claim, desk.leave):
        with pytest.raises(WorkerNotFound):
            act(alice, "nobody")
    with pytest.raises(WorkerNotFound):
        desk.job(alice, worker_id="nobody")


def test_a_refused_registration_leaves_no_job(desk, alice) -> None:
    with pytest.raises(WorkerNotFound):
        desk.job(alice, worker_id="nobody")
    assert desk.listed(alice) == []


def test_a_worker_is_alive_while_its_heartbeat_is_younger_than_the_timeout(desk, alice) -> None:
    """Rules, *Alive*: computed when read, by the store's clock."""
    desk.worker(alice)
    desk.wait(59)
    assert only(desk, alice).alive
    desk.wait(1)
    assert not only(desk, alice).alive


def test_a_stale_worker_that_was_not_swept_is_alive_again_with_its_next_heartbeat(
    desk, alice
) -> None:
    own = desk.worker(alice)
    desk.wait(500)
    desk.beat(alice, own)
    assert only(desk, alice).alive


def test_a_claim_counts_as_a_heartbeat(desk, alice, rotate) -> None:
    """Contract, *Workers*: a claim, an update and a registration count as heartbeats."""
    desk.wait(100)
    desk.claim(alice)
    assert only(desk, alice).alive


def test_a_registration_counts_as_a_heartbeat(desk, alice, rotate) -> None:
    desk.wait(100)
    desk.job(alice)
    assert only(desk, alice).alive


@pytest.mark.parametrize("status", [None, "completed", "failed", "pending"])
def test_a_report_counts_as_a_heartbeat(desk, alice, bob, status) -> None:
    job = desk.job(alice, on_worker_lost="requeue", max_attempts=3)
    task = desk.submit(bob, job)
    desk.run_one(alice)
    desk.wait(100)
    desk.report(alice, task, status)
    assert only(desk, alice).alive


def test_handing_back_what_was_never_started_counts_as_a_heartbeat(
    desk, alice, bob, rotate
) -> None:
    task = desk.submit(bob, rotate)
    desk.claim_one(alice)
    desk.wait(100)
    desk.report(alice, task, "pending")
    assert only(desk, alice).alive


def test_a_cancel_by_the_creator_is_no_heartbeat_of_the_worker(desk, alice, bob, rotate) -> None:
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    desk.wait(100)
    desk.report(bob, task, "cancelled")
    assert not only(desk, alice).alive


def test_the_workers_of_a_job_mix_identities_and_instances_lost_ones_left_out(
    desk, alice, bob, rotate
) -> None:
    """Rules, *Who sees what* and *Alive*."""
    desk.job(bob)
    desk.wait(40)
    instance = desk.worker(alice)
    desk.job(alice, worker_id=instance)
    desk.beat(bob)
    desk.wait(30)
    assert desk.show(alice, rotate.full_name).workers == tuple(sorted([instance, "bob"]))


def test_a_worker_counts_its_jobs_and_the_tasks_it_holds(desk, alice, bob, rotate) -> None:
    desk.job(alice, "Other")
    for _ in range(3):
        desk.submit(bob, rotate)
    desk.claim(alice, limit=2)
    view = only(desk, alice)
    assert (view.job_count, view.running_tasks) == (2, 2)


def test_deleting_a_worker_a_second_time_is_not_found(desk, alice) -> None:
    """Contract, *Workers*: 204, a second time 404."""
    for worker_id in (desk.worker(alice), desk.register(alice).worker_id):
        desk.leave(alice, worker_id)
        with pytest.raises(WorkerNotFound):
            desk.leave(alice, worker_id)


def test_an_admin_may_delete_any_worker(desk, alice, admin) -> None:
    own = desk.worker(alice)
    desk.leave(admin, own)
    assert desk.workers(alice) == []


def test_one_instance_that_leaves_never_hurts_the_other(desk, alice, bob) -> None:
    """Contract, *Workers*; C14: two processes on one token."""
    a, b = desk.worker(alice), desk.worker(alice)
    job = desk.job(alice, worker_id=a)
    desk.job(alice, worker_id=b)
    desk.submit(bob, job)
    desk.submit(bob, job)
    of_a = desk.run_one(alice, a)
    of_b = desk.run_one(alice, b)
    desk.leave(alice, a)
    assert desk.get(bob, of_a).status == "failed"
    assert desk.get(bob, of_b).status == "running"
    assert desk.listed(bob) == [job.full_name]


def test_a_sleeping_worker_that_registers_its_hidden_job_again_is_welcome(
    desk, alice, rotate
) -> None:
    """Contract, *Losing a worker*: its links sleep; *Jobs*: a hidden job comes back, 201."""
    desk.wait(61)
    desk.sweep()
    assert desk.listed(alice) == []
    again = desk.register(alice)
    assert (again.created, again.worker_id) == (True, "alice")
    assert desk.listed(alice) == [rotate.full_name]
    assert not desk.register(alice).created


def test_a_sleeping_worker_may_bring_its_hidden_job_back_with_another_schema(
    desk, alice, rotate
) -> None:
    """Contract, *Jobs*: a hidden job may come back with another schema: 201."""
    desk.wait(61)
    desk.sweep()
    again = desk.register(alice, schema='{"type":"object"}')
    assert again.created
    assert again.view.job.schema_version == rotate.schema_version + 1


@pytest.mark.parametrize("status", [None, "completed", "failed", "pending", "cancelled"])
def test_a_report_by_an_admin_is_no_heartbeat_of_the_holder(
    desk, alice, bob, admin, status
) -> None:
    """The worker may be dead all the same, and its other tasks wait for it to be lost."""
    job = desk.job(alice, on_worker_lost="requeue", max_attempts=3)
    task = desk.submit(bob, job)
    desk.run_one(alice)
    desk.wait(100)
    desk.report(admin, task, status)
    assert not only(desk, alice).alive
