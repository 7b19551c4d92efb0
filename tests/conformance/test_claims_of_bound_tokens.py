"""A token's rooms bind its claims: what is not of them is neither handed out nor touched.

Security, *Threats*: a worker gets tasks of the jobs that it registered, in rooms of its token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from desk import Desk, Waiter

from jobroom.domain.records import Caller, Job, Task

WORKER = Caller("w")
SPARE = Caller("spare")
ADMIN = Caller("w", is_admin=True)


def bound(*rooms: str, is_admin: bool = False) -> Caller:
    """The worker, by a token of some rooms."""
    return Caller("w", is_admin=is_admin, rooms=frozenset(rooms))


@pytest.fixture
def jobs(desk: Desk) -> dict[str, Job]:
    """A job of r1, of r2 and of all rooms, which the worker has registered."""
    return {
        "r1": desk.job(WORKER, room_id="r1"),
        "r2": desk.job(WORKER, room_id="r2"),
        "@global": desk.job(ADMIN, room_id="@global"),
    }


@pytest.fixture
def submit(desk: Desk, bob: Caller, jobs: dict[str, Job]) -> Callable[..., Task]:
    def _submit(of: str, *, room_id: str | None = None, **new: Any) -> Task:
        return desk.submit(bob, jobs[of], room_id=room_id or of, **new)

    return _submit


def test_a_claim_takes_tasks_of_jobs_in_rooms_of_its_token_alone(desk, submit):
    """However many it asks for, and whatever the priority of the others."""
    own = [submit("r2"), submit("r2")]
    others = [submit("r1", priority=9), submit("@global", room_id="r2", priority=9)]
    claimed = desk.claim(bound("r2"), limit=10)
    assert [task.id for task in claimed] == [task.id for task in own]
    assert desk.claim(bound("r2"), start=True) == []
    assert [desk.get(WORKER, task) for task in others] == others
    assert len(desk.claim(WORKER, limit=10)) == 2


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("most_bytes", [None, 1 << 20])
def test_every_way_of_claiming_is_bound(desk, submit, start, most_bytes):
    more = {"start": start, "most_bytes": most_bytes}
    submit("r1")
    own = submit("r2")
    assert desk.claim(bound(), **more) == desk.claim(bound("r3"), **more) == []
    assert desk.claim_one(bound("r2", "r3"), **more).id == own.id
    assert desk.claim(bound("r2", "r3"), **more) == []


@pytest.mark.parametrize("rooms", [("r1",), ("@global",), ("r1", "r2", "@global")])
def test_tasks_of_a_global_job_go_to_a_token_of_all_rooms_alone(desk, submit, rooms):
    """They come from every room, so no token of some of them gets one, an admin's neither."""
    task = submit("@global", room_id="r1")
    assert desk.claim(bound(*rooms, is_admin=True)) == []
    assert desk.claim_one(WORKER).id == task.id


def test_rooms_that_can_be_none_are_no_hindrance(desk, submit):
    """A token may name anything; not every store could be asked for it."""
    task = submit("r2")
    odd = ("a\0b", "\ud800", "", "x" * 300, "'", '"]', "r2", "é")
    assert desk.claim_one(bound(*odd)).id == task.id


def test_a_task_too_large_for_the_answer_is_told_to_who_may_have_it_alone(desk, submit):
    submit("r1", payload='{"much": "%s"}' % ("x" * 200_000))
    assert desk.claim(bound("r2"), most_bytes=100_000) == []


def test_what_became_due_or_expired_elsewhere_is_left_as_it_is(desk, submit):
    late = submit("r1", run_at=desk.soon(5))
    own = submit("r2", run_at=desk.soon(5))
    expired = submit("r1", priority=1, expires_at=desk.soon(5))
    desk.wait(10)
    assert desk.claim_one(bound("r2")).id == own.id
    assert desk.claim(bound("r2"), limit=2) == []
    assert [desk.get(WORKER, task) for task in (late, expired)] == [late, expired]


