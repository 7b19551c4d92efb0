"""One request: what is repeated and how long, what is raised, what is logged."""

from __future__ import annotations

import logging
import re
import uuid
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from jobroom import errors
from jobroom.client import problems, transport
from jobroom.client.api import Api, path_of
from jobroom.client.connection import Connection
from jobroom.client.transport import Patience, Transport

PATH = "/v1/joblib/tasks/t"


def problem(status, slug, **more):
    body = {"type": f"/v1/problems/{slug}", "title": "T", "status": status, "detail": "D", **more}
    return httpx.Response(status, json=body, headers={"content-type": "application/problem+json"})


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Script:
    """An ``ApiManager`` whose answers are written down beforehand."""

    base_url = "http://user:secret@queue.example:8000"

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.pauses = []
        self.http = httpx.Client(transport=httpx.MockTransport(self.answer))

    def get_headers(self):
        return {"Authorization": "Bearer secret-token"}

    def answer(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def pause(self, seconds):
        self.pauses.append(seconds)
        return True

    def send(self, method="GET", *, seconds=1000.0, **how):
        patience = Patience(seconds, pause=self.pause, outlive_seconds=how.pop("outlive", 0.0))
        return Transport(self).send(method, PATH, patience=patience, **how)


GOOD = httpx.Response(200, json={"ok": 1})
AWAY = [
    httpx.ConnectError("refused"),
    httpx.ConnectTimeout(""),
    httpx.ReadTimeout(""),
    httpx.ReadError("reset"),
    httpx.RemoteProtocolError("Server disconnected without sending a response."),
    httpx.Response(502, html="<html>Bad Gateway</html>"),
    httpx.Response(503, html="<html>Unavailable</html>"),
    httpx.Response(504, text="upstream request timeout"),
    problem(503, "store-unavailable"),
    problem(429, "too-many-requests"),
    httpx.Response(429, text="slow down"),
]


@pytest.mark.parametrize("away", AWAY, ids=repr)
def test_a_server_that_is_away_is_asked_again(away):
    script = Script(away, away, GOOD)
    assert script.send() == {"ok": 1}
    assert len(script.requests) == 3


@pytest.mark.parametrize("away", AWAY, ids=repr)
def test_a_server_that_stays_away_is_an_error_to_try_later(away):
    with pytest.raises((errors.StoreUnavailable, errors.TooManyRequests)):
        Script(away).send(seconds=0)


def test_pauses_grow_are_jittered_and_bounded():
    script = Script(*[httpx.ConnectError("refused")] * 30, GOOD)
    script.send()
    for retry, pause in enumerate(script.pauses):
        longest = min(0.1 * 2**retry, transport.LONGEST_DELAY_SECONDS)
        assert longest / 2 <= pause <= longest
    assert len(set(script.pauses)) == 30


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(status):
    script = Script(httpx.Response(status, headers={"retry-after": "7"}), GOOD)
    script.send()
    assert script.pauses == [7.0]


def test_retry_after_may_be_a_date():
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    script = Script(httpx.Response(503, headers={"retry-after": date}), GOOD)
    script.send()
    assert 25 < script.pauses[0] <= 30


@pytest.mark.parametrize("text", ["soon", "", "-5", "1e999", "9" * 400, "Wed, 99 Foo 2026"])
def test_an_unreadable_retry_after_is_ignored(text):
    script = Script(httpx.Response(503, headers={"retry-after": text}), GOOD)
    script.send()
    assert script.pauses[0] <= 60.0


def test_a_retry_after_beyond_the_patience_is_not_waited_for():
    script = Script(httpx.Response(503, headers={"retry-after": "50"}))
    with pytest.raises(errors.StoreUnavailable):
        script.send(seconds=10.0)
    assert script.pauses == [50.0]  # once: the first repeat is free


def test_one_slow_try_does_not_use_up_all_patience():
    script = Script(httpx.ReadTimeout(""), GOOD)
    assert script.send(seconds=0.001) == {"ok": 1}


def test_a_pause_that_says_no_ends_the_call():
    script = Script(httpx.ConnectError("refused"))
    script.pause = lambda _seconds: False
    with pytest.raises(errors.StoreUnavailable):
        script.send()
    assert len(script.requests) == 1


def test_repeats_carry_the_same_request_id_and_calls_another():
    script = Script(httpx.ReadError("reset"), GOOD)
    script.send()
    script.send()
    first, again, second = (request.headers["x-request-id"] for request in script.requests)
    assert first == again != second
    assert uuid.UUID(first)


@pytest.mark.parametrize(
    "failure", [httpx.ReadTimeout(""), httpx.Response(502, html="x")], ids=repr
)
def test_what_must_not_happen_twice_is_not_sent_twice(failure):
    script = Script(failure, GOOD)
    with pytest.raises(errors.StoreUnavailable):
        script.send("POST", repeatable=False)


@pytest.mark.parametrize(
    "failure", [httpx.ConnectError("refused"), problem(503, "store-unavailable")], ids=repr
)
def test_what_the_server_certainly_did_not_take_is_always_sent_again(failure):
    assert Script(failure, GOOD).send("POST", repeatable=False) == {"ok": 1}


def test_an_internal_error_is_raised_or_outlived_as_asked():
    broken = problem(500, "internal-error")
    with pytest.raises(problems.UnexpectedAnswer) as raised:
        Script(broken, GOOD).send()
    assert (raised.value.status, raised.value.detail) == (500, "D")
    assert Script(broken, GOOD).send(outlive=1000.0) == {"ok": 1}


def leaves(kind):
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from leaves(child)


KINDS = [
    kind
    for kind in leaves(errors.JobroomError)
    if kind.slug not in {"internal-error", "conflict", "validation-error", "store-unavailable"}
]


@pytest.mark.parametrize("kind", KINDS)
def test_each_problem_becomes_the_exception_of_its_slug(kind):
    with pytest.raises(kind) as raised:
        Script(problem(400, kind.slug)).send(seconds=0)
    assert type(raised.value) is kind
    assert str(raised.value) == "D"


def test_the_places_of_a_validation_error_come_along():
    answer = problem(422, "validation-error", errors=[{"pointer": "/a", "message": "no"}])
    with pytest.raises(errors.ValidationFailed) as raised:
        Script(answer).send()
    assert raised.value.errors == (errors.FieldError("/a", "no"),)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (httpx.Response(401, text="no"), errors.Unauthorized),
        (httpx.Response(403, html="<html>"), errors.Forbidden),
        (httpx.Response(413, html="<html>nginx"), errors.PayloadTooLarge),
        (httpx.Response(404, html="<html>"), problems.UnexpectedAnswer),
        (httpx.Response(308, headers={"location": "https://x"}), problems.UnexpectedAnswer),
        (httpx.Response(418, json=[1]), problems.UnexpectedAnswer),
        (
            httpx.Response(409, content=b"{", headers={"content-type": "application/json"}),
            problems.UnexpectedAnswer,
        ),
        (problem(451, "of-another-version"), problems.UnexpectedAnswer),
    ],
)
def test_other_error_answers_say_their_status_and_place(answer, kind):
    with pytest.raises(kind, match=f"{PATH} was answered {answer.status_code}") as raised:
        Script(answer).send()
    assert isinstance(raised.value, errors.JobroomError)


