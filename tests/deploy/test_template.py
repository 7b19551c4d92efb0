"""``template.yaml``: what AWS would make of it, linted, checked, and broken to see it noticed."""

from __future__ import annotations

import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sam_tools
from stack import ACCOUNT, Stack
from template_checks import CHECKS, FUNCTIONS, OPEN, PREFIX
from template_stacks import (
    LEAST,
    SECRET,
    STACKS,
    WORSE,
    WRONG,
    document,
    examined,
    stack,
    tools,
)

import app
from jobroom.aws import emf
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings, read_settings

__all__ = ["document", "examined", "stack", "tools"]  # fixtures


def stacks_of(document: dict[str, Any]) -> list[Stack]:
    return [Stack(document, given) for given in STACKS.values()]


def test_sam_finds_the_template_valid(tools: sam_tools.Tools) -> None:
    done = tools.sam("validate", "--lint", "--region", sam_tools.REGION)
    assert done.returncode == 0, done.stdout
    assert "is a valid SAM Template" in done.stdout


def test_the_linter_finds_nothing_in_what_aws_makes_of_it(examined: dict[str, Any]) -> None:
    assert examined["findings"][""] == []


def test_the_linter_finds_nothing_in_any_stack(
    tools: sam_tools.Tools, document: dict[str, Any]
) -> None:
    concrete = {name: Stack(document, given).concrete() for name, given in STACKS.items()}
    said = tools.examine(changes={}, linted=[], documents=concrete)
    assert said["findings"] == {name: [] for name in STACKS}


def test_the_stacks_between_them_meet_each_condition_both_ways(document: dict[str, Any]) -> None:
    stacks = stacks_of(document)
    for name in document["Conditions"]:
        assert {each.condition(name) for each in stacks} == {True, False}, name


def test_none_of_the_stacks_is_refused(stack: Stack) -> None:
    assert stack.refusals() == []


@pytest.mark.parametrize("check", CHECKS)
def test_each_stack_is_as_it_must_be(check: str, stack: Stack) -> None:
    CHECKS[check](stack)


@pytest.mark.parametrize("fault", WRONG)
def test_the_linter_notices(fault: str, examined: dict[str, Any]) -> None:
    found = examined["findings"][fault]
    assert [each for each in found if each.startswith(WRONG[fault][1])], found


@pytest.mark.parametrize("fault", WORSE)
def test_a_check_notices(fault: str, examined: dict[str, Any]) -> None:
    check = CHECKS[WORSE[fault][1]]
    assert examined["findings"][fault] == []
    noticed = 0
    for each in stacks_of(examined["expanded"][fault]):
        try:
            check(each)
        except AssertionError:
            noticed += 1
    assert noticed


