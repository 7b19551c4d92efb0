"""Both clients against the real server, as a user starts it."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import live_server
import pytest

from jobroom import errors
from jobroom.client import outcome
from jobroom.client.watching import Progress

JOB = "r1:modifiers:Rotate"
BASE = live_server.BASE
AWKWARD = ["A?B", "A#B", "é", "名前", "100%", "A%2FB", "A+B", "a b", "x" * 255, "A&B=C"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    settings = {"jwt_secret": live_server.SECRET, "sqlite_synchronous": "NORMAL"}
    with live_server.Server(folder, **settings) as running:
        yield running.until_ready()


@pytest.fixture(scope="module")
def rest(server):
    """A bare HTTP client of a worker that has the job."""
    with server.client() as http:
        live_server.register(http)
        yield http


@pytest.fixture
def client(server, rest, colour):
    assert rest.base_url == server.url
    token = live_server.token_of("w", is_admin=True)
    made = colour.client(server.url, token, http=colour.http())
    yield made
    made.close()


class Worker(threading.Thread):
    """Works on tasks as ``work`` says, until it is stopped."""

    def __init__(self, rest, work):
        super().__init__()
        self.rest = rest
        self.work = work
        self.stopped = threading.Event()

    def run(self):
        while not self.stopped.wait(0.02):
            answer = self.rest.post(f"{BASE}/tasks/claim", json={"start": True, "limit": 50})
            for task in answer.json()["tasks"]:
                self.report(task, **self.work(task))

    def report(self, task, **changes):
        body = {"attempt": task["attempt"], **changes}
        answer = self.rest.patch(f"{BASE}/tasks/{task['id']}", json=body)
        assert answer.status_code == 200, answer.text


@contextmanager
def working(rest, work):
    worker = Worker(rest, work)
    worker.start()
    try:
        yield worker
    finally:
        worker.stopped.set()
        worker.join()


def echo(task):
    return {"status": "completed", "result": task["payload"]}


def test_a_task_is_submitted_and_waited_for(rest, client):
    with working(rest, echo):
        handle = client.submit(JOB, {"n": 12345678901234567890}, returns=dict[str, int])
        assert handle.result(timeout=20) == {"n": 12345678901234567890}
    assert handle.status() == "completed"
    assert client.task(handle.id).wait()["result"] == {"n": 12345678901234567890}


def test_a_failed_task_is_raised_and_can_be_retried(rest, client):
    with working(rest, lambda _task: {"status": "failed", "error": "ValueError: bad"}):
        handle = client.submit(JOB)
        with pytest.raises(outcome.TaskFailed, match="after 1 attempt: ValueError: bad"):
            handle.result(timeout=20)
    assert client.retry(handle.id, dry_run=True)["tasks"] == [handle.id]
    assert handle.retry()["status"] == "pending"
    with working(rest, echo):
        assert handle.result(timeout=20) == {}


def test_a_cancelled_task_is_raised(client):
    handle = client.submit(JOB)
    handle.cancel()
    with pytest.raises(outcome.TaskWasCancelled):
        handle.result(timeout=20)


def test_a_task_that_nobody_works_on_is_a_time_out(client):
    handle = client.submit(JOB)
    with pytest.raises(TimeoutError):
        handle.wait(timeout=0.3)
    handle.cancel()


def test_large_results_come_whole(rest, client):
    with working(rest, lambda _task: {"status": "completed", "result": "x" * 100_000}):
        assert client.submit(JOB).result(timeout=20) == "x" * 100_000
        assert [len(each) for each in client.map(JOB, [{}, {}])] == [100_000] * 2


def test_a_payload_that_does_not_fit_names_its_place(rest, client):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    live_server.register(rest, name="Count", schema=schema)
    with pytest.raises(errors.PayloadInvalid) as raised:
        client.submit("r1:modifiers:Count", n="many")
    assert raised.value.errors[0].pointer.endswith("/n")
    with pytest.raises(errors.PayloadInvalid):
        next(client.map("r1:modifiers:Count", [{"n": "many"}]))


@pytest.mark.parametrize("name", AWKWARD)
def test_names_round_trip(rest, client, name):
    """C20."""
    live_server.register(rest, name=name)
    full_name = f"r1:modifiers:{name}"
    assert client.job(full_name)["name"] == name
    handle = client.submit(full_name)
    assert handle.job == full_name
    assert [task["id"] for task in client.tasks("r1", job=full_name, status="pending")] == [
        handle.id
    ]
    handle.cancel()


def test_progress_is_followed_to_the_end(rest, client):
    handle = client.submit(JOB)
    (task,) = rest.post(f"{BASE}/tasks/claim", json={"start": True}).json()["tasks"]
    assert task["id"] == handle.id
    worker = Worker(rest, echo)
    told = []
    for step in handle.progress():
        told.append(step)
        if len(told) == 1:
            worker.report(task, progress=0.5, message="half")
        elif len(told) == 2:
            worker.report(task, status="completed")
    assert told[:2] == [Progress(None, None, "running"), Progress(0.5, "half", "running")]
    assert told[-1].status == "completed"


def test_a_log_is_followed_to_the_end(rest, client):
    handle = client.submit(JOB)
    (task,) = rest.post(f"{BASE}/tasks/claim", json={"start": True}).json()["tasks"]
    worker = Worker(rest, echo)
    worker.report(task, log="first é\n", log_offset=0)
    pieces = []
    for piece in handle.log(follow=True):
        pieces.append(piece)
        if len(pieces) == 1:
            worker.report(task, log="second\n", log_offset=9, status="completed")
    assert "".join(pieces) == "".join(handle.log()) == "first é\nsecond\n"


def test_many_tasks_are_mapped_in_order_by_few_requests(rest, client):
    told = []
    with working(rest, echo):
        payloads = [{"n": n} for n in range(600)]
        results = client.map(JOB, payloads, window=200, on_progress=lambda *n: told.append(n))
        assert [result["n"] for result in results] == list(range(600))
    assert told[-1] == (600, 0, 600)


def test_a_room_is_looked_at(client):
    assert JOB in [job["full_name"] for job in client.jobs("r1")]
    assert [worker["id"] for worker in client.workers("r1")] == ["w"]
    assert "w" in [worker["id"] for worker in client.workers()]
    assert "r1" in str(client.rooms())
    assert client.stats("r1")
    assert client.me()["is_admin"]


def test_what_a_task_is_connected_with_is_shown(client):
    first = client.submit(JOB)
    second = client.submit(JOB, depends_on=[first.id])
    found = client.graph(second.id)
    assert {item["id"] for item in found["items"]} == {first.id, second.id}
    first.cancel()
    assert second.wait(timeout=20)["failed_by"] == first.id


def test_a_schedule_is_put_shown_and_removed(client):
    client.put_schedule("r1", name="each night", job=JOB, cron="0 3 * * *")
    assert [one["name"] for one in client.schedules("r1")] == ["each night"]
    client.remove_schedule("r1", "each night")
    assert client.schedules("r1") == []


def test_nothing_of_another_room_is_seen(server, colour):
    token = live_server.token_of("bob", rooms=["r2"])
    client = colour.client(server.url, token, http=colour.http())
    with pytest.raises(errors.NotFound):
        client.submit(JOB)
    client.close()


def test_a_server_that_is_started_again_is_waited_for(tmp_path, colour):
    """C22: the caller's time is what counts."""
    with live_server.Server(tmp_path, jwt_secret=live_server.SECRET) as server:
        server.until_ready()
        token = live_server.token_of("w", is_admin=True)
        client = colour.client(server.url, token, http=colour.http())
        with server.client() as rest:
            live_server.register(rest)
            handle = client.submit(JOB)
        server.kill()
        again = threading.Thread(target=restart_and_work, args=(server,))
        again.start()
        assert handle.result(timeout=60) == {}
        again.join()
        client.close()


def restart_and_work(server):
    server.start().until_ready()
    with server.client() as rest:
        (task,) = rest.post(f"{BASE}/tasks/claim", json={"start": True}).json()["tasks"]
        Worker(rest, echo).report(task, **echo(task))


def test_a_payload_that_json_cannot_carry_is_yielded_at_its_place(client):
    payloads = [{"bad": float("nan")}, {"axis": "\ud800"}, {"axis": {1, 2}}]
    found = list(client.map(JOB, payloads, return_exceptions=True))
    assert [type(one).__name__ for one in found] == ["NotJson"] * 3
