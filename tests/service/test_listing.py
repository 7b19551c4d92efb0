"""Lists: newest first, by room, job, status and creator, counted with a limit."""

from __future__ import annotations

import pytest

from jobroom.domain.records import Logged
from jobroom.errors import JobNotFound
from jobroom.service import reading, reporting
from jobroom.store import lists


@pytest.fixture
def many(desk, alice, bob, rotate):
    """Ten tasks of two users in two jobs and several states, oldest first."""
    other = desk.job(alice, "Other")
    made = [
        desk.submit(bob if n % 2 else alice, other if n % 5 == 0 else rotate) for n in range(10)
    ]
    desk.report(bob, made[1], "cancelled")
    desk.report(alice, made[2], "cancelled")
    desk.run_one(alice)
    return made


def ids(page):
    return [view.task.id for view in page]


def newest(tasks):
    return [task.id for task in reversed(tasks)]


def test_a_list_is_newest_first_by_sequence(desk, bob, many) -> None:
    """Rules, *Lists*: whatever the states are."""
    page, total = desk.list(bob)
    assert ids(page) == newest(many)
    assert total == 10


def test_a_list_holds_what_was_submitted_in_the_room(desk, admin, bob) -> None:
    job = desk.job(admin, room_id="@global")
    here = desk.submit(bob, job, room_id="r1")
    desk.submit(bob, job, room_id="r2")
    page, total = desk.list(bob, room_id="r1")
    assert (ids(page), total) == ([here.id], 1)


@pytest.mark.parametrize(
    "statuses", [("cancelled",), ("pending",), ("cancelled", "running"), ("completed",)]
)
def test_a_list_may_be_of_some_states(desk, bob, many, statuses) -> None:
    page, total = desk.list(bob, statuses=statuses)
    expected = [task for task in many if desk.get(bob, task).status in statuses]
    assert ids(page) == newest(expected)
    assert total == len(expected)


def test_a_list_may_be_of_one_job(desk, bob, many, rotate) -> None:
    page, total = desk.list(bob, full_name="r1:modifiers:Other")
    assert ids(page) == [many[5].id, many[0].id]
    assert total == 2


def test_a_list_of_one_job_in_one_state(desk, bob, many, rotate) -> None:
    page, _ = desk.list(bob, full_name=rotate.full_name, statuses=("cancelled",))
    assert ids(page) == [many[2].id, many[1].id]


def test_a_list_may_be_of_one_creator(desk, alice, bob, many) -> None:
    page, total = desk.list(alice, created_by_id="bob")
    assert ids(page) == newest(many[1::2])
    assert total == 5


def test_a_list_of_an_unknown_job_is_not_found(desk, bob, many) -> None:
    with pytest.raises(JobNotFound):
        desk.list(bob, full_name="r1:modifiers:Nothing")


def test_pages_by_offset_join_up(desk, bob, many) -> None:
    pages = [desk.list(bob, limit=4, offset=offset)[0] for offset in (0, 4, 8)]
    assert [len(page) for page in pages] == [4, 4, 2]
    assert [key for page in pages for key in ids(page)] == newest(many)


def test_pages_by_sequence_are_stable_while_rows_come(desk, bob, many, rotate) -> None:
    """Contract, *Tasks*: the cursor is stable while rows come and go."""
    first, _ = desk.list(bob, limit=4)
    desk.submit(bob, rotate)
    second, _ = desk.list(bob, limit=10, before=first[-1].task.seq)
    assert ids(first) + ids(second) == newest(many)


def test_a_limit_of_zero_only_counts(desk, bob, many) -> None:
    """Contract, *Tasks*: ``limit`` 0..500."""
    assert desk.list(bob, limit=0) == ([], 10)


def test_the_count_stops_at_its_limit(desk, bob, many, monkeypatch) -> None:
    """Contract, *Tasks*: ``total`` is exact to 10,000; one more says that there are more."""
    monkeypatch.setattr(lists, "COUNT_LIMIT", 7)
    assert desk.list(bob, limit=0)[1] == 8


def test_lists_fill_in_the_queue_position(desk, alice, bob, rotate) -> None:
    """Contract, *Tasks*: filled by ``GET /tasks/{id}`` and by lists."""
    for _ in range(3):
        desk.submit(bob, rotate)
    desk.run_one(alice)
    page, _ = desk.list(bob)
    assert [view.queue_position for view in page] == [2, 1, None]


def test_lists_name_the_job(desk, bob, many, rotate) -> None:
    page, _ = desk.list(bob, limit=1)
    assert page[0].job_name == rotate.full_name


def test_a_held_task_says_when_its_lease_ends(desk, alice, bob, rotate) -> None:
    """Contract, *Tasks*: ``lease_expires_at``: the last heartbeat and the worker timeout."""
    task = desk.submit(bob, rotate)
    assert desk.view(bob, task).lease_expires_at is None
    desk.run_one(alice)
    desk.wait(20)
    at = desk.now()
    desk.beat(alice)
    lease = desk.view(bob, task).lease_expires_at
    assert lease is not None
    assert at + 60_000_000 <= lease <= at + 65_000_000
    desk.report(alice, task, "completed")
    assert desk.view(bob, task).lease_expires_at is None


def test_jobs_are_listed_in_pages(desk, alice, bob) -> None:
    for name in "abcde":
        desk.job(alice, name)
    assert desk.listed(bob) == [f"r1:modifiers:{name}" for name in "abcde"]


def test_tasks_that_changed_since_they_were_seen_are_found_for_who_waits(
    desk, alice, bob, rotate
) -> None:
    """Contract, *Tasks*: a long-poll wakes on what another process did, too."""
    changed, same = desk.submit(bob, rotate), desk.submit(bob, rotate)
    known = {task.id: task.version for task in (changed, same)}
    known["0190163d-8694-739b-aea5-966c26f8ad91"] = 1
    desk.run_one(alice)
    found = desk.queue.run(reading.find_changed, known=known, logs={})
    assert [task.id for task in found] == [changed.id]


def test_logs_that_go_on_are_found_for_who_follows_them(desk, alice, bob, rotate) -> None:
    """By one question for all of them, whichever process has appended."""
    tasks = [desk.submit(bob, rotate) for _ in range(3)]
    for task in tasks:
        assert desk.run_one(alice).id == task.id
    for task, text in zip(tasks, ("more", "all", ""), strict=True):
        if text:
            said = reporting.Report(log=text, log_offset=0, attempt=1)
            desk.queue.run(reporting.report, caller=alice, task_id=task.id, report=said)
    known = {task.id: desk.get(bob, task).version for task in tasks}
    logs = {tasks[0].id: (1, 2), tasks[1].id: (1, 3), tasks[2].id: (1, 0)}
    [found] = desk.queue.run(reading.find_changed, known=known, logs=logs)
    assert found == Logged(tasks[0].id, known[tasks[0].id], 1, 4)