def test_a_good_answer_that_is_no_json_object_is_an_error():
    with pytest.raises(problems.UnexpectedAnswer, match="no JSON object"):
        Api(Script(httpx.Response(200, html="<html>a login page</html>"))).me()


def test_an_outage_is_one_line_at_its_begin_and_one_at_its_end(caplog):
    script = Script(*[httpx.ConnectError("refused")] * 5, GOOD)
    with caplog.at_level(logging.DEBUG, logger="jobroom.client"):
        script.send()
    begun, ended = (record.getMessage() for record in caplog.records)
    assert re.match(
        r"server\.away url=http://queue.example:8000 reason='.*refused' retrying", begun
    )
    assert re.match(r"server\.back url=http://queue.example:8000 seconds=\d", ended)
    assert all(record.exc_info is None for record in caplog.records)


@pytest.mark.parametrize(
    ("name", "no_proxy", "told"),
    [
        ("http_proxy", "", " proxy=http://proxy.example:3128 "),
        ("all_proxy", "", " proxy=http://proxy.example:3128 "),
        ("http_proxy", "queue.example", None),
        ("https_proxy", "", None),
    ],
)
def test_an_outage_behind_a_proxy_of_the_environment_names_it(
    monkeypatch, caplog, name, no_proxy, told
):
    monkeypatch.setenv(name, "http://user:secret@proxy.example:3128")
    monkeypatch.setenv("no_proxy", no_proxy)
    with pytest.raises(errors.StoreUnavailable):
        Script(httpx.ConnectError("refused")).send(seconds=0)
    assert (told in caplog.text) if told else ("proxy=" not in caplog.text)
    assert "secret" not in caplog.text


class Renewing(Script):
    """An ``ApiManager`` with a new token each time it is asked."""

    base_url = "http://queue.example:8000"
    asked = 0

    def get_headers(self):
        self.asked += 1
        return {"Authorization": f"Bearer t{self.asked}"}


def test_a_refused_token_is_asked_for_once_more():
    script = Renewing(problem(401, "unauthorized"), GOOD)
    assert script.send() == {"ok": 1}
    sent = [request.headers["authorization"] for request in script.requests]
    assert sent == ["Bearer t1", "Bearer t2"]


