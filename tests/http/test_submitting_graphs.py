"""Graphs over HTTP: ``depends_on``, ``parent``, and bulk submit (contract, *Tasks*; issue 4)."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from pydantic import SecretStr

from jobroom import tokens
from jobroom.bootstrap import create_app
from jobroom.http import bulk as door
from jobroom.service import planning
from jobroom.settings import JobLibSettings

SECRET = "a secret of the tests, long enough"
ROTATE = "r1:modifiers:Rotate"
GLOBAL = "@global:modifiers:Align"
AN_ID = "0190163d-8694-739b-aea5-966c26f8ad91"
ANGLE = {"type": "object", "properties": {"angle": {"type": "number"}}, "required": ["angle"]}
BULK = "/rooms/r1/tasks"


class Site:
    """The application, asked by name of who asks."""

    def __init__(self, settings, runner):
        self.app = create_app(settings)
        self._runner = runner
        transport = httpx.ASGITransport(app=self.app)
        self._http = httpx.AsyncClient(transport=transport, base_url="http://site.test")

    def send(self, who, method, path, body=None, *, rooms=None, **headers):
        token = tokens.issue_token(SECRET, sub=who, is_admin=who == "root", rooms=rooms)
        said = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        content = body if isinstance(body, bytes) else json.dumps(body) if body is not None else b""
        request = self._http.request(method, f"/v1/joblib{path}", content=content, headers=said)
        return self._runner.run(self._awaited(request))

    @staticmethod
    async def _awaited(request):
        return await request

    def submit(self, who="alice", full_name=ROTATE, angle=1, **more):
        path = f"/rooms/r1/tasks/{full_name}"
        return self.send(who, "POST", path, {"payload": {"angle": angle}, **more})

    def bulk(self, *tasks, who="alice", **headers):
        body = {"tasks": [{"job": ROTATE, "payload": {"angle": 1}, **task} for task in tasks]}
        return self.send(who, "POST", BULK, body, **headers)

    def count(self):
        return self.send("alice", "GET", "/rooms/r1/tasks?limit=0").json()["total"]

    def show(self, task):
        return self.send("alice", "GET", f"/tasks/{task['id']}").json()

    def start(self):
        return self.send("wanda", "POST", "/tasks/claim", {"start": True}).json()["task"]

    def report(self, task, status, **more):
        body = {"status": status, **more}
        return self.send("wanda", "PATCH", f"/tasks/{task['id']}", body).json()

    def register(self, who="wanda", room="r1", name="Rotate", **more):
        body = {"category": "modifiers", "name": name, "schema": ANGLE, **more}
        answer = self.send(who, "PUT", f"/rooms/{room}/jobs", body)
        assert answer.is_success
        return answer.json()


@pytest.fixture(scope="module")
def runner():
    with asyncio.Runner() as one:
        yield one


@pytest.fixture
def site(settings: JobLibSettings, runner):
    made = Site(settings.model_copy(update={"jwt_secret": SecretStr(SECRET)}), runner)
    made.register()
    yield made
    made.app.state.door.close()


def refused(answer, slug, *pointers):
    """It is this refusal, and its faults are there."""
    found = answer.json()
    assert found["type"] == f"/v1/problems/{slug}", found
    assert [fault["pointer"] for fault in found.get("errors", [])] == [*pointers], found
    return found["detail"]


# --- one task ---------------------------------------------------------------------------------


def test_a_blocked_task_says_what_it_waits_for(site) -> None:
    """Contract, *Tasks*: ``depends_on``, ``waiting_on``, with names."""
    first = site.submit().json()
    answer = site.submit(depends_on=[first["id"].upper().replace("-", "")])
    second = answer.json()
    assert (answer.status_code, second["status"]) == (202, "blocked")
    assert second["depends_on"] == [first["id"]]
    assert second["waiting_on"] == [
        {
            "id": first["id"],
            "key": None,
            "job_name": ROTATE,
            "status": "pending",
            "condition": "afterok",
        }
    ]
    assert site.show(second)["waiting_on"] == second["waiting_on"]
    [listed] = site.send("alice", "GET", f"{BULK}?status=blocked").json()["items"]
    assert listed["waiting_on"] == second["waiting_on"]


def test_what_is_done_is_waited_for_no_more(site) -> None:
    first, other = site.submit().json(), site.submit().json()
    second = site.submit(
        depends_on=[first["id"], {"id": other["id"], "condition": "afterany"}]
    ).json()
    site.report(site.start(), "completed")
    shown = site.show(second)
    assert sorted(shown["depends_on"]) == sorted([first["id"], other["id"]])
    assert [each["id"] for each in shown["waiting_on"]] == [other["id"]]
    site.report(site.start(), "failed")
    assert site.show(second)["status"] == "pending"
    assert site.show(second)["waiting_on"] == []


def test_a_claimed_task_says_what_it_depended_on(site) -> None:
    first = site.submit().json()
    site.submit(depends_on=[first["id"]])
    site.start()
    done = site.report(first, "completed", claim_next=True)
    assert done["next_task"]["depends_on"] == [first["id"]]
    assert done["next_task"]["waiting_on"] == []


def test_a_failed_dependency_is_named(site) -> None:
    first = site.submit().json()
    second = site.submit(depends_on=[first["id"]]).json()
    site.report(site.start(), "failed", error="no")
    shown = site.show(second)
    assert (shown["status"], shown["failed_by"]) == ("failed", first["id"])
    assert shown["error"] == f"dependency {first['id']} failed"
    late = site.submit(depends_on=[first["id"]])
    assert (late.status_code, late.json()["status"]) == (202, "failed")
    assert late.json()["failed_by"] == first["id"]


def test_an_unknown_dependency_is_422_at_its_place(site) -> None:
    """Acceptance C39."""
    first = site.submit().json()
    answer = site.submit(depends_on=[first["id"], AN_ID])
    assert AN_ID in refused(answer, "dependency-not-found", "/depends_on/1")
    assert site.count() == 1


def test_a_dependency_in_a_room_out_of_sight_is_unknown(site) -> None:
    """Rules, *Graph over REST*."""
    site.register("root", "@global", "Align")
    first = site.submit().json()
    body = {"payload": {"angle": 1}, "depends_on": [first["id"]]}
    answer = site.send("carol", "POST", f"/rooms/r2/tasks/{GLOBAL}", body, rooms=["r2"])
    refused(answer, "dependency-not-found", "/depends_on/0")


def test_a_task_on_itself_is_422_naming_the_cycle(site) -> None:
    """Acceptance C39."""
    answer = site.submit(id=AN_ID, depends_on=[AN_ID])
    assert AN_ID in refused(answer, "dependency-cycle", "/depends_on/0")
    assert site.count() == 0


def test_too_many_dependencies_are_422(site) -> None:
    answer = site.submit(depends_on=[AN_ID] * 1001)
    assert "1,000" in refused(answer, "validation-error", "/depends_on")


@pytest.mark.parametrize("header", [{"idempotency_key": "k"}, {}])
def test_a_repeat_is_the_same_task(site, header) -> None:
    first = site.submit().json()
    body = {"payload": {"angle": 1}, "depends_on": [first["id"]]}
    body |= {} if header else {"id": AN_ID}
    sent = [site.send("alice", "POST", f"{BULK}/{ROTATE}", body, **header) for _ in range(2)]
    assert sent[0].json() == sent[1].json()
    assert sent[1].headers["idempotency-replayed"] == "true"
    assert site.count() == 2


def test_a_child_holds_up_what_waits_for_its_parent(site) -> None:
    """Rules, *Graph over REST*."""
    running = site.submit().json()
    waits = site.submit(depends_on=[running["id"]]).json()
    site.start()
    child = site.submit("wanda", parent=running["id"]).json()
    assert child["id"] in site.show(waits)["depends_on"]
    refused(site.submit("alice", parent=running["id"]), "forbidden", "/parent")
    answer = site.submit("wanda", parent=running["id"], depends_on=[waits["id"]])
    story = refused(answer, "dependency-cycle", "/parent", "/depends_on/0")
    assert f"'{waits['id']}' → 'the new task' → '{waits['id']}'" in story
    site.report(running, "completed")
    refused(site.submit("wanda", parent=running["id"]), "invalid-task-transition", "/parent")
    refused(site.submit("wanda", parent=AN_ID), "dependency-not-found", "/parent")
    assert site.show(waits)["status"] == "blocked"


def test_the_etag_rises_when_a_child_is_added(site) -> None:
    running = site.submit().json()
    waits = site.submit(depends_on=[running["id"]]).json()
    site.start()
    path = f"/tasks/{waits['id']}"
    tag = site.send("alice", "GET", path).headers["etag"]
    assert site.send("alice", "GET", path, if_none_match=tag).status_code == 304
    site.submit("wanda", parent=running["id"])
    assert site.send("alice", "GET", path, if_none_match=tag).status_code == 200


def test_a_list_shows_some_of_many_dependencies(site) -> None:
    """Contract, *Tasks*: a page of tasks must stay small."""
    made = site.bulk(*[{} for _ in range(30)]).json()["items"]
    last = site.submit(depends_on=[task["id"] for task in made]).json()
    assert (len(last["depends_on"]), len(last["waiting_on"])) == (30, 30)
    [listed] = site.send("alice", "GET", f"{BULK}?status=blocked").json()["items"]
    assert (len(listed["depends_on"]), len(listed["waiting_on"])) == (20, 20)
    assert listed["dependency_count"] == 30


def test_a_list_counts_its_dependencies_only_where_there_are_more_than_it_shows(site) -> None:
    first = site.submit().json()
    site.submit(depends_on=[first["id"]])
    [listed] = site.send("alice", "GET", f"{BULK}?status=blocked").json()["items"]
    assert listed["depends_on"] == [first["id"]]
    assert "dependency_count" not in listed


def test_children_of_one_request_bring_a_bounded_number_of_edges(site, monkeypatch) -> None:
    """Graph contract, *Cost*: a small request must not stop everything else for half a minute."""
    monkeypatch.setattr(planning, "MOST_INHERITED", 5)
    running = site.submit().json()
    for _ in range(3):
        site.submit(depends_on=[running["id"]])
    site.start()
    answer = site.bulk(*[{"parent": running["id"]}] * 2, who="wanda")
    assert "send them in parts" in refused(answer, "validation-error", "/tasks/0/parent")
    assert site.submit("wanda", parent=running["id"]).status_code == 202


@pytest.mark.parametrize("body", [b'{"dry_run": true}', b"{{{"])
def test_a_retry_does_not_ignore_what_its_body_says(site, body) -> None:
    """A dry run that is asked for in the wrong place must change nothing."""
    task = site.submit().json()
    site.send("alice", "PATCH", f"/tasks/{task['id']}", {"status": "cancelled"})
    answer = site.send("alice", "POST", f"/tasks/{task['id']}/retry", body)
    assert "?dry_run=true" in refused(answer, "validation-error")
    assert site.show(task)["status"] == "cancelled"


# --- many -------------------------------------------------------------------------------------


def test_a_bulk_answers_its_tasks_in_order(site) -> None:
    """Contract, *Tasks*: 202 ``{"items": [task …]}``."""
    answer = site.bulk({"key": "a"}, {"depends_on": ["a"]}, {"priority": 3, "key": "c"})
    items = answer.json()["items"]
    assert answer.status_code == 202
    assert [each["status"] for each in items] == ["pending", "blocked", "pending"]
    assert [each["key"] for each in items] == ["a", None, "c"]
    assert items[1]["waiting_on"][0]["key"] == "a"
    assert items[2]["priority"] == 3


def test_payloads_in_bulk_come_back_exactly_as_sent(site) -> None:
    """Contract, *Errors*, bodies."""
    site.register(name="Free", schema={})
    payloads = ['{"big":123456789012345678901234567890, "one": 1.0}', '{ "n\\u0075l":"\\u0000" }']
    tasks = ",".join(
        f' {{"payload" :{each} ,"job":"r1:modifiers:Free", "x":[{{}}]}}' for each in payloads
    )
    answer = site.send("alice", "POST", BULK, f'{{"tasks" : [{tasks} ] , "y": 1}}'.encode())
    assert answer.status_code == 202
    assert all(each in answer.text for each in payloads)


@pytest.mark.parametrize(
    "named",
    ["first", {"key": "first"}, {"id": "first"}, AN_ID.upper(), {"id": AN_ID}],
)
def test_others_of_the_request_are_named_by_key_or_id(site, named) -> None:
    items = site.bulk({"depends_on": [named]}, {"key": "first", "id": AN_ID}).json()["items"]
    assert items[0]["depends_on"] == [AN_ID]


def test_stored_tasks_are_named_by_id(site) -> None:
    stored = site.submit().json()
    named = {"id": stored["id"], "condition": "afternotok"}
    items = site.bulk({"depends_on": [named]}).json()["items"]
    assert items[0]["waiting_on"][0]["id"] == stored["id"]
    assert items[0]["waiting_on"][0]["condition"] == "afternotok"


def test_jobs_in_bulk_may_be_the_rooms_own_or_global(site) -> None:
    site.register("root", "@global", "Align")
    items = site.bulk({}, {"job": GLOBAL}).json()["items"]
    assert [each["job_name"] for each in items] == [ROTATE, GLOBAL]


REFUSED = {
    "a wrong member": ({"priority": "high"}, "validation-error", "/tasks/1/priority"),
    "a wrong payload": ({"payload": {"angle": "x"}}, "payload-invalid", "/tasks/1/payload/angle"),
    "an unknown job": ({"job": "r1:modifiers:No"}, "job-not-found", "/tasks/1/job"),
    "another room's job": ({"job": "r2:modifiers:Rotate"}, "job-not-found", "/tasks/1/job"),
    "a job of no name": ({"job": "Rotate"}, "job-not-found", "/tasks/1/job"),
    "an unknown key": ({"depends_on": ["b"]}, "dependency-not-found", "/tasks/1/depends_on/0"),
    "an unknown key alone": (
        {"depends_on": [{"key": AN_ID}]},
        "dependency-not-found",
        "/tasks/1/depends_on/0",
    ),
    "an unknown id": ({"depends_on": [AN_ID]}, "dependency-not-found", "/tasks/1/depends_on/0"),
    "an unknown parent": ({"parent": AN_ID}, "dependency-not-found", "/tasks/1/parent"),
    "a key twice": ({"key": "a"}, "validation-error", "/tasks/1/key"),
    "an empty key": ({"key": ""}, "validation-error", "/tasks/1/key"),
    "a dependency of no kind": ({"depends_on": [1]}, "validation-error", "/tasks/1/depends_on/0"),
    "neither key nor id": ({"depends_on": [{}]}, "validation-error", "/tasks/1/depends_on/0"),
    "another condition": (
        {"depends_on": [{"key": "a", "condition": "later"}]},
        "validation-error",
        "/tasks/1/depends_on/0/condition",
    ),
    "two conditions": (
        {"depends_on": ["a", {"key": "a", "condition": "afterany"}]},
        "validation-error",
        "/tasks/1/depends_on/1",
    ),
    "itself": ({"key": "b", "depends_on": ["b"]}, "dependency-cycle", "/tasks/1/depends_on/0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_bad_task_refuses_all_at_its_place(site, case) -> None:
    """Contract, *Tasks*: a bad item refuses the whole with its index."""
    bad, slug, pointer = REFUSED[case]
    refused(site.bulk({"key": "a"}, bad), slug, pointer)
    assert site.count() == 0


def test_a_cycle_is_named_by_its_keys(site) -> None:
    """Acceptance C39: A→B→A in one bulk call."""
    answer = site.bulk({"key": "A", "depends_on": ["B"]}, {"key": "B", "depends_on": ["A"]})
    pointers = ["/tasks/0/depends_on/0", "/tasks/1/depends_on/0"]
    assert "'A' → 'B' → 'A'" in refused(answer, "dependency-cycle", *pointers)
    assert site.count() == 0


def test_an_id_twice_and_a_key_that_is_anothers_id_are_refused(site) -> None:
    refused(site.bulk({"id": AN_ID}, {"id": AN_ID.upper()}), "validation-error", "/tasks/1/id")
    refused(site.bulk({"id": AN_ID}, {"key": AN_ID}), "validation-error", "/tasks/1/key")
    assert site.bulk({"id": AN_ID, "key": AN_ID}).status_code == 202


@pytest.mark.parametrize(("count", "pointer"), [(0, "/tasks"), (1001, "/tasks")])
def test_1_to_1000_tasks_are_taken(site, count, pointer) -> None:
    refused(site.bulk(*[{}] * count), "validation-error", pointer)
    assert len(site.bulk(*[{}] * 1000).json()["items"]) == 1000


def test_too_many_edges_in_all_are_refused(site, monkeypatch) -> None:
    monkeypatch.setattr(door, "MOST_EDGES", 3)
    tasks = [{"key": "a"}, {"key": "b", "depends_on": ["a"]}, {"depends_on": ["a", "b"]}]
    assert site.bulk(*tasks).status_code == 202
    refused(site.bulk(*tasks, {"depends_on": ["a"]}), "validation-error", "/tasks")


def test_payloads_that_take_too_long_to_check_are_refused(site, monkeypatch) -> None:
    monkeypatch.setattr(door, "LONGEST_CHECK_SECONDS", -1)
    refused(site.bulk({}), "payload-invalid", "/tasks/0/payload")


def test_a_body_over_the_limit_is_413(site) -> None:
    big = {"payload": {"angle": 1, "x": "y" * 1_100_000}}
    assert site.bulk(big).json()["type"] == "/v1/problems/payload-too-large"


def test_a_room_out_of_sight_is_404(site) -> None:
    answer = site.send("carol", "POST", BULK, {"tasks": [{"job": ROTATE}]}, rooms=["r2"])
    refused(answer, "not-found")


def test_submitting_in_global_needs_an_admin(site) -> None:
    """Rules, *Who sees what*."""
    site.register("root", "@global", "Align")
    body = {"tasks": [{"job": GLOBAL, "payload": {"angle": 1}}]}
    refused(site.send("alice", "POST", "/rooms/@global/tasks", body), "forbidden")
    assert site.send("root", "POST", "/rooms/@global/tasks", body).status_code == 202


@pytest.mark.parametrize("by", ["key", "id"])
def test_a_bulk_may_be_repeated(site, by) -> None:
    """Contract, *Tasks*: ``Idempotency-Key``; rules: the answer is the task as it is now."""
    header = {"idempotency_key": "k"} if by == "key" else {}
    tasks = [{"key": "a"}, {"depends_on": ["a"], **({} if header else {"id": AN_ID})}]
    first = site.bulk(*tasks, **header)
    assert "idempotency-replayed" not in first.headers
    site.report(site.start(), "completed", result=7)
    again = site.bulk(*tasks, **header)
    assert again.headers["idempotency-replayed"] == "true"
    ids = [[each["id"] for each in answer.json()["items"]] for answer in (first, again)]
    assert ids[0] == ids[1]
    assert [each["status"] for each in again.json()["items"]] == ["completed", "pending"]
    assert again.json()["items"][0]["result"] == 7
    assert site.count() == 2


def test_a_key_of_another_bulk_is_refused(site) -> None:
    site.bulk({}, idempotency_key="k")
    refused(site.bulk({}, {}, idempotency_key="k"), "idempotency-key-reused")


def test_a_repeat_is_not_judged_by_a_newer_schema(site) -> None:
    first = site.bulk({}, {}, idempotency_key="k").json()["items"]
    site.register(schema={"type": "object", "required": ["other"]}, replace=True)
    again = site.bulk({}, {}, idempotency_key="k").json()["items"]
    assert [each["id"] for each in again] == [each["id"] for each in first]
    refused(site.bulk({}), "payload-invalid", "/tasks/0/payload")


def test_a_job_that_has_changed_is_read_again(site, settings) -> None:
    site.bulk({})
    site.register(description="changed")
    assert site.bulk({}, {}).status_code == 202


def test_claims_that_wait_are_served_by_a_bulk(site) -> None:
    async def both():
        token = tokens.issue_token(SECRET, sub="wanda")
        said = {"authorization": f"Bearer {token}"}
        http = site._http
        claim = asyncio.ensure_future(
            http.post("/v1/joblib/tasks/claim", json={}, headers={**said, "prefer": "wait=20"})
        )
        await asyncio.sleep(0)
        body = {"tasks": [{"job": ROTATE, "payload": {"angle": 1}}] * 30}
        await http.post(f"/v1/joblib{BULK}", json=body, headers=said)
        return await asyncio.wait_for(claim, 20)

    assert site._runner.run(both()).json()["task"]["status"] == "claimed"
