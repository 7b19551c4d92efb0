"""Who sees what, who may do what, and which of two faults is answered (acceptance C24; rules)."""

from __future__ import annotations

from typing import Any

import pytest
from contract_api import ROTATE, Api, Json, Person, listed, q, refused, taken

ALIGN = "@global:modifiers:Align"
IN_GLOBAL = f"/rooms/@global/tasks/{ALIGN}"
ROOM_ROUTES = [
    ("GET", "/rooms/r1/jobs"),
    ("GET", "/rooms/r1/workers"),
    ("GET", "/rooms/r1/tasks"),
    ("GET", f"/rooms/r1/jobs/{ROTATE}"),
    ("GET", f"/rooms/r1/jobs/{ROTATE}/tasks"),
    ("POST", f"/rooms/r1/tasks/{ROTATE}"),
    ("PUT", "/rooms/r1/jobs"),
]
GOOD_JOB = {"category": "modifiers", "name": "Rotate"}
GOOD_BODY = {"payload": {"angle": 1}, **GOOD_JOB}


@pytest.fixture
def task(wanda: Person, alice: Person) -> Json:
    """A task of alice's, held by wanda."""
    alice.submit()
    return wanda.start()


@pytest.fixture
def fenced(api: Api) -> Person:
    """Somebody who sees r2 alone."""
    return api.by("fenced", rooms=["r2"])


@pytest.fixture
def fenced_admin(api: Api) -> Person:
    """An admin of r2 alone."""
    return api.by("chief", is_admin=True, rooms=["r2"])


@pytest.fixture
def shut_out(api: Api) -> Person:
    """Somebody whose token reaches no room."""
    return api.by("shut out", rooms=[])


@pytest.mark.parametrize(("method", "path"), ROOM_ROUTES)
@pytest.mark.parametrize("who", ["fenced", "fenced_admin", "shut_out"])
def test_a_room_beyond_the_token_is_404_at_every_route(
    method: str, path: str, who: str, wanda: Person, request: pytest.FixtureRequest
) -> None:
    """Acceptance C24; contract, *Identity*: 404, not 403; it binds admins too."""
    person: Person = request.getfixturevalue(who)
    body = GOOD_BODY if method != "GET" else None
    refused(wanda.api.run(person.send(method, path, body)), "not-found")


@pytest.mark.parametrize("who", ["fenced", "fenced_admin", "shut_out"])
def test_a_task_in_a_room_beyond_the_token_is_404(
    who: str, task: Json, request: pytest.FixtureRequest
) -> None:
    """Acceptance C24: its existence is hidden, from an admin of other rooms too."""
    person: Person = request.getfixturevalue(who)
    path = f"/tasks/{task['id']}"
    refused(person.get(path), "task-not-found")
    refused(person.get(path, headers={"prefer": "wait=60"}), "task-not-found")
    refused(person.get(f"{path}/result"), "task-not-found")
    refused(person.post(f"{path}/retry"), "task-not-found")
    for status in ("cancelled", "completed", "pending", None):
        refused(person.report(task, status), "task-not-found")


def test_a_hidden_task_and_an_unknown_one_are_answered_alike(fenced: Person, task: Json) -> None:
    """Acceptance C24: nothing tells the two apart."""
    unknown = {"id": "01890a5d-ac96-774b-bcce-b302099a8057"}
    answers = []
    for one in (task, unknown):
        found = refused(fenced.get(f"/tasks/{one['id']}"), "task-not-found")
        answers.append(found["detail"].replace(one["id"], "…"))
    assert answers[0] == answers[1]


def test_another_rooms_job_is_404_even_for_who_sees_both_rooms(
    alice: Person, wanda: Person
) -> None:
    """Acceptance C24; contract, *Jobs*: a room never sees another room's jobs."""
    refused(alice.post(f"/rooms/r2/tasks/{ROTATE}", {"payload": {"angle": 1}}), "job-not-found")
    refused(alice.get(f"/rooms/r2/jobs/{ROTATE}"), "job-not-found")
    assert listed(alice.get("/rooms/r2/jobs")) == []


def test_another_rooms_job_stays_404_after_it_was_used(alice: Person, wanda: Person) -> None:
    """Acceptance C24: a job that the server remembers is no more visible than before."""
    alice.submit()
    refused(alice.post(f"/rooms/r2/tasks/{ROTATE}", {"payload": {"angle": 1}}), "job-not-found")


def test_a_global_job_is_seen_and_used_from_every_room(admin: Person, fenced: Person) -> None:
    """Acceptance C24: @global is allowed from anywhere."""
    admin.register("Align", room="@global")
    assert listed(fenced.get("/rooms/r2/jobs"), "full_name") == [ALIGN]
    assert fenced.submit(ALIGN, room="r2")["room_id"] == "r2"


