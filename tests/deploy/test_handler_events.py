"""What API Gateway, function URLs and load balancers really send (acceptance 9)."""

from __future__ import annotations

import base64
import json
import logging
from urllib.parse import quote

import lambda_events as events
import pytest
from lambda_function import BASE, ROTATE, Function, bearer

from jobroom import create_app
from jobroom.aws.environment import Environment
from jobroom.aws.events import kind_of
from jobroom.aws.handler import Handler
from jobroom.aws.sweep import Sweep

NAMES = ["é", "名前", "A B", "A#B", "A+B", "A&B=C", "A;B", "A~B", "A'B", 'A"B', "A\\B", "x" * 255]
ENCODED_ONLY = ["A?B", "100%", "%41", "A%2FB", "%25", "%zz", "%2525"]
"""An HTTP API refuses a ``%`` in a path, decodes it twice or cuts the path at a ``?``."""


@pytest.fixture
def function(settings):
    with Function(settings) as made:
        yield made


@pytest.fixture(params=events.KINDS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


def scope_of(event):
    kind = kind_of(event)
    return kind(event, None, {"api_gateway_base_path": ""}).scope


def test_9a_a_scheduled_event_given_to_the_handler_sweeps_and_returns_the_counts(function):
    first = function.handler(events.SCHEDULED, events.Context())
    assert (first["judged"], first["lost_workers"], first["finished"]) == (True, 0, True)
    assert function.handler(events.SCHEDULED, events.Context()) == first, "delivered twice"
    assert function.handler(events.BY_SCHEDULER, events.Context()) == first


def test_9b_the_room_global_arrives_encoded_at_a_rest_api(function):
    event = events.rest_api("GET", "/v1/joblib/rooms/%40global/jobs", bearer())
    assert event["path"] == "/v1/joblib/rooms/%40global/jobs"
    function.send("PUT", "/rooms/@global/jobs", {"category": "modifiers", "name": "Shared"})
    function.register()
    answer = function.invoke(event)
    assert [job["full_name"] for job in answer.json()["items"]] == ["@global:modifiers:Shared"]


def test_9c_an_encoded_slash_in_a_name_finds_nothing_and_says_so_as_a_problem(function, kind):
    answer = function.send("GET", "/rooms/r/jobs/r%3Amodifiers%3AA%2FB", kind=kind)
    assert answer.status == 404
    assert answer.header("content-type") == "application/problem+json"
    assert answer.json()["type"].startswith("/v1/problems/")


def test_9c_an_encoded_colon_in_a_name_finds_the_job(function, kind):
    function.register()
    answer = function.send("GET", "/rooms/r1/jobs/r1%3Amodifiers%3ARotate", kind=kind)
    assert answer.json()["full_name"] == ROTATE


def test_9d_two_lines_of_prefer_wait_and_are_answered_in_time(function, kind):
    """The cap is the function's remaining time; a load balancer tells one of two lines only."""
    function.register()
    task = function.submit()
    prefer = [("prefer", "respond-async"), ("prefer", "wait=60")]
    answer = function.send("GET", f"/tasks/{task['id']}", kind=kind, headers=prefer, seconds=3.45)
    assert (answer.status, answer.header("preference-applied")) == (200, "wait=1")


def test_9e_the_raw_path_is_in_the_scope(function, kind, monkeypatch):
    seen = {}

    async def look(scope, receive, send):
        seen.update(scope)

    monkeypatch.setattr(function.handler, "_app", look)
    look.state = function.app.state
    function.invoke(kind("GET", "/v1/joblib/rooms/caf%C3%A9%20x/jobs?a=1", bearer()))
    assert seen["raw_path"].endswith(b"/v1/joblib/rooms/caf%C3%A9%20x/jobs")
    assert seen["path"].endswith("/v1/joblib/rooms/café x/jobs")
    assert seen["query_string"] == b"a=1"
    assert (seen["client"], seen["server"]) == ((events.ADDRESS, 0), (events.HOST, 443))


def test_9f_an_authorizer_identity_and_a_base64_body_are_taken(function, kind):
    """The app verifies the token itself; what the authorizer says of it is not looked at."""
    function.register()
    body = json.dumps({"payload": {"angle": 90}}).encode()
    headers = [*bearer("alice"), ("content-type", "application/json")]
    event = kind("POST", f"{BASE}/rooms/r1/tasks/{ROTATE}", headers, body)
    event["requestContext"]["authorizer"] = {
        "jwt": {"claims": {"sub": "mallory"}, "scopes": None},
        "principalId": "mallory",
    }
    event |= {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
    answer = function.invoke(event)
    assert (answer.status, answer.json()["created_by_id"]) == (202, "alice")
    assert answer.json()["payload"] == {"angle": 90}


def round_trips(function, kind, names):
    for name in names:
        function.register(name)
        address = f"/rooms/r1/jobs/{quote(f'r1:modifiers:{name}', safe='')}"
        shown = function.send("GET", address, kind=kind)
        assert (shown.status, shown.json()["name"]) == (200, name)
        made = function.submit(job=quote(f"r1:modifiers:{name}", safe=""), kind=kind)
        assert made["job_name"] == f"r1:modifiers:{name}"
        listed = function.send("GET", f"/rooms/r1/tasks?job={address[15:]}", kind=kind)
        assert [each["id"] for each in listed.json()["items"]] == [made["id"]]


def test_every_name_round_trips_through_every_gateway(function, kind):
    """Acceptance C20: what works in front of a socket means the same here."""
    round_trips(function, kind, NAMES)


@pytest.mark.parametrize(
    "kind",
    [kind for kind in events.KINDS if kind is not events.http_api],
    ids=lambda kind: kind.__name__,
)
def test_percent_and_question_mark_round_trip_where_the_path_comes_as_sent(function, kind):
    round_trips(function, kind, ENCODED_ONLY)


def test_an_http_api_that_sends_the_path_encoded_after_all_is_understood(function):
    """Stand-ins for the gateway do so, and its documentation does not say."""
    function.register("é B")
    event = events.http_api("GET", "/", bearer())
    event["rawPath"] = f"{BASE}/rooms/r1/jobs/r1%3Amodifiers%3A%C3%A9%20B"
    assert function.invoke(event).json()["name"] == "é B"


def test_payload_1_of_an_http_api_gives_the_path_decoded_and_the_stage_in_it(function):
    function.register("é B")
    path = f"/prod{BASE}/rooms/r1/jobs/r1:modifiers:é B"
    event = events.rest_api("GET", path, bearer(), version="1.0")
    event["requestContext"]["path"] = path
    assert function.invoke(event).json()["name"] == "é B"


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_named_stage_is_in_the_links(function, version):
    """HTTP API: the path has the stage; REST API: it is told beside the path."""
    kind = events.http_api if version == "2.0" else events.rest_api
    function.register()
    made = function.send("POST", f"/rooms/r1/tasks/{ROTATE}", {}, kind=kind, stage="prod")
    assert made.header("location") == f"/prod{BASE}/tasks/{made.json()['id']}"
    shown = function.invoke(kind("GET", "/openapi.json", stage="prod"))
    assert shown.json()["servers"] == [{"url": "/prod"}]


def test_the_default_stage_is_not_in_the_links(function):
    function.register()
    made = function.send("POST", f"/rooms/r1/tasks/{ROTATE}", {})
    assert made.header("location") == f"{BASE}/tasks/{made.json()['id']}"


@pytest.mark.parametrize("given", ["v1", "/v1", "/v1/", "a/v1"])
def test_a_base_path_is_taken_off_by_whole_segments(settings, given):
    """One that is like the beginning of our own addresses, too."""
    with Function(settings, gateway_base_path=given) as function:
        lead = f"/{given.strip('/')}"
        for kind in (events.load_balancer, events.function_url):
            found = function.invoke(kind("GET", f"{lead}/v1/me", bearer()))
            assert found.status == 200
            spec = function.invoke(kind("GET", f"{lead}/openapi.json")).json()
            assert spec["servers"] == [{"url": lead}]
            assert function.invoke(kind("GET", f"{lead}x/openapi.json")).status == 404
            assert function.invoke(kind("GET", "/healthz")).status == 200, "without it, too"


def test_a_custom_domain_of_a_rest_api_has_its_base_path_in_the_path(settings):
    with Function(settings, gateway_base_path="/api") as function:
        event = events.rest_api("GET", "/api/openapi.json")
        event["requestContext"] |= {"path": "/api/openapi.json", "domainName": events.HOST}
        assert function.invoke(event).json()["servers"] == [{"url": "/api"}]


def test_a_stage_called_v1_is_told_from_our_own_v1(function):
    at_home = events.http_api("GET", "/v1/me", bearer(), stage="v1")
    assert at_home["rawPath"] == "/v1/v1/me"
    assert function.invoke(at_home).status == 200
    elsewhere = events.http_api("GET", "/v1/me", bearer())
    elsewhere["requestContext"] |= {"stage": "v1", "domainName": events.HOST}
    assert function.invoke(elsewhere).status == 200


def test_the_stage_alone_is_no_address_of_ours(function):
    event = events.http_api("GET", "", bearer(), stage="prod")
    assert (event["rawPath"], function.invoke(event).status) == ("/prod", 404)


def test_nothing_but_what_must_be_there_is_needed(function):
    bare = {"requestContext": {"http": {"method": "GET", "path": "/healthz"}}}
    assert function.invoke(bare).json() == {"status": "ok"}
    bare = {"httpMethod": "GET", "path": "/healthz", "requestContext": {"stage": "prod"}}
    assert function.invoke(bare).json() == {"status": "ok"}
    bare = {"httpMethod": "GET", "path": "/healthz", "requestContext": {"elb": {}}}
    assert function.invoke(bare).json() == {"status": "ok"}


def test_nulls_are_nothing(function, kind):
    event = kind("GET", "/healthz")
    names = (
        "headers",
        "multiValueHeaders",
        "queryStringParameters",
        "multiValueQueryStringParameters",
        "pathParameters",
        "cookies",
        "body",
        "rawQueryString",
        "isBase64Encoded",
    )
    answer = function.handler({**event, **dict.fromkeys(names)}, None)
    assert (answer["statusCode"], answer["body"]) == (200, '{"status":"ok"}')


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("[2001:db8::1]:8443", ("2001:db8::1", 8443)),
        ("[2001:db8::1]", ("2001:db8::1", 443)),
        ("2001:db8::1", ("2001:db8::1", 443)),
        ("example.com:80", ("example.com", 80)),
        ("example.com:http", ("example.com", 443)),
        ("example.com:99999999", ("example.com", 443)),
        ("", None),
    ],
)
def test_any_host_header_is_survived(function, kind, host, server):
    event = kind("GET", "/healthz", [("host", host)])
    assert function.invoke(event).status == 200
    assert scope_of(event)["server"] == server


