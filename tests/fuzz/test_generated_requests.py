"""Schemathesis over the whole /openapi.json, with several identities (issue 2, *Fuzzing*).

All its phases and all its checks: the document's examples, the edges of every parameter, random
requests that fit and that do not, and walks along the links from one answer to the next request.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fuzz_kit
import live_server
import pytest
import schemathesis
from fuzz_kit import ADMIN, BASE, COUNTS, IS_DEEP, SECRET, SUBMIT, Answer, token_of
from pydantic import SecretStr
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from schemathesis.engine.events import EngineEvent, ScenarioFinished
from schemathesis.python import asgi

from jobroom.bootstrap import create_app
from jobroom.http.routes import ROUTES
from jobroom.settings import JobLibSettings

WELCOME = {
    "an admin": ADMIN,
    "a user of all rooms": token_of("alice"),
    "a user of one room": token_of("bob", rooms=["r1"]),
}
UNWELCOME = {
    "nobody": None,
    "an expired token": token_of("alice", hours=-1),
    "a garbage token": b"garbage.of.nothing",
}
# The edges of all parameters are a thousand requests: in a short run these two send them.
EDGES_FOR = (ADMIN, None)
ROTATE = "r1:modifiers:Rotate"
# What a JSON Schema cannot say: which categories are allowed, what a room's name may not hold,
# which members of a report go together, what a cursor looks like.
MORE_THAN_A_SCHEMA = {"400", "422"}
SAYS_ALL = {
    "healthz",
    "readyz",
    "me",
    "sweep",
    "explain_problem",
    "create_worker",
    "heartbeat",
    "delete_worker",
    "claim_tasks",
    "get_task",
    "get_result",
    "retry_task",
}


@schemathesis.check
def problem_documents(_ctx: object, response: Any, case: Any) -> None:
    """Whatever is refused is refused by a whole problem document that leaks nothing."""
    headers = {name: values[0] for name, values in response.headers.items()}
    said = f"{case.method} {response.request.url} -> {response.status_code}"
    fuzz_kit.judge(Answer(response.status_code, headers, response.content), said)


def config_of(token: bytes | None, examples: int, deep_seconds: float) -> SchemathesisConfig:
    """Every phase and check; the same requests at each run, unless the run is a deep one."""
    at_least = ["2xx", "3xx", "401", "403", "404", "409", "429"]
    return SchemathesisConfig.from_dict(
        {
            "seed": random.randrange(2**32) if IS_DEEP else 1,
            "headers": {} if token is None else {"Authorization": f"Bearer {token.decode()}"},
            "continue-on-failure": True,
            # With a limit of time the random phases go on until it is reached.
            **({"max-time": deep_seconds} if IS_DEEP else {}),
            "generation": {
                "max-examples": examples,
                "database": "none",
                "no-shrink": not IS_DEEP,
                "deterministic": not IS_DEEP,
            },
            "phases": {
                "coverage": {"enabled": IS_DEEP or token in EDGES_FOR},
                "stateful": {"generation": {"max-examples": 3 * examples}},
            },
            "operations": [
                {
                    "include-operation-id": spec.operation_id,
                    "checks": {
                        "positive_data_acceptance": {
                            "expected-statuses": [*at_least, *sorted(MORE_THAN_A_SCHEMA)]
                        }
                    },
                }
                for spec in ROUTES
                if spec.operation_id not in SAYS_ALL
            ],
        }
    )


HELD = {"task_id": "$response.body#/task/id"}
FULL = {"room_id": "r1", "full_name": "$response.body#/full_name"}
# Beside the document's own links: walks on which a worker does its work, or two get into a fight.
WALKS: tuple[tuple[str, str, str, dict[str, str], dict[str, Any] | None], ...] = (
    (
        "create_worker",
        "201",
        "register_job",
        {"room_id": "r1"},
        {"worker_id": "$response.body#/id"},
    ),
    ("create_worker", "201", "claim_tasks", {}, {"worker_id": "$response.body#/id", "start": True}),
    ("create_worker", "201", "submit_task", {"room_id": "r1", "full_name": ROTATE}, None),
    ("register_job", "201", "submit_task", FULL, {"payload": {}}),
    ("register_job", "200", "submit_task", FULL, {"payload": {"angle": 1}}),
    ("register_job", "201", "claim_tasks", {}, {"worker_id": "$response.body#/worker_id"}),
    ("submit_task", "202", "claim_tasks", {}, {}),
    ("claim_tasks", "200", "update_task", HELD, {"status": "completed", "result": {"a": 1}}),
    ("claim_tasks", "200", "update_task", HELD, {"status": "failed", "claim_next": True}),
    ("claim_tasks", "200", "update_task", HELD, {"status": "pending"}),
    ("update_task", "200", "update_task", {"task_id": "$response.body#/id"}, None),
    ("update_task", "200", "claim_tasks", {}, {}),
)


def add_walks(document: dict[str, Any]) -> None:
    """Add the walks to a document as links."""
    operations = {
        operation["operationId"]: operation
        for methods in document["paths"].values()
        for operation in methods.values()
    }
    for number, (source, status, goal, parameters, body) in enumerate(WALKS):
        link = {"operationId": goal, "parameters": parameters}
        known = operations[source]["responses"][status].setdefault("links", {})
        known[f"Walk{number}"] = link if body is None else {**link, "requestBody": body}


def make_plausible(schema: Any) -> None:
    """Lead most generated requests to the same few rooms, jobs and tasks, so that they meet."""

    @schema.hook
    def map_path_parameters(_context: object, path_parameters: Any) -> Any:
        if path_parameters and len(str(path_parameters.get("room_id"))) % 4:
            path_parameters["room_id"] = "r1"
            if "full_name" in path_parameters:
                path_parameters["full_name"] = ROTATE
        return path_parameters

    @schema.hook
    def map_body(_context: object, body: Any) -> Any:
        if isinstance(body, dict) and "category" in body and len(str(body["category"])) % 4:
            body["category"] = "modifiers"
        return body


def run(schema: Any, topic: str) -> tuple[list[str], list[tuple[Any, Any]]]:
    """Run all phases; what failed, and every request with its answer."""
    add_walks(schema.raw_schema)
    make_plausible(schema)
    failures: list[str] = []
    seen: list[tuple[Any, Any]] = []
    for event in from_schema(schema).execute():
        if isinstance(event, ScenarioFinished):
            COUNTS[f"{topic}, {event.phase.value}"] += len(event.recorder.interactions)
            failures.extend(_failures_of(event))
            seen.extend(
                (event.recorder.cases[known].value, interaction.response)
                for known, interaction in event.recorder.interactions.items()
                if known in event.recorder.cases
            )
        failures.extend(_errors_of(event))
    return failures, seen


def _failures_of(event: ScenarioFinished) -> Iterator[str]:
    for case_id, checks in event.recorder.checks.items():
        for check in checks:
            if check.failure_info is not None:
                case = event.recorder.cases[case_id].value
                failure = check.failure_info.failure
                yield (
                    f"{check.name} of {case.operation.label}: {failure.title}: {failure.message}\n"
                    f"{check.failure_info.code_sample}"
                )


def _errors_of(event: EngineEvent) -> Iterator[str]:
    if isinstance(event, events.NonFatalError):
        yield f"{event.label}: {event.value!r}"
    if isinstance(event, events.FatalError):
        yield repr(event.exception)


@pytest.fixture
def app(tmp_path: Path, empty_database: Path) -> Iterator[Any]:
    """An application of its own: what the walks leave behind must not lead the next ones."""
    path = tmp_path / "queue.db"
    shutil.copy(empty_database, path)
    settings = JobLibSettings(
        database_url=f"sqlite:///{path}",
        jwt_secret=SecretStr(SECRET),
        long_poll_max_wait_seconds=0,
        sqlite_synchronous="NORMAL",
        sweeper_interval_seconds=0,
    )
    made = create_app(settings)
    _set_stage(made)
    yield made
    made.state.door.close()


def _set_stage(app: Any) -> None:
    """A job that takes anything, whose workers are all who are welcome, and some tasks."""
    client = asgi.get_client(app)
    for token in WELCOME.values():
        client.headers["authorization"] = f"Bearer {token.decode()}"
        job = {"category": "modifiers", "name": "Rotate"}
        assert client.put(f"{BASE}/rooms/r1/jobs", json=job).status_code in {200, 201}
        for number in range(5):
            answer = client.post(SUBMIT, json={"payload": {"angle": number}})
            assert answer.status_code == 202


@pytest.mark.parametrize("who", WELCOME)
def test_generated_requests_of_whoever_may_come_in_are_answered_as_documented(
    who: str, app: Any
) -> None:
    """Issue 2: "schemathesis: number of cases run, 0 failures", in process."""
    config = config_of(WELCOME[who], 300 if IS_DEEP else 12, 80)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)
    failures, seen = run(schema, "generated")
    assert not failures, "\n\n".join(failures[:20])
    # Walks that get nowhere prove nothing: some of each kind must have arrived.
    reached = {
        case.operation.definition.raw["operationId"]
        for case, response in seen
        if response is not None and response.status_code < 300
    }
    expected = {"register_job", "submit_task", "claim_tasks", "create_worker", "list_tasks"}
    assert expected <= reached


@pytest.mark.parametrize("who", UNWELCOME)
def test_generated_requests_of_whoever_may_not_come_in_are_refused(who: str, app: Any) -> None:
    """Contract, *Identity*: every secured route answers 401, whatever else the request is."""
    config = config_of(UNWELCOME[who], 100 if IS_DEEP else 4, 30)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)
    failures, seen = run(schema, "generated, unwelcome")
    assert not failures, "\n\n".join(failures[:20])
    secured = {spec.operation_id for spec in ROUTES if spec.secured}
    statuses = {
        response.status_code
        for case, response in seen
        if response is not None and case.operation.definition.raw["operationId"] in secured
    }
    # Unknown addresses and methods come first (rules, *Order of checks*).
    assert {401} <= statuses <= {401, 404, 405}


def test_generated_requests_over_a_real_server_are_answered_as_documented(tmp_path: Path) -> None:
    """The same through uvicorn, where a parser of HTTP stands before the application."""
    config = config_of(ADMIN, 100 if IS_DEEP else 4, 80)
    settings = {"jwt_secret": SECRET, "long_poll_max_wait_seconds": 0}
    with live_server.Server(tmp_path, sqlite_synchronous="NORMAL", **settings) as server:
        server.until_ready()
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json", config=config)
        failures, _ = run(schema, "generated, live")
        assert not failures, "\n\n".join(failures[:20])
        assert server.process.poll() is None
        assert "Traceback" not in server.output
