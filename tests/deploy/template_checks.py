"""What must be true of every stack, one function for each; a template that breaks one fails it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from stack import Stack

PREFIX = "ZNDRAW_JOBLIB_"
FUNCTIONS = {"ApiFunction": "app.handler", "SweepFunction": "app.sweep"}
GATEWAY_SECONDS = 30
"""An HTTP API gives up then, and nothing can raise it."""
RESERVE_SECONDS = 1.5
SECRETS = ("DatabaseUrlSecretArn", "DatabaseTokenSecretArn", "JwtSecretArn")
OPEN = {
    "ANY /docs",
    "ANY /healthz",
    "ANY /openapi.json",
    "ANY /readyz",
    "ANY /v1/problems/{slug}",
}
NAMES = {
    "ApiGatewayV2::Api": None,  # called like the stack; several may be of one name
    "ApiGatewayV2::Authorizer": None,  # its name is the gateway's own
    "ApiGatewayV2::Integration": None,
    "ApiGatewayV2::Route": None,
    "ApiGatewayV2::Stage": None,
    "CloudWatch::Alarm": "AlarmName",
    "CloudWatch::Dashboard": "DashboardName",
    "IAM::ManagedPolicy": "ManagedPolicyName",
    "IAM::Role": "RoleName",
    "Lambda::EventInvokeConfig": None,
    "Lambda::Function": "FunctionName",
    "Lambda::Permission": None,
    "Logs::LogGroup": "LogGroupName",
    "SQS::Queue": "QueueName",
    "Scheduler::Schedule": "Name",
}
"""The property by which two stacks would be in each other's way, for each type."""
NOT_TAGGED = (
    "ApiGatewayV2::Authorizer",
    "ApiGatewayV2::Integration",
    "ApiGatewayV2::Route",
    "CloudWatch::Dashboard",
    "IAM::ManagedPolicy",
    "Lambda::EventInvokeConfig",
    "Lambda::Permission",
    "Scheduler::Schedule",
)
SAMS_OWN_ROLE = "SweepFunctionScheduleRole"


def get(name: str, attribute: str = "Arn") -> dict[str, list[str]]:
    return {"Fn::GetAtt": [name, attribute]}


def check_time_limits(stack: Stack) -> None:
    """The function ends before the gateway gives up, and a wait before the function."""
    (integration,) = stack.of_type("ApiGatewayV2::Integration").values()
    assert integration["TimeoutInMillis"] == GATEWAY_SECONDS * 1000
    function = stack.of_type("Lambda::Function")["ApiFunction"]
    assert 0 < function["Timeout"] < GATEWAY_SECONDS
    variables = stack.variables("ApiFunction")
    assert int(variables[f"{PREFIX}GATEWAY_TIMEOUT_SECONDS"]) == GATEWAY_SECONDS
    longest = stack.document["Parameters"]["MaxWaitSeconds"]["MaxValue"]
    assert longest + RESERVE_SECONDS < function["Timeout"]
    assert int(variables[f"{PREFIX}LONG_POLL_MAX_WAIT_SECONDS"]) <= longest


def check_sweep_limits(stack: Stack) -> None:
    """A sweep ends before the next one begins."""
    assert 10 <= stack.of_type("Lambda::Function")["SweepFunction"]["Timeout"] < 60


def check_token_checks(stack: Stack) -> None:
    """With an issuer the gateway checks tokens wherever the queue does, and nowhere else."""
    routes = stack.of_type("ApiGatewayV2::Route").values()
    checked = {each["RouteKey"] for each in routes if each["AuthorizationType"] == "JWT"}
    unchecked = {each["RouteKey"] for each in routes if each["AuthorizationType"] == "NONE"}
    assert checked | unchecked == {"$default", *OPEN}
    authorizers = stack.of_type("ApiGatewayV2::Authorizer")
    if not all(stack.parameters[name] for name in ("JwtJwksUrl", "JwtIssuer", "JwtAudience")):
        assert not authorizers
        assert not checked
        return
    ((name, authorizer),) = authorizers.items()
    assert checked == {"$default"}
    assert all(
        each.get("AuthorizerId") == ({"Ref": name} if each["RouteKey"] in checked else None)
        for each in routes
    )
    assert authorizer["JwtConfiguration"] == {
        "Issuer": stack.parameters["JwtIssuer"],
        "Audience": [stack.parameters["JwtAudience"]],
    }
    assert authorizer["IdentitySource"] == ["$request.header.Authorization"]


def check_gateway(stack: Stack) -> None:
    """Every route leads to the one function, in the stage without a name; access is logged."""
    ((integration, properties),) = stack.of_type("ApiGatewayV2::Integration").items()
    assert properties["IntegrationUri"] == get("ApiFunction")
    assert properties["PayloadFormatVersion"] == "2.0"
    for route in stack.of_type("ApiGatewayV2::Route").values():
        assert route["Target"] == {"Fn::Sub": f"integrations/${{{integration}}}"}
    (stage,) = stack.of_type("ApiGatewayV2::Stage").values()
    assert (stage["StageName"], stage["AutoDeploy"]) == ("$default", True)
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] > 0
    assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] > 0
    (permission,) = stack.of_type("Lambda::Permission").values()
    assert permission["FunctionName"] == {"Ref": "ApiFunction"}
    assert permission["Principal"] == "apigateway.amazonaws.com"
    assert permission["SourceArn"]["Fn::Sub"].endswith(":${Api}/*")
    line = json.loads(stage["AccessLogSettings"]["Format"])
    assert {"$context.status", "$context.requestId"} <= set(line.values())
    assert not [each for each in line.values() if "authorizer.claims" in each]