def test_a_token_without_rooms_sees_global_jobs_alone(admin: Person, shut_out: Person) -> None:
    """Rules, *Who sees what*: rooms: [] is none; @global jobs are visible to all."""
    admin.register("Align", room="@global")
    assert listed(shut_out.get("/rooms/@global/jobs"), "full_name") == [ALIGN]
    assert taken(shut_out.get(f"/rooms/@global/jobs/{ALIGN}"))["full_name"] == ALIGN


def test_the_room_global_lists_global_jobs_only(admin: Person, wanda: Person) -> None:
    """Contract, *Jobs*: own + @global; room @global: only those."""
    admin.register("Align", room="@global")
    assert sorted(listed(wanda.get("/rooms/r1/jobs"), "full_name")) == [ALIGN, ROTATE]
    assert listed(wanda.get("/rooms/@global/jobs"), "full_name") == [ALIGN]


@pytest.mark.parametrize("who", ["alice", "fenced_admin"])
def test_what_happens_in_global_needs_an_admin_of_every_room(
    who: str, admin: Person, request: pytest.FixtureRequest
) -> None:
    """Rules, *Who sees what*: submitting in @global, its task list, registering there."""
    person: Person = request.getfixturevalue(who)
    admin.register("Align", room="@global")
    refused(person.post(IN_GLOBAL), "forbidden")
    refused(person.get("/rooms/@global/tasks"), "forbidden")
    refused(person.get(f"/rooms/@global/jobs/{ALIGN}/tasks"), "forbidden")
    refused(person.put("/rooms/@global/jobs", GOOD_JOB), "forbidden")


def test_an_admin_submits_and_lists_in_global(admin: Person) -> None:
    """Rules, *Who sees what*: need admin, who may."""
    admin.register("Align", room="@global")
    task = taken(admin.post(IN_GLOBAL))
    assert listed(admin.get("/rooms/@global/tasks")) == [task["id"]]


def test_an_admin_of_global_by_name_may_act_there(api: Api) -> None:
    """Rules, *Who sees what*: rooms bind admins; @global is a room that a token may name."""
    admin = api.by("chief", is_admin=True, rooms=["@global"])
    assert admin.put("/rooms/@global/jobs", GOOD_JOB).status_code == 201


def test_the_creator_always_reads_and_cancels_his_task(api: Api, wanda: Person) -> None:
    """Rules, *Who sees what*: whatever his rooms are by now."""
    task = api.by("alice").submit()
    former = api.by("alice", rooms=[])
    assert former.show(task)["id"] == task["id"]
    assert taken(former.report(task, "cancelled"))["status"] == "cancelled"
    assert taken(former.post(f"/tasks/{task['id']}/retry"))["status"] == "pending"


def test_the_holder_reads_and_reports_whatever_his_rooms(api: Api, admin: Person) -> None:
    """Rules, *Who sees what*: by a token of no room it goes on with what another one got."""
    admin.register("Align", room="@global")
    holder = api.by("root", is_admin=True, rooms=[])
    api.by("alice").submit(ALIGN)
    task = admin.start()
    assert holder.show(task)["room_id"] == "r1"
    assert taken(holder.report(task, None, progress=0.5))["progress"] == 0.5
    assert taken(holder.report(task, "completed", result=1))["status"] == "completed"


def test_a_worker_that_let_go_of_a_task_sees_it_no_more(api: Api, admin: Person) -> None:
    """Rules, *Who sees what*: whoever holds it, not whoever held it."""
    admin.register("Align", room="@global")
    holder = api.by("root", is_admin=True, rooms=[])
    api.by("alice").submit(ALIGN)
    task = admin.claim()
    taken(holder.report(task, "pending"))
    refused(holder.get(f"/tasks/{task['id']}"), "task-not-found")


def test_somebody_who_sees_the_room_reads_but_may_not_report(task: Json, bob: Person) -> None:
    """Contract, *Tasks*: who may report; 403, as the task is no secret to him."""
    assert bob.show(task)["id"] == task["id"]
    for status in ("running", "completed", "failed", "cancelled", "pending", None):
        refused(bob.report(task, status), "forbidden")
    refused(bob.post(f"/tasks/{task['id']}/retry"), "forbidden")


def test_the_creator_may_cancel_but_not_report(task: Json, alice: Person) -> None:
    """Contract, *Tasks*: cancelled also by the creator; the rest by the holder's owner."""
    for status in ("running", "completed", "failed", "pending", None):
        refused(alice.report(task, status), "forbidden")
    assert taken(alice.report(task, "cancelled"))["status"] == "cancelled"


