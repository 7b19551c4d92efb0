"""Expands and lints templates, in the environment that has the AWS SAM tools; see sam_tools.py.

It reads a JSON object {"template": path, "changes": {name: [[path..., value]...]}, "linted":
[name], "documents": {name: CloudFormation}} and prints {"expanded": {name: plain CloudFormation},
"findings": {name: [text]}}. Changes have a name each; documents are always linted.
"""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

REGION = "eu-west-1"
CODE = "s3://bucket/key"


def main() -> None:
    asked = json.load(sys.stdin)
    from samcli.yamlhelper import yaml_parse

    template = json.loads(json.dumps(yaml_parse(Path(asked["template"]).read_text())))
    expanded, findings = {}, {}
    for name, changes in asked["changes"].items():
        expanded[name], refused = expand(changed(template, changes))
        findings[name] = [refused] if refused else []
    documents = {name: expanded[name] for name in asked["linted"] if not findings[name]}
    for name, document in {**documents, **asked["documents"]}.items():
        findings[name] = lint(document)
    json.dump({"expanded": expanded, "findings": findings}, sys.stdout)


def changed(template: dict[str, Any], changes: list[list[Any]]) -> dict[str, Any]:
    made = deepcopy(template)
    for *path, last, value in changes:
        place: Any = made
        for step in path:
            place = place[step]
        place[last] = value
    return made


def expand(template: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The plain CloudFormation that AWS would make of it, or why it would not."""
    from samtranslator.model.exceptions import InvalidDocumentException
    from samtranslator.translator.transform import transform

    template["Globals"]["Function"]["CodeUri"] = CODE  # where `sam deploy` puts the build
    try:
        return transform(template, {}, NoPolicies()), ""
    except InvalidDocumentException as error:
        return {}, f"SAM {' '.join(cause.message for cause in error.causes)}"


class NoPolicies:
    """AWS's list of managed policies, which is fetched with credentials: we use none of it."""

    def load(self) -> dict[str, str]:
        return {}


def lint(document: dict[str, Any]) -> list[str]:
    from cfnlint import lint as find

    found = find(json.dumps(document), config={"regions": [REGION]})
    return [f"{match.rule.id} {match.message}" for match in found]


if __name__ == "__main__":
    main()
