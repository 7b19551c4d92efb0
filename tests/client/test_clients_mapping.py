"""``map`` in both colours: order, window, refusals, how few requests it takes."""

from __future__ import annotations

import itertools
import threading

import pytest
from fake_queue import JOB
from pydantic import BaseModel

from jobroom import errors
from jobroom.client import outcome
from jobroom.worker.functions import job


class Doubled(BaseModel):
    n: int


@job(room="r1", name="Rotate")
def double(n: int) -> Doubled:
    return Doubled(n=2 * n)


def numbers(many):
    return ({"n": n} for n in range(many))


def echo(payload):
    return {"result": payload["n"]}


def test_results_come_in_the_order_of_the_payloads(queue, client):
    queue.work = echo
    assert list(client.map(JOB, numbers(2500))) == list(range(2500))
    assert len(queue.asked("POST", "/tasks")) <= 10
    assert len(queue.seen) < 60


def test_nothing_to_do_takes_no_request(queue, client):
    assert list(client.map(JOB, [])) == []
    assert queue.seen == []


def test_no_more_are_submitted_than_the_window_has_room_for(queue, client):
    queue.work = echo
    results = client.map(JOB, ({"n": n} for n in itertools.count()), window=10)
    for n in range(30):
        assert next(results) == n
        assert len(queue.tasks) <= n + 10
    results.close()


def test_the_first_is_given_while_the_others_are_worked_on(queue, client):
    results = client.map(JOB, numbers(5))
    threading.Thread(target=end_when_there, args=(queue, 0)).start()
    assert next(results) == 0
    for n in (3, 2, 1, 4):
        threading.Thread(target=end_when_there, args=(queue, n)).start()
    assert list(results) == [1, 2, 3, 4]


def end_when_there(queue, n):
    queue.until(lambda: len(queue.tasks) > n)
    queue.end(list(queue.tasks)[n], result=n)


def test_results_are_of_the_type_asked_for(queue, client):
    queue.work = lambda payload: {"result": {"n": payload["n"]}}
    assert list(client.map(JOB, numbers(2), returns=Doubled)) == [Doubled(n=0), Doubled(n=1)]
    assert list(client.map(double, numbers(2))) == [Doubled(n=0), Doubled(n=1)]


def test_large_results_are_fetched_each(queue, client):
    queue.work = lambda payload: {"result": str(payload["n"]) * 5000}
    assert [len(text) for text in client.map(JOB, numbers(3))] == [5000] * 3


def test_a_failed_task_is_raised_at_its_place(queue, client):
    queue.work = lambda payload: echo(payload) if payload["n"] != 2 else {"status": "failed"}
    results = client.map(JOB, numbers(4))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(outcome.TaskFailed):
        next(results)


def test_a_failed_task_is_yielded_at_its_place_if_asked_for(queue, client):
    queue.work = lambda payload: echo(payload) if payload["n"] != 2 else {"status": "failed"}
    first, second, third, fourth = client.map(JOB, numbers(4), return_exceptions=True)
    assert (first, second, fourth) == (0, 1, 3)
    assert isinstance(third, outcome.TaskFailed)


def payloads_with_refused_ones():
    return [{"n": 0}, {"n": float("nan")}, {"n": 2}, {"n": 3, "bad": True}, {"n": 4}]


def test_refused_payloads_are_yielded_at_their_places(queue, client):
    queue.work = echo
    found = list(client.map(JOB, payloads_with_refused_ones(), return_exceptions=True))
    assert [found[n] for n in (0, 2, 4)] == [0, 2, 4]
    assert isinstance(found[1], errors.ValidationFailed)
    assert isinstance(found[3], errors.PayloadInvalid)


@pytest.mark.parametrize(
    ("bad", "kind"),
    [({"n": float("nan")}, errors.ValidationFailed), ({"bad": True}, errors.PayloadInvalid)],
)
def test_a_refused_payload_is_raised_at_its_place_and_nothing_after_it_is_submitted(
    queue, client, bad, kind
):
    queue.work = echo
    results = client.map(JOB, [{"n": 0}, bad, {"n": 2}])
    assert next(results) == 0
    with pytest.raises(kind):
        next(results)
    assert len(queue.tasks) == 1


