"""Who sees what, and which room a token may touch (rules, *Who sees what*)."""

from __future__ import annotations

import pytest

from jobroom.domain.records import Caller
from jobroom.errors import Forbidden, InvalidRoomId, JobNotFound, NotFound, TaskNotFound

IN_R1 = Caller("carol", rooms=frozenset({"r1"}))
IN_R2 = Caller("dave", rooms=frozenset({"r2"}))
NOWHERE = Caller("erin", rooms=frozenset())
ADMIN_OF_R1 = Caller("frank", is_admin=True, rooms=frozenset({"r1"}))


def test_a_room_outside_the_token_is_not_found(desk) -> None:
    """Contract, *Identity*: a room that the token may not see answers 404, not 403."""
    with pytest.raises(NotFound):
        desk.job(IN_R2, room_id="r1")
    with pytest.raises(NotFound):
        desk.listed(IN_R2, "r1")
    with pytest.raises(NotFound):
        desk.list(IN_R2, room_id="r1")
    with pytest.raises(NotFound):
        desk.workers(IN_R2, "r1")


def test_submitting_in_a_room_outside_the_token_is_not_found(desk, admin) -> None:
    job = desk.job(admin, room_id="@global")
    with pytest.raises(NotFound):
        desk.submit(IN_R2, job, room_id="r1")


def test_rooms_bind_admins_too(desk) -> None:
    """Rules: ``is_admin`` only adds rights inside the rooms of the token."""
    desk.job(ADMIN_OF_R1, room_id="r1")
    with pytest.raises(NotFound):
        desk.job(ADMIN_OF_R1, room_id="r2")


def test_an_admin_of_some_rooms_is_none_of_global(desk) -> None:
    with pytest.raises(Forbidden):
        desk.job(ADMIN_OF_R1, room_id="@global")


def test_an_empty_list_of_rooms_means_none(desk) -> None:
    with pytest.raises(NotFound):
        desk.listed(NOWHERE, "r1")


def test_a_global_job_needs_an_admin(desk, alice, admin) -> None:
    """Contract, *Jobs*: ``@global`` needs admin: 403."""
    with pytest.raises(Forbidden):
        desk.job(alice, room_id="@global")
    assert desk.job(admin, room_id="@global").room_id == "@global"


def test_a_global_job_is_listed_in_every_room(desk, admin, bob) -> None:
    desk.job(admin, room_id="@global")
    assert desk.listed(bob, "r1") == desk.listed(bob, "r2") == ["@global:modifiers:Rotate"]


def test_the_global_room_lists_only_global_jobs(desk, admin, alice) -> None:
    desk.job(admin, "Everywhere", room_id="@global")
    desk.job(alice, "Here")
    assert desk.listed(alice, "@global") == ["@global:modifiers:Everywhere"]


def test_global_jobs_are_visible_to_a_token_of_one_room(desk, admin) -> None:
    """Rules: ``@global`` jobs are visible to all."""
    desk.job(admin, room_id="@global")
    assert desk.listed(IN_R1, "@global") == ["@global:modifiers:Rotate"]
    assert desk.show(IN_R1, "@global:modifiers:Rotate").job.name == "Rotate"


def test_another_rooms_job_is_neither_listed_nor_found(desk, rotate, bob) -> None:
    """Contract, *Jobs*: a room sees its own jobs and global ones, never another room's."""
    assert desk.listed(bob, "r2") == []
    with pytest.raises(JobNotFound):
        desk.show(bob, rotate.full_name, room_id="r2")


@pytest.mark.parametrize(
    "full_name", ["Rotate", "r1:modifiers", "r1:modifiers:Rotate:x", "::", "r1:modifiers:Nothing"]
)
def test_a_malformed_or_unknown_name_is_not_found(desk, rotate, bob, full_name) -> None:
    with pytest.raises(JobNotFound):
        desk.show(bob, full_name)


