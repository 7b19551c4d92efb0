"""Errors as problem documents (contract, *Errors*; RFC 9457)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import fastapi
import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jobroom import errors, wire
from jobroom.http import problems
from jobroom.http.problems import PROBLEMS, ProblemException, ProblemType, problem_response

# RFC 9110, section 15; RFC 6585 for 429.
REASONS = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    416: "Range Not Satisfiable",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
# The statuses that the contract prints beside the slugs.
CONTRACT = {
    "job-not-found": 404,
    "schema-conflict": 409,
    "invalid-category": 400,
    "worker-not-found": 404,
    "task-not-found": 404,
    "invalid-task-transition": 409,
    "invalid-room-id": 400,
    "forbidden": 403,
    "unauthorized": 401,
    "not-found": 404,
    "method-not-allowed": 405,
    "not-acceptable": 406,
    "unsupported-media-type": 415,
    "payload-too-large": 413,
    "answer-too-large": 409,
    "range-not-satisfiable": 416,
    "validation-error": 422,
    "payload-invalid": 422,
    "idempotency-key-reused": 422,
    "dependency-cycle": 422,
    "dependency-not-found": 422,
    "task-exists": 409,
    "too-many-requests": 429,
    "store-unavailable": 503,
    "internal-error": 500,
}
OF_HTTP_ALONE = {
    "method-not-allowed",
    "not-acceptable",
    "unsupported-media-type",
    "range-not-satisfiable",
}


def classes_below(base: type) -> set[type]:
    below = set(base.__subclasses__())
    return below.union(*(classes_below(each) for each in below)) if below else below


ERRORS = sorted(
    {errors.JobroomError, *classes_below(errors.JobroomError)}, key=lambda each: each.__name__
)
OURS = [each for each in ERRORS if each.__module__ == "jobroom.errors"]


def document_of(problem: Any, **options: Any) -> dict[str, Any]:
    status, headers, body = problem_response(problem, **options)
    document = json.loads(body)
    assert document["status"] == status
    assert headers["Content-Type"] == "application/problem+json"
    assert wire.validate(wire.Problem, document)
    return document


def test_the_table_has_every_slug_of_the_contract_with_its_status():
    for slug, status in CONTRACT.items():
        assert PROBLEMS[slug].status == status
    assert set(PROBLEMS) == {*CONTRACT, "conflict"}


def test_every_error_class_has_its_row_and_every_row_its_error_class():
    assert {each.slug for each in OURS} | OF_HTTP_ALONE == set(PROBLEMS)


@pytest.mark.parametrize("slug", sorted(PROBLEMS))
def test_a_title_is_the_reason_phrase_of_its_status(slug):
    kind = PROBLEMS[slug]
    assert kind.title == REASONS[kind.status]


@pytest.mark.parametrize("slug", sorted(PROBLEMS))
def test_every_kind_has_cause_example_and_fix_as_sentences(slug):
    kind = PROBLEMS[slug]
    for text in (kind.cause, kind.example, kind.fix):
        assert text.endswith(".")
        assert len(text) > 15


@pytest.mark.parametrize("slug", sorted(PROBLEMS))
def test_a_slug_makes_a_whole_document(slug):
    document = document_of(slug)
    assert document["type"] == f"/v1/problems/{slug}"
    assert set(document) == {"type", "title", "status", "detail", "instance"}


@pytest.mark.parametrize("error", [each for each in OURS if each.slug != "internal-error"])
def test_an_error_is_answered_with_its_own_sentence(error):
    document = document_of(error("Do this instead."))
    assert document["type"] == f"/v1/problems/{error.slug}"
    assert document["detail"] == "Do this instead."


@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("s3cret"),
        KeyError("s3cret"),
        errors.JobroomError("s3cret"),
        errors.ConfigurationError("s3cret"),
        HTTPException(500, "s3cret"),
        ProblemException(errors.ConfigurationError("s3cret")),
    ],
)
def test_a_500_tells_nothing_of_what_happened(failure):
    """Contract, *Errors*: a 500 never shows a trace."""
    status, _, body = problem_response(failure)
    assert status == 500
    assert b"s3cret" not in body
    assert json.loads(body)["type"] == "/v1/problems/internal-error"


def test_the_places_of_faults_are_listed():
    fault = errors.FieldError("/payload/angle", "must be a number")
    document = document_of(errors.PayloadInvalid("It does not fit.", errors=(fault,)))
    assert document["errors"] == [{"pointer": "/payload/angle", "message": "must be a number"}]


def test_a_401_names_the_scheme():
    _, headers, _ = problem_response(errors.Unauthorized("Send a token."))
    assert headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("slug", ["store-unavailable", "too-many-requests"])
def test_a_503_and_a_429_say_when_to_come_again(slug):
    _, headers, _ = problem_response(slug)
    assert headers["Retry-After"] == "1"
    _, headers, _ = problem_response(slug, headers={"Retry-After": "7"})
    assert headers["Retry-After"] == "7"


def test_a_405_keeps_the_allowed_methods():
    _, headers, _ = problem_response(HTTPException(405, headers={"Allow": "GET, PUT"}))
    assert headers["Allow"] == "GET, PUT"


@pytest.mark.parametrize(
    ("status", "slug"),
    [(404, "not-found"), (405, "method-not-allowed"), (413, "payload-too-large")],
)
def test_what_the_router_raises_has_its_row(status, slug):
    document = document_of(HTTPException(status))
    assert document["type"] == f"/v1/problems/{slug}"
    assert document["detail"] == PROBLEMS[slug].cause


@pytest.mark.parametrize("detail", [None, "No tea.", {"any": "json"}])
def test_a_status_of_a_hosts_own_is_about_blank(detail):
    """RFC 9457, 4.2.1."""
    document = document_of(fastapi.HTTPException(418, detail))
    assert (document["type"], document["title"]) == ("about:blank", "I'm a Teapot")
    assert document["detail"] in ("No tea.", "I'm a Teapot")


def test_a_hosts_own_words_are_kept():
    assert document_of(HTTPException(404, "No such molecule."))["detail"] == "No such molecule."


def test_the_instance_is_the_requests_id_or_a_fresh_uuid():
    assert document_of("not-found", request_id="urn:uuid:1-2")["instance"] == "urn:uuid:1-2"
    assert document_of("not-found")["instance"].startswith("urn:uuid:")


def test_an_instance_is_always_a_uri_reference():
    assert document_of("not-found", request_id='a b"<é')["instance"] == "a%20b%22%3C%C3%A9"


def test_text_that_is_no_unicode_is_still_answered():
    document = document_of(errors.ValidationFailed("At \ud800 it breaks."))
    assert document["detail"] == "At \ud800 it breaks."


@pytest.mark.parametrize(
    ("name", "status", "title"),
    [
        ("JobNotFound", 404, "Not Found"),
        ("SchemaConflict", 409, "Conflict"),
        ("InvalidCategory", 400, "Bad Request"),
        ("WorkerNotFound", 404, "Not Found"),
        ("TaskNotFound", 404, "Not Found"),
        ("InvalidTaskTransition", 409, "Conflict"),
        ("InvalidRoomId", 400, "Bad Request"),
        ("Forbidden", 403, "Forbidden"),
        ("Unauthorized", 401, "Unauthorized"),
        ("NotFound", 404, "Not Found"),
    ],
)
def test_problem_types_have_the_seeds_names_titles_and_statuses(name, status, title):
    problem = getattr(problems, name)
    assert issubclass(problem, ProblemType)
    assert (problem.status, problem.title) == (status, title)
    assert problem.type_uri() == f"/v1/problems/{getattr(errors, name).slug}"


def test_a_host_can_make_a_kind_of_its_own():
    class MoleculeTooLarge(ProblemType):
        title = "Content Too Large"
        status = 413

    document = document_of(ProblemException(MoleculeTooLarge, "Cut it.", atoms=10**6))
    assert document["type"] == "/v1/problems/molecule-too-large"
    assert (document["status"], document["detail"], document["atoms"]) == (413, "Cut it.", 10**6)
    assert document_of(MoleculeTooLarge)["detail"] == "Content Too Large"


def test_a_member_of_every_problem_cannot_be_replaced():
    with pytest.raises(TypeError, match="status is a member of every problem"):
        ProblemException(problems.JobNotFound, status=200)


def test_an_exception_may_carry_an_error_of_the_package():
    fault = errors.FieldError("/a", "is required")
    document = document_of(ProblemException(errors.ValidationFailed("No a.", errors=(fault,))))
    assert document["detail"] == "No a."
    assert document["errors"][0]["pointer"] == "/a"
    assert document_of(ProblemException(errors.TaskNotFound("a"), "b"))["detail"] == "b"


async def fail(request: Request) -> Response:
    raise ProblemException(problems.JobNotFound, "No such job.", headers={"X-Extra": "1"})


def starlette_host() -> Starlette:
    app = Starlette(routes=[Route("/fail", fail)])
    app.add_exception_handler(ProblemException, problems.problem_exception_handler)
    return app


def fastapi_host() -> fastapi.FastAPI:
    app = fastapi.FastAPI()
    app.add_exception_handler(ProblemException, problems.problem_exception_handler)
    app.add_api_route("/fail", fail)
    return app


def get(app: Any, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
            return await client.get("/fail", headers=headers)

    return asyncio.run(ask())


@pytest.mark.parametrize("host", [starlette_host, fastapi_host])
def test_a_hosts_application_answers_problems_with_the_handler(host):
    """Contract, *Names the seed gives to hosts*: the seed's registration line works."""
    answer = get(host(), **{"X-Request-Id": "req-1"})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-extra"] == "1"
    assert answer.json() == {
        "type": "/v1/problems/job-not-found",
        "title": "Not Found",
        "status": 404,
        "detail": "No such job.",
        "instance": "req-1",
    }
