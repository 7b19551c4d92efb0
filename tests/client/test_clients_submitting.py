"""Submitting and results, in both colours."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime

import pytest
from fake_queue import JOB
from pydantic import BaseModel

from jobroom import errors
from jobroom.client import outcome
from jobroom.client.plan import when
from jobroom.worker.functions import job


class Rotated(BaseModel):
    angle: float
    axes: tuple[str, ...] = ()


class Rotate(BaseModel):
    angle: float = 0.0
    since: date | None = None


@job(room="r1", name="Rotate")
def rotate(angle: float, axis: str = "x") -> Rotated:
    """Turn."""
    return Rotated(angle=angle, axes=(axis,))


@job(name="Count")
def count(since: date) -> int:
    return since.year


def sent(queue):
    (seen,) = queue.asked("POST", "/tasks/")
    return seen


def test_a_task_is_submitted_with_its_options(queue, client):
    handle = client.submit(
        *(JOB, {"angle": 1}),
        axis="y",
        priority=3,
        max_attempts=2,
        timeout_seconds=5,
        run_at=datetime(2026, 1, 1, tzinfo=UTC),
        depends_on=["a", {"id": "b"}],
    )
    assert sent(queue).body == {
        "payload": {"angle": 1, "axis": "y"},
        "priority": 3,
        "max_attempts": 2,
        "timeout_seconds": 5,
        "run_at": "2026-01-01T00:00:00+00:00",
        "depends_on": ["a", "b"],
    }
    assert (handle.id, handle.job, handle.room) == (*queue.tasks, JOB, "r1")


def test_a_task_may_depend_on_a_handle(queue, client):
    first = client.submit(JOB)
    client.submit(JOB, depends_on=[first, when(first, "afterany")])
    _, second = queue.asked("POST", "/tasks/")
    condition = {"id": first.id, "condition": "afterany"}
    assert second.body["depends_on"] == [first.id, condition]


def test_the_room_may_be_another_than_the_jobs(queue, client):
    queue.jobs["@global:modifiers:Rotate"] = {}
    assert client.submit("@global:modifiers:Rotate", room="r2").room == "r2"


@pytest.mark.parametrize("how", [{}, {"act": True}, {"status": 502}, {"status": 504, "act": True}])
def test_a_lost_answer_makes_no_second_task(queue, client, how):
    """C22."""
    queue.fail_next("POST", "/tasks/", times=2, **how)
    handle = client.submit(JOB, angle=1)
    assert [*queue.tasks] == [handle.id]
    keys = {seen.headers["idempotency-key"] for seen in queue.asked("POST", "/tasks/")}
    assert len(keys) == 1


def test_an_idempotency_key_of_ones_own_is_sent(queue, client):
    first = client.submit(JOB, idempotency_key="mine")
    assert client.submit(JOB, idempotency_key="mine").id == first.id


@pytest.mark.parametrize("name", ["A?B", "a/b", "A%2FB", "#", "..", "é", "名前", "a b"])
def test_names_round_trip(queue, client, name):
    """C20."""
    full_name = f"{name}:modifiers:{name}"
    queue.jobs[full_name] = {"full_name": full_name}
    handle = client.submit(full_name)
    assert (handle.room, handle.job) == (name, full_name)
    assert client.job(full_name)["full_name"] == full_name


def test_a_class_is_looked_for_in_the_room_and_then_among_the_global_jobs(queue, client):
    assert client.submit(Rotate(angle=2), room="r1").job == JOB
    queue.jobs["@global:modifiers:Rotate"] = {}
    assert client.submit(Rotate, room="r2", angle=2).job == "@global:modifiers:Rotate"
    assert [task["room_id"] for task in queue.tasks.values()] == ["r1", "r2"]


def test_a_function_is_submitted_by_its_arguments(queue, client):
    """Defaults are the worker's: they may change before the task is run."""
    client.submit(rotate, angle=1)
    assert sent(queue).body == {"payload": {"angle": 1.0}}


def test_a_functions_result_is_of_its_return_type(queue, client):
    queue.work = lambda payload: {"result": {**payload, "axes": ["x"]}}
    assert client.submit(rotate, angle=1).result() == Rotated(angle=1.0, axes=("x",))


def test_arguments_are_sent_as_json_has_them(queue, client):
    queue.jobs["r1:modifiers:Count"] = {}
    client.submit(count, room="r1", since=date(2026, 1, 2))
    assert sent(queue).body == {"payload": {"since": "2026-01-02"}}


def test_arguments_that_do_not_fit_are_refused_before_they_are_sent(queue, client):
    with pytest.raises(errors.PayloadInvalid, match="angle"):
        client.submit(rotate, angle="much")
    assert queue.seen == []


