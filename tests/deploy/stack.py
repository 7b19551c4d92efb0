"""A CloudFormation document as one stack sees it: its parameters, rules and conditions applied."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

NO_VALUE = {"Ref": "AWS::NoValue"}
ACCOUNT = "123456789012"
PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": "eu-west-1",
    "AWS::URLSuffix": "amazonaws.com",
}


class Stack:
    """What CloudFormation would do with a document, these parameters and this name of a stack.

    A reference to a resource stays one: what it will be called nobody knows before.
    """

    def __init__(self, document: dict[str, Any], given: dict[str, str], name: str = "one") -> None:
        self.document = document
        self.name = name
        unknown = given.keys() - document["Parameters"].keys()
        assert not unknown, unknown
        self.parameters = {
            each: given.get(each, str(said.get("Default", "")))
            for each, said in document["Parameters"].items()
        }

    def refusals(self) -> list[str]:
        """The sentences with which these parameters are refused."""
        found = [
            f"Parameter {name} {said.get('ConstraintDescription', 'is none of those allowed')}"
            for name, said in self.document["Parameters"].items()
            if not all(map(_fits(said), self._values(name)))
        ]
        for rule in self.document["Rules"].values():
            if self._is_true(rule.get("RuleCondition", True)):
                found += [
                    each["AssertDescription"]
                    for each in rule["Assertions"]
                    if not self._is_true(each["Assert"])
                ]
        return found

    @cached_property
    def resources(self) -> dict[str, Any]:
        """What is made, as it is made."""
        return {
            name: {part: self.resolve(value) for part, value in made.items() if part != "Condition"}
            for name, made in self.document["Resources"].items()
            if "Condition" not in made or self.condition(made["Condition"])
        }

    def of_type(self, kind: str) -> dict[str, Any]:
        """The properties of the resources of that type."""
        return {
            name: made["Properties"]
            for name, made in self.resources.items()
            if made["Type"] == f"AWS::{kind}"
        }

    def variables(self, function: str) -> dict[str, str]:
        """The environment of a function."""
        variables = self.resources[function]["Properties"]["Environment"]["Variables"]
        return {name: value for name, value in variables.items() if value != ""}

    def concrete(self) -> dict[str, Any]:
        """The document with nothing left to decide, for the linter."""
        return {
            "AWSTemplateFormatVersion": "2010-09-09",
            "Resources": self.resources,
            "Outputs": self.resolve(self.document["Outputs"]),
        }

    def condition(self, name: str) -> bool:
        """Whether it holds."""
        return self._is_true(self.document["Conditions"][name])

    def resolve(self, value: Any) -> Any:
        """The value, as far as it is known before anything is made."""
        if isinstance(value, list):
            return [made for each in value if (made := self.resolve(each)) != NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            (function, argument) = next(iter(value.items()))
            if function == "Ref":
                return self._ref(argument)
            if function.startswith("Fn::") and function != "Fn::GetAtt":
                return getattr(self, f"_{function[4:].lower()}")(argument)
        made = {name: self.resolve(each) for name, each in value.items()}
        return {name: each for name, each in made.items() if each != NO_VALUE}

    def _ref(self, name: str) -> Any:
        if name == "AWS::StackName":
            return self.name
        if name in self.parameters:
            values = self._values(name)
            is_list = self.document["Parameters"][name]["Type"] == "CommaDelimitedList"
            return values if is_list else _number(self.document, name, values[0])
        return PSEUDO.get(name, {"Ref": name})

    def _values(self, name: str) -> list[str]:
        given = self.parameters[name]
        is_list = self.document["Parameters"][name]["Type"] == "CommaDelimitedList"
        return [each.strip() for each in given.split(",")] if is_list else [given]

    def _is_true(self, said: Any) -> bool:
        if isinstance(said, bool):
            return said
        ((function, arguments),) = said.items()
        if function == "Condition":
            return self.condition(arguments)
        if function == "Fn::Equals":
            one, other = map(self.resolve, arguments)
            return str(one) == str(other)
        answers = [self._is_true(each) for each in arguments]
        return {"Fn::And": all, "Fn::Or": any, "Fn::Not": lambda given: not given[0]}[function](
            answers
        )

    def _if(self, argument: list[Any]) -> Any:
        name, held, other = argument
        return self.resolve(held if self.condition(name) else other)

    def _findinmap(self, argument: list[Any]) -> Any:
        table, row, column = (str(self.resolve(each)) for each in argument)
        return self.document["Mappings"][table][row][column]

    def _join(self, argument: list[Any]) -> Any:
        between, parts = argument
        return between.join(map(str, self.resolve(parts)))

    def _split(self, argument: list[Any]) -> Any:
        at, text = argument
        return self.resolve(text).split(at)

    def _select(self, argument: list[Any]) -> Any:
        position, values = argument
        return self.resolve(values)[int(position)]

    def _sub(self, argument: Any) -> Any:
        text, names = (argument, {}) if isinstance(argument, str) else argument
        left = False

        def known(found: re.Match[str]) -> str:
            nonlocal left
            name = found[1]
            value = self.resolve(names[name]) if name in names else self._ref(name)
            if isinstance(value, dict):
                left = True
                return found[0]
            return str(value)

        made = re.sub(r"\$\{([\w:.]+)\}", known, text)
        return {"Fn::Sub": made} if left else made


def _number(document: dict[str, Any], name: str, value: str) -> Any:
    is_number = document["Parameters"][name]["Type"] == "Number"
    return int(value) if is_number and value.isdecimal() else value


def _fits(said: dict[str, Any]) -> Any:
    def fits(value: str) -> bool:
        allowed = [str(each) for each in said.get("AllowedValues", [value])]
        if value not in allowed or not re.search(said.get("AllowedPattern", ""), value):
            return False
        if len(value) > said.get("MaxLength", len(value)):
            return False
        if said["Type"] != "Number":
            return True
        least, most = said.get("MinValue", value), said.get("MaxValue", value)
        return float(least) <= float(value) <= float(most)

    return fits
