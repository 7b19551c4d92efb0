"""Why a task is where it is, in one sentence."""

from __future__ import annotations

import re

import pytest
from desk import Desk

from jobroom.domain.records import Caller, Task
from jobroom.errors import TaskNotFound
from jobroom.service import explaining
from jobroom.service.queue import JobQueue

NAME = "r1:modifiers:Rotate"


@pytest.fixture
def desk(queue: JobQueue) -> Desk:
    return Desk(queue)


def why(desk: Desk, caller: Caller, task: Task) -> str:
    found = desk.queue.run(explaining.explain_task, caller=caller, task_id=task.id)
    assert found.reason.startswith(f"{found.status}: ")
    return found.reason.removeprefix(f"{found.status}: ")


def test_a_pending_task_tells_its_place_and_its_workers(
    desk: Desk, alice: Caller, bob: Caller
) -> None:
    job = desk.job(alice)
    desk.register(bob)
    tasks = [desk.submit(alice, job) for _ in range(3)]
    alive = f"2 of 2 workers for {NAME} are alive"
    assert why(desk, bob, tasks[2]) == f"3rd in line; {alive}, 0 of them busy"
    desk.claim_one(bob)
    assert why(desk, bob, tasks[2]) == f"2nd in line; {alive}, 1 of them busy"
    desk.wait(50)
    desk.beat(bob)
    desk.wait(20)
    said = why(desk, bob, tasks[2])
    assert said == f"2nd in line; 1 of 2 workers for {NAME} is alive, and busy"
    desk.wait(230)
    assert why(desk, bob, tasks[2]) == (
        f"2nd in line; 0 of 2 workers for {NAME} are alive, the last was seen 4 min ago; start one"
    )


def test_a_job_whose_workers_left_tells_when_the_last_was_seen(desk: Desk, alice: Caller) -> None:
    task = desk.submit(alice, desk.job(alice))
    desk.leave(alice)
    desk.wait(3 * 3600)
    # It was the job's last worker, whose unfinished tasks stay.
    assert why(desk, alice, task) == (
        f"1st in line; 0 of 0 workers for {NAME} are alive, the last was seen 3 h ago; start one"
    )


def test_a_delayed_task_tells_its_time(desk: Desk, alice: Caller) -> None:
    job = desk.job(alice)
    task = desk.submit(alice, job, run_at=desk.soon(7200), expires_at=desk.soon(9000))
    said = why(desk, alice, task)
    assert re.fullmatch(
        r"not before \d{4}-.+Z, in (2 h|1 h) \(run_at\);"
        r" it expires at .+Z if it has not started by then",
        said,
    )
    desk.wait(7300)
    assert why(desk, alice, task).startswith(("in line; ", "1st in line; "))


def test_a_task_that_failed_once_tells_that_it_waits_for_another_try(
    desk: Desk, alice: Caller
) -> None:
    job = desk.job(alice, max_attempts=3, retry_delay_seconds=100)
    desk.submit(alice, job)
    task = desk.report(alice, desk.run_one(alice), "failed", error="no luck")
    said = why(desk, alice, task)
    assert said.endswith("(run_at); it has been claimed once and will be tried again")


def test_a_blocked_task_names_what_it_waits_for(desk: Desk, alice: Caller) -> None:
    job = desk.job(alice)
    firsts = [desk.submit(alice, job) for _ in range(5)]
    last = desk.submit(alice, job, depends_on=[(first.id, "afterok") for first in firsts])
    told = ", ".join(f"task {first.id} ({NAME}, pending)" for first in firsts[:3])
    assert why(desk, alice, last) == f"waits for {told} and 2 more"


def test_a_held_task_tells_its_worker_and_whether_it_is_silent(desk: Desk, alice: Caller) -> None:
    desk.submit(alice, desk.job(alice))
    task = desk.claim_one(alice)
    desk.wait(5)
    said = why(desk, alice, task)
    assert re.fullmatch(r"worker alice took it \d+ s ago and has not started it, attempt 1", said)
    desk.report(alice, task, "running")
    desk.wait(125)
    assert why(desk, alice, task) == (
        "on worker alice for 2 min, attempt 1;"
        " the worker is silent for 2 min, the next sweep takes the task from it"
    )


def test_an_ended_task_tells_how(desk: Desk, alice: Caller) -> None:
    job = desk.job(alice)
    first = desk.submit(alice, job)
    second = desk.submit(alice, job, depends_on=[(first.id, "afterok")])
    desk.report(alice, desk.run_one(alice), "failed", error="no luck\n" + "x" * 1000)
    assert re.fullmatch(
        r"ended \d+ s ago: no luck x+… \[cut from \d+ bytes\]", why(desk, alice, first)
    )
    assert re.fullmatch(
        rf"ended \d+ s ago, unstarted, for the task {first.id} did not end as it had to",
        why(desk, alice, second),
    )
    desk.submit(alice, job)
    silent = desk.report(alice, desk.run_one(alice), "failed")
    assert re.fullmatch(r"ended \d+ s ago", why(desk, alice, silent))
    third = desk.report(alice, desk.submit(alice, job), "cancelled")
    assert re.fullmatch(r"ended \d+ s ago", why(desk, alice, third))


def test_a_task_out_of_sight_is_not_explained(desk: Desk, alice: Caller) -> None:
    """Rules, *Who sees what*."""
    task = desk.submit(alice, desk.job(alice))
    with pytest.raises(TaskNotFound):
        why(desk, Caller("eve", rooms=frozenset()), task)


@pytest.mark.only_on("sqlite")  # where a column takes what is not of its type
@pytest.mark.parametrize("status", ["pending", "running", "failed", "blocked"])
def test_a_damaged_task_is_explained_as_well_as_may_be(
    desk: Desk, alice: Caller, status: str
) -> None:
    """Somebody else has written to the tables."""
    task = desk.submit(alice, desk.job(alice))
    ended = "'then'" if status == "failed" else "NULL"
    desk.write(
        f"UPDATE task SET status = '{status}', created_at = 'x', run_at = 'soon', attempt = 'x',"  # noqa: S608 - our own names
        f" expires_at = 'late', started_at = x'ff', worker_id = 'w', completed_at = {ended},"
        " error = x'ff'"
    )
    why(desk, alice, task)
    desk.write(
        "UPDATE task SET created_at = 1, run_at = NULL, attempt = 1, max_attempts = 1,"
        " expires_at = NULL"
    )
    why(desk, alice, task)