def test_an_admin_may_report_on_any_task_of_his_rooms(task: Json, api: Api) -> None:
    """Contract, *Tasks*: the owner of the worker that holds it, or an admin."""
    chief = api.by("chief", is_admin=True, rooms=["r1"])
    assert taken(chief.report(task, "failed", error="by hand"))["status"] == "failed"


def test_a_list_of_workers_is_ones_own_and_an_admins_all(
    wanda: Person, alice: Person, admin: Person
) -> None:
    """Rules, *Who sees what*: GET /workers: own workers, admin all."""
    mine = taken(alice.post("/workers"))["id"]
    assert listed(alice.get("/workers")) == [mine]
    assert sorted(listed(admin.get("/workers"))) == sorted([mine, "wanda"])


def test_a_rooms_workers_are_those_of_the_jobs_it_sees(
    wanda: Person, alice: Person, admin: Person
) -> None:
    """Rules, *Who sees what*: GET /rooms/{room}/workers."""
    alice.register("Turn", room="r2")
    admin.register("Align", room="@global")
    assert listed(alice.get("/rooms/r1/workers")) == ["root", "wanda"]
    assert listed(alice.get("/rooms/r2/workers")) == ["alice", "root"]
    assert listed(alice.get("/rooms/@global/workers")) == ["root"]


def test_a_foreign_worker_is_403_at_every_route_that_names_one(wanda: Person, bob: Person) -> None:
    """Contract, *Workers*: 403 if owned by somebody else."""
    theirs = {"worker_id": "wanda"}
    refused(bob.patch("/workers/wanda"), "forbidden")
    refused(bob.delete("/workers/wanda"), "forbidden")
    refused(bob.post("/tasks/claim", theirs), "forbidden")
    refused(bob.put("/rooms/r1/jobs", {**GOOD_JOB, "name": "Turn", **theirs}), "forbidden")


def test_an_admin_may_delete_a_worker_but_not_speak_for_it(wanda: Person, admin: Person) -> None:
    """Contract, *Workers*: DELETE is for owner or admin; a heartbeat is the owner's alone."""
    refused(admin.patch("/workers/wanda"), "forbidden")
    assert admin.delete("/workers/wanda").status_code == 204


def test_an_identity_spelled_like_a_foreign_worker_is_403(api: Api, alice: Person) -> None:
    """Rules, *Who sees what*: 403, never that worker."""
    theirs = taken(alice.post("/workers"))["id"]
    thief = api.by(theirs)
    refused(thief.patch(f"/workers/{theirs}"), "forbidden")
    refused(thief.post("/tasks/claim"), "forbidden")
    refused(thief.put("/rooms/r1/jobs", GOOD_JOB), "forbidden")


@pytest.mark.parametrize(
    "claims",
    [
        {"is_admin": "true"},
        {"is_admin": 1},
        {"rooms": "r1"},
        {"rooms": [1]},
        {"rooms": {"r1": True}},
        {"sub": ""},
        {"sub": 5},
        {"sub": None},
        {"exp": None},
    ],
)
def test_anything_else_in_a_token_is_401(claims: Json, api: Api) -> None:
    """Rules, *Who sees what*: is_admin is JSON true alone, rooms a list of strings."""
    import time

    import jwt
    from contract_api import SECRET

    good: Json = {"sub": "alice", "exp": time.time() + 60}
    whole = {name: value for name, value in {**good, **claims}.items() if value is not None}
    token = jwt.encode(whole, SECRET, algorithm="HS256")
    request = api.nobody.send("GET", "/v1/me", headers={"authorization": f"Bearer {token}"})
    refused(api.run(request), "unauthorized")


@pytest.mark.parametrize("rooms", [None, [], ["r2", "r1"]])
def test_me_says_what_the_token_says(rooms: list[str] | None, api: Api) -> None:
    """Contract, *Identity*: GET /v1/me."""
    expected = {"id": "é", "is_admin": True, "rooms": rooms and sorted(rooms)}
    assert taken(api.by("é", is_admin=True, rooms=rooms).get("/v1/me")) == expected


