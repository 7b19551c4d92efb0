"""The OpenAPI document (issue 1: made from the pydantic models and the route table)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
import schemathesis

from jobroom.http.openapi import build_openapi
from jobroom.http.problems import PROBLEMS
from jobroom.http.routespec import Query, RouteSpec

ROUTES = (
    RouteSpec(
        "PUT",
        "/v1/joblib/rooms/{room_id}/jobs",
        "register_job",
        "Register a job.",
        "Jobs",
        {200: "JobBody", 201: "JobBody"},
        request="RegisterJob",
        problems=("schema-conflict", "invalid-category", "invalid-room-id", "forbidden"),
    ),
    RouteSpec(
        "GET",
        "/v1/joblib/rooms/{room_id}/tasks",
        "list_tasks",
        "List tasks.",
        "Tasks",
        {200: "TaskPage"},
        query=(Query("limit", "How many.", {"type": "integer", "minimum": 0, "maximum": 500}),),
    ),
    RouteSpec(
        "POST",
        "/v1/joblib/rooms/{room_id}/tasks/{full_name:path}",
        "submit_task",
        "Submit a task.",
        "Tasks",
        {202: "TaskBody"},
        request="SubmitTask",
        headers=("Idempotency-Key",),
        answer_headers=("Location", "Retry-After", "Idempotency-Replayed"),
        problems=("job-not-found", "payload-invalid", "task-exists"),
    ),
    RouteSpec(
        "POST",
        "/v1/joblib/tasks/claim",
        "claim_tasks",
        "Claim work.",
        "Tasks",
        {200: "ClaimBody"},
        request="ClaimTasks",
        body_required=False,
        headers=("Prefer",),
        problems=("worker-not-found", "forbidden"),
    ),
    RouteSpec(
        "GET",
        "/v1/joblib/tasks/{task_id}",
        "show_task",
        "Show a task.",
        "Tasks",
        {200: "TaskBody", 304: None},
        headers=("Prefer", "If-None-Match"),
        answer_headers=("ETag", "Preference-Applied"),
        problems=("task-not-found",),
    ),
    RouteSpec(
        "PATCH",
        "/v1/joblib/tasks/{task_id}",
        "update_task",
        "Report on a task.",
        "Tasks",
        {200: "TaskReport"},
        request="UpdateTask",
        problems=("task-not-found", "invalid-task-transition", "forbidden"),
    ),
    RouteSpec(
        "GET",
        "/v1/joblib/tasks/{task_id}/result",
        "show_result",
        "Stream a result.",
        "Tasks",
        {200: "application/json"},
        problems=("task-not-found",),
    ),
    RouteSpec(
        "POST",
        "/v1/joblib/workers",
        "create_worker",
        "Make a worker.",
        "Workers",
        {201: "WorkerBody"},
        request="CreateWorker",
        body_required=False,
    ),
    RouteSpec(
        "DELETE",
        "/v1/joblib/workers/{worker_id}",
        "delete_worker",
        "Delete a worker.",
        "Workers",
        {204: None},
        problems=("worker-not-found", "forbidden"),
    ),
    RouteSpec(
        "GET",
        "/v1/problems/{slug}",
        "show_problem",
        "Explain a kind of problem.",
        "Service",
        {200: "text/html"},
        problems=("not-found",),
        secured=False,
    ),
)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return json.loads(json.dumps(build_openapi(ROUTES, version="1.2.3")))


def references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_the_document_is_read_as_openapi_3_1_with_every_operation(document):
    read = schemathesis.openapi.from_dict(document)
    found = {(entry.ok().method.upper(), entry.ok().path) for entry in read.get_all_operations()}
    assert document["openapi"].startswith("3.1")
    assert found == {(route.method, route.plain_path) for route in ROUTES}


def test_every_reference_leads_to_a_schema(document):
    schemas = document["components"]["schemas"]
    for reference in references(document):
        assert reference.startswith("#/components/schemas/")
        assert reference.rpartition("/")[2] in schemas


def test_every_schema_is_valid_json_schema(document):
    schemas = document["components"]["schemas"]
    for name in schemas:
        whole = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
        assert jsonschema_rs.validator_for(whole)
        assert jsonschema_rs.meta.is_valid(schemas[name])


def test_every_schema_is_used_by_a_route(document):
    used = {reference.rpartition("/")[2] for reference in references(document)}
    assert used == set(document["components"]["schemas"])


def test_operation_ids_are_unique_and_every_operation_has_summary_and_tag(document):
    operations = [each for path in document["paths"].values() for each in path.values()]
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids)) == len(ROUTES)
    tags = {tag["name"] for tag in document["tags"]}
    assert all(each["summary"] and set(each["tags"]) <= tags for each in operations)


def test_path_parameters_are_those_of_the_path(document):
    for path, methods in document["paths"].items():
        for operation in methods.values():
            names = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
            assert [f"{{{name}}}" in path for name in names] == [True] * path.count("{")
            assert all(each["required"] for each in operation["parameters"] if each["in"] == "path")


def test_a_converter_of_the_router_is_not_in_the_document(document):
    assert "/v1/joblib/rooms/{room_id}/tasks/{full_name}" in document["paths"]


def test_a_secured_route_asks_for_a_bearer_token_and_may_answer_401(document):
    """Contract, *Identity*: needed on every route but a few."""
    claim = document["paths"]["/v1/joblib/tasks/claim"]["post"]
    assert claim["security"] == [{"bearer": []}]
    assert "401" in claim["responses"]
    page = document["paths"]["/v1/problems/{slug}"]["get"]
    assert page["security"] == []
    assert "401" not in page["responses"]
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


def test_every_problem_is_a_problem_document_and_names_its_types(document):
    for methods in document["paths"].values():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                if status >= "400":
                    schema = response["content"]["application/problem+json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/Problem"}
                    assert "/v1/problems/" in response["description"]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation_id)
def test_the_problems_of_a_route_are_listed_under_their_statuses(document, route):
    responses = document["paths"][route.plain_path][route.method.lower()]["responses"]
    for slug in (*route.problems, "internal-error", "store-unavailable"):
        assert slug in responses[str(PROBLEMS[slug].status)]["description"]
    if route.request is not None:
        assert {"413", "415", "422"} <= set(responses)


def test_a_body_may_be_optional(document):
    assert document["paths"]["/v1/joblib/tasks/claim"]["post"]["requestBody"]["required"] is False
    register = document["paths"]["/v1/joblib/rooms/{room_id}/jobs"]["put"]
    assert register["requestBody"]["required"] is True


def test_headers_of_requests_and_answers_are_described(document):
    show = document["paths"]["/v1/joblib/tasks/{task_id}"]["get"]
    sent = [each["name"] for each in show["parameters"] if each["in"] == "header"]
    assert sent == ["Prefer", "If-None-Match"]
    assert set(show["responses"]["200"]["headers"]) == {"ETag", "Preference-Applied"}
    assert "content" not in show["responses"]["304"]


def test_query_parameters_have_their_bounds(document):
    listing = document["paths"]["/v1/joblib/rooms/{room_id}/tasks"]["get"]
    limit = next(each for each in listing["parameters"] if each["name"] == "limit")
    assert limit["schema"] == {"type": "integer", "minimum": 0, "maximum": 500}
    assert "422" in listing["responses"]


def test_the_members_have_the_names_of_the_wire(document):
    register = document["components"]["schemas"]["RegisterJob"]
    assert {"schema", "validate"} <= set(register["properties"])
    assert register["required"] == ["category", "name"]


def test_an_example_of_a_request_fits_its_schema(document):
    schemas = document["components"]["schemas"]
    for name in ("RegisterJob", "SubmitTask", "ClaimTasks", "UpdateTask", "CreateWorker"):
        whole = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
        jsonschema_rs.validator_for(whole).validate(schemas[name]["examples"][0])


def test_the_mount_point_is_the_server():
    """Rules, *Mounted*."""
    assert build_openapi(ROUTES, root_path="/queue")["servers"] == [{"url": "/queue"}]
    assert build_openapi(ROUTES)["servers"] == [{"url": "/"}]
