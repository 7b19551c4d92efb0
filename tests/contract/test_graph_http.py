"""``GET /tasks/{id}/graph`` and ``POST /tasks/{id}/retry`` of a task that others depend on."""

from __future__ import annotations

import itertools

import pytest
import tables
from contract_api import Api, Json, Person, listed, pointers, refused, taken

from jobroom.service.queue import JobQueue

NODE = {
    "id",
    "key",
    "job_name",
    "room_id",
    "status",
    "progress",
    "error",
    "failed_by",
    "created_at",
    "started_at",
    "completed_at",
}


@pytest.fixture
def chain(alice: Person, wanda: Person) -> list[Json]:
    """Three tasks of alice's, each after the one before."""
    found = [alice.submit()]
    for _ in range(2):
        found.append(alice.submit(depends_on=[found[-1]["id"]]))
    return found


def graph(person: Person, task: Json, query: str = "") -> Json:
    return taken(person.get(f"/tasks/{task['id']}/graph{query}"))


def fail(wanda: Person, task: Json) -> None:
    assert wanda.start()["id"] == task["id"]
    taken(wanda.report(task, "failed", error="no luck", final=True))


# --- the graph --------------------------------------------------------------------------------


def test_the_graph_has_nodes_edges_and_progress(alice: Person, chain: list[Json]) -> None:
    """Issue 4: nodes and edges of its connected graph, with states, and its progress."""
    ids = [task["id"] for task in chain]
    found = graph(alice, chain[1])
    assert [node["id"] for node in found["items"]] == ids
    assert found["items"][0].keys() == NODE
    assert found["edges"] == [
        {"from": one, "to": other, "condition": "afterok", "state": "waiting"}
        for one, other in itertools.pairwise(ids)
    ]
    progress = dict.fromkeys(("claimed", "running", "completed", "failed", "cancelled"), 0)
    assert found["progress"] == {
        **progress,
        "total": 3,
        "pending": 1,
        "blocked": 2,
        "done_share": 0.0,
    }
    page = {"total": 3, "limit": 50, "offset": 0, "next_cursor": None, "total_capped": False}
    assert found.items() >= {**page, "hidden": 0}.items()


def test_a_node_says_why_it_failed(alice: Person, wanda: Person, chain: list[Json]) -> None:
    fail(wanda, chain[0])
    first, second, third = graph(alice, chain[0])["items"]
    assert (first["status"], first["error"], first["failed_by"]) == ("failed", "no luck", None)
    assert second["error"] == f"dependency {first['id']} failed"
    assert (second["failed_by"], third["failed_by"]) == (first["id"], second["id"])
    assert graph(alice, chain[0])["progress"]["done_share"] == 1.0


def test_a_long_error_is_shortened(alice: Person, wanda: Person, chain: list[Json]) -> None:
    wanda.start()
    taken(wanda.report(chain[0], "failed", error="x" * 5000, final=True))
    node = graph(alice, chain[0], "?limit=1")["items"][0]
    assert 0 < len(node["error"]) < 1100


def test_pages_follow_one_another_by_their_cursors(alice: Person, chain: list[Json]) -> None:
    """Rules, *Lists*; each node and each edge is on one page."""
    nodes, edges, query = [], [], "?limit=2"
    while True:
        found = graph(alice, chain[2], query)
        nodes += [node["id"] for node in found["items"]]
        edges += [(edge["from"], edge["to"]) for edge in found["edges"]]
        if found["next_cursor"] is None:
            break
        query = f"?limit=2&cursor={found['next_cursor']}"
    ids = [task["id"] for task in chain]
    assert nodes == ids
    assert edges == list(itertools.pairwise(ids))


def test_a_page_may_be_asked_for_by_offset(alice: Person, chain: list[Json]) -> None:
    path = f"/tasks/{chain[0]['id']}/graph"
    assert listed(alice.get(f"{path}?offset=1&limit=1")) == [chain[1]["id"]]
    assert listed(alice.get(f"{path}?limit=0")) == []


def test_a_cursor_of_another_list_is_refused(alice: Person, chain: list[Json]) -> None:
    cursor = taken(alice.get("/rooms/r1/tasks?limit=1"))["next_cursor"]
    path = f"/tasks/{chain[0]['id']}/graph"
    problem = refused(alice.get(f"{path}?cursor={cursor}"), "validation-error")
    assert pointers(problem) == ["/cursor"]
    cursor = graph(alice, chain[0], "?limit=1")["next_cursor"]
    refused(alice.get(f"{path}?cursor={cursor}&offset=1"), "validation-error")
    refused(alice.get(f"/rooms/r1/tasks?cursor={cursor}"), "validation-error")