# Each request has two faults; the one named is answered (rules, *Order of checks*).
TWO_FAULTS: list[tuple[str, str, str, Any, str]] = [
    # 404 / 405 of the router before 401
    ("no token, unknown address", "nobody", "GET /nope", None, "not-found"),
    ("no token, wrong method", "nobody", "PUT /tasks/claim", {}, "method-not-allowed"),
    ("wrong method, broken body", "fenced", "PUT /tasks/claim", b"{", "method-not-allowed"),
    # 401 before 413 and 422
    ("no token, body too large", "nobody", "PUT /rooms/r1/jobs", b" " * 2**21, "unauthorized"),
    ("no token, broken body", "nobody", "PUT /rooms/r1/jobs", b"{", "unauthorized"),
    ("no token, hidden room", "nobody", "GET /rooms/hidden/jobs", None, "unauthorized"),
    # 413 before 422 and 404
    ("body too large, and broken", "fenced", "PUT /rooms/r2/jobs", b"{" * 2**21,
     "payload-too-large"),
    ("body too large, hidden room", "fenced", "PUT /rooms/r1/jobs", b" " * 2**21,
     "payload-too-large"),
    # 400/422 of the body before 404
    ("broken body, hidden room", "fenced", "PUT /rooms/r1/jobs", b"{", "validation-error"),
    ("bad name, hidden room", "fenced", "PUT /rooms/r1/jobs",
     {"category": "modifiers", "name": "a:b"}, "validation-error"),
    ("bad category, hidden room", "fenced", "PUT /rooms/r1/jobs",
     {"category": "painting", "name": "a"}, "invalid-category"),
    ("bad schema, hidden room", "fenced", "PUT /rooms/r1/jobs",
     {**GOOD_JOB, "schema": {"type": 5}}, "validation-error"),
    ("broken body, unknown job", "fenced", "POST /rooms/r2/tasks/x", b"{", "validation-error"),
    ("broken body, unknown task", "fenced", "PATCH /tasks/x", b"{", "validation-error"),
    ("report without sense, hidden task", "fenced", "PATCH /tasks/{task}",
     {"status": "failed", "result": 1}, "validation-error"),
    ("bad limit, hidden room", "fenced", "GET /rooms/r1/tasks?limit=-1", None,
     "validation-error"),
    ("bad flag, unknown task", "fenced", "POST /tasks/x/retry?dry_run=x", None,
     "validation-error"),
    # 404 before 403 and 409
    ("hidden room, not an admin", "fenced", "PUT /rooms/r1/jobs",
     {**GOOD_JOB, "worker_id": "wanda"}, "not-found"),
    ("hidden room, unknown job", "fenced", "GET /rooms/r1/jobs/x", None, "not-found"),
    ("hidden room, another schema", "fenced", "PUT /rooms/r1/jobs", {**GOOD_JOB, "schema": {}},
     "not-found"),
    ("hidden task, not its holder, not startable", "fenced", "PATCH /tasks/{task}",
     {"status": "running", "attempt": 7}, "task-not-found"),
    ("unknown job, no admin of @global", "bob", "POST /rooms/@global/tasks/@global:modifiers:x",
     None, "job-not-found"),
    ("bad payload, no admin of @global", "bob", "POST /rooms/@global/tasks/@global:modifiers:Align",
     {"payload": {"n": "x"}}, "payload-invalid"),
    # 403 before 409
    ("not its holder, an old attempt", "bob", "PATCH /tasks/{task}",
     {"status": "completed", "attempt": 7}, "forbidden"),
    ("not its creator, not failed", "bob", "POST /tasks/{task}/retry", None, "forbidden"),
    ("foreign worker, another schema", "bob", "PUT /rooms/r1/jobs",
     {**GOOD_JOB, "worker_id": "wanda", "schema": {}}, "forbidden"),
    ("no admin of @global, another schema", "bob", "PUT /rooms/@global/jobs",
     {"category": "modifiers", "name": "Align"}, "forbidden"),
]  # fmt: skip


@pytest.mark.parametrize("case", TWO_FAULTS, ids=lambda case: case[0].replace(" ", "-"))
def test_of_two_faults_the_earlier_in_the_order_is_answered(
    case: tuple[str, str, str, Any, str],
    task: Json,
    admin: Person,
    request: pytest.FixtureRequest,
) -> None:
    """Rules, *Order of checks*: router, 401, 413, 400/422 of the body, 404, 403, 409."""
    _, who, line, body, slug = case
    number = {"type": "object", "properties": {"n": {"type": "number"}}}
    admin.register("Align", room="@global", schema=number)
    person: Person = admin.api.nobody if who == "nobody" else request.getfixturevalue(who)
    method, _, path = line.partition(" ")
    answer = admin.api.run(person.send(method, path.replace("{task}", q(task["id"])), body))
    refused(answer, slug)


def test_no_request_id_leads_to_a_task_of_another_room(fenced: Person, task: Json) -> None:
    """Rules, *Who sees what*: a claim that is called like one beside a report shows nothing."""
    fenced.register(room="r2")
    fenced.submit("r2:modifiers:Rotate", room="r2")
    request_id = f"next:{task['id']}:0"
    mine = taken(fenced.post("/tasks/claim", {"request_id": request_id, "start": True}))["task"]
    assert mine["room_id"] == "r2"
    report = {"attempt": 0, "worker_id": "fenced", "claim_next": True}
    refused(fenced.report(task, "completed", **report), "task-not-found")