def test_a_new_token_that_is_refused_too_is_an_error():
    script = Renewing(problem(401, "unauthorized"))
    with pytest.raises(errors.Unauthorized):
        script.send()
    assert len(script.requests) == 2


def test_a_token_that_stays_the_same_is_not_sent_again():
    script = Script(problem(401, "unauthorized"), GOOD)
    with pytest.raises(errors.Unauthorized):
        script.send()
    assert len(script.requests) == 1


class Rude(dict):
    def items(self):
        raise LookupError("no items")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"e": [float("nan")]}, "float at /e/0 is not finite"),
        ({"a/b": {"~": b""}}, "bytes at /a~1b/~0 is no JSON type"),
        ({"k": {(1, 2): 3}}, "dict at /k has a key that is a tuple"),
        (Rude(a=1), "LookupError: no items"),
    ],
)
def test_a_body_that_is_no_json_is_refused_naming_the_place(body, why):
    with pytest.raises(errors.ValidationFailed, match=why):
        transport.encode(body)


def test_no_secret_is_in_a_log_line_or_a_message(caplog):
    script = Script(httpx.LocalProtocolError("Illegal header value b'Bearer secret-token\\n'"))
    with pytest.raises(errors.ConfigurationError) as raised:
        script.send()
    with pytest.raises(errors.StoreUnavailable):
        Script(httpx.ConnectError("refused")).send(seconds=0)
    assert "secret" not in caplog.text + str(raised.value)
    assert raised.value.__cause__ is None


def test_a_closed_connection_says_so():
    script = Script(GOOD)
    script.http.close()
    with pytest.raises(problems.ConnectionClosed):
        script.send()


@pytest.mark.parametrize("name", ["A?B", "é", "100%", "a/b", "..", "A%2FB", "a b", "#", ";,+&=:@"])
def test_each_path_segment_arrives_as_it_was_given(name):
    script = Script(GOOD)
    Api(script).job(name, f"{name}:c:n")
    raw = script.requests[0].url.raw_path.decode()
    assert raw == path_of("rooms", name, "jobs", f"{name}:c:n")
    assert httpx.URL(f"http://x{raw}").path == f"/v1/joblib/rooms/{name}/jobs/{name}:c:n"
    assert len(raw.split("/")) == 7
    assert script.requests[0].url.query == b""


def test_an_empty_name_is_refused_before_it_is_sent():
    with pytest.raises(errors.ValidationFailed):
        Api(Script(GOOD)).job("", "a:b:c")


class TestConnection:
    def test_the_token_is_a_bearer_token(self):
        assert Connection("http://x", "t").get_headers() == {"Authorization": "Bearer t"}
        assert Connection("http://x").get_headers() == {}

    def test_a_callable_token_is_asked_each_time(self):
        tokens = iter(["a", "b"])
        connection = Connection("http://x", lambda: next(tokens))
        assert connection.get_headers() != connection.get_headers()

    @pytest.mark.parametrize("token", ["\u00e9", "", "a b", "secret\n", "\x00", b"secret", 5])
    def test_a_token_that_no_header_can_carry_is_refused_in_one_sentence(self, token):
        with pytest.raises(errors.ConfigurationError, match="token") as raised:
            Connection("http://x", token)
        assert "secret" not in str(raised.value)
        with pytest.raises(errors.ConfigurationError, match="token"):
            Connection("http://x", lambda: token).get_headers()

    def test_it_comes_from_the_environment(self, monkeypatch):
        monkeypatch.setenv("JOBROOM_URL", "https://queue.example/")
        monkeypatch.setenv("JOBROOM_TOKEN", "t")
        with Connection.from_env() as connection:
            assert connection.base_url == "https://queue.example"
            assert connection.get_headers() == {"Authorization": "Bearer t"}
        assert connection.http.is_closed

    def test_without_an_address_it_says_what_to_set(self, monkeypatch):
        monkeypatch.delenv("JOBROOM_URL", raising=False)
        with pytest.raises(errors.ConfigurationError, match="JOBROOM_URL"):
            Connection.from_env()
        with pytest.raises(errors.ConfigurationError, match="http://"):
            Connection("queue.example")
        with pytest.raises(errors.ConfigurationError, match="http://"):
            Connection(None)

    def test_a_given_client_is_used_and_left_open(self):
        client = httpx.Client()
        with Connection("http://x", http=client) as connection:
            assert connection.http is client
        assert not client.is_closed
        client.close()

    def test_a_client_set_later_is_used(self):
        with httpx.Client() as client:
            connection = Connection("http://x")
            connection.http.close()
            connection.http = client
            assert connection.http is client