def test_each_check_has_a_fault_that_it_notices() -> None:
    assert {check for _, check in WORSE.values()} == set(CHECKS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_variable_is_a_setting(name: str, document: dict[str, Any]) -> None:
    function = document["Resources"][name]["Properties"]
    known = {PREFIX + setting.upper() for setting in JobLibSettings.model_fields}
    known |= {"PYDANTIC_DISABLE_PLUGINS"}
    assert set(function["Environment"]["Variables"]) <= known


def test_the_settings_are_what_the_parameters_say(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "one-ApiFunction")
    for name, value in stack.variables("ApiFunction").items():
        monkeypatch.setenv(name, str(value))
    settings = read_settings()
    given = stack.parameters
    assert settings.auth_mode == "jwt"
    assert settings.database_url_arn == (given["DatabaseUrlSecretArn"] or None)
    assert settings.database_auth_token_arn == (given["DatabaseTokenSecretArn"] or None)
    assert settings.jwt_secret_arn == (given["JwtSecretArn"] or None)
    assert settings.jwt_public_key == (given["JwtPublicKey"] or None)
    assert settings.jwt_jwks_url == (given["JwtJwksUrl"] or None)
    assert settings.jwt_issuer == (given["JwtIssuer"] or None)
    assert settings.jwt_audience == (given["JwtAudience"] or None)
    assert settings.allowed_categories == [
        name.strip() for name in given["AllowedCategories"].split(",")
    ]
    assert settings.worker_timeout_seconds == float(given["WorkerTimeoutSeconds"])
    assert settings.long_poll_max_wait_seconds == float(given["MaxWaitSeconds"])
    assert settings.gateway_base_path == given["BasePath"]
    assert settings.metrics_namespace == "jobroom/one"
    assert settings.log_format == "json"
    if given["DatabaseUrl"]:
        assert settings.database_url == given["DatabaseUrl"]


@pytest.mark.parametrize("handler", FUNCTIONS.values())
def test_app_py_has_the_handlers(handler: str) -> None:
    module, _, name = handler.partition(".")
    assert module == app.__name__
    assert callable(getattr(app, name))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_makefile_has_a_target_for_each_function(function: str) -> None:
    makefile = (sam_tools.ROOT / "deploy" / "Makefile").read_text()
    targets = [line.partition(":")[0].split() for line in makefile.splitlines() if ":" in line]
    assert any(f"build-{function}" in names for names in targets)


def test_the_gateway_leaves_open_what_the_queue_leaves_open() -> None:
    """The contract's list of routes that need no token, under Identity."""
    specs = [spec for route in app.app.routes for spec in route.endpoint._specs.values()]
    assert {f"ANY {spec.plain_path}" for spec in specs if not spec.secured} == OPEN


def test_the_age_that_the_alarm_watches_is_one_that_the_sweep_reports(
    document: dict[str, Any], tmp_path: Path
) -> None:
    alarm = Stack(document, LEAST).of_type("CloudWatch::Alarm")["OldestPendingAlarm"]
    printed = io.StringIO()
    settings = JobLibSettings(database_url=f"sqlite:///{tmp_path / 'queue.db'}")
    with closing(JobQueue.open(settings)) as queue:
        emf.Reporter(alarm["Namespace"], printed).flush_sweep(queue, queue.sweep())
    (line,) = map(json.loads, printed.getvalue().splitlines())
    (told,) = line["_aws"]["CloudWatchMetrics"]
    assert told["Namespace"] == alarm["Namespace"]
    assert told["Dimensions"] == [[]]
    assert alarm["MetricName"] in [each["Name"] for each in told["Metrics"]]
    assert line[alarm["MetricName"]] == 0


PASSWORD = "must be libsql://HOST, https://HOST or postgresql://USER@HOST/DATABASE, without a"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://jobroom:secret@store.example.com/jobroom",
        "postgresql://store.example.com/jobroom?password=secret",
        "postgresql://store.example.com/jobroom?user=me&password=secret",
        "libsql://jobroom-me.turso.io?authToken=secret",
        "https://me:secret@store.example.com",
        "http://store.example.com",
        "sqlite:///jobroom.db",
        "store.example.com",
    ],
)
def test_an_address_with_a_secret_in_it_or_none_for_a_function_is_refused(
    url: str, document: dict[str, Any]
) -> None:
    (refusal,) = Stack(document, {**LEAST, "DatabaseUrl": url}).refusals()
    assert PASSWORD in refusal


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"DatabaseUrl": ""}, "Say where the work is kept; give DatabaseUrl or"),
        ({"DatabaseUrlSecretArn": f"{SECRET}a-AbCdEf"}, "Give only one of DatabaseUrl and"),
        ({"JwtSecretArn": ""}, "Say whose tokens are accepted; give JwtSecretArn, JwtPublicKey or"),
        ({"JwtJwksUrl": "https://a/keys"}, "Give only one of JwtSecretArn and JwtJwksUrl."),
        (
            {"JwtPublicKey": STACKS["no secret, no long polls"]["JwtPublicKey"]},
            "Give only one of JwtSecretArn and JwtPublicKey.",
        ),
        (
            {
                "JwtSecretArn": "",
                "JwtJwksUrl": "https://a/keys",
                "JwtPublicKey": STACKS["no secret, no long polls"]["JwtPublicKey"],
            },
            "Give only one of JwtPublicKey and JwtJwksUrl.",
        ),
        ({"VpcSubnetIds": "subnet-0123"}, "VpcSubnetIds needs VpcSecurityGroupIds"),
        ({"VpcSecurityGroupIds": "sg-0123"}, "VpcSecurityGroupIds needs VpcSubnetIds"),
        (
            {
                "JwtSecretArn": "",
                "JwtJwksUrl": "https://a/keys",
                "SecretsKeyArn": f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/0b1c",
            },
            "SecretsKeyArn is the key of secrets; give the ARN of one",
        ),
        # Without its last six characters it would be the ARN of no secret, and allow nothing.
        ({"JwtSecretArn": f"{SECRET}jobroom/signing"}, "must be the whole ARN of a Secrets"),
        ({"JwtSecretArn": f"{SECRET}*-AbCdEf"}, "must be the whole ARN of a Secrets Manager"),
        ({"JwtSecretArn": "0" * 64}, "must be the whole ARN of a Secrets Manager secret"),
        ({"SweepMinutes": "3"}, "Parameter SweepMinutes is none of those allowed"),
        ({"MaxWaitSeconds": "26"}, "Parameter MaxWaitSeconds is none of those allowed"),
        ({"AllowedCategories": 'a"b'}, "must be names without quotation marks"),
        ({"JwtPublicKey": "-----BEGIN PRIVATE KEY-----"}, "must be a public key in PEM"),
    ],
)
def test_what_does_not_go_together_is_refused_with_a_sentence(
    given: dict[str, str], sentence: str, document: dict[str, Any]
) -> None:
    refusals = Stack(document, {**LEAST, **given}).refusals()
    assert any(sentence in each for each in refusals), refusals


def test_the_dashboard_is_json(document: dict[str, Any]) -> None:
    stack = Stack(document, STACKS["PostgreSQL in a VPC, an issuer's tokens"])
    (dashboard,) = stack.of_type("CloudWatch::Dashboard").values()
    widgets = json.loads(dashboard["DashboardBody"]["Fn::Sub"])["widgets"]
    assert [each["properties"]["region"] for each in widgets] == ["eu-west-1"] * 4