@pytest.mark.parametrize("nothing", [None, 5, len, lambda: None])
def test_what_is_no_job_is_refused_in_one_sentence(client, nothing):
    with pytest.raises(TypeError, match="full name"):
        client.submit(nothing)


def test_an_unknown_job_is_named(client):
    with pytest.raises(errors.JobNotFound):
        client.submit("r1:modifiers:Turn")


@pytest.mark.parametrize(
    ("returns", "result", "found"),
    [
        (None, [1, {"a": None}], [1, {"a": None}]),
        (Rotated, {"angle": 1}, Rotated(angle=1)),
        (list[int], [1, 2], [1, 2]),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [2, 1], {1, 2}),
        (date, "2026-01-02", date(2026, 1, 2)),
        (int | None, None, None),
    ],
)
def test_a_result_is_of_the_type_asked_for(queue, client, returns, result, found):
    queue.work = lambda _payload: {"result": result}
    assert client.submit(JOB, returns=returns).result() == found


def test_a_result_of_another_type_is_an_error_that_says_where(queue, client):
    queue.work = lambda _payload: {"result": {"angle": "much"}}
    with pytest.raises(outcome.ResultMismatch, match=r"no Rotated: angle: .*number"):
        client.submit(JOB, returns=Rotated).result()


def test_a_type_that_cannot_be_checked_is_refused_before_anything_is_submitted(queue, client):
    class Odd:
        pass

    with pytest.raises(TypeError, match="returns=Odd cannot be checked"):
        client.submit(JOB, returns=Odd)
    assert queue.seen == []


def test_a_result_too_large_for_the_answer_is_fetched(queue, client):
    queue.work = lambda _payload: {"result": ["x" * 50_000, 1]}
    assert client.submit(JOB).result() == ["x" * 50_000, 1]
    assert len(queue.asked("GET", "/result$")) == 1


def test_a_failed_task_is_raised_with_its_error_its_attempts_and_what_to_do(queue, client):
    queue.work = lambda _payload: {"status": "failed", "error": "ValueError: bad\n  x", "starts": 2}
    handle = client.submit(JOB)
    with pytest.raises(outcome.TaskFailed) as raised:
        handle.result()
    assert str(raised.value) == (
        f"Task {handle.id} ({JOB}) failed after 2 attempts: ValueError: bad\n  x\n"
        f"Its log: jobroom log {handle.id}"
    )
    assert (raised.value.task_id, raised.value.error) == (handle.id, "ValueError: bad\n  x")
    again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - our own
    assert (str(again), again.task) == (str(raised.value), raised.value.task)


def test_a_task_that_failed_unstarted_says_so(queue, client):
    queue.work = lambda _payload: {"status": "failed", "error": "It expired."}
    with pytest.raises(outcome.TaskFailed, match=r"failed before it started: It expired\."):
        client.submit(JOB).result()


def test_a_cancelled_task_is_raised(queue, client):
    handle = client.submit(JOB)
    assert handle.cancel()["status"] == "cancelled"
    with pytest.raises(outcome.TaskWasCancelled, match="was cancelled"):
        handle.result()
    assert handle.status() == "cancelled"


def test_a_task_that_has_ended_cannot_be_cancelled(queue, client):
    queue.work = lambda _payload: {"result": 1}
    with pytest.raises(errors.InvalidTaskTransition):
        client.submit(JOB).cancel()


def test_a_handle_is_had_for_an_id(queue, client):
    task = queue.add_task(JOB, result=[7])
    queue.end(task["id"])
    handle = client.task(task["id"], returns=tuple[int])
    assert (handle.job, handle.result(), handle.show()["status"]) == (JOB, (7,), "completed")
    with pytest.raises(errors.TaskNotFound):
        client.task("nothing")
    assert task["id"] in repr(handle)


def test_a_refused_token_says_so(queue, client):
    queue.refused_tokens.add("t")
    with pytest.raises(errors.Unauthorized):
        client.submit(JOB)


def test_lists_are_read_to_their_end(queue, client):
    for _ in range(7):
        queue.add_task(JOB)
    queue.end(next(iter(queue.tasks)))
    assert len(list(client.tasks("r1"))) == 7
    assert [task["id"] for task in client.tasks("r1", status="completed")] == [*queue.tasks][:1]


def test_a_schedule_is_put_listed_and_removed(queue, client):
    spec = {"name": "a b/c", "job": JOB, "cron": "0 8 * * *"}
    assert client.put_schedule("r1", **spec) == spec
    assert client.schedules("r1") == [spec]
    client.remove_schedule("r1", "a b/c")
    assert client.schedules("r1") == []


def test_who_the_token_is_can_be_asked(client):
    assert client.me()["id"] == "t"
