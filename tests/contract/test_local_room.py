"""The room of the embedded queue over REST: an admin sees and mends what is in it, nobody works."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tables
from contract_api import Api, Json, Person, listed, q, refused, taken

from jobroom.domain import names
from jobroom.domain.graph import Need, begin
from jobroom.domain.records import Job
from jobroom.service.queue import JobQueue
from jobroom.store import edges, jobs, planned
from jobroom.store.transaction import Transaction

LOCAL = "/rooms/@local"
FUNCTION = "@local:functions:package.module.work"
PROCESS = "@local"
"""Who made the tasks here; a token may have such a ``sub`` as any other."""
READS = ["/jobs", "/tasks", "/workers", f"/jobs/{FUNCTION}", f"/jobs/{FUNCTION}/tasks"]


def add(tx: Transaction, keys: dict[str, list[str]]) -> dict[str, str]:
    """Tasks as the embedded queue makes them: key -> keys of those that it waits for; their ids."""
    edges.lock(tx)
    job = jobs.get(tx, room_id="@local", category="functions", name="package.module.work")
    job = job or jobs.add(tx, _job(tx))
    ids = {key: names.new_uuid7() for key in keys}
    for key, needed in keys.items():
        needs = [Need(ids[each], "afterok", "pending", each) for each in needed]
        planned.add(tx, _given(ids[key], key, job.seq, needs, keys))
        planned.add_edges(tx, ids[key], needs)
    return ids


def _job(tx: Transaction) -> Job:
    policy = {"max_attempts": 1, "on_worker_lost": "fail", "claim_order": "fifo", "validate": 0}
    given = {"room_id": "@local", "category": "functions", "name": "package.module.work", **policy}
    known = {"seq": 0, "id": names.new_uuid7(), "schema": "{}", "schema_version": 1, "version": 1}
    none = dict.fromkeys(Job._fields)
    return Job(**{**none, **given, **known, "hidden": 0, "created_at": tx.now})


def _given(
    task_id: str, key: str, job_seq: int, needs: list[Need], keys: dict[str, list[str]]
) -> dict[str, Any]:
    absent = dict.fromkeys(planned._GIVEN)
    return {
        **absent,
        "id": task_id,
        "key": key,
        "job_seq": job_seq,
        "room_id": "@local",
        "created_by_id": PROCESS,
        "status": str(begin(needs).status),
        "priority": 0,
        "payload": json.dumps({"job_id": key}),
        "schema_version": 1,
        "max_attempts": 1,
        "has_dependencies": int(bool(needs)),
        "has_dependents": int(any(key in needed for needed in keys.values())),
        "kept_for": None,
    }


@pytest.fixture
def ids(queue: JobQueue) -> dict[str, str]:
    """Three tasks in a row: a, b that waits for it, and c that waits for b."""
    return queue.run(add, {"a": [], "b": ["a"], "c": ["b"]})


def hold(queue: JobQueue, task_id: str) -> None:
    """Have a process of the embedded queue be at work on a task."""
    held = "status = 'running', worker_id = 'host 7', attempt = 1, starts = 1, completed_at = NULL"
    tables.write(queue, f"UPDATE task SET {held} WHERE id = '{task_id}'")  # noqa: S608 - ours


@pytest.mark.parametrize("path", READS)
def test_an_admin_sees_what_is_in_it(path: str, admin: Person, ids: dict[str, str]) -> None:
    """Graph contract: reserved, visible to admins."""
    assert admin.get(f"{LOCAL}{path}").status_code == 200


def test_its_jobs_and_tasks_are_told_as_any_others(admin: Person, ids: dict[str, str]) -> None:
    assert listed(admin.get(f"{LOCAL}/jobs"), "full_name") == [FUNCTION]
    assert listed(admin.get(f"{LOCAL}/tasks")) == [ids["c"], ids["b"], ids["a"]]
    assert listed(admin.get(f"{LOCAL}/tasks?status=blocked&job={q(FUNCTION)}")) == [
        ids["c"],
        ids["b"],
    ]
    found = admin.show({"id": ids["b"]})
    assert (found["job_name"], found["room_id"]) == (FUNCTION, "@local")
    assert found["payload"] == {"job_id": "b"}


@pytest.mark.parametrize("path", READS)
@pytest.mark.parametrize("who", ["alice", "bound admin", "bound user", PROCESS])
def test_to_others_there_is_no_such_room(
    path: str, who: str, api: Api, ids: dict[str, str]
) -> None:
    """Contract, *Identity*: 404, not 403; the rooms of a token bind an admin here too."""
    rooms = {"bound admin": ["r1"], "bound user": ["@local"]}.get(who)
    person = api.by(who, is_admin=who == "bound admin", rooms=rooms)
    refused(person.get(f"{LOCAL}{path}"), "not-found")


@pytest.mark.parametrize("who", ["alice", PROCESS])
def test_to_others_there_is_no_such_task(who: str, api: Api, ids: dict[str, str]) -> None:
    """A token that is spelled like whoever made them is nobody's."""
    person = api.by(who)
    task = {"id": ids["a"]}
    refused(person.get(f"/tasks/{ids['a']}"), "task-not-found")
    refused(person.get(f"/tasks/{ids['a']}", headers={"prefer": "wait=30"}), "task-not-found")
    refused(person.get(f"/tasks/{ids['a']}/result"), "task-not-found")
    refused(person.post(f"/tasks/{ids['a']}/retry"), "task-not-found")
    for status in ("cancelled", "running", "completed", "failed", "pending", None):
        refused(person.report(task, status), "task-not-found")


