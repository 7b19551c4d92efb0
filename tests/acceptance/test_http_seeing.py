"""Cancelling, and who sees what: acceptance cases C23 and C24, numbers 2 and 3 of ten."""

from __future__ import annotations

import pytest
from lambda_stage import DOORS, serving_on
from live_server import BASE
from live_stage import ANGLE, ROTATE, Person, address, curl, slug, taken

from jobroom import tokens


@pytest.fixture(scope="module", params=DOORS)
def server(request, tmp_path_factory):
    with serving_on(request.param, request, tmp_path_factory.mktemp("seeing")) as started:
        yield started


@pytest.fixture
def alice(server):
    with Person(server, "alice") as person:
        yield person


@pytest.fixture
def bob(server):
    with Person(server, "bob") as person:
        yield person


@pytest.fixture
def wanda(server):
    """She serves the job r1:modifiers:Rotate, of which nothing is left over."""
    with Person(server, "wanda") as person:
        person.register(schema=ANGLE)
        person.drain()
        yield person


STATES = ["pending", "delayed", "claimed", "running"]


def in_state(state, alice, wanda):
    """A task of alice's; what is held, wanda holds."""
    later = {"run_at": "2100-01-01T00:00:00Z"} if state == "delayed" else {}
    task = alice.submit(**later)
    if state in {"claimed", "running"}:
        assert wanda.claim(start=state == "running")["id"] == task["id"]
    return task


def test_the_submitter_cancels_what_nobody_has_claimed(wanda, alice, bob):
    """Acceptance C23: U1's PATCH cancelled while pending is 200; U2's on another is 403."""
    task, other = alice.submit(), alice.submit()
    assert taken(alice.report(task, "cancelled"))["status"] == "cancelled"
    assert slug(bob.report(other, "cancelled")) == "403 forbidden"
    assert wanda.claim()["id"] == other["id"]
    assert wanda.claim() is None


def test_a_running_task_is_cancelled_and_its_worker_hears_of_it(wanda, alice):
    """Acceptance C23: 200; the next heartbeat says so; the later ``completed`` is 409."""
    task = in_state("running", alice, wanda)
    assert alice.report(task, "cancelled").status_code == 200
    assert task["id"] in taken(wanda.patch("/workers/wanda"))["cancel"]
    assert slug(wanda.report(task, "completed")) == "409 invalid-task-transition"
    assert taken(wanda.patch("/workers/wanda"))["cancel"] == []
    assert alice.show(task)["status"] == "cancelled"


@pytest.mark.parametrize("state", STATES)
def test_who_may_cancel_may_in_every_state_and_who_may_not_in_none(
    server, wanda, alice, bob, state
):
    """Acceptance C23 and number 2, their kind: creator, holder, admin; others, other rooms."""
    with (
        Person(server, "root", is_admin=True) as admin,
        Person(server, "eve", rooms=["r2"]) as eve,
        Person(server, "chief", rooms=["r2"], is_admin=True) as chief,
    ):
        held = state in {"claimed", "running"}
        people = {alice: True, admin: True, wanda: held, bob: False, eve: None, chief: None}
        for person, may in people.items():
            task = in_state(state, alice, wanda)
            answer = person.report(task, "cancelled")
            if may:
                assert taken(answer)["status"] == "cancelled"
            else:
                hidden = may is None
                assert slug(answer) == ("404 task-not-found" if hidden else "403 forbidden")
                status = "pending" if state == "delayed" else state
                assert alice.show(task)["status"] == status
                alice.report(task, "cancelled")
            assert wanda.claim() is None


def test_the_submitters_cancel_as_curl_sends_it(server, wanda, alice, bob, tmp_path):
    """Number 2 of ten: 200 cancelled; no claim returns it; U2 403; cancelling twice 200."""
    task, other = alice.submit(), alice.submit()
    cancel = ("PATCH", f"{BASE}/tasks/{task['id']}", '{"status":"cancelled"}')
    first, again = curl(tmp_path, alice, [cancel, cancel])
    assert (first[0], again[0]) == (200, 200)
    assert first[2] == again[2]
    refused = curl(tmp_path, bob, [cancel, ("PATCH", address(f"/tasks/{other['id']}"), cancel[2])])
    assert [answer[0] for answer in refused] == [403, 403]
    assert [one["id"] for one in wanda.drain()] == [other["id"]]


@pytest.fixture
def u1(server, wanda):
    with Person(server, "u1", rooms=["r1", "r2"]) as person:
        yield person


@pytest.fixture
def u2(server):
    """A user who sees r2 alone."""
    with Person(server, "u2", rooms=["r2"]) as person:
        yield person


