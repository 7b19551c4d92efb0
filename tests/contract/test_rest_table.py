"""Each route of the contract: its answer, its refusals, and nothing that is not in the table."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from contract_api import BASE, EVERYWHERE, Api, Person, pointers, q, refused
from rest_table import CONTRACT, GOOD, HERE, REFUSALS, RESERVED_SLUGS, Row

from jobroom.http.problem_table import PROBLEMS
from jobroom.http.routes import ROUTES
from jobroom.http.routespec import RouteSpec

SPECS = {spec.operation_id: spec for spec in ROUTES}
SECURED = [spec for spec in ROUTES if spec.secured]
WITH_BODY = [spec for spec in ROUTES if spec.request is not None]
WITH_QUERY = [spec for spec in ROUTES if spec.query]
USING_THE_STORE = [
    spec for spec in ROUTES if spec.operation_id not in ("me", "healthz", "explain_problem")
]


def _id(value: Any) -> str:
    return str(value.id if isinstance(value, Row) else value.operation_id)


@pytest.fixture
def send(make_api: Callable[..., Api], staged: dict[str, str]) -> Callable[..., httpx.Response]:
    """Send a row's request to an application on the stage's database."""

    def sent(row: Row) -> httpx.Response:
        api = make_api(**row.setting)
        if row.missing:
            api.miss(row.missing)
        spec = SPECS[row.operation]
        path = _address(spec, {**HERE, **row.path}, staged) + (f"?{row.query}" if row.query else "")
        body = _named(row.body, staged)
        request = _people(api)[row.who].send(spec.method, path, body, headers=row.headers)
        answer: httpx.Response = api.run(request)
        return answer

    return sent


def _named(body: Any, ids: dict[str, str]) -> Any:
    """A body in which the names of the stage's tasks are their ids."""
    if isinstance(body, dict):
        return {name: _named(value, ids) for name, value in body.items()}
    if isinstance(body, list):
        return [_named(value, ids) for value in body]
    return ids.get(body[1:-1], body) if isinstance(body, str) and body[:1] == "{" else body


def _address(spec: RouteSpec, values: dict[str, str], ids: dict[str, str]) -> str:
    return spec.plain_path.format(**{name: q(text.format(**ids)) for name, text in values.items()})


def _people(api: Api) -> dict[str, Person]:
    people = {name: api.by(name) for name in ("alice", "bob", "wanda")}
    fenced = api.by("fenced", rooms=["r1"])
    return {
        **people,
        "admin": api.by("root", is_admin=True),
        "fenced": fenced,
        "nobody": api.nobody,
    }


@pytest.mark.parametrize("row", GOOD, ids=_id)
def test_a_route_answers_as_the_contract_says(
    row: Row, send: Callable[..., httpx.Response]
) -> None:
    """Contract, every route: status and headers; the body is held to its model by the client."""
    answer = send(row)
    assert answer.status_code == row.status, answer.text
    for name, pattern in row.answer.items():
        found = answer.headers.get(name)
        assert (found is None) == (pattern is None), f"{name}: {found}"
        assert pattern is None or re.fullmatch(pattern, found or ""), f"{name}: {found}"


@pytest.mark.parametrize("row", REFUSALS, ids=_id)
def test_a_route_refuses_as_the_contract_says(
    row: Row, send: Callable[..., httpx.Response]
) -> None:
    """Contract, *Errors*: each kind of problem that a route lists is really its answer."""
    refused(send(row), row.slug or "")


def test_the_table_has_every_route_and_every_refusal() -> None:
    """The reverse: nothing in the route table is without a row here."""
    assert {spec.operation_id for spec in ROUTES} == CONTRACT.keys()
    for spec in ROUTES:
        tried = {row.status for row in GOOD if row.operation == spec.operation_id}
        assert tried == spec.answers.keys(), spec.operation_id
    listed = {(spec.operation_id, slug) for spec in ROUTES for slug in spec.problems}
    assert listed == {(row.operation, row.slug) for row in REFUSALS}


def test_every_route_has_the_contracts_method_and_path() -> None:
    """Contract: the addresses, whatever their placeholders are called."""
    for operation, written in CONTRACT.items():
        method, _, path = written.partition(" ")
        whole = path if path.startswith(("/v1", "/healthz", "/readyz", "/metrics")) else BASE + path
        spec = SPECS[operation]
        found = re.sub(r"{\w+}", "{}", spec.plain_path)
        assert (spec.method, found) == (method, re.sub(r"{\w+}", "{}", whole))


def test_every_kind_of_problem_is_met_somewhere_in_these_tables() -> None:
    """Contract, *Errors*: no kind is only documented."""
    met = EVERYWHERE.union(row.slug for row in REFUSALS if row.slug)
    assert PROBLEMS.keys() - met == RESERVED_SLUGS


