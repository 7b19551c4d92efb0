"""Stacks side by side in one account, as moto plays AWS: without gateway, schedule and alarms."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import sam_tools
from moto import mock_aws
from sam_worker import CODE
from stack import Stack
from template_stacks import STACKS, document, examined, tools

__all__ = ["document", "examined", "tools"]  # fixtures

PLAYED = (
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::Role",
    "AWS::Lambda::Function",
    "AWS::Logs::LogGroup",
    "AWS::SQS::Queue",
)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """CloudFormation of an account that has a build to deploy."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", sam_tools.REGION)
    with mock_aws(config={"lambda": {"use_docker": False}}):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("app.py", "")
        _, _, bucket, key = CODE.split("/")
        store = boto3.client("s3")
        where = {"LocationConstraint": sam_tools.REGION}
        store.create_bucket(Bucket=bucket, CreateBucketConfiguration=where)
        store.put_object(Bucket=bucket, Key=key, Body=packed.getvalue())
        yield boto3.client("cloudformation")


@pytest.mark.parametrize("kind", STACKS)
def test_a_stack_can_be_made_twice_in_one_account(
    kind: str,
    account: Any,
    document: dict[str, Any],
) -> None:
    made = [_make(account, Stack(document, STACKS[kind], name)) for name in ("one", "two")]
    assert made[0].keys() == made[1].keys()
    assert not set(made[0].values()) & set(made[1].values())


def _make(account: Any, stack: Stack) -> dict[str, str]:
    """The physical name of each resource."""
    played = {
        name: made
        for name, made in stack.resources.items()
        if made["Type"] in PLAYED and '{"Ref": "Api"}' not in json.dumps(made)
    }
    account.create_stack(
        StackName=stack.name,
        TemplateBody=json.dumps({"Resources": played}),
        Capabilities=["CAPABILITY_IAM"],
    )
    (said,) = account.describe_stacks(StackName=stack.name)["Stacks"]
    assert said["StackStatus"] == "CREATE_COMPLETE"
    found = account.describe_stack_resources(StackName=stack.name)["StackResources"]
    assert len(found) == len(played)
    return {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in found}