@pytest.fixture
def nobody(server):
    with Person(server, token=None) as person:
        yield person


def test_reading_needs_a_token_and_the_room(u1, u2, nobody):
    """Acceptance C24: 401 without a token; 404 for U1's task and for r1; 404 across rooms."""
    task = u1.submit()
    assert slug(nobody.get(f"/tasks/{task['id']}")) == "401 unauthorized"
    assert slug(u2.get(f"/tasks/{task['id']}")) == "404 task-not-found"
    assert slug(u2.get("/rooms/r1/tasks")) == "404 not-found"
    for person in (u1, u2):
        answer = person.post(f"/rooms/r2/tasks/{ROTATE}", {"payload": {"angle": 90}})
        assert slug(answer) == "404 job-not-found"


def test_a_global_job_is_used_from_every_room(server, u2):
    """Acceptance C24 and number 3: ``@global:modifiers:Rotate`` from r2 is 202."""
    with Person(server, "root", is_admin=True) as admin:
        admin.register(room="@global")
    for spelt in ("@global:modifiers:Rotate", "%40global%3Amodifiers%3ARotate"):
        assert u2.post(f"/rooms/r2/tasks/{spelt}").status_code == 202


def test_what_the_router_of_the_peer_let_through(u1, u2, nobody):
    """Number 3 of ten: 404 problem, 401, 404; and nobody's long-poll learns more."""
    task = u1.submit()
    foreign = u2.post(f"/rooms/r2/tasks/{ROTATE}", {"payload": {"angle": 90}})
    assert slug(foreign) == "404 job-not-found"
    for person, expected in ((nobody, "401 unauthorized"), (u2, "404 task-not-found")):
        for headers in ({}, {"prefer": "wait=20"}, {"if-none-match": "*"}):
            assert slug(person.get(f"/tasks/{task['id']}", headers=headers)) == expected


OPEN = {"/healthz", "/readyz", "/openapi.json", "/docs", "/v1/problems/{slug}"}
PARTS = {
    "room_id": "r1",
    "full_name": ROTATE,
    "worker_id": "wanda",
    "schedule_name": "nightly",
    "slug": "not-found",
}


@pytest.fixture
def routes(u1):
    """Every operation of the OpenAPI document, on things of u1 and wanda that exist."""
    document = taken(u1.get("/openapi.json"))
    task = u1.submit()
    nightly = {"name": "nightly", "job": ROTATE, "cron": "0 3 * * *", "payload": {"angle": 90}}
    taken(u1.put("/rooms/r1/schedules", nightly))
    return [
        (method.upper(), path, path.format(**PARTS, task_id=task["id"]), task)
        for path, operations in document["paths"].items()
        for method in operations
        if method in {"get", "post", "put", "patch", "delete"}
    ]


def test_no_route_answers_without_a_token(server, routes):
    """Acceptance C24, its kind: each operation there is, with no token and with bad ones."""
    for token in (None, "", "x", "Bearer", token_of_another_secret()):
        with Person(server, token=None if token == "" else token) as stranger:
            for method, path, concrete, _ in routes:
                answer = stranger.ask(method, concrete)
                if path in OPEN:
                    assert answer.is_success, path
                else:
                    assert slug(answer) == "401 unauthorized", (method, path)
                    assert answer.headers["www-authenticate"].startswith("Bearer")


def token_of_another_secret():
    return tokens.issue_token("another secret of more than 32 bytes", sub="u1", is_admin=True)


OWN = {
    "/v1/joblib/workers",
    "/v1/joblib/rooms",
    "/v1/me",
    "/v1/joblib/tasks/claim",
    "/v1/joblib/sweep",
    "/metrics",
}


def test_no_route_shows_or_changes_what_lies_in_a_room_beyond_the_token(server, u1, u2, routes):
    """Acceptance C24, its kind: 404 at each operation that names the room or the task."""
    with Person(server, "boss", rooms=["r2"], is_admin=True) as boss:
        for method, path, concrete, task in routes:
            if path in OPEN | OWN or "{worker_id}" in path:
                continue
            for person in (u2, boss):
                body = {"category": "modifiers", "name": "Rotate", "status": "cancelled"}
                body |= {"tasks": [{"job": ROTATE}], "job": ROTATE, "cron": "0 4 * * *"}
                has_body = method not in {"GET", "DELETE"} and not path.endswith("/retry")
                sent = body if has_body else None
                answer = person.ask(method, concrete, sent)
                assert answer.status_code == 404, (method, path, answer.text)
                assert "angle" not in answer.text
            assert u1.show(task)["status"] == "pending"