def test_the_next_task_beside_a_report_is_bound_as_well(desk, submit):
    first, other, own = submit("r2"), submit("r1", priority=1), submit("r2")
    claimed = desk.run_one(bound("r2"))
    done = desk.reported(bound("r2"), claimed, "completed", attempt=1, claim_next=True)
    assert (done.view.task.id, done.next_task.task.id) == (first.id, own.id)
    done = desk.reported(bound("r2"), own, "completed", attempt=1, claim_next=True)
    assert done.next_task is None
    assert desk.get(WORKER, other) == other


def test_a_repeat_by_another_token_does_not_show_what_is_not_of_its_rooms(desk, submit):
    """It is answered as if the earlier claim had not been; that one keeps what it got."""
    first = submit("r1")
    asked = {"request_id": "q"}
    assert desk.claim_one(bound("r1"), **asked).id == first.id
    assert desk.claim(bound("r2"), **asked) == []
    own = submit("r2")
    assert desk.claim_one(bound("r2"), **asked).id == own.id
    assert desk.claim_one(bound("r1"), **asked).id == first.id
    assert desk.claim_one(bound("r2"), **asked).id == own.id
    assert {task.id for task in desk.claim(WORKER, **asked)} == {first.id, own.id}


def test_a_repeated_report_does_not_show_a_next_task_that_is_not_of_its_rooms(desk, submit):
    first, second = submit("r2"), submit("r1")
    task = desk.claim_one(bound("r2"), start=True)
    said = {"attempt": 1, "claim_next": True}
    assert desk.reported(WORKER, task, "completed", **said).next_task.task.id == second.id
    again = desk.reported(bound("r2"), task, "completed", **said)
    assert (again.view.task.id, again.next_task) == (first.id, None)
    assert desk.reported(WORKER, task, "completed", **said).next_task.task.id == second.id


def test_a_holder_stays_the_holder_whatever_its_token(desk, submit):
    """Rules, *Who sees what*: whoever holds a task may read and report it whatever his rooms."""
    task, back = submit("r1"), submit("r1")
    desk.claim(WORKER, limit=2)
    narrow = bound()
    assert desk.report(narrow, task, "running").status == "running"
    assert desk.report(narrow, task, "completed").status == "completed"
    assert desk.report(narrow, back, "pending").status == "pending"
    assert desk.beat(narrow) == []


@pytest.fixture
def spare(desk: Desk, jobs: dict[str, Job]) -> Caller:
    """Another worker of the job of r1, with a token of all rooms."""
    desk.job(SPARE, room_id="r1")
    return SPARE


def test_a_waiting_claim_is_bound_and_stands_in_nobodys_way(desk, submit, spare):
    """It came first, and what it may not have goes to who waits behind it."""
    waiting = Waiter(desk, bound("r2")).begin()
    behind = Waiter(desk, spare).begin()
    other = submit("r1")
    assert [task.id for task in behind.answer()] == [other.id]
    assert waiting.waits
    own = submit("r2")
    assert [task.id for task in waiting.answer()] == [own.id]


def test_a_job_joined_while_a_claim_waits_counts_if_its_token_reaches_the_room(desk, bob):
    waiting = Waiter(desk, bound("r2")).begin()
    job = desk.job(WORKER, room_id="r1")
    desk.job(SPARE, room_id="r1")
    behind = Waiter(desk, SPARE).begin()
    task = desk.submit(bob, job, room_id="r1")
    assert [found.id for found in behind.answer()] == [task.id]
    own = desk.job(WORKER, room_id="r2")
    assert waiting.waits
    task = desk.submit(bob, own, room_id="r2")
    assert [found.id for found in waiting.answer()] == [task.id]


def test_a_global_job_joined_while_a_bound_claim_waits_does_not_count(desk, bob):
    waiting = Waiter(desk, bound("r1", "@global")).begin()
    job = desk.job(ADMIN, room_id="@global")
    task = desk.submit(bob, job, room_id="r1")
    assert waiting.waits
    assert desk.claim_one(WORKER).id == task.id
    assert waiting.waits


def test_what_another_process_submits_is_handed_to_who_may_have_it(desk, other, submit, spare):
    waiting = Waiter(other, bound("r2")).begin()
    behind = Waiter(other, spare).begin()
    task = submit("r1")
    assert [found.id for found in behind.answer()] == [task.id]
    assert waiting.waits
    own = submit("r2")
    assert [found.id for found in waiting.answer()] == [own.id]