def check_functions(stack: Stack) -> None:
    """Two handlers on one runtime, traced, on the processor that was asked for."""
    functions = stack.of_type("Lambda::Function")
    assert {name: each["Handler"] for name, each in functions.items()} == FUNCTIONS
    for function in functions.values():
        assert function["Runtime"] == "python3.13"
        assert function["Architectures"] == [stack.parameters["Architecture"]]
        assert function["TracingConfig"] == {"Mode": "Active"}


def check_schedule(stack: Stack) -> None:
    """The interval that the queue is told is the one at which it is swept."""
    (schedule,) = stack.of_type("Scheduler::Schedule").values()
    rate = re.fullmatch(r"rate\((\d+) (minutes?)\)", schedule["ScheduleExpression"])
    assert rate is not None
    assert (rate[1] == "1") == (rate[2] == "minute")
    assert int(rate[1]) == int(stack.parameters["SweepMinutes"])
    for function in FUNCTIONS:
        told = stack.variables(function)[f"{PREFIX}SWEEPER_INTERVAL_SECONDS"]
        assert int(told) == 60 * int(rate[1])
    assert schedule["Target"]["Arn"] == get("SweepFunction")
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}


def check_dead_letters(stack: Stack) -> None:
    """A sweep that cannot be delivered is kept, and so is one that failed."""
    ((queue, properties),) = stack.of_type("SQS::Queue").items()
    assert properties["MessageRetentionPeriod"] == 14 * 24 * 3600
    assert properties["SqsManagedSseEnabled"] is True
    (schedule,) = stack.of_type("Scheduler::Schedule").values()
    assert schedule["Target"]["DeadLetterConfig"] == {"Arn": get(queue)}
    assert schedule["Target"]["RetryPolicy"]["MaximumEventAgeInSeconds"] >= 60
    (invoked,) = stack.of_type("Lambda::EventInvokeConfig").values()
    assert invoked["FunctionName"] == {"Ref": "SweepFunction"}
    assert invoked["MaximumRetryAttempts"] == 0
    assert invoked["DestinationConfig"].get("OnFailure", {}).get("Destination") == get(queue)
    senders = {role for role, said in statements(stack) if "sqs:SendMessage" in actions(said)}
    assert senders == {"SweepRole", SAMS_OWN_ROLE}


def check_alarms(stack: Stack) -> None:
    """What must be told is told, missing figures are judged, and the topic gets all of it."""
    alarms = stack.of_type("CloudWatch::Alarm")
    watches_age = stack.parameters["OldestPendingAlarmSeconds"] != "0"
    assert {name: each["TreatMissingData"] for name, each in alarms.items()} == {
        "ApiErrorsAlarm": "notBreaching",
        "ApiThrottlesAlarm": "notBreaching",
        "SweepFailedAlarm": "notBreaching",
        "SweepSilentAlarm": "breaching",
        **({"OldestPendingAlarm": "notBreaching"} if watches_age else {}),
    }
    topic = stack.parameters["AlarmTopicArn"]
    for alarm in alarms.values():
        assert alarm.get("AlarmActions") == ([topic] if topic else None)
        assert alarm.get("OKActions") == alarm.get("AlarmActions")
    assert alarms["ApiErrorsAlarm"]["MetricName"] == "5xx"
    assert alarms["ApiErrorsAlarm"]["Dimensions"] == [{"Name": "ApiId", "Value": {"Ref": "Api"}}]
    spans = {each["MetricStat"]["Period"] for each in alarms["SweepSilentAlarm"]["Metrics"][1:]}
    interval = 60 * int(stack.parameters["SweepMinutes"])
    assert spans == {max(300, 4 * interval)}
    if watches_age:
        namespace = stack.variables("SweepFunction")[f"{PREFIX}METRICS_NAMESPACE"]
        age = alarms["OldestPendingAlarm"]
        assert (age["Namespace"], age["MetricName"]) == (namespace, "OldestPendingSeconds")
        assert "Dimensions" not in age


def check_logs(stack: Stack) -> None:
    """Each log is one of ours, and is not kept for ever."""
    groups = stack.of_type("Logs::LogGroup")
    for group in groups.values():
        assert group.get("RetentionInDays") == int(stack.parameters["LogRetentionDays"])
    used = [
        each["LoggingConfig"]["LogGroup"] for each in stack.of_type("Lambda::Function").values()
    ]
    (stage,) = stack.of_type("ApiGatewayV2::Stage").values()
    assert stage["AccessLogSettings"]["DestinationArn"] in [get(name) for name in groups]
    assert sorted(each["Ref"] for each in used) == ["ApiLogs", "SweepLogs"]