def test_cookies_of_payload_2_come_as_one_header(function):
    headers = [*bearer(), ("cookie", "a=1; b=2")]
    event = events.function_url("GET", "/v1/me", headers)
    assert event["cookies"] == ["a=1", "b=2"]
    event["headers"]["cookie"] = "a=1; b=2"  # a function URL tells them twice
    scope = scope_of(event)
    assert [value for name, value in scope["headers"] if name == b"cookie"] == [b"a=1; b=2"]


def test_head_has_no_body_and_keeps_its_headers(function, kind):
    got = function.invoke(kind("GET", "/healthz"))
    head = function.invoke(kind("HEAD", "/healthz"))
    assert (head.status, head.body) == (function.directly("HEAD", "/healthz", [], b"").status, b"")
    assert got.body


def test_204_and_304_have_no_content_type(function, kind):
    function.register()
    task = function.submit()
    known = function.send("GET", f"/tasks/{task['id']}", kind=kind).header("etag")
    same = function.send(
        "GET", f"/tasks/{task['id']}", kind=kind, headers=[("if-none-match", known)]
    )
    assert (same.status, same.header("content-type"), same.body) == (304, None, b"")
    gone = function.send("DELETE", "/workers/w", kind=kind)
    assert (gone.status, gone.header("content-type"), gone.body) == (204, None, b"")


