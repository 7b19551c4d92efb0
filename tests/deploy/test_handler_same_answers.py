"""Whatever the request: through every gateway the answer is the application's own."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import lambda_events as events
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lambda_function import BASE, ROTATE, Function, bearer

from jobroom.settings import JobLibSettings

REQUEST_ID = ("x-request-id", "f1")
METHODS = ["GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
EXAMPLES = 200

# A client resolves dots before it sends them; they are no names.
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
    lambda name: name not in (".", "..")
)
# An HTTP API cannot pass these on (see the module of events), so only the others get them.
plain = text.filter(lambda name: not set("%?") & set(name))
segments = st.one_of(
    st.sampled_from(["rooms", "r1", "jobs", ROTATE, "tasks", "workers", "w", "healthz", "@global"]),
    plain,
)
# Nothing that a second time is answered in another way: each kind of event asks once more.
routes = st.sampled_from(
    [
        "rooms/r1/jobs",
        "rooms/r1/tasks",
        "rooms/r1/workers",
        f"rooms/r1/jobs/{ROTATE}",
        f"rooms/r1/jobs/{ROTATE}/tasks",
        "tasks/0197c2b0-0000-7000-8000-000000000000",
        "workers",
    ]
).map(lambda path: [*BASE.split("/")[1:], *path.split("/")])
paths = st.one_of(
    routes,
    routes,
    st.lists(segments, max_size=5).map(lambda parts: [*BASE.split("/")[1:], *parts]),
    st.lists(segments, max_size=3),
    st.sampled_from([["healthz"], ["v1", "me"], ["openapi.json"], ["docs"]]),
)
queries = st.lists(
    st.tuples(
        st.sampled_from(["limit", "offset", "status", "cursor", "job", "x", "é"]),
        st.one_of(st.sampled_from(["0", "1", "501", "pending", ""]), text),
    ),
    max_size=3,
    unique_by=lambda pair: pair[0],  # a load balancer passes on one of a name
)
header_values = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
header_names = ["prefer", "accept", "if-none-match", "idempotency-key", "content-type", "x-other"]
headers = st.dictionaries(st.sampled_from(header_names), header_values, max_size=3)
bodies = st.one_of(
    st.just(b""),
    st.binary(max_size=20),
    text.map(str.encode),
    st.sampled_from(
        [
            b"{",
            b"[]",
            b"null",
            b'{"category":"A","name":"/"}',
            b'{"payload":{"angle":NaN}}',
            b'{"a":"\\ud800"}',
            b'"\xff"',
        ]
    ),
)


@pytest.fixture(scope="module")
def function(empty_database, tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "queue.db"
    path.write_bytes(empty_database.read_bytes())
    made = JobLibSettings(database_url=f"sqlite:///{path}", sqlite_synchronous="NORMAL")
    with Function(made) as opened:
        opened.register()
        opened.submit({"quotes": '"' * 50})
        yield opened


def target(path, query, *, safe=""):
    encoded = "/" + "/".join(quote(part, safe=safe) for part in path)
    sent = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query)
    return f"{encoded}?{sent}" if sent else encoded


def rest_api(*asked):
    """At a domain of its own: the stage, which is in the links else, is not in the path."""
    event = events.rest_api(*asked)
    event["requestContext"]["path"] = event["path"]
    return event


KINDS = [rest_api if kind is events.rest_api else kind for kind in events.KINDS]


def check(function, request, kinds=KINDS):
    method, path, sent, content = request
    # A wait would only take its time; what it does is another module's.
    sent = [(name, value.replace("wait", "w")) for name, value in sent.items()]
    asked = [*bearer(), REQUEST_ID, *sent]
    own = function.directly(method, path, asked, content)
    for kind in kinds:
        got = function.invoke(kind(method, path, asked, content))
        assert shown(got) == shown(own), kind.__name__


def shown(answer):
    """An answer but for times of which each is later than the one before."""
    return answer.status, answer.headers, re.sub(rb'(_heartbeat|_seen)":"[^"]*"', b"", answer.body)


@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.tuples(st.sampled_from(METHODS), paths, queries), headers, bodies)
def test_any_request_is_answered_as_by_the_application_itself(function, line, sent, content):
    method, path, query = line
    if path[-1:] == ["workers"] and method == "POST":
        method = "PATCH"  # each new worker has an id of its own
    check(function, (method, target(path, query), sent, content))


@settings(max_examples=EXAMPLES, derandomize=True)
@given(st.sampled_from(["GET", "POST"]), st.lists(text, min_size=1, max_size=3), st.booleans())
def test_any_name_means_the_same_where_the_path_comes_as_sent(function, method, names, is_lightly):
    """Percent signs and question marks too, however much of the name is percent-encoded."""
    path = ["v1", "joblib", "rooms", names[0], "jobs", ":".join(names)]
    safe = "!$&'()*+,;=:@~" if is_lightly else ""
    kinds = [kind for kind in KINDS if kind is not events.http_api]
    check(function, (method, target(path, (), safe=safe), {}, b""), kinds)


def test_the_same_requests_in_a_stage_and_below_a_base_path(function):
    for path in ("/v1/me", f"{BASE}/rooms/r1/jobs", f"{BASE}/rooms/r1/jobs/{ROTATE}", "/nowhere"):
        own = function.directly("GET", path, [*bearer(), REQUEST_ID], b"")
        for kind in (events.http_api, events.rest_api):
            got = function.invoke(kind("GET", path, [*bearer(), REQUEST_ID], stage="prod"))
            assert shown(got) == shown(own)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=4,
)
FIELDS = [
    "rawPath",
    "path",
    "rawQueryString",
    "headers",
    "multiValueHeaders",
    "queryStringParameters",
    "multiValueQueryStringParameters",
    "cookies",
    "body",
    "isBase64Encoded",
    "httpMethod",
    "version",
]
OF_THE_CONTEXT = ["http", "elb", "stage", "path", "domainName", "identity", "timeEpoch"]


@settings(max_examples=EXAMPLES, derandomize=True)
@given(
    st.sampled_from(events.KINDS),
    st.dictionaries(st.sampled_from(FIELDS), values, max_size=3),
    st.dictionaries(st.sampled_from(OF_THE_CONTEXT), values, max_size=2),
)
def test_whatever_an_event_holds_it_is_answered_or_refused_in_words(function, kind, changed, about):
    """No trace of ours reaches the platform as a crash of the function."""
    event = kind("GET", "/v1/me", [*bearer(), REQUEST_ID])
    event["requestContext"] |= about
    try:
        answer = function.handler(event | changed, events.Context())
    except ValueError as refusal:
        assert str(refusal).startswith("This event is neither")  # noqa: PT017 - or an answer
    else:
        json.dumps(answer)
        assert answer["statusCode"] in (200, 400, 401, 404, 405, 406, 500)


@pytest.mark.parametrize("path", ["/v1/joblib/rooms/\ud800/jobs", "/v1/\udcff", "\ud800"])
def test_a_path_that_is_no_unicode_is_answered(function, path):
    for kind in (events.http_api, events.function_url, events.rest_api, events.load_balancer):
        event = kind("GET", "/", [*bearer()])
        event["rawPath" if "rawPath" in event else "path"] = path
        answer = function.handler(event, events.Context())
        assert answer["statusCode"] in (400, 404)
