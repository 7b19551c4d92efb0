"""Jobs that come, go, and come back: listed while they can be served, equal by what they mean."""

from __future__ import annotations

import json
import random
import signal

import crew
import pytest

GRACEFUL = {
    "the end of the with block": "with jobs:\n    hear()\n",
    "an exception in the with block": "with jobs:\n    hear()\n    raise ValueError('no')\n",
    "the end of the program": "hear()\n",
    "SIGTERM while it listens": "list(jobs.listen(1.0))\n",
}
SCHEMA = {
    "type": "object",
    "title": "Rotate",
    "properties": {
        "angle": {"type": "number", "default": 1, "minimum": -360},
        "axis": {"type": ["string", "null"], "enum": ["x", "y", 0, False, None]},
        "deep": {"type": "object", "properties": {"a": {"const": {"n": 1, "m": [1, 2]}}}},
    },
    "required": ["angle", "axis"],
}


@pytest.fixture(scope="module")
def served(tmp_path_factory, empty_database):
    with crew.serving(tmp_path_factory.mktemp("registrations"), empty_database) as one:
        yield one


@pytest.fixture
def alice(served):
    return served.person("alice")


def listed(alice, room="r1"):
    page = alice.ask("GET", f"/rooms/{room}/jobs", params={"limit": 500})
    return [job["full_name"] for job in page["items"]]


def test_a_job_is_not_listed_the_moment_its_last_worker_left(served, alice):
    """Acceptance C17: every way of leaving in good order, at once and without a sweep."""
    workers = {
        way: served.start(f'say("ready")\n{body}', head=crew.HEAD.replace("r1", way))
        for way, body in GRACEFUL.items()
    }
    for way, worker in workers.items():
        assert worker.hear() == "ready"
        assert listed(alice, way) == [f"{way}:modifiers:Rotate"]
        if "SIGTERM" in way:
            while not alice.ask("GET", f"/rooms/{way}/jobs/{way}:modifiers:Rotate")["workers"]:
                pass
            worker.signal(signal.SIGTERM)
        else:
            worker.say()
        code, errors = worker.end()
        assert (code == 0) == ("exception" not in way), errors
        assert listed(alice, way) == []
        job = alice.ask("GET", f"/rooms/{way}/jobs/{way}:modifiers:Rotate")
        assert (job["workers"], job["alive_workers"]) == ([], 0)
        assert job["last_seen"]


def test_after_kill_9_a_job_shows_no_live_worker_and_when_it_was_seen(served, alice):
    """Acceptance C17: and a submission waits (contract: 202), until a worker comes back."""
    worker = served.start('say("ready")\nnext(jobs.listen(1.0))')
    assert worker.hear() == "ready"
    worker.signal(signal.SIGKILL)
    worker.end()
    served.let_pass(crew.TIMEOUT + 1)
    before = alice.ask("GET", f"/rooms/r1/jobs/{crew.ROTATE}")
    served.queue.sweep()
    job = alice.ask("GET", f"/rooms/r1/jobs/{crew.ROTATE}")
    for shown in (before, job):
        assert (shown["workers"], shown["alive_workers"]) == ([], 0)
        assert shown["last_seen"] == job["last_seen"] is not None
    assert alice.ask("GET", "/rooms/r1/workers", params={"limit": 500})["items"] == []
    task_id = alice.submit()
    assert alice.show(task_id)["status"] == "pending"
    assert crew.ROTATE in listed(alice)
    served.queue.sweep()
    assert crew.ROTATE in listed(alice)
    again = served.start("""
        say("ready")
        def work(_rotate):
            return "at last"
        class Vis:
            pass
        vis = Vis()
        vis.jobs = jobs
        next(jobs.listen(1.0)).run(vis)
    """)
    assert again.hear() == "ready"
    assert again.end()[0] == 0
    assert alice.show(task_id)["result"] == "at last"


def put(alice, name, schema, **more):
    text = json.dumps({"category": "modifiers", "name": name, "schema": schema, **more})
    return alice.http.put(
        "/rooms/r2/jobs", content=text, headers={"content-type": "application/json"}
    )


def rewritten(schema, chance):
    """The same schema in other words: keys, ``required`` and ``type`` in any order, 1 as 1.0."""
    if isinstance(schema, dict):
        members = [(key, rewritten(value, chance)) for key, value in schema.items()]
        chance.shuffle(members)
        for key, value in members:
            if key in {"required", "type"} and isinstance(value, list):
                chance.shuffle(value)
        return dict(members)
    if isinstance(schema, list):
        return [rewritten(value, chance) for value in schema]
    if type(schema) is int and chance.random() < 0.5:
        return float(schema)
    return schema


def test_a_schema_is_the_same_by_what_it_means(alice):
    """Acceptance C18: keys in another order, required permuted, 1 as 1.0; then true for 1."""
    assert put(alice, "Same", SCHEMA).status_code == 201
    in_other_order = dict(reversed(SCHEMA.items()))
    assert put(alice, "Same", in_other_order).status_code == 200
    assert put(alice, "Same", {**SCHEMA, "required": ["axis", "angle"]}).status_code == 200
    angle = {"type": "number", "default": 1.0, "minimum": -360}
    properties = {**SCHEMA["properties"], "angle": angle}
    assert put(alice, "Same", {**SCHEMA, "properties": properties}).status_code == 200
    angle["default"] = True
    refused = put(alice, "Same", {**SCHEMA, "properties": properties})
    assert refused.status_code == 409
    assert refused.json()["type"] == "/v1/problems/schema-conflict"
    assert "/properties/angle/default" in refused.json()["detail"]


