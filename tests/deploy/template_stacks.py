"""The stacks that the tests look at, and templates with a fault; as AWS would expand them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sam_tools
from stack import ACCOUNT, Stack
from template_checks import PREFIX

SECRET = f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:"
PARAMETER = f"arn:aws:ssm:eu-west-1:{ACCOUNT}:parameter/"
LEAST = {"DatabaseUrl": "https://store.example.com", "JwtSecretArn": f"{PARAMETER}jobroom/signing"}
STACKS = {
    "the least": LEAST,
    "libSQL with a token": {
        "DatabaseUrl": "libsql://jobroom-me.turso.io",
        "DatabaseTokenSecretArn": f"{SECRET}jobroom/store-AbCdEf#token",
        "JwtSecretArn": f"{SECRET}jobroom/signing-AbCdEf",
        "SecretsKeyArn": f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/0b1c2d3e-0000-4000-8000-0123",
        "AlarmTopicArn": f"arn:aws:sns:eu-west-1:{ACCOUNT}:alarms",
        "AllowedCategories": "modifiers, my own",
        "SweepMinutes": "5",
    },
    "PostgreSQL in a VPC, an issuer's tokens": {
        "DatabaseUrlSecretArn": f"{SECRET}rds!db-0b1c2d3e-AbCdEf",
        "VpcSubnetIds": "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
        "VpcSecurityGroupIds": "sg-0123456789abcdef0",
        "JwtJwksUrl": "https://issuer.example.com/keys",
        "JwtIssuer": "https://issuer.example.com/",
        "JwtAudience": "jobroom",
        "ApiConcurrency": "50",
        "SweepConcurrency": "1",
        "Dashboard": "yes",
    },
    "no secret, no long polls": {
        "DatabaseUrl": "postgresql://jobroom@store.example.com:5432/jobroom?sslmode=verify-full",
        "JwtPublicKey": r"-----BEGIN PUBLIC KEY-----\nMIIBIjANBg+/=\n-----END PUBLIC KEY-----",
        "JwtIssuer": "jobroom",
        "Architecture": "x86_64",
        "OldestPendingAlarmSeconds": "0",
        "MaxWaitSeconds": "0",
        "SweepMinutes": "60",
        "BasePath": "/queue",
        "LogRetentionDays": "7",
    },
}
API = ("Resources", "ApiFunction", "Properties")
SWEEP = ("Resources", "SweepFunction", "Properties")
SCHEDULE = (*SWEEP, "Events", "Schedule", "Properties")
WRONG = {
    "an unknown runtime": ([["Globals", "Function", "Runtime", "python3.99"]], "E3030"),
    "a timeout of 2900 s": ([[*API, "Timeout", 2900]], "E3717"),
    "a mode that there is not": ([[*SCHEDULE, "FlexibleTimeWindow", {"Mode": "NEVER"}]], "E3030"),
    "an attribute that there is not": (
        [
            [
                "Resources",
                "ApiIntegration",
                "Properties",
                "IntegrationUri",
                {"Fn::GetAtt": ["Api", "No"]},
            ]
        ],
        "E1010",
    ),
    "a resource that there is not": ([[*API, "Role", {"Fn::GetAtt": ["NoRole", "Arn"]}]], "E1010"),
    "a kind of event that there is not": ([[*SWEEP, "Events", "Schedule", "Type", "Cron"]], "SAM"),
    "a property of a wrong type": (
        [["Resources", "ApiStage", "Properties", "AutoDeploy", "perhaps"]],
        "E3012",
    ),
}
"""Faults that the linter finds in what AWS would make of the template."""
WORSE = {
    "a gateway that waits longer than it can": (
        [["Resources", "ApiIntegration", "Properties", "TimeoutInMillis", 60_000]],
        "time_limits",
    ),
    "a function that outlasts the gateway": ([[*API, "Timeout", 30]], "time_limits"),
    "a wait that outlasts the function": (
        [["Parameters", "MaxWaitSeconds", "MaxValue", 29]],
        "time_limits",
    ),
    "a sweep that meets the next one": ([[*SWEEP, "Timeout", 120]], "sweep_limits"),
    "everything open beside an issuer": (
        [["Resources", "EverythingRoute", "Properties", "AuthorizationType", "NONE"]],
        "token_checks",
    ),
    "a health check that needs a token": (
        [["Resources", "AliveRoute", "Properties", "AuthorizationType", "JWT"]],
        "token_checks",
    ),
    "a stage with a name": (
        [["Resources", "ApiStage", "Properties", "StageName", "prod"]],
        "gateway",
    ),
    "an older payload": (
        [["Resources", "ApiIntegration", "Properties", "PayloadFormatVersion", "1.0"]],
        "gateway",
    ),
    "handlers exchanged": ([[*API, "Handler", "app.sweep"]], "functions"),
    "a schedule of its own": ([[*SCHEDULE, "ScheduleExpression", "rate(3 minutes)"]], "schedule"),
    "a schedule with a name": ([[*SCHEDULE, "OmitName", False]], "names"),
    "a queue with a name": (
        [["Resources", "SweepDeadLetters", "Properties", "QueueName", "letters"]],
        "names",
    ),
    "metrics of all stacks together": (
        [
            [
                "Globals",
                "Function",
                "Environment",
                "Variables",
                f"{PREFIX}METRICS_NAMESPACE",
                "jobroom",
            ]
        ],
        "names",
    ),
    "failed sweeps that nobody keeps": (
        [[*SWEEP, "EventInvokeConfig", {"MaximumRetryAttempts": 0}]],
        "dead_letters",
    ),
    "sweeps that may fail to arrive": (
        [[*SCHEDULE, "DeadLetterConfig", {"Arn": f"arn:aws:sqs:eu-west-1:{ACCOUNT}:other"}]],
        "dead_letters",
    ),
    "a silence that is taken for calm": (
        [["Resources", "SweepSilentAlarm", "Properties", "TreatMissingData", "notBreaching"]],
        "alarms",
    ),
    "an alarm for nobody": (
        [["Resources", "ApiErrorsAlarm", "Properties", "AlarmActions", []]],
        "alarms",
    ),
    "a log for ever": ([["Resources", "ApiLogs", "Properties", {}]], "logs"),
    "every secret": (
        [
            [
                "Resources",
                "ReadSecrets",
                "Properties",
                "PolicyDocument",
                "Statement",
                0,
                "Resource",
                "*",
            ],
        ],
        "rights",
    ),
    "more than reading": (
        [
            [
                *(
                    "Resources",
                    "ApiRole",
                    "Properties",
                    "Policies",
                    0,
                    "PolicyDocument",
                    "Statement",
                    0,
                ),
                "Action",
                "logs:*",
            ],
        ],
        "rights",
    ),
    "a managed policy": (
        [
            [
                "Resources",
                "ApiRole",
                "Properties",
                "ManagedPolicyArns",
                ["arn:aws:iam::aws:policy/Admin"],
            ]
        ],
        "rights",
    ),
    "a secret in the environment": (
        [
            [
                "Globals",
                "Function",
                "Environment",
                "Variables",
                f"{PREFIX}JWT_SECRET",
                "{{resolve:ssm:x}}",
            ]
        ],
        "secrets",
    ),
    "functions in another VPC": (
        [
            [
                "Globals",
                "Function",
                "VpcConfig",
                {"SubnetIds": ["subnet-1"], "SecurityGroupIds": ["sg-1"]},
            ]
        ],
        "network",
    ),
    "a reservation that nobody asked for": (
        [[*API, "ReservedConcurrentExecutions", 5]],
        "concurrency",
    ),
    "a queue that is nobody's": (
        [["Resources", "SweepDeadLetters", "Properties", "Tags", []]],
        "tags",
    ),
}
"""Faults of meaning, which SAM expands without a word, and the check that finds each."""


@pytest.fixture(scope="session")
def tools(request: pytest.FixtureRequest, tmp_path_factory) -> sam_tools.Tools:
    """The SAM tools; pytest's cache keeps them for the next run."""
    cache = getattr(request.config, "cache", None)
    folder = Path(cache.mkdir("sam")) if cache else tmp_path_factory.mktemp("sam")
    return sam_tools.prepare(folder)


@pytest.fixture(scope="session")
def examined(tools: sam_tools.Tools) -> dict[str, Any]:
    """The template and its broken versions, expanded, and what the linter says of them."""
    broken = {name: changes for name, (changes, _) in {**WRONG, **WORSE}.items()}
    return tools.examine(changes={"": [], **broken}, linted=["", *WRONG], documents={})


@pytest.fixture(scope="session")
def document(examined: dict[str, Any]) -> dict[str, Any]:
    """The template in plain CloudFormation."""
    return examined["expanded"][""]


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest, document: dict[str, Any]) -> Stack:
    """Each of the stacks."""
    return Stack(document, STACKS[request.param])
