"""Workers and servers that lose sight of each other, and find together again."""

from __future__ import annotations

import logging
import socket
import threading
from functools import partial
from urllib.parse import urlsplit

import crew
import live_server
import pytest


@pytest.fixture
def served(tmp_path, empty_database):
    with crew.serving(tmp_path, empty_database) as one:
        yield one


@pytest.mark.parametrize("gone", ["swept", "deleted"])
def test_each_call_of_a_worker_that_is_gone_says_so(served, gone):
    """Acceptance C10: 404 worker-not-found, whatever it asks; its problem says what to do."""
    wanda = served.person("wanda")
    worker_id = wanda.instance()
    wanda.register(worker_id=worker_id)
    task_id = served.person("alice").submit()
    wanda.claim(worker_id, start=True)
    if gone == "swept":
        served.lose_workers()
    else:
        wanda.leave(worker_id)
    not_found = (404, "worker-not-found")
    register = {"category": "modifiers", "name": "Rotate", "worker_id": worker_id}
    assert wanda.refused("PATCH", f"/workers/{worker_id}") == not_found
    assert wanda.refused("DELETE", f"/workers/{worker_id}") == not_found
    assert wanda.refused("PUT", "/rooms/r1/jobs", register) == not_found
    for body in ({}, {"start": True}, {"limit": 5}, {"request_id": "again"}):
        claim = {"worker_id": worker_id, **body}
        assert wanda.refused("POST", "/tasks/claim", claim) == not_found
        waiting = {"prefer": "wait=5"}
        assert wanda.refused("POST", "/tasks/claim", claim, headers=waiting) == not_found
    report = {"status": "completed", "attempt": 1, "worker_id": worker_id, "claim_next": True}
    late = wanda.refused("PATCH", f"/tasks/{task_id}", report)
    assert late == (409, "invalid-task-transition")
    assert "Register again" in wanda.send("PATCH", f"/workers/{worker_id}").json()["detail"]
    explained = wanda.http.get(f"{served.url}/v1/problems/worker-not-found")
    assert explained.status_code == 200


@pytest.mark.parametrize("first", ["heartbeat", "claim", "register"])
def test_a_client_of_the_seed_wakes_up_with_the_jobs_it_had(served, first):
    """Acceptance C10: an identity worker that was swept is welcome with whatever it sends next."""
    wanda, alice = served.person("wanda"), served.person("alice")
    for name in ("Rotate", "Move"):
        wanda.register(name)
    served.lose_workers()
    assert wanda.ask("GET", "/workers")["total"] == 0
    ids = [alice.submit(f"r1:modifiers:{name}") for name in ("Rotate", "Move")]
    if first == "heartbeat":
        wanda.beat("wanda")
    elif first == "register":
        wanda.register()
    claimed = wanda.claim(limit=2)
    assert [task["id"] for task in claimed] == ids
    assert wanda.ask("GET", "/workers")["items"][0]["job_count"] == 2


def test_the_sdk_comes_back_by_itself_whenever_it_is_swept(served, caplog):
    """Acceptance C10: between tasks, in the middle of one, and while its claim is held open."""
    jobs = served.connect("wanda")
    jobs.register(crew.Rotate, room="r1", on_worker_lost="requeue", max_attempts=9)
    names, running, go_on = set(), threading.Event(), threading.Event()

    def work(_rotate):
        names.add(jobs.worker.id)
        running.set()
        assert go_on.wait(crew.UPPER_BOUND_SECONDS)
        return "done"

    stream = jobs.listen(2.0)
    vis = crew.Vis(jobs, work)
    thread = threading.Thread(target=lambda: [task.run(vis) for task in stream])
    with caplog.at_level(logging.INFO, logger="jobroom.client"):
        thread.start()
        submitter = served.connect("alice")
        served.lose_workers()  # while its claim waits, or on its way there
        first = submitter.submit(crew.ROTATE, angle=1)
        assert running.wait(crew.UPPER_BOUND_SECONDS)
        running.clear()
        served.lose_workers()  # in the middle of the task: its report will be refused
        go_on.set()
        done = submitter.wait(first["id"], timeout=crew.UPPER_BOUND_SECONDS)
        served.lose_workers()  # between two tasks
        second = submitter.submit(crew.ROTATE, angle=2)
        later = submitter.wait(second["id"], timeout=crew.UPPER_BOUND_SECONDS)
        stream.stop()
        thread.join(crew.UPPER_BOUND_SECONDS)
    assert (done["status"], later["status"]) == ("completed", "completed")
    assert done["starts"] >= 2
    assert len(names) >= 2
    assert not thread.is_alive()