def test_a_task_that_is_not_seen_has_no_graph(api: Api, chain: list[Json]) -> None:
    """Rules, *Who sees what*: 404, never 403."""
    fenced = api.by("carol", rooms=["r2"])
    refused(fenced.get(f"/tasks/{chain[0]['id']}/graph"), "task-not-found")
    refused(fenced.get("/tasks/not-a-uuid/graph"), "task-not-found")


def test_what_is_not_seen_is_counted_only(api: Api, alice: Person, admin: Person) -> None:
    for room in ("r1", "r2"):
        admin.register(room=room)
    first = alice.submit(payload={})
    other = alice.submit("r2:modifiers:Rotate", {}, room="r2", depends_on=[first["id"]])
    alice.submit(payload={}, depends_on=[other["id"]])
    found = graph(api.by("carol", rooms=["r1"]), first)
    assert [node["id"] for node in found["items"]] == [first["id"]]
    assert (found["edges"], found["hidden"], found["total"]) == ([], 1, 1)
    assert graph(api.by("carol"), first)["total"] == 3


def test_a_damaged_node_is_shown_as_well_as_may_be(
    queue: JobQueue, alice: Person, chain: list[Json]
) -> None:
    damage = f"UPDATE task SET error = X'ff', key = X'fe' WHERE id = '{chain[0]['id']}'"  # noqa: S608 - our own id
    tables.write(queue, damage)
    found = alice.get(f"/tasks/{chain[0]['id']}/graph")
    assert found.status_code == 200
    assert len(found.json()["items"]) == 3


# --- the retry --------------------------------------------------------------------------------


def test_a_dry_run_lists_whose_status_would_change(
    alice: Person, wanda: Person, chain: list[Json]
) -> None:
    """C40: it shows first what it will reset, and changes nothing."""
    fail(wanda, chain[0])
    before = [alice.show(task) for task in chain]
    plan = taken(alice.post(f"/tasks/{chain[0]['id']}/retry?dry_run=true"))
    assert plan == {"tasks": [task["id"] for task in chain], "hidden": 0}
    assert [alice.show(task) for task in chain] == before


def test_a_retry_takes_along_what_failed_because_of_it(
    alice: Person, wanda: Person, chain: list[Json]
) -> None:
    """Contract, *Tasks*: with those descendants that failed because of it."""
    fail(wanda, chain[0])
    again = taken(alice.post(f"/tasks/{chain[0]['id']}/retry"))
    assert (again["status"], again["starts"], again["attempt"]) == ("pending", 0, 1)
    assert [alice.show(task)["status"] for task in chain] == ["pending", "blocked", "blocked"]
    for task in chain:
        assert wanda.start()["id"] == task["id"]
        taken(wanda.report(task, "completed"))


def test_a_task_that_failed_for_another_names_that_one(
    alice: Person, wanda: Person, chain: list[Json]
) -> None:
    """409: what to retry instead."""
    fail(wanda, chain[0])
    for query in ("", "?dry_run=true"):
        answer = alice.post(f"/tasks/{chain[2]['id']}/retry{query}")
        problem = refused(answer, "invalid-task-transition")
        assert f"retry task {chain[0]['id']} instead" in problem["detail"]


def test_a_poll_for_what_is_held_back_is_told(
    api: Api, alice: Person, wanda: Person, chain: list[Json]
) -> None:
    """Rules, *ETag*: the wait ends at any change."""
    after = {"id": chain[0]["id"], "condition": "afterany"}
    last = alice.submit(depends_on=[after])
    fail(wanda, chain[0])
    path = f"/tasks/{last['id']}"
    tag = alice.get(path).headers["etag"]
    polled, retried = api.together(
        alice.send("GET", path, headers={"prefer": "wait=30", "if-none-match": tag}),
        alice.send("POST", f"/tasks/{chain[0]['id']}/retry"),
    )
    assert taken(retried)["status"] == "pending"
    assert taken(polled)["status"] == "blocked"


def test_the_documents_describe_the_graph(api: Api) -> None:
    document = taken(api.nobody.get("/openapi.json"))
    operation = document["paths"]["/v1/joblib/tasks/{task_id}/graph"]["get"]
    assert operation["operationId"] == "get_graph"
    assert set(operation["responses"]) >= {"200", "401", "404", "422"}
    edge = document["components"]["schemas"]["GraphEdge"]
    assert set(edge["properties"]) == {"from", "to", "condition", "state"}
