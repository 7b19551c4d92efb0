"""The published OpenAPI document and the application say the same thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import jsonschema_rs
import pytest
import schemathesis
from contract_api import Api, Person, taken
from hypothesis import HealthCheck, Phase, given, settings
from rest_table import HERE
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from jobroom.http.openapi import build_openapi
from jobroom.http.routes import ROUTES

DOCUMENT = build_openapi(ROUTES)
# Which task of the stage an operation has something to do with.
STATUS = {"get_result": "completed", "retry_task": "failed"}
SPECS = {spec.operation_id: spec for spec in ROUTES}
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
    operation.definition.raw["operationId"]: operation
    for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
    if (operation := found.ok())  # type: ignore[union-attr]  # None for one that is no operation
}


@pytest.fixture
def document(api: Api) -> dict[str, Any]:
    """The document as it is served."""
    return taken(api.nobody.get("/openapi.json"))


def test_the_document_is_open_and_made_of_the_route_table(document: dict[str, Any]) -> None:
    """Contract, *Identity*: /openapi.json needs no token; design: made from the route table."""
    assert document["paths"].keys() == DOCUMENT["paths"].keys()


def test_the_document_is_valid(document: dict[str, Any]) -> None:
    """OpenAPI 3.1: by the schema of its makers, and each model by that of JSON Schema."""
    OPENAPI_31_VALIDATOR.validate(document)
    assert BY_ID.keys() == SPECS.keys()
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
    values = dict.fromkeys(("room_id", "full_name", "task_id", "worker_id", "schedule_name"), "x")
    address = path.format(**values, slug="forbidden")
    answer = api.run(api.send(method.upper(), address))
    assert (answer.status_code == 401) == bool(operation["security"])
    assert str(answer.status_code) in operation["responses"]


def test_the_document_under_a_mount_names_it(make_api: Callable[..., Api]) -> None:
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


def _send(person: Person, case: schemathesis.Case[Any]) -> httpx.Response:
    """Send a generated case in process, with a good token."""
    prepared = case.as_transport_kwargs(base_url="http://jobroom.test")
    path = prepared["url"].removeprefix("http://jobroom.test")
    headers = {name: str(value) for name, value in (prepared.get("headers") or {}).items()}
    headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
    more = {name: prepared[name] for name in ("params", "json") if prepared.get(name) is not None}
    if prepared.get("data") is not None:
        more["content"] = prepared["data"]
    request = person.send(prepared["method"], path, headers=headers, **more)
    answer: httpx.Response = person.api.run(request)
    return answer


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation_id", OPERATION_IDS)
def test_the_application_answers_generated_requests_as_documented(
    operation_id: str, mode: GenerationMode, staged: dict[str, str], make_api: Callable[..., Api]
) -> None:
    """Acceptance, "no case may ever give a 500": schemathesis, valid and invalid requests.

    The valid ones go to an address where there is something.
    """
    operation = BY_ID[operation_id]
    person = make_api(long_poll_max_wait_seconds=0).by("wanda", is_admin=True)
    given_path = {name: HERE[name] for name in SPECS[operation_id].path_parameters}
    if "task_id" in given_path:
        given_path["task_id"] = staged[STATUS.get(operation_id, "running")]
    if mode is GenerationMode.POSITIVE:
        cases = operation.as_strategy(mode, path_parameters=given_path)
    elif given_path or operation.query or operation.body:
        cases = operation.as_strategy(mode)
    else:
        cases = operation.as_strategy()

    @settings(
        max_examples=20,
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def ask(case: schemathesis.Case[Any]) -> None:
        case.validate_response(_send(person, case), checks=CHECKS)

    ask()