@pytest.mark.parametrize("spec", SECURED, ids=_id)
def test_a_route_without_a_token_is_401(spec: RouteSpec, api: Api) -> None:
    """Contract, *Identity*: every route but the open ones; 401 with WWW-Authenticate."""
    request = api.nobody.send(spec.method, _address(spec, HERE, {"pending": "x"}))
    answer = api.run(request)
    refused(answer, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_only_the_routes_named_in_the_contract_are_open(api: Api) -> None:
    """Contract, *Identity*: /healthz, /readyz, /openapi.json, /docs and /v1/problems/…."""
    opened = {spec.operation_id for spec in ROUTES if not spec.secured}
    assert opened == {"healthz", "readyz", "explain_problem"}
    for path in ("/openapi.json", "/docs"):
        assert api.nobody.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/nope", "/", "/v1", "/v1/joblib/", "/v1/joblib/tasks/"])
def test_an_unknown_address_is_a_problem_document(path: str, api: Api) -> None:
    """Contract, *Errors*: the router's own 404 too; it comes before 401 (rules, *Order*)."""
    refused(api.run(api.send("GET", path)), "not-found")


@pytest.mark.parametrize("path", sorted({spec.plain_path for spec in ROUTES}))
def test_a_wrong_method_is_405_with_every_allowed_one(path: str, api: Api) -> None:
    """Contract, *Errors*; RFC 9110, 15.5.6: Allow lists all of them; it comes before 401."""
    methods = {spec.method for spec in ROUTES if spec.plain_path == path}
    allowed = methods | ({"HEAD"} if "GET" in methods else set())
    answer = api.run(api.send("TRACE", path.format(**HERE).format(pending="x")))
    refused(answer, "method-not-allowed")
    assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize("spec", WITH_BODY, ids=_id)
def test_a_broken_body_is_422_at_every_route_that_reads_one(spec: RouteSpec, alice: Person) -> None:
    """Contract, *Errors*, "Bodies"."""
    path = _address(spec, HERE, {"pending": "x"})
    refused(alice.api.run(alice.send(spec.method, path, b'{"a":')), "validation-error")


@pytest.mark.parametrize("spec", WITH_BODY, ids=_id)
def test_a_body_of_another_type_is_415_at_every_route_that_reads_one(
    spec: RouteSpec, alice: Person
) -> None:
    """Contract, *Errors*: unsupported-media-type."""
    path = _address(spec, HERE, {"pending": "x"})
    request = alice.send(spec.method, path, b"{}", headers={"content-type": "text/plain"})
    refused(alice.api.run(request), "unsupported-media-type")


@pytest.mark.parametrize("spec", WITH_BODY, ids=_id)
def test_a_body_over_the_limit_is_413_at_every_route_that_reads_one(
    spec: RouteSpec, make_api: Callable[..., Api]
) -> None:
    """Contract, *Errors*: payload-too-large, with the limit in its detail."""
    api = make_api(max_body_bytes=1024, max_result_bytes=1024)
    path = _address(spec, HERE, {"pending": "x"})
    answer = api.run(api.by("alice").send(spec.method, path, b" " * 1025))
    assert "1024" in refused(answer, "payload-too-large")["detail"]


@pytest.mark.parametrize("spec", WITH_QUERY, ids=_id)
def test_a_bad_parameter_is_422_at_every_route_that_reads_some(
    spec: RouteSpec, alice: Person
) -> None:
    """Contract, *Lists*; the place is named."""
    path = _address(spec, HERE, {"pending": "x"})
    name = spec.query[0].name
    answer = alice.api.run(alice.send(spec.method, f"{path}?{name}=maybe"))
    assert pointers(refused(answer, "validation-error")) == [f"/{name}"]


@pytest.mark.parametrize("spec", USING_THE_STORE, ids=_id)
@pytest.mark.parametrize(
    ("error", "slug"),
    [("StoreUnavailable", "store-unavailable"), ("RuntimeError", "internal-error")],
)
def test_a_failing_store_is_a_problem_document_that_tells_nothing_of_the_inside(
    spec: RouteSpec, error: str, slug: str, api: Api
) -> None:
    """Contract, *Errors*: 500 without a trace, 503 with Retry-After."""
    api.fail_with(error)
    answer = _good_request(api, spec)
    if (spec.operation_id, error) == ("metrics", "StoreUnavailable"):
        # Just then its counts are wanted: what the store would have told is left out.
        assert answer.status_code == 200
        return
    refused(answer, slug)
    assert "hush" not in answer.text
    assert ("retry-after" in answer.headers) == (slug == "store-unavailable")


@pytest.mark.in_process_only("reads the log of this process; a server's is its own to keep")
def test_the_log_names_a_failed_request_by_its_instance(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    """Contract, *Errors*: instance; the page on internal-error says that the log has it."""
    api.fail_with("RuntimeError")
    problem = refused(api.by("alice").get("/workers"), "internal-error")
    assert problem["instance"] in caplog.text


def _good_request(api: Api, spec: RouteSpec) -> httpx.Response:
    row = next(row for row in GOOD if row.operation == spec.operation_id)
    path = _address(spec, HERE, {"pending": "01890a5d-ac96-774b-bcce-b302099a8057"})
    request = api.by("root", is_admin=True).send(spec.method, path, row.body)
    answer: httpx.Response = api.run(request)
    return answer


@pytest.mark.parametrize("path", ["/nope", "/healthz", "/v1/me"])
def test_a_head_request_is_answered_like_the_get(path: str, api: Api) -> None:
    """RFC 9110, 9.3.2: HEAD wherever there is GET, with the same status and headers."""
    head, get = (api.run(api.send(method, path)) for method in ("HEAD", "GET"))
    head.headers.pop("date", None)
    get.headers.pop("date", None)
    assert (head.status_code, head.headers) == (get.status_code, get.headers)
    assert head.content == b""