def check_rights(stack: Stack) -> None:
    """A function reads the secrets that were named, and touches nothing else but its own."""
    given = [stack.parameters[name].partition("#")[0] for name in SECRETS if stack.parameters[name]]
    key = stack.parameters["SecretsKeyArn"]
    for role, said in statements(stack):
        assert said["Effect"] == "Allow"
        assert "NotAction" not in said
        assert "NotResource" not in said
        for action in actions(said):
            assert "*" not in action
            resources = (
                said["Resource"] if isinstance(said["Resource"], list) else [said["Resource"]]
            )
            assert resources == _allowed(action, role, given, key), action
        if "kms:Decrypt" in actions(said):
            assert list(said["Condition"]["StringLike"]) == ["kms:ViaService"]
    managed = [
        each
        for role in stack.of_type("IAM::Role").values()
        for each in role.get("ManagedPolicyArns", [])
    ]
    expected: list[Any] = [{"Ref": "ReadSecrets"}] if given else []
    if stack.parameters["VpcSubnetIds"]:
        expected.append("arn:aws:iam::aws:policy/service-role/AWSLambdaENIManagementAccess")
    assert managed == 2 * expected


def _allowed(action: str, role: str, secrets: list[str], key: str) -> list[Any]:
    if action in {"secretsmanager:GetSecretValue", "ssm:GetParameter"}:
        return secrets
    return {
        "kms:Decrypt": [key],
        "lambda:InvokeFunction": [get("SweepFunction")],
        "logs:CreateLogStream": [get(role.replace("Role", "Logs"))],
        "logs:PutLogEvents": [get(role.replace("Role", "Logs"))],
        "sqs:SendMessage": [get("SweepDeadLetters")],
        "xray:PutTelemetryRecords": ["*"],
        "xray:PutTraceSegments": ["*"],
    }[action]


def statements(stack: Stack) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each statement of a policy, with whose it is."""
    for name, role in stack.of_type("IAM::Role").items():
        for policy in role["Policies"]:
            for said in policy["PolicyDocument"]["Statement"]:
                yield name, said
    for name, policy in stack.of_type("IAM::ManagedPolicy").items():
        for said in policy["PolicyDocument"]["Statement"]:
            yield name, said


def actions(said: dict[str, Any]) -> list[str]:
    return said["Action"] if isinstance(said["Action"], list) else [said["Action"]]


def check_names(stack: Stack) -> None:
    """Nothing has a name that a second stack would want as well."""
    for name, made in stack.resources.items():
        kind = made["Type"].removeprefix("AWS::")
        fixed = NAMES[kind]
        assert fixed is None or fixed not in made["Properties"], name
    other = Stack(stack.document, stack.parameters, name="another")
    for function in FUNCTIONS:
        one, two = (each.variables(function) for each in (stack, other))
        different = {name for name in one if one[name] != two[name]}
        assert different == {f"{PREFIX}METRICS_NAMESPACE"}


def check_secrets(stack: Stack) -> None:
    """No value that must stay secret is a parameter, so none can be in an environment."""
    assert not [name for name, said in stack.document["Parameters"].items() if "NoEcho" in said]
    assert "{{resolve:" not in json.dumps(stack.document)
    secret = {"JWT_SECRET", "DATABASE_AUTH_TOKEN", "DATABASE_AUTH_TOKEN_FILE"}
    for function in FUNCTIONS:
        assert not {PREFIX + name for name in secret} & stack.variables(function).keys()
        assert stack.variables(function)[f"{PREFIX}AUTH_MODE"] == "jwt"


def check_network(stack: Stack) -> None:
    """Both functions are in the VPC, or neither."""
    subnets, groups = stack.parameters["VpcSubnetIds"], stack.parameters["VpcSecurityGroupIds"]
    wanted = {"SubnetIds": subnets.split(","), "SecurityGroupIds": groups.split(",")}
    for function in stack.of_type("Lambda::Function").values():
        assert function.get("VpcConfig") == (wanted if subnets else None)


def check_concurrency(stack: Stack) -> None:
    """Executions are reserved only where that is asked for."""
    functions = stack.of_type("Lambda::Function")
    for function, parameter in (
        ("ApiFunction", "ApiConcurrency"),
        ("SweepFunction", "SweepConcurrency"),
    ):
        wanted = int(stack.parameters[parameter]) or None
        assert functions[function].get("ReservedConcurrentExecutions") == wanted


def check_tags(stack: Stack) -> None:
    """Whatever costs something says whose it is; SAM's own role cannot."""
    for name, made in stack.resources.items():
        if made["Type"].removeprefix("AWS::") in NOT_TAGGED or name == SAMS_OWN_ROLE:
            continue
        tags = made["Properties"].get("Tags", [])
        pairs = tags if isinstance(tags, dict) else {each["Key"]: each["Value"] for each in tags}
        assert pairs.get("service") == "jobroom", name


CHECKS = {
    name.removeprefix("check_"): value
    for name, value in list(globals().items())
    if name.startswith("check_")
}