@pytest.mark.parametrize("seed", range(5))
def test_any_rewording_is_the_same_schema(alice, seed):
    """Acceptance C18: at every depth, whatever is combined."""
    chance = random.Random(seed)
    assert put(alice, f"Reworded{seed}", rewritten(SCHEMA, chance)).status_code == 201
    for _ in range(10):
        answer = put(alice, f"Reworded{seed}", rewritten(SCHEMA, chance))
        assert (answer.status_code, answer.json()["schema_version"]) == (200, 1)


OTHERS = {
    "/title": {"title": "rotate"},
    "/required": {"required": ["angle"]},
    "/required/1": {"required": ["angle", "deep"]},
    "/type": {"type": ["object"]},
    "/properties/angle/default": {"default": True},
    "/properties/angle/minimum": {"minimum": -360.5},
    "/properties/angle/type": {"type": "integer"},
    "/properties/axis/enum/2": {"enum": ["x", "y", False, False, None]},
    "/properties/axis/enum/3": {"enum": ["x", "y", 0, 0, None]},
    "/properties/axis/enum/0": {"enum": ["y", "x", 0, False, None]},
    "/properties/deep/properties/a/const/m/0": {"const": {"n": 1, "m": [2, 1]}},
    "/properties/deep/properties/a/const/n": {"const": {"n": True, "m": [1, 2]}},
    "/properties/deep/properties/a/const/m": {"const": {"n": 1, "m": [1]}},
    "/properties/more": {"properties": {**SCHEMA["properties"], "more": {}}},
}


@pytest.mark.parametrize("place", OTHERS)
def test_any_other_meaning_is_a_conflict_that_names_the_place(alice, place):
    """Acceptance C18: true is not 1, and the order of enum and const lists counts."""
    put(alice, "Other", SCHEMA)
    other = json.loads(json.dumps(SCHEMA))
    [(keyword, value)] = OTHERS[place].items()
    at = other
    steps = place.split("/")[1:]
    for step in steps[: steps.index(keyword)] if keyword in steps else []:
        at = at[step]
    at[keyword] = value
    refused = put(alice, "Other", other)
    assert refused.status_code == 409, refused.text
    named = refused.json()["detail"]
    assert any(part in named for part in (place, place.rpartition("/")[0])), named
    assert put(alice, "Other", SCHEMA).json()["schema_version"] == 1


@pytest.mark.parametrize("kind", ["identity", "instance"])
@pytest.mark.parametrize("leaving", ["deleted", "lost"])
def test_a_job_that_was_removed_comes_back_with_another_schema(served, kind, leaving):
    """Acceptance C19: 201, three times over; old tasks keep their state and schema version."""
    pod, alice = served.person(f"pod {kind} {leaving}"), served.person("alice")
    name, old = f"Back-{kind}-{leaving}", {}
    full_name = f"r1:modifiers:{name}"
    for version in (1, 2, 3):
        field = f"field{version}"
        worker_id = pod.instance() if kind == "instance" else None
        named = {} if worker_id is None else {"worker_id": worker_id}
        schema = {"type": "object", "required": [field], "additionalProperties": False}
        schema["properties"] = {field: {"type": "number"}}
        body = {"category": "modifiers", "name": name, "schema": schema, **named}
        made = pod.send("PUT", "/rooms/r1/jobs", body)
        assert (made.status_code, made.json()["schema_version"]) == (201, version)
        for before in range(1, version):
            refused = {"payload": {f"field{before}": 1}}
            assert alice.refused("POST", f"/rooms/r1/tasks/{full_name}", refused) == (
                422,
                "payload-invalid",
            )
        for status in ("completed", "failed", "cancelled"):
            task_id = alice.submit(full_name, payload={field: version})
            pod.claim(worker_id, start=True)
            report = {"result": version} if status == "completed" else {}
            assert pod.report(task_id, status, **report).status_code == 200
            old[task_id] = alice.show(task_id)
            assert old[task_id]["schema_version"] == version
        if leaving == "deleted":
            pod.leave(made.json()["worker_id"])
        else:
            served.lose_workers()
        assert full_name not in listed(alice)
    assert {task_id: alice.show(task_id) for task_id in old} == old
    page = alice.ask("GET", f"/rooms/r1/jobs/{full_name}/tasks")
    assert {item["id"]: item["schema_version"] for item in page["items"]} == {
        task_id: task["schema_version"] for task_id, task in old.items()
    }
    # An old one that is retried keeps the schema it was checked by, and the claim names it.
    retried = next(task_id for task_id, task in old.items() if task["status"] == "failed")
    assert alice.ask("POST", f"/tasks/{retried}/retry")["schema_version"] == 1
    # A job with a task that waits is never hidden.
    assert full_name in listed(alice)
    named = {"worker_id": pod.instance()} if kind == "instance" else {}
    assert pod.send("PUT", "/rooms/r1/jobs", {**body, **named}).status_code == 200
    [again] = pod.claim(named.get("worker_id"))
    assert (again["id"], again["schema_version"]) == (retried, 1)
