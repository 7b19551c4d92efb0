"""The OpenAPI 3.1 document, made from the route table and the models of ``wire``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from jobroom import wire
from jobroom.http.problem_table import PROBLEM_PATH, PROBLEMS
from jobroom.http.problems import MEDIA_TYPE
from jobroom.http.routespec import Answer, Link, RouteSpec, is_media_types

Document = dict[str, Any]

TEMPLATE = "#/components/schemas/{model}"

DESCRIPTION = (
    "A job queue. Workers register jobs in rooms, clients submit tasks to them, workers claim"
    " and report. Every error is a problem document (RFC 9457). Times are RFC 3339 in UTC."
)

_UUID = {"type": "string", "format": "uuid"}
_TEXT = {"type": "string", "minLength": 1}

_PATH_PARAMETERS: dict[str, tuple[str, Document]] = {
    "room_id": ("The room; @global is the one that all see.", _TEXT),
    "full_name": ("The job's full name, room:category:name.", _TEXT),
    "task_id": ("The task's id.", _UUID),
    "schedule_name": ("The schedule's name.", _TEXT),
    "worker_id": ("The worker's id.", _TEXT),
    "slug": ("The last part of a problem's type.", {"enum": sorted(PROBLEMS)}),
}
_REQUEST_HEADERS: dict[str, tuple[str, Document]] = {
    "Prefer": (
        "wait=N: hold the answer for up to N seconds (RFC 7240). What cannot be read is ignored.",
        {"type": "string", "examples": ["wait=30"]},
    ),
    "Idempotency-Key": (
        "The same key with the same request gives the first answer again, for 24 hours.",
        {"type": "string", "minLength": 1, "maxLength": 255},
    ),
    "If-None-Match": (
        "An ETag of an earlier answer: 304 if nothing has changed.",
        {"type": "string", "examples": ['W/"7"']},
    ),
    "Range": (
        "Only these bytes (RFC 9110, 14); a part may be shorter: Content-Range tells.",
        {"type": "string", "examples": ["bytes=0-999"]},
    ),
    "If-Range": (
        "The ETag of an earlier part: the whole, if this is no part of the same.",
        {"type": "string", "examples": ['"7"']},
    ),
}
_ANSWER_HEADERS: dict[str, tuple[str, Document]] = {
    "Location": ("Where the new thing is found.", {"type": "string", "format": "uri-reference"}),
    "Retry-After": ("Seconds to wait before asking again.", {"type": "string"}),
    "Preference-Applied": ("The wait that was granted, if there was one.", {"type": "string"}),
    "ETag": ("Changes whenever the task does.", {"type": "string"}),
    "Accept-Ranges": ("The unit in which parts are asked for.", {"const": "bytes"}),
    "Content-Range": ("Which bytes these are, and of how many.", {"type": "string"}),
    "Idempotency-Replayed": ("true, if an earlier answer was repeated.", {"type": "string"}),
}
_ANSWER_WORDS = {
    200: "Done.",
    201: "Made.",
    202: "Accepted.",
    204: "Done; the answer has no body.",
    206: "The part that was asked for, or its beginning.",
    304: "Nothing has changed.",
}
_FAULTS_OF_A_BODY = ("validation-error", "payload-too-large", "unsupported-media-type")
_FAULTS_OF_A_SERVER = ("internal-error", "store-unavailable")


def build_openapi(
    routes: Sequence[RouteSpec], *, version: str = "1", root_path: str = ""
) -> Document:
    """The document for these routes; ``root_path`` is where the application is mounted."""
    paths: dict[str, Document] = {}
    for route in routes:
        paths.setdefault(route.plain_path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "jobroom", "version": version, "description": DESCRIPTION},
        "servers": [{"url": root_path or "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": _schemas(routes),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
            },
        },
    }


def _operation(route: RouteSpec) -> Document:
    operation: Document = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": _parameters(route),
        "responses": _responses(route),
        "security": [{"bearer": []}] if route.secured else [],
    }
    if route.request is not None:
        operation["requestBody"] = {
            "required": route.body_required,
            "content": {"application/json": {"schema": _reference(route.request)}},
        }
    return operation


def _parameters(route: RouteSpec) -> list[Document]:
    in_path = [
        {"in": "path", "required": True, **_named(name, *_PATH_PARAMETERS[name])}
        for name in route.path_parameters
    ]
    in_query = [
        {"in": "query", **_named(query.name, query.description, dict(query.schema))}
        for query in route.query
    ]
    in_headers = [
        {"in": "header", **_named(name, *_REQUEST_HEADERS[name])} for name in route.headers
    ]
    return in_path + in_query + in_headers


def _named(name: str, description: str, schema: Document) -> Document:
    return {"name": name, "description": description, "schema": schema}


def _responses(route: RouteSpec) -> Document:
    responses = {
        str(status): _answer(route, status, answer) for status, answer in route.answers.items()
    }
    by_status: dict[int, list[str]] = {}
    for slug in _problem_slugs(route):
        by_status.setdefault(PROBLEMS[slug].status, []).append(slug)
    for status in sorted(by_status):
        responses[str(status)] = _problem_answer(by_status[status])
    return responses


def _answer(route: RouteSpec, status: int, answer: Answer) -> Document:
    response: Document = {"description": _ANSWER_WORDS.get(status, "The answer.")}
    if is_media_types(answer):
        response["content"] = {
            kind: {"schema": {} if "json" in kind else {"type": "string"}}
            for kind in answer.split(", ")
        }
    elif answer is not None:
        response["content"] = {"application/json": {"schema": _reference(answer)}}
    if route.answer_headers:
        response["headers"] = {name: _header(name) for name in route.answer_headers}
    if route.links and answer is not None:
        response["links"] = {link.name: _link(link) for link in route.links}
    return response


def _link(link: Link) -> Document:
    found: Document = {
        "operationId": link.operation_id,
        "description": link.description,
        "parameters": dict(link.parameters),
    }
    return found if link.body is None else {**found, "requestBody": dict(link.body)}


def _header(name: str) -> Document:
    description, schema = _ANSWER_HEADERS[name]
    return {"description": description, "schema": schema}


def _problem_slugs(route: RouteSpec) -> Iterable[str]:
    """What the route lists and what every one of its kind may answer, each once."""
    slugs = list(route.problems)
    if route.secured:
        slugs.append("unauthorized")
    if route.answers_json:
        slugs.append("not-acceptable")
    if route.request is not None:
        slugs.extend(_FAULTS_OF_A_BODY)
    elif route.query:
        slugs.append("validation-error")
    return dict.fromkeys([*slugs, *_FAULTS_OF_A_SERVER])


def _problem_answer(slugs: Sequence[str]) -> Document:
    lines = [f"`{PROBLEM_PATH}{slug}`: {PROBLEMS[slug].cause}" for slug in slugs]
    return {
        "description": "\n\n".join(lines),
        "content": {MEDIA_TYPE: {"schema": _reference("Problem")}},
    }


def _reference(model: str) -> Document:
    return {"$ref": TEMPLATE.format(model=model)}


def _schemas(routes: Sequence[RouteSpec]) -> Document:
    wanted: dict[tuple[str, JsonSchemaMode], None] = {}
    for route in routes:
        if route.request is not None:
            wanted[route.request, "validation"] = None
        for answer in route.answers.values():
            if answer is not None and not is_media_types(answer):
                wanted[answer, "serialization"] = None
    wanted["Problem", "serialization"] = None
    models = [(getattr(wire, name), mode) for name, mode in wanted]
    _, definitions = models_json_schema(models, ref_template=TEMPLATE)
    return dict(sorted(definitions.get("$defs", {}).items()))