def test_a_problem_is_text(function, kind):
    answer = function.handler(kind("GET", "/nowhere"), events.Context())
    assert answer["statusCode"] == 404
    assert answer["isBase64Encoded"] is False
    assert json.loads(answer["body"])["status"] == 404


def test_the_request_id_of_the_platform_is_the_instance_of_a_problem(function, kind):
    answer = function.invoke(kind("GET", "/nowhere"))
    assert answer.json()["instance"] == events.Context.aws_request_id
    named = function.invoke(kind("GET", "/nowhere", [("x-request-id", "mine")]))
    assert named.json()["instance"] == "mine"


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"Records": [{"eventSource": "aws:sqs"}]},
        {"requestContext": None},
        {"requestContext": {"eventType": "CONNECT", "connectionId": "x"}},
        {"source": "my.application", "detail-type": "Scheduled Event", "detail": {}},
        [],
        "ping",
        None,
        1,
    ],
)
def test_any_other_event_is_an_error_that_says_what_to_do(function, event):
    """Whoever invoked the function must see that nothing was done."""
    with pytest.raises(ValueError, match=r"neither an HTTP request .* nor a scheduled event"):
        function.handler(event, events.Context())


@pytest.mark.parametrize("name", ["methodArn", "routeArn"])
def test_an_authorizer_event_is_no_request_of_ours(function, kind, name):
    """Another function will get the same request: it must not be carried out twice."""
    event = kind("POST", "/v1/joblib/workers", bearer()) | {name: "arn:aws:execute-api:x"}
    with pytest.raises(ValueError, match="neither an HTTP request"):
        function.handler(event, events.Context())


