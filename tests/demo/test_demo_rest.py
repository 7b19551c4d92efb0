"""What the demo asks the server, and how it says that something was refused."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from jobroom.demo import scans
from jobroom.demo.processes import DemoError
from jobroom.demo.rest import Rest


def rest_of(answer: Callable[[httpx.Request], httpx.Response]) -> Rest:
    return Rest("http://127.0.0.1:1", "secret", transport=httpx.MockTransport(answer))


def refuse_connection(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


@pytest.mark.parametrize(("status", "ready"), [(200, True), (503, False), (404, False)])
def test_only_200_means_ready(status: int, ready: bool) -> None:
    assert rest_of(lambda _: httpx.Response(status)).is_ready() is ready


def test_a_server_that_does_not_listen_yet_is_not_ready() -> None:
    assert rest_of(refuse_connection).is_ready() is False


def test_a_refusal_is_told_in_the_words_of_the_problem() -> None:
    problem = {"type": "/v1/problems/forbidden", "title": "Forbidden", "status": 403}
    problem |= {"detail": "Not yours.", "instance": "urn:uuid:0"}
    rest = rest_of(lambda _: httpx.Response(403, json=problem))
    with pytest.raises(DemoError, match=r"refused GET /v1/joblib/rooms/demo/tasks: Not yours\."):
        rest.tasks()


def test_an_answer_that_is_no_problem_is_told_by_its_status() -> None:
    rest = rest_of(lambda _: httpx.Response(502, text="<html>"))
    with pytest.raises(DemoError, match="502 Bad Gateway"):
        rest.submit(scans.plan_scans(1)[0])


def test_no_answer_is_told_in_one_sentence_without_the_token() -> None:
    with pytest.raises(DemoError, match=r"did not answer GET .*: refused") as caught:
        rest_of(refuse_connection).workers()
    assert "secret" not in str(caught.value)
