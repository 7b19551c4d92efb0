"""A function whose keys cannot be had says so as a store that is away does, and is not ready."""

from __future__ import annotations

import logging

import lambda_events as events
import pytest
from lambda_function import BASE, bearer
from pydantic import SecretStr

from jobroom import create_app
from jobroom.aws.environment import Environment
from jobroom.aws.handler import Handler
from jobroom.aws.sweep import Sweep

WRONG = {
    "no key": {},
    "a key too short": {"jwt_secret": SecretStr("short")},
    "a key said twice": {"jwt_secret": SecretStr("x" * 40), "jwt_secret_arn": "arn"},
    "an ARN that is none": {"jwt_secret_arn": "hush-hush"},
}


@pytest.fixture(params=WRONG.values(), ids=WRONG)
def function(request, settings, monkeypatch):
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "jobroom")
    settings = type(settings).model_validate(settings.model_dump() | request.param)
    app = create_app(settings)
    environment = Environment(app)
    handler = Handler(environment, Sweep(environment))

    def asked(path):
        event = events.http_api("GET", path, bearer())
        return events.read(event, handler(event, events.Context()))

    yield asked
    app.state.door.close()


def test_a_key_that_cannot_be_had_is_503_and_one_sentence_in_the_log(function, caplog):
    """Contract, errors: a 500 is a fault of ours; this one the operator can mend."""
    with caplog.at_level(logging.ERROR):
        answer = function(f"{BASE}/rooms/r1/jobs")
    assert (answer.status, answer.header("retry-after") is not None) == (503, True)
    [line] = [each.getMessage() for each in caplog.records if each.name == "jobroom"]
    assert line.startswith("keys.not_read reason=")
    assert "hush" not in line
    assert "JWT" not in answer.json()["detail"]


def test_a_function_that_can_check_no_token_is_not_ready(function):
    """The first thing that is asked after a deploy, and what a load balancer goes by."""
    assert function("/readyz").status == 503
    assert function("/healthz").status == 200