@pytest.mark.parametrize(
    "broken",
    [
        {"headers": ["a"]},
        {"headers": {"host": "x"}, "cookies": 7},
        {"body": "no base64!", "isBase64Encoded": True},
        {"rawPath": ["/healthz"]},
        {"body": {"payload": 1}},
    ],
)
def test_an_event_that_is_broken_within_is_answered(function, broken, caplog):
    event = {**events.http_api("GET", "/healthz"), **broken}
    answer = function.handler(event, events.Context())
    assert (answer["statusCode"], json.loads(answer["body"])["status"]) == (500, 500)
    assert "lambda.unreadable kind=HttpApiEvent" in caplog.text


def test_what_leaves_the_application_becomes_a_problem(function, kind, monkeypatch, caplog):
    async def fails(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise LookupError("no secret 123")

    fails.state = function.app.state
    monkeypatch.setattr(function.handler, "_app", fails)
    answer = function.invoke(kind("GET", "/v1/me", bearer()))
    assert (answer.status, answer.json()["type"]) == (500, "/v1/problems/internal-error")
    assert "123" not in answer.body.decode()
    assert "LookupError" in caplog.text


def test_an_application_that_says_nothing_or_half_is_a_problem(function, monkeypatch, caplog):
    async def nothing(scope, receive, send):
        pass

    async def half(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})

    for app in (nothing, half):
        app.state = function.app.state
        monkeypatch.setattr(function.handler, "_app", app)
        assert function.invoke(events.http_api("GET", "/v1/me")).status == 500


def test_settings_that_do_not_fit_are_a_problem_and_said_in_the_log(monkeypatch, caplog):
    """Nothing configured is no open door: the log says what to set, the client gets a 500."""
    monkeypatch.setenv("ZNDRAW_JOBLIB_MAX_BODY_BYTES", "many")
    monkeypatch.setattr(logging.getLogger("jobroom"), "propagate", True)
    environment = Environment(create_app())
    handler = Handler(environment, Sweep(environment))
    answer = handler(events.http_api("GET", "/v1/me", bearer()), events.Context())
    assert answer["statusCode"] == 500
    assert "ZNDRAW_JOBLIB_MAX_BODY_BYTES" in caplog.text
    handler._loop.close()