def test_progress_is_told(queue, client):
    queue.work = lambda payload: echo(payload) if payload["n"] != 2 else {"status": "failed"}
    told = []
    payloads = list(numbers(7))
    tell = lambda *counts: told.append(counts)  # noqa: E731
    list(client.map(JOB, payloads, return_exceptions=True, on_progress=tell))
    assert told[-1] == (7, 1, 7)
    list(client.map(JOB, numbers(1), on_progress=tell))
    assert told[-1] == (1, 0, None)


def test_a_server_that_takes_fewer_at_once_is_given_fewer(queue, client):
    queue.work = echo
    queue.most_tasks = 100
    assert list(client.map(JOB, numbers(900))) == list(range(900))
    assert len(queue.tasks) == 900


def test_large_payloads_are_sent_in_several_requests(queue, client):
    queue.work = lambda payload: {"result": len(payload["text"])}
    assert list(client.map(JOB, [{"text": "x" * 300_000}] * 7)) == [300_000] * 7
    assert len(queue.asked("POST", "/tasks")) == 4


@pytest.mark.parametrize("how", [{}, {"act": True}, {"status": 502, "act": True}])
def test_faults_make_no_second_tasks(queue, client, how):
    """C22."""
    queue.work = echo
    queue.fail_next("POST", "/tasks", times=2, **how)
    queue.fail_next("GET", "/tasks", times=3, **how)
    assert list(client.map(JOB, numbers(20))) == list(range(20))
    assert len(queue.tasks) == 20


def test_a_class_job_is_found_among_the_global_ones(queue, client):
    class Turn(BaseModel):
        n: int = 0

    queue.jobs["@global:modifiers:Turn"] = {}
    queue.work = echo
    assert list(client.map(Turn, numbers(3), room="r2")) == [0, 1, 2]
    assert {task["job_name"] for task in queue.tasks.values()} == {"@global:modifiers:Turn"}


def test_an_unknown_job_is_an_error_at_once(client):
    with pytest.raises(errors.JobNotFound):
        next(client.map("r1:modifiers:Turn", numbers(3)))


def test_options_are_those_of_every_task(queue, client):
    queue.work = echo
    list(client.map(JOB, numbers(2), priority=3))
    (seen,) = queue.asked("POST", "/tasks")
    assert [task["priority"] for task in seen.body["tasks"]] == [3, 3]


def test_lists_that_may_not_be_read_are_done_without(queue, client):
    queue.work = echo
    queue.fail_next("GET", "/rooms/r1/tasks", times=1, status=403)
    assert list(client.map(JOB, numbers(30))) == list(range(30))


def test_who_stops_a_map_is_told_what_goes_on(queue, colour):
    client = colour.client(queue.url, "t", http=colour.http())
    queue.work = echo

    def stop(*_counts):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"3 tasks were submitted and 3 of them have ended"):
        list(client.map(JOB, numbers(3), on_progress=stop))
    assert len(queue.tasks) == 3


def test_a_window_without_room_is_refused(client):
    with pytest.raises(errors.ValidationFailed, match="window"):
        client.map(JOB, numbers(3), window=0)


def test_a_task_that_is_kept_no_more_is_an_error_at_its_place(queue, client):
    results = client.map(JOB, numbers(3), return_exceptions=True, window=3)
    threading.Thread(target=end_when_there, args=(queue, 0)).start()
    assert next(results) == 0
    end_when_there(queue, 2)
    del queue.tasks[list(queue.tasks)[1]]
    gone, last = results
    assert isinstance(gone, errors.TaskNotFound)
    assert last == 2


def test_a_payload_of_another_kind_is_refused_in_one_sentence(client):
    with pytest.raises(TypeError, match="a mapping or a pydantic model; this one is a int"):
        next(client.map(JOB, [5]))


def test_a_payload_of_no_payloads_type_is_yielded_at_its_place(queue, client):
    queue.work = echo
    first, second, third = client.map(JOB, [{"n": 0}, 5, {"n": 2}], return_exceptions=True)
    assert (first, third) == (0, 2)
    assert isinstance(second, TypeError)
