"""The published OpenAPI document and the application say the same thing."""

from __future__ import annotations

import warnings
from typing import Any

import httpx
import jsonschema_rs
import pytest
import schemathesis
from contract_api import Api, Person, q, taken
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from jobroom.http.openapi import build_openapi
from jobroom.http.routes import ROUTES

DOCUMENT = build_openapi(ROUTES)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
OPERATIONS = [
    (method, path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
OPERATION_IDS = [operation["operationId"] for _, _, operation in OPERATIONS]
BY_ID = {
    found.ok().definition.raw["operationId"]: found.ok()
    for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
}


@pytest.fixture
def document(api: Api) -> dict[str, Any]:
    """The document as it is served."""
    return taken(api.nobody.get("/openapi.json"))


def test_the_document_is_open_and_made_of_the_route_table(document: dict[str, Any]) -> None:
    """Contract, *Identity*: /openapi.json needs no token; design: made from the route table."""
    assert document["paths"].keys() == DOCUMENT["paths"].keys()


def test_the_document_is_valid(document: dict[str, Any]) -> None:
    """OpenAPI 3.1: by a strict reader, with every reference resolved."""
    assert document["openapi"].startswith("3.1")
    found = list(schemathesis.openapi.from_dict(document).get_all_operations())
    assert len(found) == len(ROUTES)
    assert all(operation.ok() is not None for operation in found)
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate({**schema, "components": document["components"]})


def test_every_reference_of_the_document_leads_somewhere(document: dict[str, Any]) -> None:
    """OpenAPI 3.1, 4.8.23."""
    names = document["components"]["schemas"].keys()

    def check(node: object) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                assert node["$ref"].removeprefix("#/components/schemas/") in names
            for value in node.values():
                check(value)
        elif isinstance(node, list):
            for value in node:
                check(value)

    check(document)


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=OPERATION_IDS)
def test_every_operation_of_the_document_is_answered_by_the_application(
    method: str, path: str, operation: dict[str, Any], api: Api
) -> None:
    """Nothing is promised that the router does not know: without a token it is 401, not 404."""
    values = dict.fromkeys(("room_id", "full_name", "task_id", "worker_id"), "x")
    address = path.format(**values, slug="forbidden")
    answer = api.run(api.send(method.upper(), address))
    assert (answer.status_code == 401) == bool(operation["security"])
    assert str(answer.status_code) in operation["responses"]


def test_the_document_under_a_mount_names_it(make_api: Any) -> None:
    """Rules, *Mounted*: a client that reads the document finds the routes."""
    api = make_api(root_path="/mount")
    found = taken(api.nobody.get("/mount/openapi.json"))
    assert found["servers"] == [{"url": "/mount"}]


EXAMPLES = [schema for schema in DOCUMENT["components"]["schemas"].values() if "examples" in schema]


@pytest.mark.parametrize("schema", EXAMPLES, ids=lambda schema: str(schema["title"]))
def test_every_example_of_the_document_fits_its_schema(schema: dict[str, Any]) -> None:
    """An example that the server would refuse is worse than none."""
    whole = {**schema, "components": DOCUMENT["components"]}
    validator = jsonschema_rs.Draft202012Validator(whole)
    for example in schema["examples"]:
        validator.validate(example)


def _send(person: Person, case: schemathesis.Case) -> httpx.Response:
    """Send a generated case in process."""
    prepared = case.as_transport_kwargs(base_url="http://jobroom.test")
    method, url = prepared.pop("method"), prepared.pop("url")
    headers = {name: str(value) for name, value in (prepared.pop("headers") or {}).items()}
    more = {name: prepared[name] for name in ("params", "json") if prepared.get(name) is not None}
    if prepared.get("data") is not None:
        more["content"] = prepared["data"]
    path = url.removeprefix("http://jobroom.test")
    headers.pop("Authorization", None)
    request = person.api._http.request(method, path, headers={**headers, **person._headers}, **more)
    answer: httpx.Response = person.api.run(request)
    return answer


@pytest.mark.parametrize("operation_id", OPERATION_IDS)
def test_the_application_answers_generated_requests_as_documented(
    operation_id: str, staged: dict[str, str], api: Api
) -> None:
    """Acceptance, "no case may ever give a 500": schemathesis, valid and invalid requests."""
    person = api.by("alice", is_admin=True)

    @settings(
        max_examples=20,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=BY_ID[operation_id].as_strategy())
    def ask(case: schemathesis.Case) -> None:
        answer = _send(person, case)
        case.validate_response(answer, checks=CHECKS)

    ask()