@pytest.mark.parametrize("room_id", ["@internal", "@local", "", "a/b", "a:b", "x" * 256])
def test_a_reserved_or_malformed_room_is_refused(desk, alice, room_id) -> None:
    """Contract, *Jobs*: 400 ``invalid-room-id``."""
    with pytest.raises(InvalidRoomId):
        desk.job(alice, room_id=room_id)
    # To look into @local is an admin's: to others there is no such room.
    with pytest.raises(NotFound if room_id == "@local" else InvalidRoomId):
        desk.listed(alice, room_id)


def test_submitting_in_the_global_room_needs_an_admin(desk, admin, bob) -> None:
    job = desk.job(admin, room_id="@global")
    with pytest.raises(Forbidden):
        desk.submit(bob, job, room_id="@global")
    assert desk.submit(admin, job, room_id="@global").room_id == "@global"


def test_the_task_list_of_the_global_room_needs_an_admin(desk, admin, bob) -> None:
    with pytest.raises(Forbidden):
        desk.list(bob, room_id="@global")
    assert desk.list(admin, room_id="@global") == ([], 0)


def test_a_task_of_a_room_outside_the_token_is_not_found(desk, rotate, bob) -> None:
    task = desk.submit(bob, rotate)
    with pytest.raises(TaskNotFound):
        desk.get(IN_R2, task)
    with pytest.raises(TaskNotFound):
        desk.report(IN_R2, task, "cancelled")
    with pytest.raises(TaskNotFound):
        desk.retry(IN_R2, task)


def test_whoever_sees_the_room_reads_its_tasks(desk, rotate, bob) -> None:
    task = desk.submit(bob, rotate)
    assert desk.get(IN_R1, task).id == task.id


def test_the_creator_always_reads_his_task(desk, rotate, bob) -> None:
    task = desk.submit(bob, rotate)
    assert desk.get(bob._replace(rooms=frozenset()), task).id == task.id


def test_the_holder_reads_and_reports_whatever_his_rooms(desk, admin, bob) -> None:
    """Rules: whoever holds a task may read and report it whatever his rooms."""
    job = desk.job(admin, room_id="@global")
    elsewhere = admin._replace(is_admin=False, rooms=frozenset({"r9"}))
    task = desk.submit(bob, job)
    held = desk.run_one(admin)
    assert held.id == task.id
    assert desk.get(elsewhere, task).status == "running"
    assert desk.report(elsewhere, task, "completed").status == "completed"


def test_an_unknown_task_is_not_found(desk, rotate, bob) -> None:
    task = desk.submit(bob, rotate)._replace(id="0190163d-8694-739b-aea5-966c26f8ad91")
    with pytest.raises(TaskNotFound):
        desk.get(bob, task)
    with pytest.raises(TaskNotFound):
        desk.report(bob, task, "running")


def test_a_user_lists_his_own_workers_and_an_admin_all(desk, alice, bob, admin) -> None:
    own = desk.worker(alice)
    other = desk.worker(bob)
    assert desk.workers(alice) == [own]
    assert desk.workers(admin) == sorted([own, other])


def test_an_admin_of_some_rooms_lists_his_own_workers(desk, alice) -> None:
    desk.worker(alice)
    own = desk.worker(ADMIN_OF_R1)
    assert desk.workers(ADMIN_OF_R1) == [own]


def test_a_room_lists_the_workers_of_the_jobs_it_sees(desk, alice, bob, admin) -> None:
    """Rules: ``GET /rooms/{room}/workers``: those linked to jobs visible there."""
    here, elsewhere, everywhere = desk.worker(alice), desk.worker(bob), desk.worker(admin)
    desk.job(alice, worker_id=here)
    desk.job(bob, room_id="r2", worker_id=elsewhere)
    desk.job(admin, room_id="@global", worker_id=everywhere)
    assert desk.workers(IN_R1, "r1") == sorted([here, everywhere])