def test_a_token_spelled_like_the_worker_of_a_task_holds_nothing(
    api: Api, admin: Person, queue: JobQueue, ids: dict[str, str]
) -> None:
    """The worker of a task here is a process; a client may make a worker of the same name."""
    spelled = api.by("host 7")
    spelled.register()  # makes its identity worker
    hold(queue, ids["a"])
    task = {"id": ids["a"]}
    refused(spelled.get(f"/tasks/{ids['a']}"), "task-not-found")
    for status in ("completed", "failed", "cancelled", "pending", None):
        refused(spelled.report(task, status, attempt=1), "task-not-found")
    assert admin.show(task)["status"] == "running"


def test_the_lists_of_other_rooms_do_not_have_them(admin: Person, ids: dict[str, str]) -> None:
    admin.register()
    assert listed(admin.get("/rooms/r1/jobs"), "full_name") == ["r1:modifiers:Rotate"]
    assert listed(admin.get("/rooms/@global/jobs"), "full_name") == []
    assert listed(admin.get("/rooms/r1/tasks")) == []
    refused(admin.get(f"/rooms/r1/jobs/{FUNCTION}"), "job-not-found")
    refused(admin.get(f"/rooms/r1/jobs/{FUNCTION}/tasks"), "job-not-found")


@pytest.mark.parametrize("who", ["admin", "alice"])
def test_nothing_is_registered_or_submitted_there(
    who: str, api: Api, ids: dict[str, str], request: pytest.FixtureRequest
) -> None:
    """Contract, *Jobs*: @internal and @local are reserved, 400 ``invalid-room-id``."""
    person: Person = request.getfixturevalue(who)
    job = {"category": "modifiers", "name": "work"}
    refused(person.put(f"{LOCAL}/jobs", job), "invalid-room-id")
    refused(person.post(f"{LOCAL}/tasks/{q(FUNCTION)}", {}), "invalid-room-id")
    refused(person.post(f"/rooms/r1/tasks/{q(FUNCTION)}", {}), "job-not-found")


def test_no_claim_takes_a_task_of_it(api: Api, admin: Person, ids: dict[str, str]) -> None:
    """Graph contract: not claimable over REST, for admins neither."""
    for person in (admin, api.by(PROCESS), api.by("alice")):
        person.register()
        instance = taken(person.post("/workers", {}))["id"]
        for asked in ({}, {"worker_id": instance}, {"limit": 100, "start": True}):
            assert taken(person.post("/tasks/claim", asked))["tasks"] == []
    assert admin.show({"id": ids["a"]})["status"] == "pending"


def test_an_admin_cancels_one_and_what_waits_for_it_settles(
    admin: Person, ids: dict[str, str]
) -> None:
    """Rules, *Cancel*: dependents settle, the whole way down."""
    cancelled = taken(admin.report({"id": ids["a"]}, "cancelled"))
    assert cancelled["status"] == "cancelled"
    after: list[Json] = [admin.show({"id": ids[key]}) for key in "bc"]
    assert [each["status"] for each in after] == ["failed", "failed"]
    assert [each["error"] for each in after] == [
        f"dependency {ids['a']} was cancelled",
        f"dependency {ids['b']} failed",
    ]


def test_an_admin_retries_one(admin: Person, ids: dict[str, str]) -> None:
    """Rules, *Retry*: with what failed because of it."""
    taken(admin.report({"id": ids["a"]}, "cancelled"))
    assert taken(admin.post(f"/tasks/{ids['a']}/retry"))["status"] == "pending"
    assert admin.show({"id": ids["a"]})["status"] == "pending"


def test_a_sweep_leaves_it_alone(
    api: Api, admin: Person, queue: JobQueue, ids: dict[str, str]
) -> None:
    """Graph contract: the steps about workers, orphans and retention leave ``@local`` alone."""
    taken(admin.report({"id": ids["a"]}, "cancelled"))
    hold(queue, ids["c"])
    api.let_pass(400 * 86_400)
    for _ in range(2):
        taken(admin.post("/sweep"))
    assert len(listed(admin.get(f"{LOCAL}/tasks"))) == 3
    assert listed(admin.get(f"{LOCAL}/jobs"), "full_name") == [FUNCTION]
    assert admin.show({"id": ids["c"]})["status"] == "running"