def cut(served, method, path, body, *, until, prefer=""):
    """Send a request whose answer is never read: the connection ends once its effect is seen."""
    address = urlsplit(served.url)
    with socket.create_connection((address.hostname, address.port)) as line:
        head = (
            f"{method} /v1/joblib{path} HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {live_server.token_of('wanda')}\r\n{prefer}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        )
        line.sendall(head.encode())
        while not until():
            pass


@pytest.mark.parametrize("start", [False, True], ids=["claimed", "started"])
@pytest.mark.parametrize("prefer", ["", "Prefer: wait=9\r\n"], ids=["at once", "with a wait"])
@pytest.mark.parametrize("kind", ["identity", "instance"])
def test_a_claim_whose_answer_is_lost_gives_the_same_when_repeated(served, kind, prefer, start):
    """Acceptance C11: the connection is cut after the request; one task and several."""
    wanda, alice = served.person("wanda"), served.person("alice")
    named = f', "worker_id": "{wanda.instance()}"' if kind == "instance" else ""
    worker_id = named.split('"')[3] if named else None
    wanda.register(**({"worker_id": worker_id} if worker_id else {}))
    for limit in (1, 3):
        ids = [alice.submit() for _ in range(limit)]
        body = (
            f'{{"limit": {limit}, "request_id": "of {limit}",'
            f' "start": {str(start).lower()}{named}}}'
        )
        held = partial(is_held, alice, ids)
        cut(served, "POST", "/tasks/claim", body, until=held, prefer=prefer)
        wanda.beat(worker_id or "wanda")
        again = wanda.claim(worker_id, limit=limit, request_id=f"of {limit}", start=start)
        assert [task["id"] for task in again] == ids
        assert {(task["attempt"], task["starts"]) for task in again} == {(1, int(start))}
        assert wanda.claim(worker_id) == []


def is_held(alice, ids):
    return all(alice.show(task_id)["status"] != "pending" for task_id in ids)


@pytest.mark.parametrize("start", [False, True], ids=["claimed", "started"])
def test_a_lost_claim_that_nobody_repeats_comes_back_in_its_time(served, start):
    """Acceptance C11: the worker beats and claims on; the task is not stuck in claimed for ever."""
    wanda, alice = served.person("wanda"), served.person("alice")
    wanda.register(claim_timeout_seconds=5, timeout_seconds=20, on_worker_lost="requeue")
    task_id = alice.submit()
    body = f'{{"start": {str(start).lower()}}}'
    cut(served, "POST", "/tasks/claim", body, until=partial(is_held, alice, [task_id]))
    for _ in range(30):
        served.let_pass(1)
        wanda.beat("wanda")
        served.queue.sweep()
        if found := wanda.claim():
            break
    assert [(task["id"], task["attempt"], task["starts"]) for task in found] == [
        (task_id, 2, int(start))
    ]


def test_a_report_whose_answer_is_lost_gives_the_same_next_task_when_repeated(served):
    """Acceptance C11: what claim_next claimed is not stuck either, and is claimed once."""
    wanda, alice = served.person("wanda"), served.person("alice")
    wanda.register()
    first, second, third = (alice.submit() for _ in range(3))
    wanda.claim(start=True)
    body = '{"status": "completed", "attempt": 1, "claim_next": true}'
    cut(served, "PATCH", f"/tasks/{first}", body, until=partial(is_held, alice, [second]))
    for _ in range(2):
        again = wanda.report(first, "completed", attempt=1, claim_next=True)
        assert again.status_code == 200
        assert again.json()["next_task"]["id"] == second
        assert again.json()["next_task"]["attempt"] == 1
    assert alice.show(third)["status"] == "pending"
