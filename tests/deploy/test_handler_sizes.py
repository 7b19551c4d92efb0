"""An answer is never lost for its size: text or base64, whichever fits, or a problem document."""

from __future__ import annotations

import json

import lambda_events as events
import pytest
from lambda_function import Function

from jobroom.aws import answering

LARGEST = 4_500_000
"""What an answer may hold on Lambda, by default."""
MEGABYTES_6 = 6_291_556
"""What a function may return, by the platform's own error message."""
BODIES = {
    "plain": b"x" * LARGEST,
    "quotes": b'"' * LARGEST,
    "backslashes": b"\\" * LARGEST,
    "controls": b"\x01" * LARGEST,
    "wide": "名".encode() * (LARGEST // 3),
    "no text": b"\xff" * LARGEST,
}
DECODING = [events.http_api, events.function_url]


@pytest.fixture
def function(settings):
    with Function(settings) as made:
        yield made


def answer_with(function, monkeypatch, kind, body, method="GET"):
    async def says(scope, receive, send):
        headers = [(b"content-type", b"application/json"), (b"etag", b'W/"1"')]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for start in range(0, len(body), 65536):
            await send(
                {
                    "type": "http.response.body",
                    "body": body[start : start + 65536],
                    "more_body": True,
                }
            )
        await send({"type": "http.response.body", "body": b""})

    says.state = function.app.state
    monkeypatch.setattr(function.handler, "_app", says)
    event = kind(method, "/v1/me")
    answer = function.handler(event, events.Context())
    sent = json.dumps(answer, ensure_ascii=False).encode()
    return answer, events.read(event, answer), len(sent)


@pytest.mark.parametrize("kind", DECODING, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", BODIES)
def test_four_and_a_half_million_bytes_fit_whatever_they_are(function, monkeypatch, kind, name):
    _, got, size = answer_with(function, monkeypatch, kind, BODIES[name])
    assert (got.status, got.body == BODIES[name]) == (200, True)
    assert size <= MEGABYTES_6


def test_text_stays_text_where_that_is_no_longer(function, monkeypatch):
    answer, _, _ = answer_with(function, monkeypatch, events.http_api, b'{"items":[1,2,3]}')
    assert answer["isBase64Encoded"] is False


def test_many_quotes_go_as_base64(function, monkeypatch):
    body = json.dumps({"text": json.dumps(["a"] * 1000)}).encode()
    answer, got, _ = answer_with(function, monkeypatch, events.http_api, body)
    assert (answer["isBase64Encoded"], got.body) == (True, body)


def test_a_rest_api_gets_text_whatever_it_holds(function, monkeypatch):
    """It would hand out the base64 itself, where its owner named no binary media types."""
    body = b'"' * 1_000_000
    answer, got, _ = answer_with(function, monkeypatch, events.rest_api, body)
    assert (answer["isBase64Encoded"], got.body == body) == (False, True)


@pytest.mark.parametrize(
    "case",
    [
        (events.http_api, b"x" * 6_400_000, answering.LAMBDA_LIMIT),
        (events.function_url, b'"' * 5_000_000, answering.LAMBDA_LIMIT),
        (events.rest_api, b'"' * LARGEST, answering.LAMBDA_LIMIT),
        (events.load_balancer, b"x" * 1_000_000, answering.LOAD_BALANCER_LIMIT),
        (events.load_balancer_of_lists, b"x" * 1_000_000, answering.LOAD_BALANCER_LIMIT),
    ],
    ids=lambda case: case[0].__name__,
)
def test_what_cannot_be_returned_is_a_problem_and_in_the_log(function, monkeypatch, caplog, case):
    kind, body, limit = case
    _, got, size = answer_with(function, monkeypatch, kind, body)
    assert (got.status, got.header("content-type")) == (500, "application/problem+json")
    assert got.json()["type"] == "/v1/problems/internal-error"
    assert str(limit) in got.json()["detail"]
    assert got.json()["instance"] == events.Context.aws_request_id
    assert got.header("etag") is None
    assert size < limit
    assert f"limit={limit}" in caplog.text


def test_an_answer_to_head_is_not_measured_by_what_it_does_not_carry(function, monkeypatch):
    _, got, _ = answer_with(function, monkeypatch, events.http_api, b"x" * 7_000_000, "HEAD")
    assert (got.status, got.body) == (200, b"")


def test_headers_that_come_twice_arrive_twice(function, monkeypatch):
    """Cookies are never joined by commas; a load balancer of single headers tells them by case."""

    async def says(scope, receive, send):
        twice = [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"), (b"vary", b"A"), (b"vary", b"B")]
        await send({"type": "http.response.start", "status": 200, "headers": twice})
        await send({"type": "http.response.body"})

    says.state = function.app.state
    monkeypatch.setattr(function.handler, "_app", says)
    for kind in events.KINDS:
        got = function.invoke(kind("GET", "/v1/me"))
        assert [value for name, value in got.headers if name == "set-cookie"] == ["a=1", "b=2"]
        varied = ",".join(value for name, value in got.headers if name == "vary")
        assert varied == "A,B"
        assert got.header("content-type") is None


@pytest.mark.parametrize("kind", events.KINDS, ids=lambda kind: kind.__name__)
def test_a_report_is_taken_and_its_answer_carried_whatever_the_gateway(function, kind):
    """Left out is what the gateway cannot carry; the report itself is taken."""
    function.register()
    function.submit(kind=kind)
    claimed = function.send("POST", "/tasks/claim", {"start": True}, kind=kind).json()["task"]
    said = {"status": "completed", "result": '"' * 2_000_000, "attempt": claimed["attempt"]}
    answer = function.send("PATCH", f"/tasks/{claimed['id']}", said, kind=kind)
    assert (answer.status, answer.json()["status"]) == (200, "completed")
    shown = function.send("GET", f"/tasks/{claimed['id']}", kind=kind)
    whole = shown.json()["result"] == said["result"]
    assert (shown.status, whole) == (200, kind in DECODING)
    assert whole or shown.json()["result_bytes"] == 4_000_002


@pytest.mark.parametrize("kind", events.KINDS, ids=lambda kind: kind.__name__)
def test_a_claim_takes_no_more_than_the_gateway_carries(function, kind):
    function.register()
    for _ in range(4):
        function.submit({"text": "x" * 200_000})
    got = []
    while claimed := function.send("POST", "/tasks/claim", {"limit": 4}, kind=kind).json()["tasks"]:
        got.append(len(claimed))
    assert sum(got) == 4
    assert len(got) > 1 or kind not in (events.load_balancer, events.load_balancer_of_lists)
