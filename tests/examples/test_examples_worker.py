"""The worker in JavaScript, run by a real Node against a real server."""

from __future__ import annotations

import signal

import pytest
from example_stage import (
    EXAMPLES,
    PATIENCE_SECONDS,
    ended,
    environment,
    in_status,
    node,
    running,
    seen,
    started_server,
    task_of,
)
from live_server import BASE, token_of
from proxies import Proxy

COUNT = "r1:analysis:Count"
LONG = 600
"""Steps of a tenth of a second: a task that does not end by itself while a test looks at it."""


@pytest.fixture(params=[60], ids=["timeout 60 s"])
def server(request, tmp_path):
    with started_server(tmp_path, worker_timeout_seconds=request.param) as started:
        yield started.until_ready()


impatient = pytest.mark.parametrize("server", [2], indirect=True, ids=["timeout 2 s"])


@pytest.fixture
def client(server):
    with server.client(token_of("alice")) as opened:
        yield opened


def worker(url, folder):
    return running([node(), EXAMPLES / "worker.mjs"], folder, environment(url))


def is_registered(client):
    listed = client.get(f"{BASE}/rooms/r1/jobs").json()["items"]
    return [job["full_name"] for job in listed] == [COUNT]


def submitted(client, said, steps):
    """A task for the worker, once that is there."""
    seen(lambda: is_registered(client), bool, said=said)
    answer = client.post(f"{BASE}/rooms/r1/tasks/{COUNT}", json={"payload": {"steps": steps}})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def workers_of(client):
    return client.get(f"{BASE}/rooms/r1/workers").json()["items"]


def test_it_registers_runs_tells_its_progress_and_reports(server, client, tmp_path):
    with worker(server.url, tmp_path) as process:
        ids = [submitted(client, process.output, steps) for steps in (4, 1, 2)]
        half = seen(lambda: task_of(client, ids[0]), lambda task: task["progress"])
        assert half["message"].endswith("of 4")
        tasks = [ended(client, task_id, process.output) for task_id in ids]
    assert [task["status"] for task in tasks] == ["completed"] * 3
    assert [task["result"]["steps"] for task in tasks] == [4, 1, 2]
    assert len({task["worker_id"] for task in tasks}) == 1


@impatient
def test_a_cancelled_task_is_left_at_the_next_heartbeat_and_the_next_one_runs(
    server, client, tmp_path
):
    with worker(server.url, tmp_path) as process:
        held = submitted(client, process.output, LONG)
        in_status(client, held, "running", said=process.output)
        answer = client.patch(f"{BASE}/tasks/{held}", json={"status": "cancelled"})
        assert answer.status_code == 200
        after = ended(client, submitted(client, process.output, 1), process.output)
        assert after["status"] == "completed"
        assert task_of(client, held)["status"] == "cancelled"
        assert f"{held} 409" in process.output.read_text()


def test_at_sigterm_the_task_at_hand_goes_back_and_the_worker_leaves(server, client, tmp_path):
    with worker(server.url, tmp_path) as process:
        held = submitted(client, process.output, LONG)
        in_status(client, held, "running", said=process.output)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, process.output.read_text()
    assert task_of(client, held)["status"] == "pending"
    assert workers_of(client) == []


def test_at_sigterm_a_worker_that_waits_for_work_leaves_at_once(server, client, tmp_path):
    with worker(server.url, tmp_path) as process:
        done = submitted(client, process.output, 1)
        ended(client, done, process.output)
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0, process.output.read_text()  # a claim waits for 20 s
    assert workers_of(client) == []


def test_a_killed_server_that_comes_back_costs_no_task(server, client, tmp_path):
    with worker(server.url, tmp_path) as process:
        held = submitted(client, process.output, 15)
        in_status(client, held, "running", said=process.output)
        server.kill()
        server.start().until_ready()
        done = ended(client, held, process.output)
    assert (done["status"], done["attempt"], done["result"]["steps"]) == ("completed", 1, 15)


def test_lost_answers_are_asked_for_again_and_nothing_is_done_twice(server, client, tmp_path):
    """Of a claim and two reports the answer is lost: each is recognised when it is repeated."""
    with Proxy(server.port) as proxy:
        proxy.cut_after_request(lambda text: b"/tasks/claim" in text)
        proxy.cut_after_request(lambda text: b'"completed"' in text, times=2)
        with worker(proxy.url, tmp_path) as process:
            ids = [submitted(client, process.output, 2) for _ in range(4)]
            tasks = [ended(client, task_id, process.output) for task_id in ids]
        assert proxy.faults == 3
    assert [(task["status"], task["attempt"]) for task in tasks] == [("completed", 1)] * 4


@impatient
def test_a_worker_that_was_lost_comes_back_as_another_one(server, client, tmp_path):
    with worker(server.url, tmp_path) as process:
        held = submitted(client, process.output, 20)
        (before,) = workers_of(client)
        in_status(client, held, "running", said=process.output)
        process.send_signal(signal.SIGSTOP)
        in_status(client, held, "pending", said=process.output)
        process.send_signal(signal.SIGCONT)
        done = ended(client, held, process.output)
        assert (done["status"], done["attempt"]) == ("completed", 2)
        assert done["worker_id"] != before["id"]


def test_a_token_that_is_refused_ends_it_with_a_sentence(server, tmp_path):
    refused = environment(server.url, JOBROOM_TOKEN="wrong")
    with running([node(), EXAMPLES / "worker.mjs"], tmp_path, refused) as process:
        assert process.wait(PATIENCE_SECONDS) == 1
        assert "token" in process.output.read_text()


def test_it_is_as_short_as_is_said():
    lines = (EXAMPLES / "worker.mjs").read_text().splitlines()
    code = [line for line in lines if line.strip() and not line.strip().startswith("//")]
    assert len(code) <= 70
    assert max(map(len, lines)) <= 120
