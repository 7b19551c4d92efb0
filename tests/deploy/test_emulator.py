"""That the platform which the tests of the function run on does what AWS does."""

from __future__ import annotations

import time

import artifact
import httpx
import lambda_events as events
import pytest
from environments import Function, Throttled, TooLarge
from gateway import MANNERS, Gateway

HANDLER = """
import os, threading, time
ticks = []
def tick():
    while True:
        ticks.append(time.monotonic())
        time.sleep(0.005)
def handler(event, context):
    is_http = isinstance(event, dict) and "requestContext" in event
    body = event.get("body") if is_http else event
    if body == "raise": raise KeyError("nothing")
    if body == "exit": os._exit(7)
    if body == "sleep": time.sleep(60)
    if body == "large": return "x" * (6 * 1024 * 1024 + 100)
    if body == "left": return context.get_remaining_time_in_millis()
    if body == "tick": threading.Thread(target=tick, daemon=True).start()
    if body == "gaps": return max(b - a for a, b in zip(ticks, ticks[1:]))
    if isinstance(body, str) and body.startswith("wait "): time.sleep(float(body[5:]))
    if is_http:
        headers = {"multiValueHeaders": {}} if "multiValueHeaders" in event else {"headers": {}}
        about = {"statusCode": 200, "isBase64Encoded": event["isBase64Encoded"]}
        return {**about, "body": body or ""} | ({} if "resource" in event else headers)
    return os.getpid()
"""


@pytest.fixture
def start(request, tmp_path):
    built = artifact.prepare(request.config.cache.mkdir("lambda"))
    (tmp_path / "small.py").write_text(HANDLER)
    functions = []

    def started(handler="small.handler", **options):
        made = Function(handler, built, tmp_path / "output.txt", paths=(tmp_path,), **options)
        functions.append(made)
        return made

    yield started
    for function in functions:
        function.close()


def test_an_environment_is_started_by_an_event_and_serves_the_next(start):
    function = start()
    assert function.started == 0
    assert function.call({}) == function.call({})
    assert function.started == 1


def test_an_error_of_the_handler_is_its_answer_and_the_environment_goes_on(start):
    function = start()
    pid = function.call({})
    answer = function.invoke("raise").result()
    assert answer.error == "KeyError"
    assert b"nothing" in answer.payload
    assert function.call({}) == pid


def test_at_its_timeout_an_environment_is_killed_and_the_next_event_gets_a_new_one(start):
    function = start(timeout=1.0)
    assert 0 < function.call("left") <= 1000
    assert function.invoke("sleep").result().error == "Sandbox.Timedout"
    assert 0 < function.call("left") <= 1000
    assert function.started == 2


def test_an_environment_that_exits_fails_its_event_alone(start):
    function = start()
    assert function.invoke("exit").result().error == "Runtime.ExitError"
    assert function.call({}) == function.call({})


def test_a_handler_that_is_not_there_fails_each_event(start):
    function = start("nothing.handler")
    assert function.invoke({}).result().error == "Runtime.ImportModuleError"
    assert function.invoke({}).result().error == "Runtime.ImportModuleError"


def test_an_answer_over_6_mib_is_lost_and_an_event_over_6_mib_is_refused(start):
    function = start()
    assert function.invoke("large").result().error == "Function.ResponseSizeTooLarge"
    with pytest.raises(TooLarge):
        function.invoke("x" * (6 * 1024 * 1024))


def test_there_are_no_more_environments_than_are_reserved(start):
    function = start(concurrency=2)
    waiting = [function.invoke("wait 1"), function.invoke("wait 1")]
    with pytest.raises(Throttled):
        function.invoke({})
    assert waiting[0].result().json() != waiting[1].result().json()
    assert (function.started, function.throttled) == (2, 1)


def test_between_events_an_environment_is_frozen(start):
    function = start()
    function.call("tick")
    time.sleep(0.5)  # in which a thread of the function would go on
    assert function.call("gaps") > 0.4


def test_what_is_invoked_asynchronously_comes_as_often_and_as_late_as_wanted(start):
    function = start()
    began = time.monotonic()
    one, other = function.send({}, copies=2, late=0.3)
    assert one.result().json() != other.result().json()  # both at once
    assert time.monotonic() - began >= 0.3
    (failed,) = function.send("exit")
    assert failed.result().error == "Runtime.ExitError"
    assert function.failed == 3  # tried again twice


def test_a_killed_environment_fails_what_it_was_doing(start):
    function = start()
    answer = function.invoke("wait 20")
    while not function.kill_one():
        time.sleep(0.01)
    assert answer.result(10).error in {"Runtime.ExitError", "Runtime.InitError"}
    pid = function.call({})
    assert function.kill_one()
    assert function.call({}) != pid


@pytest.mark.parametrize("kind", events.KINDS, ids=lambda kind: kind.__name__)
def test_a_gateway_says_in_its_own_way_that_a_function_gave_no_answer(kind, start):
    manners = MANNERS[kind]
    with Gateway(start(concurrency=1), kind=kind, seconds=2.0) as front, client(front) as http:
        assert http.post("/a", content=b"hello", headers=TEXT).text == "hello"
        assert http.post("/a", content=bytes(range(256))).content == bytes(range(256))
        told = http.post("/a", content=b"raise", headers=TEXT)
        assert (told.status_code, told.content) == manners.failed
        told = http.post("/a", content=b"sleep", headers=TEXT)
        assert (told.status_code, told.content) == manners.timed_out
        assert 2.0 <= front.slowest < 10.0
        told = http.post("/a", content=b"", headers=TEXT)  # the function sleeps on
        assert (told.status_code, told.content) == manners.throttled
        large = b"x" * (manners.largest_body + 1)
        assert http.post("/a", content=large, headers=TEXT).status_code == 413


def test_a_body_in_chunks_is_one_body(start):
    with Gateway(start()) as front, client(front) as http:
        answer = http.post("/a", content=iter([b"hel", b"lo"]), headers=TEXT)
        assert answer.text == "hello"
        assert http.head("/a").status_code == 200
        assert http.get("/a").headers["content-length"] == "0"


TEXT = {"content-type": "text/plain"}


def client(front):
    return httpx.Client(base_url=front.url, timeout=60, trust_env=False)
