"""Long-polls that each hold an environment of a function: acceptance cases C28, C29 and C30."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import lambda_stage
import pytest
from live_stage import CLAIM, SUBMIT, Person, address, connect, raw_request, taken, until

CAP = 2
PATIENT = 20
ENVIRONMENTS = 4


@pytest.fixture(scope="module")
def deployed(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("waiting")
    limits = {"long_poll_max_wait_seconds": PATIENT, "concurrency": ENVIRONMENTS}
    with lambda_stage.serving(request, folder, **limits) as started:
        yield started


@pytest.fixture(scope="module")
def impatient(request, tmp_path_factory):
    """A function whose waits are over soon."""
    folder = tmp_path_factory.mktemp("impatient")
    limits = {"long_poll_max_wait_seconds": CAP, "concurrency": ENVIRONMENTS}
    with lambda_stage.serving(request, folder, **limits) as started:
        yield started


@pytest.fixture
def alice(deployed):
    with Person(deployed, "alice") as person:
        person.register()
        person.drain()
        yield person


@pytest.fixture
def hasty(impatient):
    with Person(impatient, "alice") as person:
        person.register()
        person.drain()
        yield person


def ask(person, path, lines, method="GET"):
    """One request with these lines of Prefer, as they are."""
    headers = [("authorization", person.headers["authorization"])]
    headers += [("prefer", line.encode("latin-1")) for line in lines]
    return person.http.request(method, address(path), headers=headers)


@pytest.mark.parametrize("lines", [[], ["wait=abc"], ["wait=-1"], ["wait=0"], ["wait=1.5"], [""]])
def test_what_asks_for_no_wait_is_answered_at_once_and_says_nothing_of_one(hasty, lines):
    """Acceptance C28: unknown or invalid is ignored, never 400 or 500."""
    task = hasty.submit()
    for answer in (ask(hasty, f"/tasks/{task['id']}", lines), ask(hasty, CLAIM, lines, "POST")):
        assert answer.status_code == 200
        assert "preference-applied" not in answer.headers


@pytest.mark.parametrize(
    "lines",
    [
        ["wait=99999999999999999999"],
        ["respond-async", "wait=2"],
        ["respond-async, wait=2"],
        ['Wait="2"'],
    ],
)
def test_every_form_that_asks_to_wait_is_granted_up_to_the_cap(hasty, lines):
    """Acceptance C28: two lines, which a gateway joins, and one line wait 2 s; the cap is told."""
    task = hasty.submit()
    began = time.monotonic()
    answer = ask(hasty, f"/tasks/{task['id']}", lines)
    assert time.monotonic() - began >= CAP - 0.05
    assert (answer.status_code, answer.json()["status"]) == (200, "pending")
    assert answer.headers["preference-applied"] == f"wait={CAP}"


def test_while_environments_wait_another_answers_and_its_commits_end_the_waits(deployed, alice):
    """Acceptance C29: POST, claim, heartbeat and /healthz beside the waits."""
    tasks = [alice.submit() for _ in range(ENVIRONMENTS - 1)]
    with ThreadPoolExecutor(ENVIRONMENTS) as pool, ExitStack() as stack:
        people = [stack.enter_context(Person(deployed, "alice")) for _ in tasks]
        began = time.monotonic()
        polls = [
            pool.submit(person.get, f"/tasks/{task['id']}", headers={"prefer": "wait=20"})
            for person, task in zip(people, tasks, strict=True)
        ]
        until(lambda: deployed.busy == ENVIRONMENTS - 1, "that all wait")
        for method, path, body in (
            ("GET", "/healthz", None),
            ("POST", SUBMIT, {"payload": {"angle": 1}}),
            ("PATCH", "/workers/alice", None),
        ):
            assert alice.ask(method, path, body).is_success
        assert not any(poll.done() for poll in polls)
        for task in tasks:
            taken(alice.report(task, "cancelled"))
        answers = [poll.result() for poll in polls]
        assert time.monotonic() - began < PATIENT
    assert [taken(answer)["status"] for answer in answers] == ["cancelled"] * len(tasks)
    # An environment that was still starting saw the end of its task at once, and did not wait.
    granted = {answer.headers.get("preference-applied") for answer in answers}
    assert granted <= {f"wait={PATIENT}", None}


def test_clients_that_are_gone_cost_their_wait_and_no_task(impatient, hasty):
    """Acceptance C30: no gateway says that a client is gone, so its wait goes on to its end."""
    later = hasty.submit(run_at="2100-01-01T00:00:00Z")
    for _ in range(2):
        with ExitStack() as stack:
            for _ in range(ENVIRONMENTS - 1):
                connection = stack.enter_context(connect(impatient))
                headers = {"prefer": "wait=60"}
                path = f"/tasks/{later['id']}"
                connection.sendall(raw_request(hasty, "GET", path, headers=headers))
            until(lambda: impatient.busy == ENVIRONMENTS - 1, "that all wait")
        until(lambda: impatient.busy == 0, "the end of the waits")
    assert len(impatient.function.pids) <= ENVIRONMENTS
    task = hasty.submit()
    assert (hasty.claim()["id"], hasty.show(task)["attempt"]) == (task["id"], 1)
    claim = {"request_id": "0190163d-8694-739b-aea5-966c26f8ad91"}
    gone = connect(impatient)
    headers = {"prefer": "wait=60", "content-type": "application/json"}
    body = json.dumps(claim).encode()
    headers["content-length"] = str(len(body))
    gone.sendall(raw_request(hasty, "POST", CLAIM, body=body, headers=headers))
    until(lambda: impatient.busy == 1, "that it waits")
    gone.close()
    task = hasty.submit()
    until(lambda: impatient.busy == 0, "the end of the wait")
    # The answer of a function goes to a gateway, with nobody behind it: asked again, it is told.
    assert hasty.claim(**claim)["id"] == task["id"]
